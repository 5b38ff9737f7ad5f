//! Keys of tenants, tried by a hostile script from inside a session: nothing of the owner and of other keys reaches it, not
//! even the provider's key, which a proxy outside adds. The owner has Ostler's memory, and all work in one directory.

mod key_memory;
mod links;
mod mentions;
mod refusals;

use std::fs;

use serde_json::{Value, json};

use super::RealShape;
use super::provider::Provider;
use crate::player::Player;
use crate::serve::{Client, Served};
use crate::tap::Tap;

/// The owner's key for the provider.
const OWNERS_KEY: &str = "sk-of-the-owner-81f2";

/// What each of them says, and nobody else may learn.
const OWNERS_WORD: &str = "obsidian-3390";
const WORDS: [&str; 2] = ["amber-7311", "beryl-4242"];

/// A fact in the owner's memory.
const REMEMBERED: &str = "The harbour code is jade-harbour-5580.";

/// What the script prints where it reached something in the network that is not the tenant's.
const REACHED: &str = "REACHED-the-network";

/// Looks for what is not the tenant's. `TOP` is the directory of the test, `PATTERN` what to look for, written so that it
/// does not match itself.
const LOOK_AROUND: &str = r#"
found=found.txt
touch $found 2>/dev/null || found="$HOME/found.txt"
exec > "$found" 2>&1
env | sort
cat "$HOME/opencode.json"
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n'
ls -l /proc/[0-9]*/cwd/ /proc/[0-9]*/fd/ /proc/[0-9]*/"root"/TOP/home/ /proc/[0-9]*/"root"/TOP/ostler/ 2>/dev/null
cat /proc/[0-9]*/"root"/TOP/ostler/keys.json /proc/[0-9]*/"root"/TOP/home/.claude/settings.json 2>/dev/null
ls -laR TOP/home TOP/ostler TOP/caller 2>/dev/null
cat TOP/home/.claude/settings.json TOP/home/.claude.json TOP/home/.codex/* TOP/home/.config/opencode/* 2>/dev/null
cat TOP/ostler/keys.json TOP/ostler/config.toml TOP/ostler/memory/* TOP/ostler/serve/*/* TOP/ostler/serve/*/*/* 2>/dev/null
find TOP -type f -exec grep -aHe 'PATTERN' {} + 2>/dev/null
EVERYWHERE
for url in "http://$(cat server-address)/healthz" https://elsewhere.example/ http://elsewhere.example/; do
    curl -sSf -m 10 "$url" && echo REACHED"-the-network" by the proxy: $url
    curl -sSf -m 10 --noproxy "*" "$url" && echo REACHED"-the-network" by itself: $url
done
OSTLER memory recall harbour
OSTLER_HOME=TOP/ostler OSTLER memory recall harbour
echo end of attempts
"#;

/// Where else such a thing could lie. It takes long where nothing keeps the script from it.
const EVERYWHERE: &str = "grep -raIse 'PATTERN' /tmp /var/tmp /home /root /run /dev/shm /etc 2>/dev/null";

/// A server with two tenants and its owner, all in one directory.
struct Tenancy {
    shape: RealShape,
    tap: Tap,
    served: Served,
    /// Of the tenants.
    keys: [String; 2],
    owner: String,
    _provider: Provider,
}

/// A model that has the script executed, and otherwise repeats what was said.
fn script() -> String {
    let look = json!({"tool_by_role": "shell", "command": "sh ./look-around.sh"});
    let steps = [
        json!({"expect": {"contains": "Look around."}, "reply": [look]}),
        json!({"reply": [{"text": "Looked."}]}),
    ];
    let plant = json!({"tool_by_role": "shell", "command": "sh ./plant.sh"});
    let planting = [
        json!({"expect": {"contains": "Plant links."}, "reply": [plant]}),
        json!({"reply": [{"text": "Planted."}]}),
    ];
    let others = [json!({"reply": [{"text": "You said: {{prompt}}"}]})];
    let conversations = [
        json!({"name": "look", "step": steps}),
        json!({"name": "plant", "step": planting}),
        json!({"name": "others", "step": others}),
    ];
    json!({"v": 1, "conversation": conversations}).to_string()
}

