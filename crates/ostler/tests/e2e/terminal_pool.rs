//! The pool with the agent's own terminal program: a conversation goes on in its process, a person who sits at it is not
//! typed over, and what the program would misread is refused before anything is started.

use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::access::{KeyKind, KeyMemory};
use ostler_agent::agent::{Agent as _, Engine, Permissions};
use ostler_agent::agents::ClaudeTerminal;
use ostler_agent::canonical::read;
use ostler_agent::event::{AgentEvent, TurnOutcome};
use ostler_agent::history::History;
use ostler_agent::leasing::{Limits, Place, Terms};
use ostler_gateway::ground::{Ground as On, TrustGate};
use ostler_gateway::live::Phase;
use ostler_gateway::pool::{Patience, Pool, Turn, TurnError};
use ostler_gateway::terminal::Terminals;
use ostler_process::terminal::pty::Size;
use serde_json::{Value, json};

use crate::bare::{DEADLINE, Ground, programs};

const SCRIPT: &str = "v = 1\n[[conversation]]\n[[conversation.step]]\nreply = [{ text = \"{{prompt}}!\" }]";

fn turn(messages: &[Value]) -> Turn {
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
    Turn::of(terms, History::of(read(messages).unwrap()).unwrap())
}

async fn said(pool: &Pool<Terminals>, messages: &[Value]) -> Result<TurnOutcome, TurnError> {
    let mut answer = pool.complete(turn(messages));
    let all = async {
        while let Some(event) = answer.next().await {
            if let AgentEvent::TurnEnded(end) = event? {
                return Ok(end);
            }
        }
        panic!("it has no end")
    };
    tokio::time::timeout(DEADLINE, all).await.unwrap()
}

fn done(text: &str) -> TurnOutcome {
    TurnOutcome::Done { text: text.to_owned() }
}

#[tokio::test]
async fn a_conversation_goes_on_on_its_terminal() {
    for program in programs() {
        let ground = Ground::of(&ClaudeTerminal, SCRIPT).await;
        let home = ground.folder.path().join("home");
        let env = ground.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let terminals = Terminals(On {
            agent: &ClaudeTerminal,
            program: program.clone(),
            env,
            home,
            folder: ground.folder.path().join("sessions"),
            guard: PathBuf::from(env!("CARGO_BIN_EXE_ostler")).into(),
            trust: TrustGate::new(ostler_process::trust::Gate::new(PathBuf::from("/nowhere"), None), |_| {}),
            jailer: std::sync::Arc::new(ostler_gateway::jail::Unjailed),
            tenants: std::sync::Arc::new(ostler_gateway::tenants::NoTenants),
            memory: None,
        });
        let patience = Patience { start: DEADLINE, settle: DEADLINE, ..Patience::default() };
        let pool = Pool::new(terminals, Limits::default(), patience);
        let user = |text: &str| json!({"role": "user", "content": text});
        // Refused before a process is there.
        let picture = json!({"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]});
        for prompt in [user("!touch x"), user("/clear"), user("a\u{1b}b"), picture] {
            let refused = said(&pool, std::slice::from_ref(&prompt)).await;
            let is_refused =
                matches!(&refused, Err(TurnError::Session(failure)) if failure.phase == Phase::Prompt);
            assert!(is_refused, "{prompt}: {refused:?}");
        }
        assert_eq!(pool.sessions().len(), 0);
        let talk = [user("one two"), json!({"role": "assistant", "content": "one two!"}), user("three")];
        assert_eq!(said(&pool, &talk[..1]).await, Ok(done("one two!")), "{}", program.display());
        let first = pool.sessions()[0].pid;
        assert_eq!(said(&pool, &talk).await, Ok(done("three!")));
        let sessions = pool.sessions();
        assert_eq!((sessions.len(), sessions[0].pid, sessions[0].turns), (1, first, 2));
        // A person sits down: the terminal is theirs.
        let terminal = sessions[0].terminal.clone().unwrap();
        let hold = terminal.hold(Size::USUAL).await.unwrap();
        let on = [&talk[..], &[json!({"role": "assistant", "content": "three!"}), user("four")]].concat();
        let held = said(&pool, &on).await;
        assert!(
            matches!(&held, Err(TurnError::Session(failure)) if failure.phase == Phase::Held),
            "{held:?}"
        );
        drop(hold);
        let again = async {
            // The keys come back a moment after they were given back.
            loop {
                match said(&pool, &on).await {
                    Err(TurnError::Session(failure)) if failure.phase == Phase::Held => {}
                    ended => return ended,
                }
            }
        };
        assert_eq!(again.await, Ok(done("four!")));
        assert_eq!(pool.sessions()[0].pid, first);
        pool.close(Duration::ZERO).await;
        ground.strike().await;
    }
}
