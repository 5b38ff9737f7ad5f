//! A session that knows a conversation which it did not live through: written as the agent's own record, and proven by
//! what the model is then told. Headless and in the terminal, with every version.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use ostler_agent::agent::{Agent, Session, Stage as Place, Stdin, Task, Whereabouts};
use ostler_agent::agents::{Claude, ClaudeTerminal};
use ostler_agent::canonical::read;
use ostler_agent::document::Format;
use ostler_agent::history::History;
use ostler_process::contain::{Contained, Spawn, Survivors};
use ostler_process::seeding::{Seeded, seed};
use ostler_process::terminal::pty::Size;
use ostler_rehearsal::{Rehearsal, Server, script};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::player::Player;
use crate::tap::Tap;

/// A start, a turn and an end take a few seconds; a loaded machine needs many times that.
const DEADLINE: Duration = Duration::from_secs(120);

/// How often a file is looked at.
const LOOK: Duration = Duration::from_millis(20);

const SCRIPT: &str = "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"Noted.\" }]";

const ASKED: &str = "And what was it called?";

/// A conversation with all that can be in one: words on both sides, a call and its result, an empty text, and words to
/// itself that nobody could prove.
fn conversation() -> Value {
    json!([
        {"role": "user", "content": "!remember: the dog is called Bello"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "kennel"}]},
        {"role": "assistant", "content": "It has a kennel."},
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": ASKED}]},
    ])
}

/// The real programs: the pinned one, and a newer one where there is one.
fn programs() -> Vec<PathBuf> {
    let newer = std::env::var_os("OSTLER_TEST_AGENTS_NEWER").map(PathBuf::from);
    let platform = (std::env::consts::OS, std::env::consts::ARCH);
    let paths = Claude.package().native_paths(platform.0, platform.1);
    let newer = newer.and_then(|folder| {
        paths.into_iter().map(|path| folder.join("node_modules").join(path)).find(|path| path.is_file())
    });
    Player::ClaudeStream.binary().into_iter().chain(newer).collect()
}

