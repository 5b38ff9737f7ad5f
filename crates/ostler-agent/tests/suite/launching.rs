//! How agents are started, and what is said to them. What these arguments do was seen on the real programs.

use std::path::Path;

use ostler_agent::agent::{
    Activity, Agent, Decision, Enforcement, Launch, Order, Permissions, Session, Stdin, Task,
    TranscriptPlace, Whereabouts,
};
use ostler_agent::agents::{Claude, ClaudeTerminal, Codex, Command, OpenCode};
use ostler_agent::bridge::Access;
use ostler_agent::repository_config::{Masking, RepositoryTrust, Trusted, Untrusted};
use serde_json::json;

const THREAD: &str = "01a1e0b1-5bc1-7ef2-8522-c0876460307c";

fn task<'a>(permissions: Permissions, session: Session<'a>) -> Task<'a> {
    Task {
        prompt: "Mend the door",
        workspace: Path::new("/srv/stable"),
        session,
        permissions,
        enforcement: Enforcement::Agent,
        allow: &[],
        model: None,
        system_prompt: None,
        extra: &[],
        private: Path::new("/run/7"),
        bridge: None,
        answerer: Some(Path::new("/opt/ostler")),
        offered: None,
        max_cost: None,
        users_settings: None,
        activity: Activity::AfterTurns,
        repository: RepositoryTrust::Nothing,
    }
}

fn jailed<'a>(permissions: Permissions) -> Task<'a> {
    Task { enforcement: Enforcement::Kernel, ..task(permissions, Session::New) }
}

fn shown(launch: &Launch) -> String {
    let mut text = format!("args: {}\n", launch.args.join(" "));
    for (name, value) in &launch.env {
        text.push_str(&format!("env: {name}={value}\n"));
    }
    match &launch.stdin {
        Stdin::Null => text.push_str("stdin: nothing\n"),
        Stdin::Terminal => text.push_str("stdin: a terminal\n"),
        Stdin::Text(stdin) => text.push_str(&format!("stdin: {stdin:?}\n")),
        Stdin::Spoken(lines) => {
            for line in lines {
                text.push_str(&format!("stdin, stays open: {line}\n"));
            }
        }
    }
    for file in &launch.files {
        text.push_str(&format!("file: {} {:?}\n", file.path.display(), file.content));
    }
    if let Some(profile) = &launch.profile {
        text.push_str(&format!("profile: {} {:?}\n", profile.link, profile.content(None, None).unwrap()));
    }
    for warning in launch.warnings.iter().chain(&launch.as_root.warnings) {
        text.push_str(&format!("warning: {warning}\n"));
    }
    for (name, value) in &launch.as_root.env {
        text.push_str(&format!("env of root: {name}={value}\n"));
    }
    text
}

#[test]
fn each_agent_is_started_in_its_own_way() {
    let rules = ["Bash(cargo test *)".to_owned(), "WebFetch".to_owned()];
    let keys = ["bash:cargo test *".to_owned(), "webfetch".to_owned()];
    let extra = ["--extra".to_owned(), "as it is".to_owned()];
    let mut text = String::new();
    for agent in [&Claude as &dyn Agent, &ClaudeTerminal, &Codex, &OpenCode] {
        let session = match agent.name() {
            "claude" | "claude-headless" => Session::Minted(THREAD),
            _ => Session::New,
        };
        let full = Task {
            allow: match agent.name() {
                "claude" | "claude-headless" => &rules,
                "opencode" => &keys,
                _ => &[],
            },
            model: Some("house/fast"),
            system_prompt: Some("Call \"done\"\nwhen done."),
            extra: &extra,
            ..task(Permissions::Edits, session)
        };
        let tasks = [
            ("deny", task(Permissions::Deny, Session::New)),
            ("edits, resumed", task(Permissions::Edits, Session::Resumed(THREAD))),
            ("edits and all the rest", full),
            ("all", task(Permissions::All, Session::New)),
            ("deny, jailed", jailed(Permissions::Deny)),
            ("edits, jailed", jailed(Permissions::Edits)),
            ("in turns", Task { activity: Activity::InTurns, ..task(Permissions::Deny, Session::New) }),
        ];
        for (name, task) in tasks {
            text.push_str(&format!(
                "== {}: {name}\n{}\n",
                agent.name(),
                shown(&agent.launch(&task).unwrap())
            ));
        }
    }
    insta::assert_snapshot!(text);
}

