//! What it costs to drive a terminal program: the real one, on a terminal in this process.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ostler_agent::agent::{Agent as _, Permissions};
use ostler_agent::agents::ClaudeTerminal;
use ostler_agent::event::AgentEvent;
use ostler_process::file_scope::FileScope;
use ostler_process::terminal::driver::{Driver, Start, Told};
use ostler_process::terminal::files::Whence;
use ostler_process::terminal::pty::{Pty, Size};
use ostler_process::terminal::session::{Opening, Session};
use serde_json::json;

use crate::agent::{Model, Player};
use crate::process;
use crate::sums::{Times, ms};

const SCRIPT: &str = "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"Noted.\" }]";

/// How many sessions wait at the same time.
const SESSIONS: usize = 4;

/// How long they are looked at while they wait.
const LOOKED_AT: Duration = Duration::from_secs(20);

/// After its last turn a program still writes for a while.
const SETTLED: Duration = Duration::from_secs(5);

/// Records that are written to find out how late their events are.
const RECORDS: usize = 200;

pub(crate) fn measure(ostler: &Path, prompts: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        from_record_to_event().await;
        let model = Model::start(ostler, SCRIPT);
        let Some(player) = Player::on_terminal(&model) else { return };
        from_prompt_to_record(&player, ostler, prompts).await;
        while_nothing_happens(&model, ostler).await;
    });
}

/// A record that we write ourselves, so that it is known when it was there.
async fn from_record_to_event() {
    let folder = tempfile::Builder::new().prefix("ostler-figures-").tempdir().unwrap();
    let workspace = folder.path().canonicalize().unwrap();
    let session = "00000000-0000-4000-8000-000000000000";
    let project: String = workspace.display().to_string().chars().map(plain).collect();
    let project = workspace.join("settings/projects").join(project);
    std::fs::create_dir_all(&project).unwrap();
    let mut file = std::fs::File::create(project.join(format!("{session}.jsonl"))).unwrap();
    let (pty, _held) = Pty::open(Size::USUAL).unwrap();
    let env = vec![(OsString::from("CLAUDE_CONFIG_DIR"), workspace.join("settings").into_os_string())];
    let mut driver = Driver::new(Start {
        agent: &ClaudeTerminal,
        interactive: ClaudeTerminal.interactive().unwrap(),
        decoder: ClaudeTerminal.decoder(None),
        pty,
        size: Size::USUAL,
        whence: Whence { env, workspace, policy: None, files: FileScope::Anywhere },
        own_pid: std::process::id(),
        pid: std::process::id(),
        session: Some(session.to_owned()),
        permissions: Permissions::All,
    });
    let began = Instant::now();
    let mut late = Vec::new();
    let mut before = serde_json::Value::Null;
    for number in 0..RECORDS {
        // As far apart as an agent writes them, and never in step with a timer.
        tokio::time::sleep(Duration::from_millis(7 + (number % 5) as u64)).await;
        let (id, written) = (format!("record-{number}"), SystemTime::now());
        let content = json!([{"type": "text", "text": nanos(written).to_string()}]);
        let message =
            json!({"id": format!("msg-{number}"), "role": "assistant", "model": "m", "content": content});
        let record = json!({"type": "assistant", "uuid": id, "parentUuid": before, "sessionId": session,
            "timestamp": "2026-11-16T00:00:00.000Z", "message": message});
        before = json!(id);
        file.write_all(format!("{record}\n").as_bytes()).unwrap();
        'told: loop {
            let arrived = driver.next().await;
            for told in driver.take(began.elapsed(), arrived) {
                if let Told::Event(AgentEvent::Said { text, .. }) = told {
                    let since = nanos(SystemTime::now()).saturating_sub(text.parse().unwrap());
                    late.push(Duration::from_nanos(since));
                    break 'told;
                }
            }
        }
    }
    println!("from a record on disk to its event: {}", told(&late));
}

fn nanos(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

fn plain(char: char) -> char {
    if char.is_ascii_alphanumeric() { char } else { '-' }
}

async fn from_prompt_to_record(player: &Player, ostler: &Path, prompts: usize) {
    let began = Instant::now();
    let mut session = open(player, ostler).await;
    let mut first = Some(());
    let mut times = Vec::new();
    for number in 0..prompts {
        let asked = Instant::now();
        let mut turn = session.ask(&format!("prompt number {number}")).await.unwrap();
        match first.take() {
            Some(()) => println!("from the start to the first prompt taken: {:.0} ms", ms(began.elapsed())),
            None => times.push(asked.elapsed()),
        }
        while turn.next().await.is_some() {}
    }
    println!("from a prompt to its record, later ones: {}", told(&times));
    session.close().await.unwrap();
}

async fn while_nothing_happens(model: &Model, ostler: &Path) {
    let ours = std::process::id();
    let before = process::status(ours, "VmRSS");
    let mut sessions = Vec::new();
    let players: Vec<Player> = (0..SESSIONS).filter_map(|_| Player::on_terminal(model)).collect();
    for player in &players {
        let mut session = open(player, ostler).await;
        let mut turn = session.ask("hello").await.unwrap();
        while turn.next().await.is_some() {}
        sessions.push(session);
    }
    tokio::time::sleep(SETTLED).await;
    let memory = process::status(ours, "VmRSS").saturating_sub(before) as f64 / SESSIONS as f64;
    let used = process::used(ours);
    let theirs: Vec<_> =
        sessions.iter().map(|session| (session.pid(), process::used(session.pid()))).collect();
    tokio::time::sleep(LOOKED_AT).await;
    let share = |before: process::Used, after: process::Used| {
        100.0 * after.cpu.saturating_sub(before.cpu).as_secs_f64() / LOOKED_AT.as_secs_f64()
    };
    let own = share(used, process::used(ours)) / SESSIONS as f64;
    println!(
        "{SESSIONS} idle sessions over {} s, for each: {memory:.0} kB, {own:.3} % of a core",
        LOOKED_AT.as_secs()
    );
    for (pid, before) in theirs {
        let memory = process::status(pid, "VmRSS") as f64 / 1024.0;
        println!("  its program: {memory:.0} MB, {:.2} % of a core", share(before, process::used(pid)));
    }
    for session in sessions {
        session.close().await.unwrap();
    }
}

async fn open(player: &Player, ostler: &Path) -> Session {
    let (args, env) = player.launched();
    Session::open(Opening {
        agent: &ClaudeTerminal,
        program: player.program.clone(),
        args,
        env,
        workspace: player.root().join("workspace"),
        permissions: Permissions::All,
        session: None,
        size: Size::USUAL,
        name: "figures",
        guard: PathBuf::from(ostler),
        jail: None,
    })
    .await
    .unwrap()
}

fn told(times: &[Duration]) -> String {
    let times = Times::of(times.iter().copied().map(ms));
    format!("{:.2} ms, p90 {:.2}, least {:.2}", times.median(), times.p90(), times.least())
}
