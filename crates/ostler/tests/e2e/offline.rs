//! H12 with a real agent: its provider fails, our own probe fails too, and the run waits at no cost.
//!
//! The probe is pointed at an address on loopback that the test opens when it likes; the scripted model fails as a
//! provider would that is not reached.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::player::Player;
use crate::yard::{Ended, Yard};

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
    let reason = format!("offline: cannot reach {address} (`network.probe` of the configuration)");
    assert_eq!(parked["reason"], reason);
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
    assert!(why.contains(&format!(": {reason}\n")), "{why}");
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

/// An agent that reports a failed request, and later what an earlier one used: a sub-agent's call, without its text.
const REPORTS_LATE: &str = r#"
[[step]]
do = [
    { unknown_frame = "system", body = { subtype = "api_retry", attempt = 1, max_retries = 10, retry_delay_ms = 60000, error = "unknown" } },
    { wait_for_file = "parked" },
    { unknown_frame = "assistant", body = { parent_tool_use_id = "c", message = { id = "m", model = "x", content = [], usage = { input_tokens = 5, output_tokens = 1 } } } },
    { wait_for_file = "back" },
    { say = "Here I am." },
]
"#;

#[tokio::test]
async fn usage_that_is_read_late_does_not_end_a_wait_for_the_network() {
    let (door, address) = dead_end();
    let yard = Yard::of_fake(Player::ClaudeStream, REPORTS_LATE);
    let mut command = yard.ostler(&["run", "-a", "claude-headless", "--json", "Say something."]);
    command.env("OSTLER_CFG__NETWORK__PROBE", address.to_string()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    lines.find(is("parked")).unwrap();
    std::fs::write(yard.workspace().join("parked"), "").unwrap();
    let until_used: Vec<Value> = lines.by_ref().take_while(|line| line["event"] != "spent_so_far").collect();
    assert!(until_used.iter().all(|line| line["kind"] != "unparked"), "{until_used:#?}");
    let listener = door.listen(8).unwrap();
    lines.find(is("unparked")).unwrap();
    std::fs::write(yard.workspace().join("back"), "").unwrap();
    let last = lines.last().unwrap();
    assert_eq!(last["outcome"], "completed", "{last}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(listener);
    yard.is_empty();
}

/// The provider answers, so it is the agent's failure.
#[tokio::test]
async fn a_failure_of_a_provider_that_can_be_reached_is_a_failure() {
    let Some(mut island) = Island::of(Player::Codex) else { return };
    let door = std::mem::replace(&mut island.door, TcpSocket::new_v4().unwrap());
    let address = door.local_addr().unwrap();
    let listener = door.listen(8).unwrap();
    let output = island.command(&["--max-resumes", "0"], &address.to_string()).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(10), "{stdout}");
    assert!(!stdout.contains("\"kind\":\"parked\""), "{stdout}");
    drop(listener);
}

/// Where nobody answers, for as long as this is held: bound, and not listening.
fn dead_end() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// A gateway that takes every connection and answers nothing. It ends with the test.
fn silent_gateway() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    address
}

/// The agent's own settings name a gateway, as a person would write them.
fn configure(player: Player, home: &Path, gateway: SocketAddr) -> std::path::PathBuf {
    let (file, text) = match player {
        Player::Codex => {
            let text = format!(
                "model_provider = \"mine\"\n[model_providers.mine]\nname = \"mine\"\nbase_url = \"http://{gateway}/v1\"\n\
                 request_max_retries = 0\nstream_max_retries = 0\n"
            );
            (home.join(".codex/config.toml"), text)
        }
        _ => {
            let env =
                json!({"ANTHROPIC_BASE_URL": format!("http://{gateway}"), "CLAUDE_CODE_MAX_RETRIES": "1"});
            (home.join(".claude/settings.json"), json!({"env": env}).to_string())
        }
    };
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    file
}

/// A run that is no rehearsal, with a home of its own, on a machine from which the vendor cannot be reached.
fn by_a_person(yard: &Yard, player: Player, args: &[&str], vendor: SocketAddr) -> Command {
    let mut command = yard.ostler(&["run", "-a", player.agent().name(), "--json"]);
    command.args(args).arg("Say something.").env_remove("OSTLER_CFG__NETWORK__PROBE");
    for name in ["ALL_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name);
    }
    for name in ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "ANTHROPIC_BASE_URL"] {
        command.env_remove(name);
    }
    command.env("HTTPS_PROXY", format!("http://{vendor}")).env("NO_PROXY", "127.0.0.1");
    command.env("HOME", yard.at("home")).env("ANTHROPIC_API_KEY", "dummy").stdout(Stdio::piped());
    command
}

/// The vendor's host cannot be reached from everywhere: that says nothing about a gateway which answers.
fn is_not_called_offline(player: Player) {
    let Some(yard) = Yard::of(player) else { return };
    let (_vendor, vendor) = dead_end();
    configure(player, &yard.at("home"), silent_gateway());
    // A wait for the network would end the run another way. The pause before the resume is shorter.
    let args = ["--max-wait", "1s", "--max-resumes", "1"];
    let ended = Ended::of(by_a_person(&yard, player, &args, vendor).output().unwrap());
    ended.ends("agent_failed", 10);
    let waits: Vec<String> = ended.with("kind", "parked").map(|line| line["reason"].to_string()).collect();
    assert!(waits.iter().all(|reason| !reason.contains("offline")), "{waits:?}");
    yard.is_empty();
}

#[tokio::test]
async fn a_gateway_of_codex_settings_is_probed_and_not_the_vendor() {
    is_not_called_offline(Player::Codex);
}

#[tokio::test]
async fn a_gateway_of_claude_settings_is_probed_and_not_the_vendor() {
    is_not_called_offline(Player::ClaudeStream);
}

#[tokio::test]
async fn why_a_run_is_offline_is_told_with_the_file_that_names_its_provider() {
    let Some(yard) = Yard::of(Player::Codex) else { return };
    let ((_vendor, vendor), (_gateway, gateway)) = (dead_end(), dead_end());
    let file = configure(Player::Codex, &yard.at("home"), gateway);
    let mut child = by_a_person(&yard, Player::Codex, &[], vendor).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    lines.find(is("exited")).unwrap();
    lines.find(is("parked")).unwrap();
    let told = why(&yard);
    let reason = format!("offline: cannot reach {gateway} (model provider `mine` in {})", file.display());
    let waiting = told.lines().find(|line| line.starts_with("waiting ")).unwrap_or_else(|| panic!("{told}"));
    assert!(waiting.ends_with(&reason), "{told}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(lines.last().unwrap()["outcome"], "cancelled");
    child.wait().unwrap();
}

#[tokio::test]
async fn a_run_that_may_not_be_resumed_is_never_parked_as_offline() {
    let Some(yard) = Yard::of(Player::Codex) else { return };
    let ((_vendor, vendor), (_gateway, gateway)) = (dead_end(), dead_end());
    configure(Player::Codex, &yard.at("home"), gateway);
    let args = ["--max-resumes", "0", "--max-wait", "10s"];
    let output = by_a_person(&yard, Player::Codex, &args, vendor).output().unwrap();
    let ended = Ended::of(output);
    ended.ends("agent_failed", 10);
    assert_eq!(ended.with("kind", "parked").count(), 0, "{:#?}", ended.lines);
}