/// The agent's configuration in the owner's home, with the owner's key in it.
fn configure(shape: &RealShape, url: &str) {
    shape.configure(url);
    let home = shape.at("home");
    let replace = |path: &str, from: &str, to: &str| {
        let text = fs::read_to_string(home.join(path)).unwrap();
        assert!(text.contains(from), "{path}: {text}");
        fs::write(home.join(path), text.replace(from, to)).unwrap();
    };
    match shape.player.agent().package().slot {
        "claude" => replace(".claude/settings.json", "\"dummy\"", &format!("{OWNERS_KEY:?}")),
        "opencode" => replace(".config/opencode/opencode.json", "\"dummy\"", &format!("{OWNERS_KEY:?}")),
        _ => {
            let base = "name = \"own\"\n";
            let key = format!("{base}experimental_bearer_token = {OWNERS_KEY:?}\n");
            replace(".codex/config.toml", base, &key);
        }
    }
}

impl Tenancy {
    async fn start(player: Player, level: &'static str) -> Option<Self> {
        Self::with(player, level, |shape| shape).await
    }

    /// With something changed before the server starts.
    async fn with(
        player: Player,
        level: &'static str,
        change: impl FnOnce(RealShape) -> RealShape,
    ) -> Option<Self> {
        // Codex finds its own sandbox only where it is installed, which another user cannot read.
        let shape = match player {
            Player::Codex => RealShape::of(player),
            _ => RealShape::unprivileged(player),
        }?;
        let provider = Provider::start(&script());
        let tap = Tap::before(&provider.url).await;
        configure(&shape, &tap.url);
        let shape = change(shape);
        write_script(&shape, EVERYWHERE);
        let made = tokio::task::spawn_blocking(move || {
            let slot = shape.player.agent().package().slot;
            let output =
                |args: &[&str]| assert!(shape.ostler(args).output().unwrap().status.success(), "{args:?}");
            output(&["memory", "hooks", "install", "--target", slot]);
            output(&["memory", "remember", REMEMBERED]);
            let folder = shape.workspace().display().to_string();
            let scopes = ["chat", "sessions:read", "sessions:write", "terminal:view"];
            let mut args: Vec<&str> = scopes.iter().flat_map(|scope| ["--scope", scope]).collect();
            args.extend(["--folder", &folder, "--permissions", level]);
            let keys = [shape.make_key(&args), shape.make_key(&args)];
            let owner = shape.make_key(&[&args[..], &["--owner"]].concat());
            let served = shape.serve_again(&owner);
            fs::write(shape.workspace().join("server-address"), &served.address).unwrap();
            (shape, served, keys, owner)
        });
        let (shape, served, keys, owner) = made.await.unwrap();
        Some(Self { shape, tap, served, keys, owner, _provider: provider })
    }

    fn model(&self) -> &'static str {
        self.shape.player.agent().package().slot
    }

    /// A native session in the shared directory.
    fn open(&self, client: Client<'_>, engine: &str) -> String {
        let wanted = json!({"model": self.model(), "engine": engine, "cwd": self.shape.workspace()});
        let (status, body) = client.post("/api/v1/sessions", "", &wanted);
        assert_eq!(status, 201, "{body}");
        let session: Value = serde_json::from_str(&body).unwrap();
        format!("/api/v1/sessions/{}", session["id"].as_str().unwrap())
    }

    /// Says this in each of the providers' APIs.
    fn say_everywhere(&self, client: Client<'_>, engine: &str, text: &str) {
        let folder = self.shape.workspace();
        let folder = format!("x-ostler-cwd: {}\r\nx-ostler-engine: {engine}\r\n", folder.display());
        let messages = json!([{"role": "user", "content": text}]);
        let model = self.model();
        for (path, body) in [
            ("/v1/messages", json!({"model": model, "max_tokens": 64, "messages": messages})),
            ("/v1/chat/completions", json!({"model": model, "messages": messages})),
            ("/v1/responses", json!({"model": model, "input": text})),
        ] {
            let (status, body) = client.post(path, &folder, &body);
            assert_eq!(status, 200, "{path}: {body}");
        }
    }

    /// A client's files in the workspace, where the script puts what it finds.
    fn ask(&self, client: Client<'_>, path: &str, text: &str) -> String {
        let (status, body) = client.post(&format!("{path}/turns"), "", &json!({"text": text, "wait": true}));
        assert_eq!(status, 200, "{body}");
        let turn: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(turn["state"], "done", "{body}");
        turn["text"].as_str().unwrap().to_owned()
    }
}

