//! The pool of live sessions, with the real agent over pipes: that a conversation goes on in its process is told by the
//! process, and what the session knows by what the model is told.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_agent::access::{KeyKind, KeyMemory};
use ostler_agent::agent::{Agent, Engine, Permissions, Stage as Scene};
use ostler_agent::agents::Claude;
use ostler_agent::canonical::read;
use ostler_agent::document::Format;
use ostler_agent::event::{AgentEvent, Part, TurnOutcome};
use ostler_agent::history::History;
use ostler_agent::leasing::{Limits, Place, Terms};
use ostler_gateway::ground::{Ground as GroundOf, TrustGate};
use ostler_gateway::pool::{Answer, Patience, Pool, State, Turn};
use ostler_gateway::stream::Streams;
use ostler_process::run::write_private;
use ostler_rehearsal::{Rehearsal, Server, script};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::player::Player;
use crate::tap::Tap;

/// A start, a turn and an end take a few seconds; a loaded machine needs many times that.
const DEADLINE: Duration = Duration::from_secs(120);

/// Says back what it is asked; calls a tool; begins and never ends.
const SCRIPT: &str = r#"
v = 1
[[conversation]]
name = "look"
[[conversation.step]]
expect = { contains = "look around" }
reply = [{ text = "I look." }, { tool_by_role = "shell", command = "echo rehearsal" }]
[[conversation.step]]
reply = [{ text = "Seen." }]

[[conversation]]
name = "stall"
[[conversation.step]]
expect = { contains = "never end" }
reply = [{ text = "I was about to say" }, { stall = "mid_text" }]

[[conversation]]
name = "echo"
[[conversation.step]]
reply = [{ text = "{{prompt}}!", chunk = 3 }]
"#;