/// A home, a workspace, a scripted model, and what it is told.
struct Ground {
    folder: TempDir,
    tap: Tap,
    env: Vec<(String, String)>,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Ground {
    async fn of(agent: &dyn Agent) -> Self {
        let folder = tempfile::Builder::new().prefix("ostler-e2e-").tempdir().unwrap();
        for name in ["home", "workspace", "private"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let play = script::parse("test", SCRIPT, Format::Toml).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::listen(address, Rehearsal::of(play)).await.unwrap();
        let tap = Tap::before(&server.url()).await;
        let (stop, mut serving) = (CancellationToken::new(), JoinSet::new());
        serving.spawn(server.serve(stop.clone()));
        let place = Place { url: tap.url.clone(), home: folder.path().join("home") };
        let setup = agent.rehearsed(&place);
        for path in setup.folders {
            std::fs::create_dir_all(path).unwrap();
        }
        write(setup.files.iter().map(|file| (&*file.path, &*file.content)));
        let mut env = setup.env;
        env.push(("PATH".to_owned(), "/usr/bin:/bin".to_owned()));
        Self { folder, tap, env, stop, serving }
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace").canonicalize().unwrap()
    }

    fn seed(&self, agent: &dyn Agent, session: &str, history: &History) -> Seeded {
        let variable =
            |name: &str| self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let (home, workspace) = (self.folder.path().join("home"), self.workspace());
        let whereabouts = Whereabouts { home: &home, variable: &variable, workspace: &workspace, session };
        seed(agent, &whereabouts, None, &history.sound()).unwrap()
    }

    async fn strike(mut self) {
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.serving.join_next()).await.unwrap().unwrap().unwrap();
    }
}

fn write<'a>(files: impl Iterator<Item = (&'a Path, &'a str)>) {
    for (path, content) in files {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

/// What the model was told, without what the agent adds of its own.
fn told(request: &Value) -> Vec<Value> {
    let is_own = |text: &str| text.starts_with("<system-reminder>");
    let mut told = Vec::new();
    for message in request["messages"].as_array().unwrap() {
        let blocks = match &message["content"] {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            blocks => blocks.as_array().unwrap().clone(),
        };
        let mut blocks: Vec<Value> =
            blocks.into_iter().filter(|block| !block["text"].as_str().is_some_and(is_own)).collect();
        for block in &mut blocks {
            block.as_object_mut().unwrap().remove("cache_control");
        }
        if message["role"] != "system" && !blocks.is_empty() {
            told.push(json!({"role": message["role"], "content": blocks}));
        }
    }
    told
}

fn want() -> Vec<Value> {
    let text = |text: &str| json!({"type": "text", "text": text});
    vec![
        json!({"role": "user", "content": [text("!remember: the dog is called Bello")]}),
        json!({"role": "assistant", "content": [text("I look."),
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "kennel",
            "is_error": false}]}),
        json!({"role": "assistant", "content": [text("It has a kennel.")]}),
        json!({"role": "user", "content": [text(ASKED)]}),
    ]
}

fn history() -> History {
    History::of(read(conversation().as_array().unwrap()).unwrap()).unwrap()
}

/// The record goes on behind what was written, in the same file.
fn is_gone_on_with(seeded: &Seeded, before: &[u8]) {
    let after = std::fs::read(&seeded.path).unwrap();
    assert!(after.starts_with(before) && after.len() > before.len(), "{}", seeded.path.display());
    assert_eq!(before.len() as u64, seeded.length);
}

#[tokio::test]
async fn headless_it_knows_what_was_said_before() {
    for program in programs() {
        let ground = Ground::of(&Claude).await;
        let (history, session) = (history(), uuid::Uuid::new_v4().to_string());
        let seeded = ground.seed(&Claude, &session, &history);
        let before = std::fs::read(&seeded.path).unwrap();
        let (prompt, workspace) = (history.prompt().unwrap(), ground.workspace());
        let private = ground.folder.path().join("private");
        let task = Task { session: Session::Resumed(&session), ..Task::new(&prompt, &workspace, &private) };
        let launch = Claude.launch(&task).unwrap();
        let mut child = Command::new(&program)
            .args(&launch.args)
            .env_clear()
            .envs(ground.env.iter().cloned())
            .envs(launch.env.iter().cloned())
            .current_dir(&workspace)
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(ground.folder.path().join("stdout")).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let Stdin::Spoken(lines) = &launch.stdin else { panic!("it listens") };
        let mut stdin = child.stdin.take().unwrap();
        for line in lines {
            stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }
        // It finishes its turn and exits.
        drop(stdin);
        let status = tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap();
        assert!(status.success(), "{}: {status}", program.display());
        let requests = ground.tap.conversation();
        assert_eq!(requests.first().map(told), Some(want()), "{}", program.display());
        is_gone_on_with(&seeded, &before);
        ground.strike().await;
    }
}

#[tokio::test]
async fn in_the_terminal_it_knows_what_was_said_before() {
    for program in programs() {
        let ground = Ground::of(&ClaudeTerminal).await;
        let (history, session) = (history(), uuid::Uuid::new_v4().to_string());
        let seeded = ground.seed(&ClaudeTerminal, &session, &history);
        let before = std::fs::read(&seeded.path).unwrap();
        let workspace = ground.workspace();
        let private = ground.folder.path().join("private");
        // The prompt is an argument here: how it is typed is another test's matter.
        let prompt = [history.prompt().unwrap()];
        let task = Task {
            session: Session::Resumed(&session),
            extra: &prompt,
            ..Task::new("", &workspace, &private)
        };
        let launch = ClaudeTerminal.launch(&task).unwrap();
        assert_eq!(launch.stdin, Stdin::Terminal);
        write(launch.files.iter().map(|file| (&*file.path, &*file.content)));
        let env = ground.env.iter().chain(&launch.env);
        let run = format!("injection-{session}");
        let mut contained = Contained::start(Spawn {
            program: program.clone(),
            args: launch.args.iter().map(OsString::from).collect(),
            env: env.map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: workspace,
            stdin: ostler_process::contain::Stdin::Terminal(Size::USUAL),
            run: &run,
            tier: None,
            guard: PathBuf::from(env!("CARGO_BIN_EXE_ostler")),
        })
        .await
        .unwrap();
        let terminal = contained.terminal.take().unwrap();
        let mut screen = Vec::new();
        let turn = async {
            let mut buffer = [0; 4096];
            loop {
                tokio::select! {
                    count = terminal.read(&mut buffer) => {
                        let count = count.unwrap();
                        screen.extend_from_slice(&buffer[..count]);
                        assert_ne!(count, 0, "it ended: {}", String::from_utf8_lossy(&screen));
                    }
                    () = tokio::time::sleep(LOOK) => {
                        let record = std::fs::read_to_string(&seeded.path).unwrap();
                        if record.contains("\"turn_duration\"") {
                            return;
                        }
                    }
                }
            }
        };
        let ended = tokio::time::timeout(DEADLINE, turn).await;
        assert!(ended.is_ok(), "{}: {}", program.display(), String::from_utf8_lossy(&screen));
        assert_eq!(contained.kill_all().await, Survivors(0));
        let requests = ground.tap.conversation();
        assert_eq!(requests.first().map(told), Some(want()), "{}", program.display());
        is_gone_on_with(&seeded, &before);
        ground.strike().await;
    }
}