/// What of this may not be in `text`.
fn assert_lacks(text: &str, secrets: &[&str], whose: &str) {
    for secret in secrets {
        if let Some(at) = text.find(secret) {
            let (from, to) = (at.saturating_sub(200), (at + 200).min(text.len()));
            let near = String::from_utf8_lossy(&text.as_bytes()[from..to]);
            panic!("{whose} learns `{secret}`: …{near}…");
        }
    }
}

fn write_script(shape: &RealShape, everywhere: &str) {
    let words = WORDS.iter().chain([&OWNERS_WORD, &OWNERS_KEY]);
    let pattern: Vec<String> =
        words.map(|word| format!("{}[{}]{}", &word[..2], &word[2..3], &word[3..])).collect();
    let script = LOOK_AROUND
        .replace("EVERYWHERE", everywhere)
        .replace("OSTLER ", &format!("{} ", shape.programs.ostler.display()))
        .replace("TOP", &shape.folder.path().display().to_string())
        .replace("PATTERN", &pattern.join("\\|"));
    fs::write(shape.workspace().join("look-around.sh"), script).unwrap();
}

/// What the script found, which ran: in the workspace or in the home of a tenant.
fn take_found(shape: &RealShape) -> String {
    let homes = shape.names("ostler/serve/tenants").into_iter();
    let homes = homes.map(|id| shape.at("ostler/serve/tenants").join(id).join("home"));
    let mut places = [shape.workspace()].into_iter().chain(homes);
    let found = places.find_map(|place| {
        let path = place.join("found.txt");
        let content = fs::read(&path).ok()?;
        fs::remove_file(path).unwrap();
        Some(content)
    });
    String::from_utf8_lossy(&found.unwrap()).into_owned()
}

/// The script finds all of it where it may, as it may for the owner: for a tenant it is not there.
fn look_around_as_owner(tenancy: &Tenancy, engine: &str, level: &str) {
    let expected: &[&str] = match level {
        "deny" => return,
        "edits" => &[OWNERS_KEY],
        _ => &[OWNERS_KEY, WORDS[0], WORDS[1], REMEMBERED, REACHED],
    };
    // Without what takes long where nothing keeps the script from it.
    write_script(&tenancy.shape, "");
    let owner = tenancy.served.client(&tenancy.owner);
    let path = tenancy.open(owner, engine);
    assert!(tenancy.ask(owner, &path, "Look around.").contains("Looked."));
    let text = take_found(&tenancy.shape);
    for secret in expected {
        assert!(text.contains(secret), "the owner's script does not find `{secret}`: {text}");
    }
}

