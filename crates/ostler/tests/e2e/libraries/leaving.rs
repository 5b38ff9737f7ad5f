//! Programs that go away in the middle of an answer.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::ground::Ground;
use super::program::{Api, Language, Library, Program};
use super::{DEADLINE, for_every_library};

/// How many leave: each of them makes the agent start anew.
const LEAVE: usize = 24;

/// Less than the head of an answer and its first words.
const MOST_HEARD: usize = 500;

/// Numbers that look like chance, and are the same every time.
struct Dice(u64);

impl Dice {
    fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0, less than this.
    fn below(&mut self, end: usize) -> usize {
        // Knuth's MMIX constants; the upper bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

for_every_library! {
    /// The turn is broken off, the process stays, and what was heard of the answer goes on in it.
    async fn who_leaves_breaks_it_off_and_may_go_on(library: Library) {
        let Some(ground) = Ground::tapped().await else { return };
        let Some(mut program) = Program::start(library, &ground, &ground.key) else { return };
        assert_eq!(program.say("warm", "hello", "whole").await["said"], "hello!");
        for how in ["helper", "stream"] {
            let left = program.done(json!({"do": "leave", "talk": how, "text": "hold on", "how": how})).await;
            assert_eq!(left, json!({"left": "before "}));
            let said = program.say(how, "go on", "whole").await;
            assert!(said["said"].as_str().unwrap().ends_with("go on!"), "{said}");
        }
        // The conversation that nobody broke off goes on as well.
        assert_eq!(program.say("warm", "again", "helper").await["said"], "again!");
        program.end().await;
        ground.strike().await;
    }
}

/// A few dozen, at moments that differ; a thousand are in `bench/gateway`. There is one seat: whoever kept it would be
/// the last.
#[tokio::test]
async fn many_who_leave_leave_nothing_behind() {
    let Some(ground) = Ground::tapped_with(&["--max-sessions", "1"]).await else { return };
    let library = Library { language: Language::Python, api: Api::Messages };
    let Some(mut program) = Program::start(library, &ground, &ground.key) else { return };
    assert_eq!(program.say("a", "hello", "whole").await["said"], "hello!");
    let files = ground.open_files();
    let mut dice = Dice::of(6);
    for number in 0..LEAVE {
        leave(&ground, number, &mut dice).await;
    }
    assert_eq!(program.say("a", "still there", "helper").await["said"], "still there!");
    let settled = async {
        // Who left last may have left a connection that is about to be closed.
        while ground.open_files() > files || ground.agents().len() > 1 {
            tokio::task::yield_now().await;
        }
    };
    let settled = tokio::time::timeout(DEADLINE, settled).await;
    assert!(settled.is_ok(), "{} files open, {files} before: {:?}", ground.open_files(), ground.agents());
    program.end().await;
    ground.strike().await;
}

/// Asks, and goes away: in the middle of the question, before the answer, or in the middle of it.
async fn leave(ground: &Ground, number: usize, dice: &mut Dice) {
    let body = json!({"model": "claude", "max_tokens": 9, "stream": true,
        "messages": [{"role": "user", "content": format!("never end {number}")}]});
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        ground.url.trim_start_matches("http://"),
        ground.key,
        body.to_string().len(),
    );
    let mut stream = TcpStream::connect(ground.url.trim_start_matches("http://")).await.unwrap();
    let sent = if number.is_multiple_of(6) { dice.below(request.len()) } else { request.len() };
    stream.write_all(&request.as_bytes()[..sent]).await.unwrap();
    if sent == request.len() {
        let (mut left, mut buffer) = (dice.below(MOST_HEARD), [0; 64]);
        while left > 0 {
            let room = left.min(buffer.len());
            // Nobody hears more of it than this: the model says nothing after it.
            let heard = tokio::time::timeout(DEADLINE, stream.read(&mut buffer[..room])).await.unwrap();
            left -= heard.unwrap();
        }
    }
    if dice.below(2) == 0 {
        // Not even a farewell: what was sent is thrown away, and the connection reset.
        stream.set_zero_linger().unwrap();
    }
}
