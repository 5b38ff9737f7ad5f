//! H12 with a real agent: its provider fails, our own probe fails too, and the run waits at no cost.
//!
//! The probe is pointed at an address on loopback that the test opens when it likes; the scripted model fails as a
//! provider would that is not reached.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tokio::net::TcpSocket;

use crate::player::Player;
use crate::yard::Yard;

/// The first answer fails, however often it is asked for. Asked again in the same session, the model answers.
const FAILS_AT_FIRST: &str = r#"
[[conversation]]
[[conversation.step]]
expect = { contains = "Go on where you stopped" }
reply = [{ text = "Now it is said." }]
[[conversation]]
[[conversation.step]]
reply = [{ cut = "before_headers" }]
"#;

/// A yard, and an address where nobody answers yet.
struct Island {
    yard: Yard,
    name: &'static str,
    door: TcpSocket,
}

impl Island {
    fn of(player: Player) -> Option<Self> {
        let yard = Yard::of(player)?;
        // Bound and not listening: whoever connects is refused, and nobody else gets the port.
        let door = TcpSocket::new_v4().unwrap();
        door.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Some(Self { yard, name: player.agent().name(), door })
    }

    fn address(&self) -> String {
        self.door.local_addr().unwrap().to_string()
    }

    fn command(&self, args: &[&str], address: &str) -> Command {
        let script = self.yard.script(FAILS_AT_FIRST);
        let mut command = self.yard.ostler(&["run", "-a", self.name, "--json", &script]);
        command.args(args).arg("Say something.").env("OSTLER_CFG__NETWORK__PROBE", address);
        command
    }

    fn start(&self, args: &[&str]) -> (Child, impl Iterator<Item = Value> + use<>) {
        let mut child = self.command(args, &self.address()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()))
    }
}

fn why(yard: &Yard) -> String {
    String::from_utf8(yard.ostler(&["runs", "why", "last"]).output().unwrap().stdout).unwrap()
}

fn is(kind: &str) -> impl Fn(&Value) -> bool + '_ {
    move |line| line["kind"] == kind
}

#[tokio::test]
async fn h12_an_offline_run_is_parked_and_goes_on_in_the_same_session() {
    let Some(island) = Island::of(Player::Codex) else { return };
    let (mut child, mut lines) = island.start(&[]);
    let address = island.address();
    // The agent gives up by itself first. While it tried, the run was parked too.
    let session = lines.find(|line| line["event"] == "started").unwrap()["session"].clone();
    lines.find(is("exited")).unwrap();
    let parked = lines.find(is("parked")).unwrap();
    assert_eq!(parked["reason"], format!("offline: {address} cannot be reached"));
    let listener = island.door.listen(8).unwrap();
    lines.find(is("unparked")).unwrap();
    let resumed = lines.find(is("resumed")).unwrap();
    assert_eq!(resumed["reason"], "the provider can be reached again");
    let last = lines.last().unwrap();
    assert_eq!((&last["outcome"], &last["rule"]), (&"completed".into(), &Value::Null), "{last}");
    assert_eq!((&last["resumes"], &last["survivors"]), (&0.into(), &0.into()), "a wait is no resume");
    assert_eq!(last["session"], session);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(listener);
    let why = why(&island.yard);
    assert!(why.contains("state    completed") && !why.contains("fired"), "{why}");
    assert!(why.contains(": the provider can be reached again\n"), "{why}");
}

#[tokio::test]
async fn h12_a_run_that_stays_offline_is_over_after_the_longest_wait() {
    let Some(island) = Island::of(Player::Codex) else { return };
    let (mut child, mut lines) = island.start(&["--max-wait", "30s"]);
    lines.find(is("parked")).unwrap();
    let last = lines.last().unwrap();
    assert_eq!((&last["outcome"], &last["rule"]), (&"timed_out".into(), &"max_wait".into()), "{last}");
    assert_eq!((&last["resumes"], &last["survivors"]), (&0.into(), &0.into()));
    assert_eq!(child.wait().unwrap().code(), Some(13));
    let why = why(&island.yard);
    assert!(why.contains("state    timed_out\ndetail   it waited longer than 30.0 s\n"), "{why}");
}

/// The provider answers, so it is the agent's failure.
#[tokio::test]
async fn a_failure_of_a_provider_that_can_be_reached_is_a_failure() {
    let Some(mut island) = Island::of(Player::Codex) else { return };
    let door = std::mem::replace(&mut island.door, TcpSocket::new_v4().unwrap());
    let address = door.local_addr().unwrap();
    let listener = door.listen(8).unwrap();
    let output = island.command(&[], &address.to_string()).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(10), "{stdout}");
    assert!(!stdout.contains("\"kind\":\"parked\""), "{stdout}");
    drop(listener);
}
