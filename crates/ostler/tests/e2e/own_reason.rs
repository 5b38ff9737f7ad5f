//! A terminal program that ends by itself: the client receives what the program printed, not only that it is gone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ostler_agent::access::{KeyKind, KeyMemory};
use ostler_agent::agent::{Agent as _, Engine, Permissions};
use ostler_agent::agents::ClaudeTerminal;
use ostler_agent::canonical::read;
use ostler_agent::event::{AgentEvent, Failure, TurnOutcome};
use ostler_agent::history::History;
use ostler_agent::leasing::{Limits, Place, Terms};
use ostler_gateway::ground::{Ground as On, TrustGate};
use ostler_gateway::pool::{Patience, Pool, Turn, TurnError};
use ostler_gateway::terminal::Terminals;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::bare::{DEADLINE, Ground};
use crate::for_every_version;
use crate::player::Player;

const NEVER_ENDS: &str =
    "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"half\" }, { stall = \"mid_text\" }]";

/// The agent with this before or after its arguments, as a wrapper of the user's own may have it.
fn wrapped(player: Player, folder: &Path, arguments: &str) -> Option<PathBuf> {
    let program = folder.join("wrapper");
    let text = format!("#!/bin/sh\nexec '{}' {arguments}\n", player.binary()?.display());
    // Another process writes it: a child that another test starts meanwhile would inherit the open file otherwise.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", r#"printf '%s' "$2" > "$1" && chmod 755 "$1""#, "sh"]).arg(&program).arg(text);
    assert!(shell.stdin(Stdio::null()).status().unwrap().success());
    Some(program)
}

fn pool(ground: &Ground, program: PathBuf) -> Pool<Terminals> {
    let env = ground.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let terminals = Terminals(On {
        agent: &ClaudeTerminal,
        program,
        env,
        home: ground.folder.path().join("home"),
        folder: ground.folder.path().join("sessions"),
        guard: PathBuf::from(env!("CARGO_BIN_EXE_ostler")).into(),
        trust: TrustGate::new(ostler_process::trust::Gate::new(PathBuf::from("/nowhere"), None), |_| {}),
        jailer: std::sync::Arc::new(ostler_gateway::jail::Unjailed),
        tenants: std::sync::Arc::new(ostler_gateway::tenants::NoTenants),
        memory: None,
    });
    let patience = Patience { start: DEADLINE, settle: DEADLINE, ..Patience::default() };
    Pool::new(terminals, Limits::default(), patience)
}

fn turn() -> Turn {
    let terms = Terms {
        tenant: "test".to_owned(),
        kind: KeyKind::Owner,
        memory: KeyMemory::Off,
        agent: ClaudeTerminal.name().to_owned(),
        engine: Engine::Terminal,
        model: None,
        workspace: Place::Own,
        system_prompt: None,
        permissions: Permissions::Deny,
        asks_client: false,
        allow: Vec::new(),
        tools: String::new(),
    };
    let messages = [json!({"role": "user", "content": "Say something."})];
    Turn::of(terms, History::of(read(&messages).unwrap()).unwrap())
}

/// It does not come up: its own words are the reason.
async fn a_program_that_does_not_start_says_why(player: Player) {
    let ground = Ground::of(&ClaudeTerminal, NEVER_ENDS).await;
    let arguments = "\"$@\" --settings=/nowhere/settings.json";
    let Some(program) = wrapped(player, ground.folder.path(), arguments) else { return };
    let pool = pool(&ground, program);
    let mut answer = pool.complete(turn());
    let refused = tokio::time::timeout(DEADLINE, answer.next()).await.unwrap().unwrap();
    let Err(TurnError::Session(failure)) = refused else { panic!("{refused:?}") };
    assert!(failure.detail.contains("Settings file not found: /nowhere/settings.json"), "{failure:?}");
    pool.close(DEADLINE).await;
}

/// It ends in the middle of a turn, with an exit code of its own.
async fn a_program_that_ends_in_a_turn_says_why(player: Player) {
    let ground = Ground::of(&ClaudeTerminal, NEVER_ENDS).await;
    let Some(program) = wrapped(player, ground.folder.path(), "\"$@\"") else { return };
    let pool = pool(&ground, program);
    let mut answer = pool.complete(turn());
    let mut pid = None;
    let end = async {
        loop {
            match answer.next().await.unwrap().unwrap() {
                AgentEvent::Asked { .. } => {
                    pid = pool.sessions()[0].pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).unwrap()));
                    kill_process(pid.unwrap(), Signal::TERM).unwrap();
                }
                AgentEvent::TurnEnded(end) => return end,
                _ => {}
            }
        }
    };
    let end = tokio::time::timeout(DEADLINE, end).await.unwrap();
    let TurnOutcome::Failed(Failure { detail, .. }) = end else { panic!("{end:?}") };
    assert!(detail.contains("exited with 143"), "{detail}");
    assert!(!detail.contains('─') && !detail.contains('❯'), "its input box is no reason: {detail}");
    pool.close(DEADLINE).await;
}

for_every_version!(async: a_program_that_does_not_start_says_why, a_program_that_ends_in_a_turn_says_why);
