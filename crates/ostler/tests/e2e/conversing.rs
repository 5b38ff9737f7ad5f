//! A session on a terminal, without a run: many turns on one terminal, each prompt exactly once, and turns that are
//! broken off. What the model received is compared with what was sent.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ostler_agent::agent::{Permissions, Session as Which, Stage, Task};
use ostler_agent::document::Format;
use ostler_agent::event::{AgentEvent, Part, TurnOutcome};
use ostler_process::contain::{Exit, Survivors};
use ostler_process::terminal::pty::Size;
use ostler_process::terminal::session::{Happening, Opening, Session, SessionError, TurnStream};
use ostler_rehearsal::{Rehearsal, Server, script};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::for_every_version;
use crate::player::Player;
use crate::tap::Tap;

/// A turn takes a second or two; a loaded machine needs many times that.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A live session, its model, and what that was told.
pub(crate) struct Talk {
    pub(crate) session: Session,
    pub(crate) tap: Tap,
    stop: CancellationToken,
    serving: JoinSet<()>,
    folder: TempDir,
}

impl Talk {
    /// None where the program is missing and may be.
    pub(crate) async fn begin(player: Player, script: &str, size: Size) -> Option<Self> {
        Self::begin_with(player, script, size, (Permissions::All, &[])).await
    }

    /// The same, with what the agent may do and further arguments of its own.
    pub(crate) async fn begin_with(
        player: Player,
        script: &str,
        size: Size,
        (permissions, extra): (Permissions, &[String]),
    ) -> Option<Self> {
        let (agent, program) = (player.agent(), player.binary()?);
        let folder = tempfile::Builder::new().prefix("ostler-e2e-").tempdir().unwrap();
        for name in ["home", "workspace", "private"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let play = script::parse("test", &format!("v = 1\n{script}"), Format::Toml).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::listen(address, Rehearsal::of(play)).await.unwrap();
        let tap = Tap::before(&server.url()).await;
        let (stop, mut serving) = (CancellationToken::new(), JoinSet::new());
        serving.spawn(server.serve(stop.clone()));
        let workspace = folder.path().join("workspace").canonicalize().unwrap();
        let private = folder.path().join("private");
        let stage = Stage::new(tap.url.as_str(), folder.path().join("home"));
        let setup = agent.rehearsed(&stage);
        let id = uuid::Uuid::new_v4().to_string();
        let task =
            Task { session: Which::Minted(&id), permissions, extra, ..Task::new("", &workspace, &private) };
        let launch = agent.launch(&task).unwrap();
        setup.folders.iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
        for file in setup.files.iter().chain(&launch.files) {
            std::fs::create_dir_all(file.path.parent().unwrap()).unwrap();
            std::fs::write(&file.path, &file.content).unwrap();
        }
        // As root the program refuses to skip permissions, as one test has it do, unless the machine is a sandbox.
        let usual = [("PATH", "/usr/bin:/bin"), ("LANG", "C.UTF-8"), ("IS_SANDBOX", "1")];
        let usual = usual.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env = usual.into_iter().chain(setup.env).chain(launch.env);
        let session = Session::open(Opening {
            agent,
            program,
            args: launch.args.iter().map(Into::into).collect(),
            env: env.map(|(name, value)| (name.into(), value.into())).collect(),
            workspace,
            permissions,
            session: Some(id),
            size,
            name: "e2e",
            guard: Path::new(env!("CARGO_BIN_EXE_ostler")).to_owned(),
            jail: None,
        });
        let session = tokio::time::timeout(DEADLINE, session).await.unwrap().unwrap();
        Some(Self { session, tap, stop, serving, folder })
    }

    pub(crate) async fn ask(&mut self, prompt: &str) -> Result<TurnStream, SessionError> {
        let asked = tokio::time::timeout(DEADLINE, self.session.ask(prompt)).await;
        asked.unwrap_or_else(|_| panic!("nothing came of a prompt of {} bytes", prompt.len()))
    }

    /// One turn, whole: what was said, and how it ended.
    pub(crate) async fn turn(&mut self, prompt: &str) -> (Vec<String>, TurnOutcome) {
        let mut turn = match self.ask(prompt).await {
            Ok(turn) => turn,
            Err(error) => {
                panic!("{error}: {:?}\n{}", cut(prompt), self.session.seat().look().dump());
            }
        };
        finished(&mut turn).await
    }

    /// The words of the last prompt that the model was told.
    pub(crate) fn last_prompt(&self) -> String {
        let requests = self.tap.conversation();
        let messages = requests.last().and_then(|request| request["messages"].as_array()).unwrap();
        let user = messages.iter().rfind(|message| message["role"] == "user").unwrap();
        match &user["content"] {
            Value::String(text) => text.clone(),
            content => {
                let texts = content.as_array().unwrap().iter().filter_map(|block| block["text"].as_str());
                // What the agent adds: reminders, and that somebody broke the turn before off.
                let is_own = |text: &&str| {
                    !text.starts_with("<system-reminder>") && !text.starts_with("[Request interrupted")
                };
                texts.filter(is_own).collect::<Vec<_>>().join("\n---\n")
            }
        }
    }

    pub(crate) async fn end(mut self) {
        let closed = tokio::time::timeout(DEADLINE, self.session.close()).await.unwrap().unwrap();
        assert_eq!((closed.exit, closed.survivors), (Exit::Code(0), Survivors(0)));
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.serving.join_next()).await.unwrap();
        drop(self.folder);
    }
}

fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}

pub(crate) async fn finished(turn: &mut TurnStream) -> (Vec<String>, TurnOutcome) {
    let (mut said, mut ended) = (Vec::new(), None);
    while let Some(happening) = tokio::time::timeout(DEADLINE, turn.next()).await.unwrap() {
        match happening {
            Happening::Event(AgentEvent::Said { text, part: Part::Whole, .. }) => said.push(text),
            Happening::Event(AgentEvent::TurnEnded(outcome)) => ended = Some(outcome),
            Happening::Event(_) => {}
            Happening::Blocked { reason, screen } => panic!("{reason}\n{screen}"),
        }
    }
    (said, ended.unwrap())
}

pub(crate) const NOTED: &str = "[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"Noted.\" }]";

/// Texts that are hard to type, and what the program makes of them.
fn texts() -> Vec<(String, String)> {
    let same = |text: &str| (text.to_owned(), text.to_owned());
    let mut texts = vec![
        same("x"),
        same("two\nlines"),
        same("\u{1F600}\u{1F680} emoji"),
        same("漢字かな交じり文"),
        same("مرحبا بالعالم שלום"),
        same("ends in a backslash \\"),
        same("# a heading\n\n- a list\n\n```\ncode\n```"),
        same("what does \"quoted\" $HOME `x` mean?"),
        same("@nobody and :smile"),
        same("far\n\n\n\napart"),
        same("“quotes” — dashes … and NBSP\u{a0}inside"),
        same("👨\u{200d}👩\u{200d}👧 and ❤\u{fe0f} and 1\u{fe0f}\u{20e3}"),
        same("<tags> & [brackets] {braces} %percent% ~tilde"),
        ("tab\there".to_owned(), "tab    here".to_owned()),
        ("dos\r\nlines\r\n".to_owned(), "dos\nlines".to_owned()),
        ("blanks at the end   ".to_owned(), "blanks at the end".to_owned()),
    ];
    for size in [100, 799, 800, 801, 1_000, 4_095, 4_096, 4_097, 10_000, 65_536] {
        texts.push(same(&line_of(size)));
    }
    texts
}

/// A text of so many bytes, in lines, of which no two are the same.
fn line_of(size: usize) -> String {
    let mut text: String = (0..).map(|n| format!("line {n} of many\n")).take(size / 12 + 1).collect();
    text.truncate(size - 1);
    text.push('.');
    text
}