fn look_around(tenancy: &Tenancy, engine: &str) {
    let clients = [&tenancy.keys[0], &tenancy.keys[1], &tenancy.owner].map(|key| tenancy.served.client(key));
    let words = [WORDS[0], WORDS[1], OWNERS_WORD];
    let sessions: Vec<String> = clients.iter().map(|client| tenancy.open(*client, engine)).collect();
    for ((client, session), word) in clients.iter().zip(&sessions).zip(words) {
        let text = format!("Remember {word}.");
        assert!(tenancy.ask(*client, session, &text).contains(word));
        tenancy.say_everywhere(*client, engine, &text);
    }
    for (number, client) in clients[..2].iter().enumerate() {
        let before = tenancy.tap.requests().len();
        let path = tenancy.open(*client, engine);
        assert!(tenancy.ask(*client, &path, "Look around.").contains("Looked."));
        let text = take_found(&tenancy.shape);
        assert!(text.contains("end of attempts") && text.contains("ostler-placeholder-"), "{text}");
        let requests = tenancy.tap.requests();
        let others: Vec<&str> = words.into_iter().filter(|word| *word != words[number]).collect();
        let secrets = [&others[..], &[OWNERS_KEY, REMEMBERED, "jade-harbour-5580", REACHED]].concat();
        assert_lacks(&text, &secrets, &format!("the script of tenant {number}"));
        for asked in &requests[before..] {
            assert_lacks(&asked.body.to_string(), &secrets, &format!("tenant {number}"));
        }
        if engine == "terminal" {
            let (status, screen) = client.get(&format!("{path}/screen"));
            assert!(status == 200 && screen.contains("Looked."), "{status} {screen}");
            assert_lacks(&screen, &secrets, &format!("tenant {number}, by its screen,"));
        }
        let listed = client.get("/api/v1/sessions").1;
        for (other, session) in sessions.iter().enumerate().filter(|(other, _)| *other != number) {
            assert!(!listed.contains(session.rsplit('/').next().unwrap()), "{listed}");
            for path in ["", "/transcript", "/events", "/screen", "/terminal"] {
                let (status, body) = client.get(&format!("{session}{path}"));
                assert!([403, 404].contains(&status), "{other}{path}: {status} {body}");
            }
        }
    }
}

async fn nothing_of_one_reaches_another(player: Player, engine: &'static str, level: &'static str) {
    let Some(tenancy) = Tenancy::start(player, level).await else { return };
    let tenancy = tokio::task::spawn_blocking(move || {
        look_around(&tenancy, engine);
        look_around_as_owner(&tenancy, engine, level);
        tenancy
    });
    let tenancy = tenancy.await.unwrap();
    let requests = tenancy.tap.requests();
    assert!(requests.iter().all(|asked| asked.head.contains(OWNERS_KEY)), "the proxy adds the owner's key");
    let Tenancy { shape, served, .. } = tenancy;
    let exit = tokio::task::spawn_blocking(move || {
        let exit = served.interrupt();
        let stored = shape.ostler(&["memory", "export"]).output().unwrap();
        let stored = String::from_utf8(stored.stdout).unwrap();
        assert!(stored.contains(REMEMBERED), "{stored}");
        assert_lacks(&stored, &[WORDS[0], WORDS[1]], "the owner's memory");
        // What the agents of tenants wrote down is in their own homes, and nowhere in the owner's.
        let found = std::process::Command::new("grep")
            .args(["-rlaE", &WORDS.join("|")])
            .arg(shape.at("home"))
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "tenants are in the owner's home");
        shape.is_empty();
        exit
    });
    assert_eq!(exit.await.unwrap(), Some(0));
}

#[tokio::test]
async fn claude() {
    nothing_of_one_reaches_another(Player::ClaudeStream, "stream", "edits").await;
}

#[tokio::test]
async fn claude_at_all() {
    nothing_of_one_reaches_another(Player::ClaudeStream, "stream", "all").await;
}

#[tokio::test]
async fn claude_on_a_terminal() {
    nothing_of_one_reaches_another(Player::ClaudeTerminal, "terminal", "edits").await;
}

#[tokio::test]
async fn claude_on_a_terminal_at_all() {
    nothing_of_one_reaches_another(Player::ClaudeTerminal, "terminal", "all").await;
}

#[tokio::test]
async fn codex() {
    nothing_of_one_reaches_another(Player::Codex, "stream", "edits").await;
}

#[tokio::test]
async fn codex_at_deny() {
    nothing_of_one_reaches_another(Player::Codex, "stream", "deny").await;
}

#[tokio::test]
async fn codex_at_all() {
    nothing_of_one_reaches_another(Player::Codex, "stream", "all").await;
}

#[tokio::test]
async fn opencode() {
    nothing_of_one_reaches_another(Player::OpenCode, "stream", "edits").await;
}

#[tokio::test]
async fn opencode_at_all() {
    nothing_of_one_reaches_another(Player::OpenCode, "stream", "all").await;
}
