//! What jailed agents reach in the network, tried by the commands that the model has them execute.

mod registry;

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::sign_in::vendor::Vendor;
use super::{DECLARES, RealShape};
use crate::player::Player;
use crate::yard::{Ended, ended};
use registry::Registry;

/// A model that has a script executed and then stops.
const SCRIPT: &str = r#"
[[conversation]]
[[conversation.step]]
reply = [{ tool_by_role = "shell", command = "sh ./reach.sh > reached.txt 2>&1" }]
[[conversation.step]]
reply = [{ text = "Done." }]
"#;

/// A service on this machine that a jailed agent has no business with. It counts who comes.
pub(super) struct Service {
    pub(super) port: u16,
    visits: Arc<AtomicUsize>,
}

impl Service {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let visits = Arc::<AtomicUsize>::default();
        let counted = visits.clone();
        // Ends with the process of the tests.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nsecret");
            }
        });
        Self { port, visits }
    }

    pub(super) fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

/// Tries to reach what is not the provider, by the proxy and around it.
fn reach(service: u16) -> String {
    format!(
        "curl -sS -m 20 https://elsewhere.example/; echo \"https $?\"\n\
         curl -sS -m 20 http://elsewhere.example/; echo \"http $?\"\n\
         curl -sS -m 20 --noproxy '*' http://127.0.0.1:{service}/; echo \"port $?\"\n\
         curl -sS -m 20 --noproxy '' http://127.0.0.1:{service}/; echo \"proxied $?\"\n\
         curl -sS -m 20 --noproxy '*' http://192.0.2.1/; echo \"address $?\"\n\
         curl -sS -m 20 --noproxy '*' http://by-itself.example/; echo \"name $?\"\n"
    )
}

fn text_of(shape: &RealShape) -> String {
    fs::read_to_string(shape.workspace().join("reached.txt")).unwrap()
}

/// The hosts that a run reports as denied, each with what opens it.
fn denied(ended: &Ended) -> Vec<(String, String)> {
    let outcome = ended.outcome();
    let all = outcome["denials"].as_array().unwrap().iter();
    let text = |denial: &Value, name: &str| denial[name].as_str().unwrap_or_default().to_owned();
    all.map(|denial| (text(denial, "host"), text(denial, "opens"))).collect()
}

fn only_the_provider_is_reached(player: Player) {
    let Some(shape) = RealShape::unprivileged(player) else { return };
    let service = Service::start();
    fs::write(shape.workspace().join("reach.sh"), reach(service.port)).unwrap();
    let ended = shape.run(&["--permissions", "edits", "Do it."], SCRIPT);
    ended.ends("completed", 0);
    assert_eq!(ended.outcome()["jail"]["net"], "provider");
    let text = text_of(&shape);
    for (tried, code) in
        [("https", "56"), ("http", "0"), ("port", "7"), ("proxied", "0"), ("address", "7"), ("name", "6")]
    {
        assert!(text.contains(&format!("{tried} {code}\n")), "{tried}: {text}");
    }
    assert!(
        text.contains("the jail does not permit elsewhere.example:80; --net hosts=elsewhere.example does")
    );
    assert!(!text.contains("secret") && service.visits() == 0, "{text}");
    let hosts: Vec<&Value> = ended.lines.iter().filter(|event| event["kind"] == "host").collect();
    for host in ["elsewhere.example:443", "elsewhere.example:80"] {
        let event = hosts.iter().find(|event| event["host"] == host).unwrap();
        assert_eq!(
            (&event["verdict"], &event["opens"]),
            (&json!("denied"), &json!("--net hosts=elsewhere.example"))
        );
    }
    let denied = denied(&ended);
    let is_denied = |host: &str, opens: &str| denied.contains(&(host.to_owned(), opens.to_owned()));
    assert!(is_denied("elsewhere.example:443", "--net hosts=elsewhere.example"), "{denied:?}");
    assert!(is_denied(
        &format!("127.0.0.1:{}", service.port),
        &format!("--net hosts=127.0.0.1:{}", service.port)
    ));
    shape.is_empty();
}

#[test]
fn claude_reaches_only_the_provider() {
    only_the_provider_is_reached(Player::ClaudeStream);
}

#[test]
fn claude_on_a_terminal_reaches_only_the_provider() {
    only_the_provider_is_reached(Player::ClaudeTerminal);
}

#[test]
fn codex_reaches_only_the_provider() {
    only_the_provider_is_reached(Player::Codex);
}

#[test]
fn opencode_reaches_only_the_provider() {
    only_the_provider_is_reached(Player::OpenCode);
}

/// A port of this machine that the user permits is reached, and with `all` every one.
#[test]
fn a_permitted_port_is_reached() {
    let service = Service::start();
    for net in [format!("hosts=localhost:{}", service.port), "all".to_owned()] {
        let Some(shape) = RealShape::unprivileged(Player::Codex) else { return };
        fs::write(shape.workspace().join("reach.sh"), reach(service.port)).unwrap();
        let before = service.visits();
        let ended = shape.run(&["--permissions", "edits", "--net", &net, "Do it."], SCRIPT);
        ended.ends("completed", 0);
        assert_eq!(ended.outcome()["jail"]["net"], json!(net));
        assert!(text_of(&shape).contains("secret") && service.visits() > before, "{net}");
    }
}