pub(crate) struct Ground {
    folder: TempDir,
    pub(crate) tap: Tap,
    pub(crate) pool: Pool<Streams>,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Ground {
    async fn of(program: PathBuf) -> Self {
        Self::with(program, SCRIPT, Limits::default()).await
    }

    /// With a model that does as the script says.
    pub(crate) async fn with(program: PathBuf, script: &str, limits: Limits) -> Self {
        let folder = tempfile::Builder::new().prefix("ostler-e2e-").tempdir().unwrap();
        let play = script::parse("test", script, Format::Toml).unwrap();
        let server =
            Server::listen(SocketAddr::from(([127, 0, 0, 1], 0)), Rehearsal::of(play)).await.unwrap();
        let tap = Tap::before(&server.url()).await;
        let (stop, mut serving) = (CancellationToken::new(), JoinSet::new());
        serving.spawn(server.serve(stop.clone()));
        let home = folder.path().join("home");
        let setup = Claude.rehearsed(&Scene::new(tap.url.as_str(), home.as_path()));
        write_private(&home, &setup.folders, &setup.files).unwrap();
        let mut env: Vec<(OsString, OsString)> =
            setup.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        env.push(("PATH".into(), "/usr/bin:/bin".into()));
        let streams = Streams(GroundOf {
            agent: &Claude,
            program,
            env,
            home,
            folder: folder.path().join("sessions"),
            guard: PathBuf::from(env!("CARGO_BIN_EXE_ostler")).into(),
            trust: TrustGate::new(ostler_process::trust::Gate::new(PathBuf::from("/nowhere"), None), |_| {}),
            jailer: std::sync::Arc::new(ostler_gateway::jail::Unjailed),
            tenants: std::sync::Arc::new(ostler_gateway::tenants::NoTenants),
            memory: None,
        });
        // A loaded machine is slow to break off, too.
        let patience = Patience { settle: DEADLINE, start: DEADLINE, ..Patience::default() };
        let pool = Pool::new(streams, limits, patience);
        Self { folder, tap, pool, stop, serving }
    }

    fn ask(&self, messages: &[Value]) -> Answer {
        self.ask_offering("", messages)
    }

    /// With these tools on offer.
    pub(crate) fn ask_offering(&self, tools: &str, messages: &[Value]) -> Answer {
        let terms = Terms {
            tenant: "test".to_owned(),
            kind: KeyKind::Owner,
            memory: KeyMemory::Off,
            agent: Claude.name().to_owned(),
            engine: Engine::Stream,
            model: None,
            workspace: Place::Own,
            system_prompt: Some("Be short.".to_owned()),
            permissions: Permissions::Deny,
            asks_client: false,
            allow: Vec::new(),
            tools: tools.to_owned(),
        };
        let history = History::of(read(messages).unwrap()).unwrap();
        self.pool.complete(Turn::of(terms, history))
    }

    /// What is said, in pieces and whole.
    async fn said(&self, messages: &[Value]) -> (usize, Vec<String>) {
        let mut answer = self.ask(messages);
        let all = async {
            let (mut pieces, mut texts) = (0, Vec::new());
            while let Some(event) = answer.next().await {
                match event.unwrap() {
                    AgentEvent::Said { part: Part::Delta, .. } => pieces += 1,
                    AgentEvent::Said { text, part: Part::Whole, .. } => texts.push(text),
                    AgentEvent::TurnEnded(end) => {
                        assert!(matches!(end, TurnOutcome::Done { .. }), "{end:?}");
                    }
                    _ => {}
                }
            }
            (pieces, texts)
        };
        tokio::time::timeout(DEADLINE, all).await.unwrap()
    }

    /// The processes of live sessions, and how many turns each had.
    pub(crate) fn live(&self) -> Vec<(u32, State, u32)> {
        let sessions = self.pool.sessions();
        sessions.into_iter().map(|listed| (listed.pid.unwrap(), listed.state, listed.turns)).collect()
    }

    /// What the model was told last, without what the agent adds of its own.
    fn told(&self) -> Vec<(String, String)> {
        let request = self.tap.conversation().pop().unwrap();
        let mut told: Vec<(String, String)> = Vec::new();
        for message in request["messages"].as_array().unwrap() {
            let blocks = match &message["content"] {
                Value::String(text) => vec![json!({"type": "text", "text": text})],
                blocks => blocks.as_array().unwrap().clone(),
            };
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            for text in texts.filter(|text| !text.starts_with("<system-reminder>")) {
                told.push((message["role"].as_str().unwrap().to_owned(), text.to_owned()));
            }
        }
        told.retain(|(role, _)| role != "system");
        told
    }

    pub(crate) async fn strike(mut self) {
        let pids: Vec<u32> = self.live().into_iter().map(|(pid, ..)| pid).collect();
        tokio::time::timeout(DEADLINE, self.pool.close(Duration::ZERO)).await.unwrap();
        assert_eq!(self.live(), []);
        for pid in pids {
            assert!(!Path::new("/proc").join(pid.to_string()).exists(), "{pid} is left");
        }
        for folder in ["sessions/workspaces", "sessions/private"] {
            let left = std::fs::read_dir(self.folder.path().join(folder)).map(Iterator::count);
            assert_eq!(left.unwrap_or(0), 0, "{folder}");
        }
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.serving.join_next()).await.unwrap().unwrap().unwrap();
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn pairs(told: &[(&str, &str)]) -> Vec<(String, String)> {
    told.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn a_conversation_goes_on_in_its_process() {
    let Some(program) = Player::ClaudeStream.binary() else { return };
    let ground = Ground::of(program).await;
    let (pieces, texts) = ground.said(&[user("one two three")]).await;
    assert_eq!(texts, ["one two three!"]);
    assert!(pieces > 1, "it comes in pieces");
    let first = ground.live();
    assert_eq!(
        ground.said(&[user("one two three"), assistant("one two three!"), user("four")]).await.1,
        ["four!"]
    );
    assert_eq!(ground.live(), [(first[0].0, State::Idle, 2)]);
    let told = [("user", "one two three"), ("assistant", "one two three!"), ("user", "four")];
    assert_eq!(ground.told(), pairs(&told));
    ground.strike().await;
}

#[tokio::test]
async fn a_tool_cycle_is_known_by_its_words() {
    let Some(program) = Player::ClaudeStream.binary() else { return };
    let ground = Ground::of(program).await;
    assert_eq!(ground.said(&[user("look around")]).await.1, ["I look.", "Seen."]);
    let first = ground.live();
    // As a program sends it back that was told the words alone.
    ground.said(&[user("look around"), assistant("I look.\n\nSeen."), user("thanks")]).await;
    assert_eq!(ground.live(), [(first[0].0, State::Idle, 2)]);
    ground.strike().await;
}

#[tokio::test]
async fn a_conversation_from_elsewhere_is_told_to_a_new_process() {
    let Some(program) = Player::ClaudeStream.binary() else { return };
    let ground = Ground::of(program).await;
    let talk = [user("the dog is called Bello"), assistant("noted"), user("and the cat Minka")];
    assert_eq!(ground.said(&talk).await.1, ["and the cat Minka!"]);
    let told = [("user", "the dog is called Bello"), ("assistant", "noted"), ("user", "and the cat Minka")];
    assert_eq!(ground.told(), pairs(&told));
    assert_eq!(ground.live().len(), 1);
    ground.strike().await;
}

#[tokio::test]
async fn a_turn_that_is_broken_off_leaves_its_process_usable() {
    let Some(program) = Player::ClaudeStream.binary() else { return };
    let ground = Ground::of(program).await;
    let mut answer = ground.ask(&[user("never end")]);
    let heard = async {
        loop {
            match answer.next().await.unwrap().unwrap() {
                AgentEvent::Said { text, part: Part::Delta, .. } if text.contains("say") => return,
                _ => {}
            }
        }
    };
    tokio::time::timeout(DEADLINE, heard).await.unwrap();
    answer.cancel().await;
    let first = ground.live();
    assert_eq!((first.len(), first[0].1), (1, State::Idle));
    let on = [user("never end"), assistant("I was about to say"), user("go on")];
    let said = ground.said(&on).await.1;
    // The agent itself notes before the prompt that it was interrupted.
    assert!(said.len() == 1 && said[0].ends_with("go on!"), "{said:?}");
    assert_eq!(ground.live(), [(first[0].0, State::Idle, 2)]);
    // It knows what was heard of its answer.
    assert!(
        ground.told().contains(&("assistant".to_owned(), "I was about to say".to_owned())),
        "{:?}",
        ground.told()
    );
    ground.strike().await;
}
