//! A door with a route, and a client that says exactly what a test wants said.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_agent::artifact::Kinds;
use ostler_bridge::capability::{parse, usual};
use ostler_bridge::door::{Door, Doorkeeper};
use ostler_bridge::event::BridgeEvent;
use ostler_bridge::route::{Route, Terms};
use ostler_bridge::tools::Programs;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes on the slowest machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) const RUN: &str = "0199a0b1-run";

/// A `plan` that passes.
pub(crate) const PLAN: &str = "# Plan\n\n## Goal\nLess.\n\n## Steps\n1. One.\n\n## Checks\n- It is quiet.\n";

/// An open door that is being served.
pub(crate) struct Ground {
    pub(crate) folder: TempDir,
    pub(crate) keeper: Doorkeeper,
    pub(crate) port: u16,
    _tasks: JoinSet<()>,
}

impl Ground {
    pub(crate) async fn new() -> Self {
        let door = Door::open().await.unwrap();
        let (keeper, port) = (door.keeper(), door.address().port());
        let mut tasks = JoinSet::new();
        tasks.spawn(door.serve(CancellationToken::new()));
        Self { folder: tempfile::tempdir().unwrap(), keeper, port, _tasks: tasks }
    }

    pub(crate) fn terms(&self, run: &str) -> Terms {
        let folder = self.folder.path().join(run);
        let workspace = self.folder.path().join("workspace");
        for folder in [&folder, &workspace] {
            std::fs::create_dir_all(folder).unwrap();
        }
        Terms {
            run: run.to_owned(),
            attempt: 1,
            folder,
            workspace,
            capabilities: usual(),
            kinds: Kinds::built_in().unwrap(),
            required: Vec::new(),
            prompt: "Make it quiet.".to_owned(),
            head: None,
            upstreams: Vec::new(),
            programs: None,
            memory: None,
        }
    }

    /// A run that must hand over a plan, and its agent's client.
    pub(crate) fn run(&self) -> (Route, Events, Guest) {
        let terms = Terms { required: vec!["plan".to_owned()], ..self.terms(RUN) };
        let (route, events) = self.keeper.admit(terms).unwrap();
        let guest = Guest::of(&route);
        (route, Events(events), guest)
    }

    /// A run whose agent works by these capabilities, with programs if they can be run.
    pub(crate) fn works(&self, run: &str, capabilities: &str) -> (Route, Events, Guest) {
        self.works_with(run, capabilities, self.programs())
    }

    pub(crate) fn works_with(
        &self,
        run: &str,
        capabilities: &str,
        programs: Programs,
    ) -> (Route, Events, Guest) {
        let capabilities = parse(capabilities).unwrap();
        let terms = Terms { capabilities, programs: Some(programs), ..self.terms(run) };
        let (route, events) = self.keeper.admit(terms).unwrap();
        let guest = Guest::of(&route);
        (route, Events(events), guest)
    }

    pub(crate) fn programs(&self) -> Programs {
        let env = [
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), self.folder.path().into()),
        ];
        Programs::new(guard(), env.to_vec())
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        let workspace = self.folder.path().join("workspace");
        std::fs::create_dir_all(&workspace).unwrap();
        workspace
    }

    /// Puts a file into the workspace.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.workspace().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(RUN).join(path)).unwrap()
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        Path::exists(&self.folder.path().join(RUN).join(path))
    }
}

/// Our own binary, which is built beside the tests: it is what contains a program.
pub(crate) fn guard() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let guard = tests.parent().and_then(Path::parent).unwrap().join("ostler");
    assert!(guard.is_file(), "{} is not there: `cargo build --workspace --bins` makes it", guard.display());
    guard
}

/// The run's side of the events.
pub(crate) struct Events(pub(crate) Receiver<BridgeEvent>);

impl Events {
    /// The next event that `wanted` takes. Others before it are passed over.
    pub(crate) async fn find<T>(&mut self, wanted: impl Fn(BridgeEvent) -> Option<T>) -> T {
        let finding = async {
            loop {
                let event = self.0.recv().await.expect("the route is open");
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
        };
        tokio::time::timeout(DEADLINE, finding).await.expect("the event comes")
    }

    /// What was told so far.
    pub(crate) fn all(&mut self) -> Vec<BridgeEvent> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

/// A client that sends what it is told to.
#[derive(Clone)]
pub(crate) struct Guest {
    pub(crate) http: reqwest::Client,
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    pub(crate) text: String,
}

impl Reply {
    /// The last message of the answer, be it plain or a stream of events.
    pub(crate) fn message(&self) -> Value {
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data:")).next_back();
        serde_json::from_str(data.unwrap_or(&self.text)).unwrap_or_else(|_| panic!("no message: {self:?}"))
    }

    /// What a tool said: `ok: …` or `failed: …`.
    pub(crate) fn said(&self) -> String {
        let message = self.message();
        let result = &message["result"];
        let failed = result["isError"].as_bool().unwrap_or_else(|| panic!("no result of a tool: {message}"));
        let texts = result["content"].as_array().unwrap().iter().map(|part| part["text"].as_str().unwrap());
        let texts: Vec<&str> = texts.collect();
        format!("{}: {}", if failed { "failed" } else { "ok" }, texts.join(" | "))
    }
}

impl Guest {
    pub(crate) fn of(route: &Route) -> Self {
        let http = client();
        let headers = vec![("mcp-protocol-version", "2025-06-18".to_owned())];
        Self { http, url: route.url().to_owned(), token: route.token().reveal().to_owned(), headers }
    }

    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut guest = self.clone();
        guest.headers.push((name, value.to_owned()));
        guest
    }

    pub(crate) async fn post(&self, body: impl Into<reqwest::Body>) -> Reply {
        let mut request = self
            .http
            .post(&self.url)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .timeout(DEADLINE)
            .body(body);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let session = answer.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        Reply { status, session, text: answer.text().await.unwrap() }
    }

    pub(crate) async fn send(&self, method: &str, params: Value) -> Reply {
        self.post(json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()).await
    }

    pub(crate) async fn greet(&self, version: &str) -> Reply {
        let client = json!({ "name": "guest", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let mut guest = self.clone();
        guest.headers.retain(|(name, _)| *name != "mcp-protocol-version");
        guest.send("initialize", params).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.send("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// What a tool said to a call.
    pub(crate) async fn says(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.said()
    }

    pub(crate) async fn tools(&self) -> Vec<String> {
        let message = self.send("tools/list", json!({})).await.message();
        let tools = message["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools: {message}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// A client of its own, with connections of its own.
pub(crate) fn client() -> reqwest::Client {
    // Without one no client is made, not even for plain HTTP. That it is there already is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}
