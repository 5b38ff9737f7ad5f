//! A conversation of a few turns in one live session, without HTTP: the pool as a library.
//!
//! ```text
//! cargo run -p ostler-gateway --example complete -- /path/to/claude /path/to/ostler "My name is Ada." "What is my name?"
//! ```
//!
//! Each turn sends the whole conversation, as programs do that speak a provider's API; the pool finds the session that
//! knows it, and only what is new goes to the agent. The process that answers is told after each turn. Without an account,
//! `ostler rehearse --script echo` plays the model, and prints the variables that point Claude Code at it.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ostler_agent::access::{KeyKind, KeyMemory};
use ostler_agent::agent::{Agent as _, Engine, Permissions};
use ostler_agent::agents::Claude;
use ostler_agent::canonical::{Message, read};
use ostler_agent::event::{AgentEvent, Part, TurnOutcome};
use ostler_agent::history::History;
use ostler_agent::leasing::{Limits, Place, Terms};
use ostler_agent::reply::Reply;
use ostler_gateway::ground::{Ground, TrustGate};
use ostler_gateway::pool::{Patience, Pool, Turn};
use ostler_gateway::stream::Streams;
use serde_json::json;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(program), Some(guard)) = (args.next(), args.next()) else {
        return Err("usage: complete CLAUDE OSTLER PROMPT…".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = std::env::temp_dir().join(format!("ostler-complete-{}", std::process::id()));
    let talked = runtime.block_on(talk(program, guard, args.collect(), &folder));
    let _ = std::fs::remove_dir_all(folder);
    talked
}

async fn talk(
    program: String,
    guard: String,
    prompts: Vec<String>,
    folder: &Path,
) -> Result<(), Box<dyn Error>> {
    // How sessions are started: another engine, or a scripted one, would do as well.
    let start = Streams(Ground {
        agent: &Claude,
        program: PathBuf::from(program),
        env: std::env::vars_os().collect(),
        home: std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default(),
        folder: folder.to_owned(),
        guard: PathBuf::from(guard).into(),
        trust: TrustGate::new(ostler_process::trust::Gate::new(PathBuf::from("/nowhere"), None), |_| {}),
        jailer: std::sync::Arc::new(ostler_gateway::jail::Unjailed),
        tenants: std::sync::Arc::new(ostler_gateway::tenants::NoTenants),
        memory: None,
    });
    let pool = Pool::new(start, Limits::default(), Patience::default());
    let talked = converse(&pool, prompts).await;
    // However it ended: when this returns there is no process of it.
    pool.close(Duration::from_secs(30)).await;
    talked
}

async fn converse(pool: &Pool<Streams>, prompts: Vec<String>) -> Result<(), Box<dyn Error>> {
    // Everything that changes how a session behaves. Conversations on other terms never meet.
    let terms = Terms {
        tenant: "example".to_owned(),
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
        tools: String::new(),
    };
    let mut out = std::io::stdout();
    let mut messages: Vec<Message> = Vec::new();
    for prompt in prompts {
        messages.extend(read(&[json!({"role": "user", "content": prompt})])?);
        let turn = Turn::of(terms.clone(), History::of(messages.clone())?);
        // Events come as the agent says them. Dropping the answer would break the turn off.
        let mut answer = pool.complete(turn);
        let mut reply = Reply::default();
        while let Some(event) = answer.next().await {
            let event = event?;
            if let AgentEvent::Said { text, part: Part::Delta, within: None } = &event {
                write!(out, "{text}")?;
                out.flush()?;
            }
            reply.hear(&event);
            // It is an event like any other: that there is an answer does not mean that it is a good one.
            if let AgentEvent::TurnEnded(TurnOutcome::Failed(failure)) = event {
                return Err(format!("the agent failed: {}", failure.detail).into());
            }
        }
        messages.extend_from_slice(reply.messages());
        let pids: Vec<u32> = pool.sessions().iter().filter_map(|session| session.pid).collect();
        writeln!(out, "\n  (answered by {pids:?})")?;
    }
    Ok(())
}
