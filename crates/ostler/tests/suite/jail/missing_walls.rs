//! Machines on which one wall or both are missing: the run says which wall stands and what helps, or is refused.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;

use serde_json::Value;

use super::{assert_refused, behind, ground, outcome, printed, run, script, warnings};
use crate::ground::{Ended, Ground, ended};

/// A user namespace below which there may be no other.
const NO_USER_NAMESPACES: [&str; 5] =
    ["unshare", "-Ur", "sh", "-c", r#"echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" "$@""#];

/// A mount namespace that looks like a container.
const CONTAINER: [&str; 5] = [
    "unshare",
    "-Urm",
    "sh",
    "-c",
    r#"mount -t tmpfs none /run && : > /run/.containerenv && exec "$0" "$@""#,
];

/// What forbids both walls, with the error numbers of a container and of an old kernel.
const NEITHER: [&str; 2] = ["unshare=1", "landlock=38"];

const JSON: [&str; 3] = ["--json", "--permissions", "deny"];

/// The program that starts another one behind a seccomp filter.
fn filter(ground: &Ground, rules: &[&str]) -> Vec<OsString> {
    let program = ground.put("seccomp.py", include_str!("seccomp.py"));
    let words = [OsString::from("python3"), program.into()];
    words.into_iter().chain(rules.iter().map(OsString::from)).chain(["--".into()]).collect()
}

/// Runs Ostler behind all of these programs, the first one outermost.
fn run_behind(ground: &Ground, wrappers: &[Vec<OsString>], args: &[&str]) -> Ended {
    let words: Vec<&OsStr> = wrappers.iter().flatten().map(OsString::as_os_str).collect();
    run(&mut behind(&words, &ground.command(args)))
}

fn wrapper(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn with_agent<'a>(agent: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "-a", agent], more, &["x"]].concat()
}

/// What `ostler doctor` says about the jail: its status, what it found, and what to try.
fn diagnose(ground: &Ground, wrappers: &[Vec<OsString>]) -> (String, String, String) {
    let ended = run_behind(ground, wrappers, &["doctor", "--json"]);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let jail = checks.iter().find(|check| check["name"] == "jail").unwrap();
    let text = |name: &str| jail[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("detail"), text("try"))
}

#[test]
fn without_user_namespaces_landlock_stands_alone_and_the_run_warns() {
    let ground = ground();
    let agent = script(&ground, "echo begun; cat ~/.ssh/id; echo x > ../home/x; echo x > made");
    let walls = [wrapper(&NO_USER_NAMESPACES)];
    let ended = run_behind(&ground, &walls, &with_agent(&agent, &["--json"]));
    let last = outcome(&ended);
    assert_eq!(
        (&last["outcome"], &last["jail"]["kind"]),
        (&"completed".into(), &"landlock".into()),
        "{last}"
    );
    assert!(last["jail"]["not_enforced"].as_array().unwrap().len() > 2, "{last}");
    assert_eq!(printed(&ground, &last), "begun\n");
    assert!(ground.at("project/made").exists() && !ground.at("home/x").exists());
    let warning = warnings(&ended).join("\n");
    let sysctl = "`sudo sysctl user.max_user_namespaces=10000`";
    assert!(warning.starts_with("the jail is Landlock alone, because namespaces do not work: "), "{warning}");
    assert!(warning.ends_with(&format!("; try: {sysctl}")), "{warning}");
    assert_eq!(warning.matches("os error").count(), 1, "{warning}");
    let (status, detail, remedy) = diagnose(&ground, &walls);
    assert_eq!((status.as_str(), remedy.as_str()), ("note", sysctl), "{detail}");
    assert!(detail.starts_with("only Landlock (ABI "), "{detail}");
}

/// A jail of Ostler allows no mounts: Landlock is set once more, inside.
#[test]
fn a_run_inside_a_jail_gets_landlock_alone_and_says_so() {
    let ground = ground();
    let inner = r#"unset OSTLER_HOME; "$OSTLER" run -a 'command:sh -c "echo inside > made; echo x > ../made"' --cwd inner --json x"#;
    let agent = script(&ground, &format!("mkdir inner\n{inner}\n\"$OSTLER\" doctor --json >doctor.json\n"));
    let ground = ground.with("OSTLER", env!("CARGO_BIN_EXE_ostler"));
    let outer = ground.run(&with_agent(&agent, &["--json"]));
    let outer = outcome(&outer);
    assert_eq!((&outer["outcome"], &outer["jail"]["kind"]), (&"completed".into(), &"namespace".into()));
    let inner = Ended { code: Some(0), stdout: printed(&ground, &outer), stderr: String::new() };
    let last = outcome(&inner);
    // The shell ends with the status of its last command, which failed.
    assert_eq!(
        (&last["outcome"], &last["jail"]["kind"]),
        (&"agent_failed".into(), &"landlock".into()),
        "{last}"
    );
    let warning = warnings(&inner).join("\n");
    assert!(
        warning.ends_with("; try: start Ostler outside of the jail of Ostler that it is in"),
        "{warning}"
    );
    assert!(ground.at("project/inner/made").exists() && !ground.at("project/made").exists());
    let report: Value =
        serde_json::from_slice(&std::fs::read(ground.at("project/doctor.json")).unwrap()).unwrap();
    assert!(report["checks"].to_string().contains("only Landlock (ABI "), "{report}");
}

/// Root tries a PID namespace, which is forbidden in a jail: the program that makes it may exit before Ostler has said what
/// to start, or after that.
#[test]
fn where_no_pid_namespace_can_be_made_runs_are_contained_otherwise() {
    let ground = ground();
    let inner = r#"for i in 1 2 3 4 5 6 7 8; do
        "$OSTLER" run -a command:true --permissions all --quiet x 2>&1 || echo failed
    done"#;
    let agent = script(&ground, &format!("unset OSTLER_HOME\n{inner}\n"));
    let ground = ground.with("OSTLER", env!("CARGO_BIN_EXE_ostler"));
    let outer = outcome(&ground.run(&with_agent(&agent, &["--json"])));
    let printed = printed(&ground, &outer);
    assert_eq!(
        (printed.matches("completed").count(), printed.matches("failed").count()),
        (8, 0),
        "{printed}"
    );
}

#[test]
fn without_any_wall_a_run_is_refused_with_what_helps() {
    let ground = ground();
    let agent = script(&ground, "echo x > begun");
    let neither = || filter(&ground, &NEITHER);
    let no_jail = "--no-jail";
    let kernel = "use Linux 6.2 or newer, built with CONFIG_SECURITY_LANDLOCK";
    let sysctl = "`sudo sysctl user.max_user_namespaces=10000`";
    let container = "start the container with `--security-opt seccomp=unconfined ";
    // In a container this is a hint about the container.
    let table: [(&[Vec<OsString>], &[&str]); 3] = [
        (&[neither()], &[no_jail, kernel]),
        (&[wrapper(&NO_USER_NAMESPACES), filter(&ground, &NEITHER[1..])], &[no_jail, kernel, sysctl]),
        (&[wrapper(&CONTAINER), neither()], &[no_jail, kernel, container]),
    ];
    for (walls, hints) in table {
        for level in ["deny", "edits"] {
            let ended = run_behind(&ground, walls, &with_agent(&agent, &["--permissions", level]));
            let message =
                "permission levels `deny` and `edits` need a jail, and none can be set here: namespaces (";
            assert_refused(&ground, &ended, message, hints);
            assert!(ended.stderr.contains("Landlock ("), "{}", ended.stderr);
        }
        let (status, detail, remedy) = diagnose(&ground, walls);
        assert_eq!(status, "missing", "{detail}");
        for want in hints.iter().filter(|hint| **hint != no_jail) {
            assert!(remedy.contains(want), "{want}: {remedy}");
        }
    }
    assert!(!ground.at("project/begun").exists());
    // What needs no wall still runs.
    let ended = run_behind(&ground, &[neither()], &with_agent(&agent, &["--permissions", "all", "--quiet"]));
    assert_eq!((ended.code, ground.at("project/begun").exists()), (Some(0), true), "{}", ended.stderr);
}

/// What was remembered outside of a sandbox says nothing inside: the two may share a home.
#[test]
fn a_wall_that_works_outside_of_a_sandbox_is_tried_anew_inside() {
    let ground = ground();
    let agent = script(&ground, "true");
    let args = with_agent(&agent, &JSON);
    for _ in 0..2 {
        let outside = ground.run(&args);
        assert_eq!(outcome(&outside)["jail"]["kind"], "namespace");
        assert_eq!(warnings(&outside), [""; 0]);
        let inside = run_behind(&ground, &[filter(&ground, &NEITHER[..1])], &args);
        assert_eq!(outcome(&inside)["jail"]["kind"], "landlock", "{}", inside.stdout);
        assert_eq!(warnings(&inside).len(), 1);
    }
    let refused = run_behind(&ground, &[filter(&ground, &NEITHER)], &args);
    assert_eq!(refused.code, Some(2), "{}{}", refused.stdout, refused.stderr);
}

#[test]
fn without_landlock_the_namespace_stands_and_says_what_is_missing() {
    let ground = ground();
    let agent = script(&ground, "cat ~/.ssh/id; echo done");
    // The interface of Linux 5.19, and a kernel without it.
    for rule in ["abi=2", "landlock=38"] {
        let ended = run_behind(&ground, &[filter(&ground, &[rule])], &with_agent(&agent, &["--json"]));
        let last = outcome(&ended);
        let jail = &last["jail"];
        assert_eq!((&jail["kind"], &jail["abi"]), (&"namespace".into(), &Value::Null), "{rule}: {last}");
        assert!(jail["not_enforced"].to_string().contains("signals to processes outside"), "{last}");
        assert_eq!(printed(&ground, &last), "done\n");
    }
}

#[test]
fn a_landlock_that_cannot_refuse_truncation_is_no_wall() {
    let ground = ground();
    let agent = script(&ground, "true");
    for abi in ["1", "2"] {
        let walls = [wrapper(&NO_USER_NAMESPACES), filter(&ground, &[&format!("abi={abi}")])];
        let ended = run_behind(&ground, &walls, &with_agent(&agent, &[]));
        let message = format!("this kernel has Landlock ABI {abi}, and 3 is needed");
        assert_refused(&ground, &ended, &message, &["use Linux 6.2 or newer", "`sudo sysctl ", "--no-jail"]);
    }
}

/// Each of them would find that nobody has tried the walls yet.
#[test]
fn of_several_first_runs_one_tries_the_wall() {
    let ground = ground().with("OSTLER_LOG", "debug");
    let start = |number: i32| {
        let workspace = ground.at(&format!("project/{number}"));
        std::fs::create_dir(&workspace).unwrap();
        let mut command = ground.command(&with_agent("command:true", &JSON));
        command.arg("--cwd").arg(workspace);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..4).map(start).collect();
    let mut trials = 0;
    for output in children.into_iter().map(ended) {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let ended =
            Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
        assert_eq!(outcome(&ended)["jail"]["kind"], "namespace", "{}", ended.stdout);
        assert_eq!(warnings(&ended), [""; 0]);
        trials += ended.stderr.matches("jail-trial").count();
    }
    assert_eq!(trials, 1);
}
