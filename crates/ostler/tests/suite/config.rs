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

/// The dotted keys of a schema. A table of the user's own names is one key.
fn keys_of(schema: &Value, root: &Value, prefix: &str, found: &mut Vec<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(path) => root.pointer(path.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    match schema["properties"].as_object() {
        Some(properties) => {
            for (name, below) in properties {
                let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                keys_of(below, root, &key, found);
            }
        }
        None => found.push(prefix.to_owned()),
    }
}

#[test]
fn config_show_prints_every_effective_value() {
    let ground = Ground::new();
    let schema: Value = serde_json::from_str(&ground.run(&["config", "schema"]).stdout).unwrap();
    let mut keys = Vec::new();
    keys_of(&schema, &schema, "", &mut keys);
    assert!(keys.len() > 30 && keys.contains(&"run.max_cost".to_owned()), "{keys:?}");
    let shown: Vec<Value> = serde_json::from_str(&ground.run(&["config", "show", "--json"]).stdout).unwrap();
    let text = ground.run(&["config", "show"]).stdout;
    for key in keys {
        let entry = shown.iter().find(|entry| entry["key"] == key.as_str());
        let entry = entry.unwrap_or_else(|| panic!("`config show --json` has no {key}"));
        assert!(entry["value"] != Value::Null || entry["unset"].is_string(), "{entry}");
        assert_eq!(entry["origin"], "default", "{entry}");
        let has = |start: &str| text.lines().any(|line| line.starts_with(start));
        assert!(has(&format!("{key} = ")) || has(&format!("# {key} is not set: ")), "{key}: {text}");
    }
    // It is TOML, and what it says is what holds anyway.
    ground.put("ostler/config.toml", &text);
    let again = ground.run(&["config", "show"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), text.as_str()), "{}", again.stderr);
}

#[test]
fn config_show_quotes_the_name_of_a_model_that_has_a_dot() {
    let ground = Ground::new();
    ground.put("ostler/config.toml", "[prices.\"gpt-5.5\"]\ninput = 1.25\noutput = 10\n");
    let shown = ground.run(&["config", "show"]).stdout;
    assert!(shown.contains("prices.\"gpt-5.5\".input = 1.25\n"), "{shown}");
    ground.put("ostler/config.toml", &shown);
    let again = ground.run(&["config", "show"]);
    assert_eq!((again.code, again.stdout), (Some(0), shown), "{}", again.stderr);
}

#[test]
fn a_program_that_is_set_for_one_agent_is_shown_for_both_that_share_it() {
    let ground = Ground::new();
    ground
        .put("ostler/config.toml", "[agents.claude]\nprogram = \"/x\"\n\n[serve.models]\nfast = \"codex\"\n");
    let shown = ground.run(&["config", "show"]).stdout;
    for line in
        ["agents.claude-headless.program = \"/x\"", "agents.claude.program = \"/x\"", "serve.models.fast = "]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("# serve.models is not set"), "{shown}");
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