/// At every level, and with the token where nobody else sees it: not among the arguments.
#[test]
fn each_agent_is_given_the_bridge_in_its_own_way() {
    let bridge = Some(Access { url: "http://127.0.0.1:4321/mcp/7", token: "a-secret" });
    let mut text = String::new();
    for agent in [&Claude as &dyn Agent, &ClaudeTerminal, &Codex, &OpenCode] {
        let told = Task { bridge, system_prompt: Some("Be brief."), ..task(Permissions::Deny, Session::New) };
        let tasks = [
            ("deny", told),
            ("edits, resumed", Task { bridge, ..task(Permissions::Edits, Session::Resumed(THREAD)) }),
        ];
        for (name, task) in tasks {
            let launch = agent.launch(&task).unwrap();
            assert!(!launch.args.join(" ").contains("a-secret"));
            text.push_str(&format!("== {}: {name}\n{}\n", agent.name(), shown(&launch)));
        }
        assert!(!format!("{told:?}").contains("a-secret"));
    }
    insta::assert_snapshot!(text);
}

/// With a bridge and without, and with arguments of the user's own, which come before what keeps the repository out.
#[test]
fn an_untrusted_repository_is_kept_from_each_agent_in_its_own_way() {
    let bridge = Some(Access { url: "http://127.0.0.1:4321/mcp/7", token: "a-secret" });
    let extra = ["--extra".to_owned()];
    let untrusted = Untrusted {
        files: [".agents/skills/x/SKILL.md", ".claude/settings.json", ".mcp.json", "opencode.json"]
            .map(str::to_owned)
            .into(),
        only_masked: vec!["opencode.json".to_owned()],
        directories: ["/srv/stable", "/srv"].map(Into::into).into(),
        instructions: Some("Text of the repository.".to_owned()),
        directory: "/srv/stable".into(),
        masking: Masking::InPlace,
        ..Untrusted::default()
    };
    let trusted = Trusted { directories: vec!["/srv/stable".into()] };
    let mut text = String::new();
    for agent in [&Claude as &dyn Agent, &ClaudeTerminal, &Codex, &OpenCode] {
        let plain = Task {
            extra: &extra,
            repository: RepositoryTrust::Untrusted(&untrusted),
            ..task(Permissions::All, Session::New)
        };
        let told = Task { bridge, system_prompt: Some("Be brief."), ..plain };
        let allowed = Task { repository: RepositoryTrust::Trusted(&trusted), ..plain };
        for (name, task) in [("untrusted", plain), ("untrusted, with a bridge", told), ("trusted", allowed)] {
            let launch = agent.launch(&task).unwrap();
            let args = launch.args.join(" ");
            assert!(!args.contains("Text of the repository") && !args.contains("a-secret"), "{args}");
            text.push_str(&format!("== {}: {name}\n{}\n", agent.name(), shown(&launch)));
        }
    }
    insta::assert_snapshot!(text);
    let unmasked = Untrusted { masking: Masking::Unavailable, ..untrusted };
    let task =
        Task { repository: RepositoryTrust::Untrusted(&unmasked), ..task(Permissions::All, Session::New) };
    assert!(OpenCode.launch(&task).is_err_and(|refusal| refusal.hint.contains("ostler trust /srv/stable")));
}

