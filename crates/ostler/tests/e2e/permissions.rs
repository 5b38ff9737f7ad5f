//! What `--permissions` keeps the real agents from, tried in every way that a model has: in the jail that a run has, and
//! without it, by what agents refuse by themselves. What is proven here is told to operators in `docs/permissions.md`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::player::Player;
use crate::real_shape::RealShape;
use crate::yard::{Ended, Yard};

/// Something that a model tries.
enum Try {
    Write(&'static str),
    /// Agents want to have read what they edit.
    Read(&'static str),
    Edit(&'static str),
    Shell(&'static str),
}

/// Every way into the workspace, and every way out of it. In the workspace are the file `seed.txt`, the link `door` to a
/// folder outside, and the link `window` to a file in there. `WORKSPACE` and `OUTSIDE` stand for absolute paths.
const TRIES: [Try; 19] = [
    Try::Write("WORKSPACE/in-write"),
    Try::Read("WORKSPACE/seed.txt"),
    Try::Edit("WORKSPACE/seed.txt"),
    Try::Shell("echo x > in-redirect"),
    Try::Shell("touch in-touch"),
    Try::Shell("sort -o in-sort seed.txt"),
    Try::Shell("find . -name seed.txt -fprint in-find"),
    Try::Shell("sh -c 'echo x > in-shell'"),
    Try::Write("OUTSIDE/write"),
    Try::Write("WORKSPACE/../outside/dots"),
    Try::Write("WORKSPACE/door/write-door"),
    Try::Read("WORKSPACE/window"),
    Try::Edit("WORKSPACE/window"),
    Try::Shell("echo x > OUTSIDE/redirect"),
    Try::Shell("echo x > ../outside/redirect-dots"),
    Try::Shell("echo x > door/redirect-door"),
    Try::Shell("cd OUTSIDE && touch touch-cd"),
    Try::Shell("cp seed.txt door/copy-door"),
    Try::Shell("ln -s OUTSIDE hole && echo x > hole/redirect-hole"),
];

/// What came of the tries.
#[derive(Debug, PartialEq)]
struct Came {
    inside: Vec<String>,
    outside: Vec<String>,
}

fn came(inside: &[&str], outside: &[&str]) -> Came {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Came { inside: owned(inside), outside: owned(outside) }
}

/// All of it, however the agent writes.
const IN_ALL: [&str; 7] =
    ["in-find", "in-redirect", "in-shell", "in-sort", "in-touch", "in-write", "seed.txt"];
const OUT_ALL: [&str; 8] =
    ["copy-door", "dots", "redirect", "redirect-dots", "redirect-door", "redirect-hole", "touch-cd", "write"];

/// Where a model tries, and how it is asked to: in a rehearsal, or with the user's own configuration.
trait Ground {
    fn at(&self, name: &str) -> PathBuf;
    fn workspace(&self) -> PathBuf;
    /// Runs a script with these arguments and a prompt.
    fn run(&self, args: &[&str], script: &str) -> Ended;
    /// Fails if a process is left.
    fn is_empty(&self);
}

impl Ground for Yard {
    fn at(&self, name: &str) -> PathBuf {
        Self::at(self, name)
    }
    fn workspace(&self) -> PathBuf {
        Self::workspace(self)
    }
    fn run(&self, args: &[&str], script: &str) -> Ended {
        let path = Self::at(self, "script.json");
        fs::write(&path, script).unwrap();
        let rehearse = format!("--rehearse={}", path.display());
        Self::run(self, &[&[&*rehearse], args].concat())
    }
    fn is_empty(&self) {
        Self::is_empty(self);
    }
}

impl Ground for RealShape {
    fn at(&self, name: &str) -> PathBuf {
        Self::at(self, name)
    }
    fn workspace(&self) -> PathBuf {
        Self::workspace(self)
    }
    fn run(&self, args: &[&str], script: &str) -> Ended {
        Self::run(self, args, script)
    }
    fn is_empty(&self) {
        Self::is_empty(self);
    }
}

impl Try {
    /// The call that a model makes for it.
    fn call(&self, player: Player, ground: &dyn Ground) -> Value {
        let full = |text: &str| {
            let text = text.replace("WORKSPACE", &ground.workspace().display().to_string());
            text.replace("OUTSIDE", &ground.at("outside").display().to_string())
        };
        let tool = |name: &str, arguments: Value| json!({"tool": name, "arguments": arguments});
        let patch = |body: String| json!({"tool": "apply_patch", "input": format!("*** Begin Patch\n{body}\n*** End Patch")});
        match (player, self) {
            (Player::Codex, Self::Write(path)) => patch(format!("*** Add File: {}\n+x", full(path))),
            (Player::Codex, Self::Edit(path)) => {
                patch(format!("*** Update File: {}\n@@\n-seed\n+changed", full(path)))
            }
            (Player::Codex, Self::Read(path)) => {
                tool("exec_command", json!({"cmd": format!("cat {}", full(path))}))
            }
            (Player::Codex, Self::Shell(command)) => tool("exec_command", json!({"cmd": full(command)})),
            (Player::OpenCode, Self::Write(path)) => {
                tool("write", json!({"filePath": full(path), "content": "x\n"}))
            }
            (Player::OpenCode, Self::Read(path)) => tool("read", json!({"filePath": full(path)})),
            (Player::OpenCode, Self::Edit(path)) => {
                let words = ("seed", "changed");
                tool("edit", json!({"filePath": full(path), "oldString": words.0, "newString": words.1}))
            }
            (Player::OpenCode, Self::Shell(command)) => {
                tool("bash", json!({"command": full(command), "description": "Try it"}))
            }
            (_, Self::Write(path)) => tool("Write", json!({"file_path": full(path), "content": "x\n"})),
            (_, Self::Read(path)) => tool("Read", json!({"file_path": full(path)})),
            (_, Self::Edit(path)) => {
                let words = ("seed", "changed");
                tool("Edit", json!({"file_path": full(path), "old_string": words.0, "new_string": words.1}))
            }
            (_, Self::Shell(command)) => {
                tool("Bash", json!({"command": full(command), "description": "Try it"}))
            }
        }
    }
}

/// A script of calls, one after the other, whatever comes of them. Written as JSON, which is a format of scripts too.
fn script(calls: &[Value]) -> String {
    let mut steps: Vec<Value> = calls.iter().map(|call| json!({"reply": [call]})).collect();
    steps.push(json!({"reply": [{"text": "I tried."}]}));
    json!({"v": 1, "conversation": [{"step": steps}]}).to_string()
}

/// Tries everything at a level, and says what is there afterwards that was not, or is not as it was.
fn tried(player: Player, ground: &dyn Ground, terms: &[&str]) -> Came {
    let (workspace, outside) = (ground.workspace(), ground.at("outside"));
    fs::create_dir(&outside).unwrap();
    for folder in [&workspace, &outside] {
        fs::write(folder.join("seed.txt"), "seed\n").unwrap();
    }
    std::os::unix::fs::symlink(&outside, workspace.join("door")).unwrap();
    std::os::unix::fs::symlink(outside.join("seed.txt"), workspace.join("window")).unwrap();
    let calls: Vec<Value> = TRIES.iter().map(|attempt| attempt.call(player, ground)).collect();
    let ended = ground.run(&[&["--permissions"], terms, &["Try."]].concat(), &script(&calls));
    ended.ends("completed", 0);
    let has_jail = !(terms.contains(&"all") || terms.contains(&"--no-jail"));
    assert_eq!(ended.outcome()["jail"].is_object(), has_jail, "{:#}", ended.outcome());
    assert_eq!(ended.said(), ["I tried."], "it was asked to try everything");
    ground.is_empty();
    let found = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let is_new = |entry: &fs::DirEntry| {
            entry.file_type().unwrap().is_file()
                && !(entry.file_name() == "seed.txt" && fs::read_to_string(entry.path()).unwrap() == "seed\n")
        };
        let mut names: Vec<String> =
            entries.filter(is_new).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    Came { inside: found(&workspace), outside: found(&outside) }
}

fn comes_in_a_rehearsal(player: Player, terms: &[&str], want: &Came) {
    let Some(yard) = Yard::of(player) else { return };
    assert_eq!(&tried(player, &yard, terms), want, "{player:?} with {terms:?}");
}

/// A user has no privileges: nothing but the level keeps root from writing everywhere, and agents treat root apart.
fn comes_for_a_user(player: Player, terms: &[&str], want: &Came) {
    let Some(shape) = RealShape::unprivileged(player) else { return };
    assert_eq!(&tried(player, &shape, terms), want, "{player:?} with {terms:?}");
    let started_in: Vec<_> = fs::read_dir(shape.caller()).unwrap().flatten().collect();
    assert!(started_in.is_empty(), "{started_in:?}");
}

/// Where the machine forbids namespaces.
fn comes_behind_landlock(player: Player, terms: &[&str], want: &Came) {
    let Some(shape) = RealShape::unprivileged(player) else { return };
    let shape = shape.variable("OSTLER_FORCE_JAIL", "landlock");
    assert_eq!(&tried(player, &shape, terms), want, "{player:?} with {terms:?}");
}

/// Two tests for each agent: rehearsed, and as a user runs it.
macro_rules! comes {
    ($level:literal: $($(#[$note:meta])* $name:ident($player:expr) => $want:expr;)*) => {$(
        $(#[$note])*
        mod $name {
            use super::*;

            #[test]
            fn rehearsed() {
                comes_in_a_rehearsal($player, &[$level], &$want);
            }
            #[test]
            fn as_a_user_runs_it() {
                comes_for_a_user($player, &[$level], &$want);
            }
        }
    )*};
}

/// The same, and a third one behind the weaker wall.
macro_rules! comes_in_a_jail {
    ($level:literal: $($name:ident($player:expr) => $want:expr;)*) => {
        comes! { $level: $($name($player) => $want;)* }
        mod behind_landlock_alone {
            use super::*;
            $(
                #[test]
                fn $name() {
                    comes_behind_landlock($player, &[$level], &$want);
                }
            )*
        }
    };
}

mod deny_writes_nothing {
    use super::*;

    comes_in_a_jail! {
        "deny":
        claude(Player::ClaudeStream) => came(&[], &[]);
        claude_on_a_terminal(Player::ClaudeTerminal) => came(&[], &[]);
        codex(Player::Codex) => came(&[], &[]);
        opencode(Player::OpenCode) => came(&[], &[]);
    }
}

/// By tools and by any command: the kernel keeps them in.
mod edits_stays_in_the_workspace {
    use super::*;

    comes_in_a_jail! {
        "edits":
        claude(Player::ClaudeStream) => came(&IN_ALL, &[]);
        claude_on_a_terminal(Player::ClaudeTerminal) => came(&IN_ALL, &[]);
        codex(Player::Codex) => came(&IN_ALL, &[]);
        opencode(Player::OpenCode) => came(&IN_ALL, &[]);
    }

    #[test]
    fn a_newer_claude_on_a_terminal() {
        comes_in_a_rehearsal(Player::ClaudeTerminalNewer, &["edits"], &came(&IN_ALL, &[]));
    }
}

/// What agents refuse by themselves.
mod edits_without_a_jail {
    use super::*;

    /// What Claude Code knows to be harmless there: its tools, and a few commands.
    const BY_CLAUDE: [&str; 4] = ["in-redirect", "in-touch", "in-write", "seed.txt"];

    fn comes_to(player: Player, inside: &[&str], outside: &[&str]) {
        comes_in_a_rehearsal(player, &["edits", "--no-jail"], &came(inside, outside));
    }

    #[test]
    fn claude() {
        comes_to(Player::ClaudeStream, &BY_CLAUDE, &[]);
    }

    #[test]
    fn claude_on_a_terminal() {
        comes_to(Player::ClaudeTerminal, &BY_CLAUDE, &[]);
    }

    /// By any command, in a sandbox of its own.
    #[test]
    fn codex() {
        comes_to(Player::Codex, &IN_ALL, &[]);
    }

    /// By its tools alone. It follows links that are there already; it can make none.
    #[test]
    fn opencode() {
        comes_to(Player::OpenCode, &["in-write", "seed.txt"], &["seed.txt", "write-door"]);
    }
}

mod all_writes_everywhere {
    use super::*;

    fn everywhere(through_links: &[&'static str]) -> Came {
        let mut outside = [&OUT_ALL[..], through_links].concat();
        outside.sort_unstable();
        came(&IN_ALL, &outside)
    }

    comes! {
        "all":
        /// Its `Edit` replaces nothing through a link, at any level.
        claude(Player::ClaudeStream) => everywhere(&["write-door"]);
        codex(Player::Codex) => everywhere(&["seed.txt", "write-door"]);
        opencode(Player::OpenCode) => everywhere(&["seed.txt", "write-door"]);
    }
}

/// A rule allows what it names, and nothing that looks like it. In a jail every command is allowed.
mod a_rule_widens_edits_for_one_command {
    use super::*;

    fn widens(player: Player, rule: &str) {
        let Some(yard) = Yard::of(player) else { return };
        let commands = ["sh check.sh", "sh other.sh", "sh check.sh; sh other.sh"];
        fs::write(yard.workspace().join("check.sh"), "echo x >> checked\n").unwrap();
        fs::write(yard.workspace().join("other.sh"), "echo x >> othered\n").unwrap();
        let calls = commands.map(|command| Try::Shell(command).call(player, &yard));
        let ended = Ground::run(&yard, &["--no-jail", "--allow", rule, "Try."], &script(&calls));
        ended.ends("completed", 0);
        assert_eq!(fs::read_to_string(yard.workspace().join("checked")).unwrap(), "x\n", "once, and alone");
        assert!(!yard.workspace().join("othered").exists());
        yard.is_empty();
    }

    #[test]
    fn claude() {
        widens(Player::ClaudeStream, "Bash(sh check.sh)");
    }
    #[test]
    fn opencode() {
        widens(Player::OpenCode, "bash:sh check.sh");
    }
}

/// What an agent cannot keep is not promised.
#[test]
fn what_an_agent_cannot_express_is_refused_with_the_way_out() {
    let rule = ["--no-jail", "--allow", "Bash(make)", "x"];
    let contradiction = ["--permissions", "deny", "--allow", "bash:make", "x"];
    let says = |yard: Option<Yard>, args: &[&str], words: &[&str]| {
        let Some(yard) = yard else { return };
        let told = yard.refused(args);
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
        assert!(!yard.at("ostler/runs").exists(), "nothing was begun");
    };
    says(Yard::of(Player::Codex), &rule, &["only a sandbox around all of them", "--permissions all"]);
    for player in [Player::ClaudeStream, Player::OpenCode] {
        says(
            Yard::of(player),
            &contradiction,
            &["contradicts the permission level `deny`", "--permissions edits"],
        );
    }
    for level in ["deny", "edits"] {
        let command = Some(Yard::of_command("cat"));
        let args = ["--permissions", level, "--no-jail", "x"];
        says(command, &args, &["only a jail can restrict", "--permissions all"]);
    }
}

/// What an agent that may only read can read: the ways by which a file outside reached the model.
mod deny_reads {
    use super::*;

    const WAYS: [(&str, Try); 3] = [
        ("its tool", Try::Read("OUTSIDE/secret.txt")),
        ("a link", Try::Read("WORKSPACE/window")),
        ("a command", Try::Shell("cat OUTSIDE/secret.txt")),
    ];

    fn reads(player: Player, terms: &[&str], want: &[&str]) {
        let Some(yard) = Yard::of(player) else { return };
        fs::create_dir(yard.at("outside")).unwrap();
        fs::write(yard.at("outside/secret.txt"), "pass phrase\n").unwrap();
        std::os::unix::fs::symlink(yard.at("outside/secret.txt"), yard.workspace().join("window")).unwrap();
        let mut read = Vec::new();
        for (way, attempt) in &WAYS {
            let calls = [attempt.call(player, &yard)];
            let args = [&["--permissions", "deny"], terms, &["Try."]].concat();
            let ended = Ground::run(&yard, &args, &script(&calls));
            ended.ends("completed", 0);
            let result = |line: &Value| line["result"]["text"].as_str().unwrap().contains("pass phrase");
            read.extend(ended.with("event", "tool_ended").any(result).then_some(*way));
        }
        assert_eq!(read, want);
        yard.is_empty();
    }

    #[test]
    fn nothing_outside() {
        for player in [Player::ClaudeStream, Player::ClaudeTerminal, Player::Codex, Player::OpenCode] {
            reads(player, &[], &[]);
        }
    }

    #[test]
    fn without_a_jail_claude_reads_the_workspace() {
        reads(Player::ClaudeStream, &["--no-jail"], &[]);
    }

    /// Its sandbox is against writing.
    #[test]
    fn without_a_jail_codex_reads_everywhere() {
        reads(Player::Codex, &["--no-jail"], &["its tool", "a link", "a command"]);
    }

    #[test]
    fn without_a_jail_opencode_reads_the_workspace_and_through_its_links() {
        reads(Player::OpenCode, &["--no-jail"], &["a link"]);
    }
}