async fn every_prompt_arrives_as_it_was_sent(player: Player) {
    // A hundred in one session; the other version has to show only what differs.
    let rounds = if player == Player::ClaudeTerminal { 4 } else { 1 };
    let Some(mut talk) = Talk::begin(player, NOTED, Size::USUAL).await else { return };
    assert_eq!(talk.turn("y").await.1, done("Noted."), "a single byte");
    assert_eq!(talk.last_prompt(), "y");
    let mut sent = 1;
    for round in 0..rounds {
        for (text, want) in texts() {
            // So that none is mistaken for another.
            let (text, want) = (format!("{round}.{sent}: {text}"), format!("{round}.{sent}: {want}"));
            assert_eq!(talk.turn(&text).await, (vec!["Noted.".to_owned()], done("Noted.")), "{}", cut(&text));
            sent += 1;
            assert_eq!(talk.last_prompt(), want, "{}", cut(&text));
            assert_eq!(talk.tap.conversation().len(), sent, "none is lost, and none is sent twice");
        }
    }
    // Last, since all that was said is sent again with every prompt.
    let large = line_of(1_000_000);
    assert_eq!(talk.turn(&large).await.1, done("Noted."), "a megabyte");
    assert!(talk.last_prompt() == large, "a megabyte arrives as it was sent");
    for refused in ["!ls", "/clear", "exit", "a\u{1b}[201~b", "nul\0"] {
        assert!(matches!(talk.ask(refused).await, Err(SessionError::Unsendable(_))), "{refused:?}");
    }
    assert_eq!(talk.turn("and on").await.1, done("Noted."), "what was refused has left nothing");
    assert_eq!(talk.last_prompt(), "and on");
    talk.end().await;
}

pub(crate) fn done(text: &str) -> TurnOutcome {
    TurnOutcome::Done { text: text.to_owned() }
}

const STALLS_FIRST: &str = r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "answer me" }
reply = [{ text = "Here I am." }]

[[conversation]]
[[conversation.step]]
expect = { contains = "in the text" }
reply = [{ text = "I was about to say" }, { stall = "mid_text" }]

[[conversation]]
[[conversation.step]]
expect = { contains = "in a tool" }
reply = [{ tool_by_role = "shell", command = "until test -f never; do sleep 1; done" }]
# The next prompt comes with what became of the call.
[[conversation.step]]
reply = [{ text = "Here I am." }]

[[conversation]]
[[conversation.step]]
reply = [{ stall = "before_headers" }]
"#;

async fn a_turn_that_is_broken_off_leaves_a_usable_session(player: Player) {
    let Some(mut talk) = Talk::begin(player, STALLS_FIRST, Size::USUAL).await else { return };
    for what in ["before the first word", "in the text", "in a tool"] {
        let mut turn = talk.ask(&format!("wait {what}")).await.unwrap();
        if what == "in a tool" {
            let is_tool =
                |happening: &Happening| matches!(happening, Happening::Event(AgentEvent::ToolStarted { .. }));
            while !is_tool(&tokio::time::timeout(DEADLINE, turn.next()).await.unwrap().unwrap()) {}
        }
        tokio::time::timeout(DEADLINE, turn.interrupt()).await.unwrap().unwrap();
        let (_, ended) = finished(&mut turn).await;
        assert_eq!(ended, TurnOutcome::Interrupted, "{what}");
        let (said, ended) = talk.turn("answer me").await;
        assert_eq!((said, ended), (vec!["Here I am.".to_owned()], done("Here I am.")), "after {what}");
        assert_eq!(talk.last_prompt(), "answer me", "nothing is glued to it");
    }
    talk.end().await;
}

async fn works_at(player: Player, columns: u16, rows: u16) {
    let Some(mut talk) = Talk::begin(player, NOTED, Size { columns, rows }).await else { return };
    let folded = "a line that is longer than the narrowest window is wide, and so is folded";
    let (large, texts) = (line_of(20_000), ["short", folded, "two\nlines", "a last backslash \\"]);
    for (count, text) in texts.into_iter().chain([large.as_str(), "漢字 مرحبا 🚀"]).enumerate() {
        assert_eq!(talk.turn(text).await.1, done("Noted."), "{columns}x{rows}");
        assert_eq!(talk.last_prompt(), text, "{columns}x{rows}");
        assert_eq!(talk.tap.conversation().len(), count + 1, "{columns}x{rows}");
    }
    talk.end().await;
}

/// Keeps every processor busy until it is dropped.
struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn begin() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let count = std::thread::available_parallelism().unwrap().get();
        let spin = || {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..count).map(|_| spin()).collect();
        Self { is_over, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap_or_default());
    }
}

async fn sizes(player: Player) {
    for (columns, rows) in [(80, 24), (200, 60), (40, 12)] {
        works_at(player, columns, rows).await;
    }
}

async fn sizes_under_load(player: Player) {
    let _load = Load::begin();
    sizes(player).await;
}

for_every_version!(
    async:
    every_prompt_arrives_as_it_was_sent,
    a_turn_that_is_broken_off_leaves_a_usable_session,
    sizes,
    sizes_under_load,
);
