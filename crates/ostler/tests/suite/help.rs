//! What `--help` says, and what is printed for shells.

use crate::ground::Ground;

#[test]
fn every_command_has_help_with_an_example() {
    let commands: &[(&str, &[&str])] = &[
        ("help", &["--help"]),
        ("help_run", &["run", "--help"]),
        ("help_runs", &["runs", "--help"]),
        ("help_runs_list", &["runs", "list", "--help"]),
        ("help_runs_since", &["runs", "since", "--help"]),
        ("help_runs_show", &["runs", "show", "--help"]),
        ("help_runs_events", &["runs", "events", "--help"]),
        ("help_runs_why", &["runs", "why", "--help"]),
        ("help_runs_raw", &["runs", "raw", "--help"]),
        ("help_runs_prune", &["runs", "prune", "--help"]),
        ("help_stop", &["stop", "--help"]),
        ("help_say", &["say", "--help"]),
        ("help_answer", &["answer", "--help"]),
        ("help_attach", &["attach", "--help"]),
        ("help_sessions", &["sessions", "--help"]),
        ("help_sessions_list", &["sessions", "list", "--help"]),
        ("help_sessions_show", &["sessions", "show", "--help"]),
        ("help_sessions_kill", &["sessions", "kill", "--help"]),
        ("help_agents", &["agents", "--help"]),
        ("help_agents_list", &["agents", "list", "--help"]),
        ("help_agents_install", &["agents", "install", "--help"]),
        ("help_agents_check", &["agents", "check", "--help"]),
        ("help_smoke", &["smoke", "--help"]),
        ("help_rehearse", &["rehearse", "--help"]),
        ("help_memory", &["memory", "--help"]),
        ("help_memory_capture_transcript", &["memory", "capture-transcript", "--help"]),
        ("help_memory_hook", &["memory", "hook", "--help"]),
        ("help_memory_hooks", &["memory", "hooks", "--help"]),
        ("help_memory_hooks_install", &["memory", "hooks", "install", "--help"]),
        ("help_memory_hooks_status", &["memory", "hooks", "status", "--help"]),
        ("help_memory_hooks_uninstall", &["memory", "hooks", "uninstall", "--help"]),
        ("help_memory_recall", &["memory", "recall", "--help"]),
        ("help_memory_timeline", &["memory", "timeline", "--help"]),
        ("help_memory_show", &["memory", "show", "--help"]),
        ("help_memory_remember", &["memory", "remember", "--help"]),
        ("help_memory_correct", &["memory", "correct", "--help"]),
        ("help_memory_pin", &["memory", "pin", "--help"]),
        ("help_memory_forget", &["memory", "forget", "--help"]),
        ("help_memory_drain", &["memory", "drain", "--help"]),
        ("help_memory_status", &["memory", "status", "--help"]),
        ("help_memory_export", &["memory", "export", "--help"]),
        ("help_memory_import", &["memory", "import", "--help"]),
        ("help_memory_backfill", &["memory", "backfill", "--help"]),
        ("help_memory_key", &["memory", "key", "--help"]),
        ("help_memory_key_rotate", &["memory", "key", "rotate", "--help"]),
        ("help_memory_key_status", &["memory", "key", "status", "--help"]),
        ("help_memory_doctor", &["memory", "doctor", "--help"]),
        ("help_memory_model", &["memory", "model", "--help"]),
        ("help_memory_model_install", &["memory", "model", "install", "--help"]),
        ("help_memory_model_status", &["memory", "model", "status", "--help"]),
        ("help_memory_mcp", &["memory", "mcp", "--help"]),
        ("help_memory_daemon", &["memory", "daemon", "--help"]),
        ("help_serve", &["serve", "--help"]),
        ("help_keys", &["keys", "--help"]),
        ("help_keys_list", &["keys", "list", "--help"]),
        ("help_keys_new", &["keys", "new", "--help"]),
        ("help_keys_revoke", &["keys", "revoke", "--help"]),
        ("help_doctor", &["doctor", "--help"]),
        ("help_trust", &["trust", "--help"]),
        ("help_config", &["config", "--help"]),
        ("help_config_show", &["config", "show", "--help"]),
        ("help_config_schema", &["config", "schema", "--help"]),
        ("help_config_check", &["config", "check", "--help"]),
        ("help_config_trust", &["config", "trust", "--help"]),
        ("help_completions", &["completions", "--help"]),
    ];
    let ground = Ground::new();
    for (name, args) in commands {
        let ended = ground.check(name, args);
        assert!(ended.stdout.contains("Examples:\n  ostler "), "{name}");
        assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{name}");
    }
}

#[test]
fn version_is_on_stdout() {
    Ground::new().check("version", &["--version"]);
}

#[test]
fn completions_know_the_commands() {
    let ground = Ground::new();
    for shell in ["bash", "zsh", "fish"] {
        let ended = ground.run(&["completions", shell]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        assert!(ended.stdout.contains("doctor") && ended.stdout.contains("install"), "{shell}");
    }
}
