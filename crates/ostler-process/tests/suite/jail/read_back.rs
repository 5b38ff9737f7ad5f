//! What is reported about a wall after it was set.

use ostler_agent::jail::JailKind;
use serde_json::{Value, json};

use super::scene::{Program, Scene, User, landlock_abi};

#[test]
fn the_canary_is_reached_only_without_a_wall() {
    if landlock_abi().is_none() {
        return;
    }
    let program = Program::new();
    for user in User::all() {
        let scene = Scene::new(user);
        let canary = |wall, rules: &[Value]| scene.try_all(&program, wall, rules, &[])["canary"].clone();
        let rules = scene.rules();
        assert_eq!(canary(Some(JailKind::Landlock), &rules), "ok", "{user:?}");
        let reached = "the wall does not hold: the process could read a file outside";
        assert_eq!(canary(None, &rules), reached, "{user:?}");
        // A policy that grants it is found out as well.
        let all = [json!(["/", "write", null])];
        assert_eq!(canary(Some(JailKind::Landlock), &all), reached, "{user:?}");
        let read = [json!(["/", "read", null])];
        assert_eq!(canary(Some(JailKind::Landlock), &read), reached, "{user:?}");
    }
}

#[test]
fn the_report_names_what_is_not_enforced() {
    let Some(abi) = landlock_abi() else { return };
    let program = Program::new();
    let scene = Scene::new(User::Same);
    let output = scene.try_all(&program, Some(JailKind::Landlock), &scene.rules(), &[]);
    assert_eq!(output["abi"], abi);
    let phrases: Vec<&str> =
        output["not_enforced"].as_array().unwrap().iter().map(|phrase| phrase.as_str().unwrap()).collect();
    for word in ["network", "chmod", "stat", "/dev/pts", "guarded files in", "ws: guarded"] {
        assert!(phrases.iter().any(|phrase| phrase.contains(word)), "{word}: {phrases:?}");
    }
    assert!(!phrases.iter().any(|phrase| phrase.contains("hidden")), "{phrases:?}");
}

#[test]
fn capabilities_that_were_not_dropped_are_named() {
    if landlock_abi().is_none() {
        return;
    }
    let program = Program::new();
    let phrase = json!("what capabilities allow beyond files");
    for user in User::all() {
        let names = |scene: &Scene| {
            let output = scene.try_all(&program, Some(JailKind::Landlock), &scene.rules(), &[]);
            output["not_enforced"].as_array().unwrap().contains(&phrase)
        };
        assert!(!names(&Scene::new(user)), "{user:?}");
        assert_eq!(names(&Scene::new(user).with_capabilities()), user.is_root(), "{user:?}");
    }
}

/// As the second wall, on the host: reading is kept by the other wall, writing by both.
#[test]
fn the_second_wall_keeps_writing_signals_and_abstract_sockets() {
    let Some(abi) = landlock_abi() else { return };
    if abi < 6 {
        eprintln!("left out: no scopes in Landlock ABI {abi}");
        return;
    }
    let program = Program::new();
    // Not below `/tmp`, which is the process's own in a namespace; and nothing that stays if it succeeds.
    let attempts: [(&[&str], &str); 8] = [
        (&["read", "/etc/passwd"], "ok"),
        (&["write", "/dev/null"], "ok"),
        (&["shell", "true"], "ok"),
        (&["write", "TOP/ws/file"], "ok"),
        (&["write", "/etc/passwd"], "EACCES"),
        (&["write", "/proc/self/oom_score_adj"], "EACCES"),
        (&["signal", "PID"], "EPERM"),
        (&["connect-abstract", "NAME"], "EPERM"),
    ];
    for user in User::all() {
        let scene = Scene::new(user);
        let words: Vec<&[&str]> = attempts.iter().map(|(words, _)| *words).collect();
        let output = scene.try_all(&program, Some(JailKind::Namespace), &scene.rules(), &words);
        let want: Vec<&str> = attempts.iter().map(|(_, want)| *want).collect();
        assert_eq!(output["results"], json!(want), "{user:?}");
        assert_eq!((&output["abi"], &output["not_enforced"]), (&json!(abi), &json!([])));
    }
}