#[test]
fn what_an_agent_cannot_express_is_refused() {
    let rule = ["Bash".to_owned()];
    let command = Command::parse("x").unwrap();
    let plain = task(Permissions::Edits, Session::New);
    let all = task(Permissions::All, Session::New);
    let bridge = Some(Access { url: "http://127.0.0.1:1/mcp/7", token: "t" });
    let table: [(&dyn Agent, Task<'_>); 14] = [
        (&Claude, Task { allow: &rule, ..task(Permissions::Deny, Session::New) }),
        (&OpenCode, Task { allow: &rule, ..task(Permissions::Deny, Session::New) }),
        (&OpenCode, Task { model: Some("fast"), ..plain }),
        (&OpenCode, Task { allow: &["rm -rf".to_owned()], ..plain }),
        (&Codex, Task { allow: &rule, ..plain }),
        (&Codex, task(Permissions::Edits, Session::Resumed("my thread"))),
        (&command, plain),
        (&command, task(Permissions::All, Session::Resumed("x"))),
        (&command, Task { model: Some("fast"), ..all }),
        (&command, Task { system_prompt: Some("x"), ..all }),
        (&command, task(Permissions::All, Session::Minted(THREAD))),
        (&command, Task { bridge, ..all }),
        (&Codex, task(Permissions::Edits, Session::Minted(THREAD))),
        (&OpenCode, task(Permissions::Edits, Session::Minted(THREAD))),
    ];
    let refused: Vec<String> = table
        .iter()
        .map(|(agent, task)| agent.launch(task).unwrap_err())
        .map(|refusal| format!("{refusal}; {}", refusal.hint))
        .collect();
    insta::assert_snapshot!(refused.join("\n"));
    assert!(command.launch(&all).is_ok());
    assert!(command.launch(&jailed(Permissions::Deny)).is_ok(), "the jail restricts what it may do");
}

#[test]
fn claude_code_is_spoken_to() {
    let orders = [
        Order::Prompt("And the window\n\"too\"".to_owned()),
        Order::Interrupt,
        Order::End,
        Order::Answer { request: "r1".to_owned(), decision: Decision::Allow(json!({"command": "ls"})) },
        Order::Answer { request: "r2".to_owned(), decision: Decision::Deny("not here".to_owned()) },
    ];
    let lines: Vec<String> = orders.iter().map(|order| Claude.speak(order).unwrap()).collect();
    assert!(lines.iter().all(|line| !line.contains('\n')));
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!((Codex.speak(&Order::Interrupt), OpenCode.speak(&Order::End)), (None, None));
}

#[test]
fn each_agent_keeps_its_own_record_somewhere() {
    let place = |agent: &dyn Agent, variable: &dyn Fn(&str) -> Option<String>| {
        let (home, workspace) = (Path::new("/h"), Path::new("/srv/my stable"));
        agent.transcript(&Whereabouts { home, variable, workspace, session: "S" })
    };
    let unset = |_: &str| None;
    let set = |name: &str| Some(format!("/set/{name}"));
    let file =
        |path: &str, beside: &str| TranscriptPlace::File { path: path.into(), beside: Some(beside.into()) };
    let table = [
        (
            place(&Claude, &unset),
            file(
                "/h/.claude/projects/-srv-my-stable/S.jsonl",
                "/h/.claude/projects/-srv-my-stable/S/subagents",
            ),
        ),
        (
            place(&Claude, &set),
            file(
                "/set/CLAUDE_CONFIG_DIR/projects/-srv-my-stable/S.jsonl",
                "/set/CLAUDE_CONFIG_DIR/projects/-srv-my-stable/S/subagents",
            ),
        ),
        (
            place(&Codex, &unset),
            TranscriptPlace::Below { folder: "/h/.codex/sessions".into(), suffix: "-S.jsonl".to_owned() },
        ),
        (
            place(&OpenCode, &unset),
            TranscriptPlace::Growth {
                files: vec![
                    "/h/.local/share/opencode/opencode.db-wal".into(),
                    "/h/.local/share/opencode/opencode.db".into(),
                ],
            },
        ),
    ];
    for (got, want) in table {
        assert_eq!(got, Some(want));
    }
    assert_eq!(place(&Command::parse("x").unwrap(), &unset), None);
}