/// An https provider that is known by its name only to the proxy of the user.
fn a_provider_by_name_is_reached(player: Player) {
    let Some(shape) = RealShape::unprivileged(player) else { return };
    let provider = shape.play(DECLARES);
    let vendor = Vendor::start(&provider.url);
    shape.configure("https://models.example");
    let authority = shape.workspace().join("authority.pem");
    fs::write(&authority, &vendor.authority).unwrap();
    let authority = authority.display().to_string();
    let shape = shape.with_bridge().variable("HTTPS_PROXY", &vendor.proxy);
    let shape = shape.variable("NODE_EXTRA_CA_CERTS", &authority).variable("SSL_CERT_FILE", &authority);
    let ended = Ended::of(ended(shape.start(&["Declare it."])));
    ended.ends("completed", 0);
    let is_allowed = |event: &&Value| event["host"] == "models.example:443" && event["verdict"] == "allowed";
    assert_eq!(ended.lines.iter().filter(is_allowed).count(), 1, "{:?}", denied(&ended));
    shape.is_empty();
}

#[test]
fn claude_reaches_a_provider_by_its_name() {
    a_provider_by_name_is_reached(Player::ClaudeStream);
}

#[test]
fn claude_on_a_terminal_reaches_a_provider_by_its_name() {
    a_provider_by_name_is_reached(Player::ClaudeTerminal);
}

#[test]
fn codex_reaches_a_provider_by_its_name() {
    a_provider_by_name_is_reached(Player::Codex);
}

#[test]
fn opencode_reaches_a_provider_by_its_name() {
    a_provider_by_name_is_reached(Player::OpenCode);
}

/// `npm ci` downloads from a registry that is permitted, by the proxy of the user; and fails with a sentence if it is not.
#[test]
fn packages_are_installed_from_a_permitted_registry() {
    for (net, is_permitted) in [("hosts=registry.example", true), ("provider", false)] {
        let Some(shape) = RealShape::unprivileged(Player::ClaudeStream) else { return };
        let registry = Registry::start(&shape.at("before"));
        let app = shape.workspace();
        fs::write(
            app.join("package.json"),
            r#"{"name": "app", "version": "1.0.0", "dependencies": {"tiny": "1.0.0"}}"#,
        )
        .unwrap();
        fs::write(app.join("package-lock.json"), registry.lock().to_string()).unwrap();
        let command = "npm ci --no-audit --no-fund --fetch-retries=0 --registry=http://registry.example/";
        fs::write(app.join("reach.sh"), format!("{command}; echo \"npm $?\"\n")).unwrap();
        let shape = shape.variable("HTTP_PROXY", &registry.proxy);
        let ended = shape.run(&["--permissions", "edits", "--net", net, "Do it."], SCRIPT);
        ended.ends("completed", 0);
        let text = text_of(&shape);
        assert_eq!(text.contains("npm 0"), is_permitted, "{net}: {text}");
        assert_eq!(app.join("node_modules/tiny/index.js").exists(), is_permitted);
        let denied = denied(&ended);
        let expected = ("registry.example:80".to_owned(), "--net hosts=registry.example".to_owned());
        assert_eq!(denied.contains(&expected), !is_permitted, "{denied:?}");
    }
}

/// What the host executes for a run has the same network.
#[test]
fn checks_reach_only_the_provider() {
    let Some(shape) = RealShape::unprivileged(Player::Codex) else { return };
    let service = Service::start();
    let check = format!("curl -sS -m 20 http://127.0.0.1:{}/", service.port);
    let ended = shape.with_bridge().run(&["--max-resumes", "0", "--check", &check, "Do it."], DECLARES);
    ended.ends("incomplete", 11);
    assert_eq!(service.visits(), 0);
}

/// An MCP server that wants to download something says which host it needs.
#[test]
fn an_mcp_server_that_needs_a_host_is_refused_with_what_opens_it() {
    let Some(shape) = RealShape::unprivileged(Player::Codex) else { return };
    let server = "sh -c 'curl -sS https://registry.example/ >&2; exit 1'";
    let server = format!("clock={server}");
    let ended = shape.with_bridge().run(&["--mcp", &server, "Do it."], DECLARES);
    ended.ends("never_started", 14);
    let outcome = ended.outcome().to_string();
    assert!(
        outcome.contains("registry.example:443") && outcome.contains("--net hosts=registry.example"),
        "{outcome}"
    );
}

/// A level that cannot be enforced is refused with what helps.
#[test]
fn a_network_without_a_jail_is_refused() {
    let Some(shape) = RealShape::of(Player::Codex) else { return };
    for args in
        [["--net", "provider", "--permissions", "all"], ["--net", "hosts=a.example", "--permissions", "all"]]
    {
        let mut command = shape.ostler(&["run", "-a", "codex"]);
        let output = command.args(args).arg("Do it.").stderr(std::process::Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("needs a jail") && error.contains("without --no-jail"), "{error}");
    }
}

/// Claude Code would use the proxy that its own settings name, which the jail does not have.
#[test]
fn a_proxy_in_the_settings_of_the_agent_is_refused() {
    let Some(shape) = RealShape::of(Player::ClaudeStream) else { return };
    let _provider = shape.play(SCRIPT);
    let settings = json!({"env": {"HTTPS_PROXY": "http://proxy.example:3128"}});
    fs::write(shape.at("home/.claude/settings.json"), settings.to_string()).unwrap();
    let mut command = shape.ostler(&["run", "-a", "claude-headless", "Do it."]);
    let output = command.stderr(std::process::Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("settings.json names (HTTPS_PROXY)") && error.contains("--net all"), "{error}");
}
