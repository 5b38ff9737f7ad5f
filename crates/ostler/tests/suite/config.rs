//! `ostler config`: values, origins, schema.

use serde_json::{Value, json};

use crate::ground::Ground;

#[test]
fn the_defaults_are_shown_and_nothing_is_created() {
    let ground = Ground::new();
    ground.check("config_show", &["config", "show"]);
    ground.check("config_check", &["config", "check"]);
    assert!(!ground.at("ostler").exists());
}

#[test]
fn each_value_tells_its_origin() {
    let ground = Ground::new().with("OSTLER_CFG__REHEARSE__LISTEN", "127.0.0.1:9").with("OSTLER_LOG", "warn");
    ground.put("ostler/config.toml", "[agents]\ndefault = \"codex\"\n\n[rehearse]\nscript = \"todo\"\n");
    ground.put("project/.ostler/config.toml", "rehearse.script = \"hello\"\n");
    ground.check("config_origins", &["--color", "never", "config", "show", "--origin"]);
    ground.check("config_origins_json", &["config", "show", "--json"]);
    ground.check("config_check_files", &["config", "check"]);
    ground.check("config_check_json", &["config", "check", "--json"]);
    ground.put("ostler/config.toml", "displya = 1\n");
    ground.check("config_check_json_mistake", &["config", "check", "--json"]);
}

#[test]
fn without_ostler_home_the_xdg_folders_are_used() {
    let ground = Ground::new().with("OSTLER_HOME", "");
    ground.put("home/.config/ostler/config.toml", "[display]\ncolor = \"never\"\n");
    ground.check("config_xdg", &["config", "show", "--origin"]);
}

#[test]
fn the_schema_and_the_reader_agree() {
    let ground = Ground::new();
    let schema: Value = serde_json::from_str(&ground.run(&["config", "schema"]).stdout).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let table = [
        (json!({}), true),
        (json!({"agents": {"default": "codex", "claude-headless": {"program": "/x"}}}), true),
        (json!({"agents": {"default": "codx"}}), false),
        (json!({"agents": {"codx": {}}}), false),
        (json!({"agents": {"codex": {"program": "relative"}}}), false),
        (json!({"install": {"npm": "~/bin/npm"}}), true),
        (json!({"display": {"color": "always"}}), true),
        (json!({"display": {"color": "red"}}), false),
        (json!({"log": {"filter": "debug"}}), true),
        (json!({"log": {"filter": 1}}), false),
        (json!({"surprise": 1}), false),
    ];
    for (config, fits) in table {
        let text = toml::to_string(&config).unwrap();
        ground.put("ostler/config.toml", &text);
        assert_eq!(schema.is_valid(&config), fits, "schema: {text}");
        assert_eq!(ground.run(&["config", "check"]).code == Some(0), fits, "reader: {text}");
    }
}

#[test]
fn colours_are_for_those_who_want_them() {
    let colored = |ground: &Ground, args: &[&str]| ground.run(args).stdout.contains('\x1b');
    let ground = Ground::new();
    assert!(!colored(&ground, &["agents"]));
    assert!(colored(&ground, &["agents", "--color", "always"]));
    let ground = ground.with("NO_COLOR", "1");
    assert!(!colored(&ground, &["agents"]));
    assert!(colored(&ground, &["agents", "--color=always"]));
}
