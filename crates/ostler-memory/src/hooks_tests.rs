use super::*;

const FOREIGN: &str = r#"{
  // a remark "with" {braces}
  "model": "opus",   "url": "https://example.com//x",
  "hooks": {
    "Stop": [ { "matcher": "",  "hooks": [ {"type":"command","command":"echo /* no comment */"} ] } ],
    "PreToolUse": []
  },
	"tabbed":	[1,2,
 3]
}
"#;

struct Yard {
    folder: tempfile::TempDir,
    place: Place,
}

impl Yard {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path().join("memory"));
        Self { folder, place }
    }

    fn ground(&self) -> Ground<'_> {
        Ground {
            place: &self.place,
            home: self.folder.path(),
            variable: &|_| None,
            program: Path::new("/opt/it's/ostler"),
            ostler_home: Some(Path::new("/srv/kept")),
        }
    }

    fn settings(&self) -> PathBuf {
        self.ground().path(Origin::Claude)
    }

    fn put(&self, text: &str) {
        fs::create_dir_all(self.settings().parent().unwrap()).unwrap();
        fs::write(self.settings(), text).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.settings()).unwrap()
    }

    fn install(&self) {
        let change = self.ground().install(Origin::Claude).unwrap();
        self.ground().apply(&change).unwrap();
    }

    fn uninstall(&self) {
        let change = self.ground().uninstall(Origin::Claude).unwrap();
        self.ground().apply(&change).unwrap();
    }
}

/// Every line that was there is there, in the same order, except that lists got longer.
#[test]
fn what_is_not_ours_stays_as_it_was() {
    let yard = Yard::new();
    yard.put(FOREIGN);
    fs::set_permissions(yard.settings(), fs::Permissions::from_mode(0o640)).unwrap();
    yard.install();
    let text = yard.text();
    for kept in [
        "  // a remark \"with\" {braces}\n  \"model\": \"opus\",   \"url\": \"https://example.com//x\",\n  \"hooks\": {\n",
        "{ \"matcher\": \"\",  \"hooks\": [ {\"type\":\"command\",\"command\":\"echo /* no comment */\"} ] }",
        "\"PreToolUse\": []",
        "\t\"tabbed\":\t[1,2,\n 3]\n}\n",
    ] {
        assert!(text.contains(kept), "{kept}\n{text}");
    }
    let ours = "OSTLER_HOME='/srv/kept' '/opt/it'\\\\''s/ostler' memory hook ";
    for event in ["session-start", "prompt", "stop", "pre-compact", "session-end"] {
        assert_eq!(text.matches(&format!("{ours}{event}\"")).count(), 1, "{event}\n{text}");
    }
    assert_eq!(fs::metadata(yard.settings()).unwrap().permissions().mode() & 0o777, 0o640);
    let standing = yard.ground().standing(Origin::Claude);
    assert_eq!((standing.present.len(), standing.missing.len(), standing.unreadable), (5, 0, None));
    let again = yard.ground().install(Origin::Claude).unwrap();
    assert!(!again.is_needed());
    yard.uninstall();
    assert_eq!(yard.text(), FOREIGN);
}

/// Our entries are put in and taken out again, also without the backup, and not one other byte is different.
#[test]
fn outside_our_entries_every_byte_is_the_same() {
    let odd = [
        "{}",
        "{}\n",
        "{\n}\n",
        "{\n  \"a\": \"\\u00e9\\/\"\n}\n",
        "{\"a\":1e400,\"a\":2,\"\":{}}",
        "// only a remark\n{ \"x\" : [ ] , \"y\" : null }   \n\n",
        "{\r\n\t\"model\": \"opus\"\r\n}\r\n",
        "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"mine\"}]}],\"Other\":[]},\"z\":0}",
        "{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [] // nothing\n      }\n    ]\n  }\n}\n",
        "{\"env\":{\"KEY\":\"a // b /* c */ memory hook\"}}",
        "{\"hooks\": {\"Stop\": [\n  {\"hooks\": [1, {\"command\": 2}]} // mine, and no other\n]}}",
        FOREIGN,
    ];
    for text in odd {
        let yard = Yard::new();
        yard.put(text);
        let entries = yard.ground().entries(Origin::Claude);
        let with = settings::with(text, &entries, TIMEOUT).unwrap();
        assert_eq!(with.matches(" memory hook ").count(), 5, "{with}");
        assert_eq!(settings::without(&with).unwrap(), text, "{with}");
        yard.install();
        yard.uninstall();
        assert_eq!(yard.text(), text);
    }
}

#[test]
fn our_entries_are_taken_out_of_settings_that_were_changed_since() {
    let yard = Yard::new();
    yard.put(FOREIGN);
    yard.install();
    let changed = yard.text().replace("opus", "sonnet");
    yard.put(&changed);
    yard.uninstall();
    let text = yard.text();
    assert!(!text.contains("memory hook"), "{text}");
    assert!(
        text.contains("\"model\": \"sonnet\",   \"url\"") && text.contains("echo /* no comment */"),
        "{text}"
    );
    assert!(text.ends_with("\t\"tabbed\":\t[1,2,\n 3]\n}\n"), "{text}");
}

/// What others wrote around our entries, after we put them in.
#[test]
fn a_remark_beside_our_entry_stays() {
    let ours = |name: &str| format!(r#"{{"command": "'/o/ostler' memory hook {name}"}}"#);
    let (a, b) = (ours("stop"), ours("prompt"));
    let table = [
        (format!("[{a}, /* x */ 1]"), "[ /* x */ 1]"),
        (format!("[1 /* , */, // y\n {a}]"), "[1 /* , */ // y\n ]"),
        (format!("[1, {a}, {b}, 2]"), "[1, 2]"),
        (format!("[{a}, {b}, 2]"), "[2]"),
    ];
    for (inner, want) in table {
        let text = format!("{{\"hooks\": {{\"Stop\": [{{\"hooks\": {inner}}}]}}}}");
        let want = format!("{{\"hooks\": {{\"Stop\": [{{\"hooks\": {want}}}]}}}}");
        assert_eq!(settings::without(&text).unwrap(), want);
    }
}

#[test]
fn settings_that_were_not_there_are_gone_again() {
    let yard = Yard::new();
    yard.install();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&yard.text()).unwrap()["hooks"].as_object().unwrap().len(),
        5
    );
    yard.uninstall();
    assert!(!yard.settings().exists());
}

#[test]
fn what_cannot_be_read_is_not_touched() {
    for broken in [
        "{\"a\": 1,}",
        "{",
        "[]",
        "{\"hooks\": []}",
        "{\"hooks\": {\"Stop\": {}}}",
        "{'a': 1}",
        "not json",
        "\u{feff}{}",
    ] {
        let yard = Yard::new();
        yard.put(broken);
        let refused = yard.ground().install(Origin::Claude);
        assert!(matches!(refused, Err(HooksError::Unreadable { .. })), "{broken}: {refused:?}");
        assert_eq!(yard.text(), broken);
    }
}

#[test]
fn an_older_entry_of_ours_is_replaced() {
    let yard = Yard::new();
    yard.put(r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"'/old/ostler' memory hook stop"},{"type":"command","command":"mine"}]}]}}"#);
    yard.install();
    let text = yard.text();
    assert!(!text.contains("/old/ostler") && text.contains("\"mine\""), "{text}");
}

#[test]
fn a_link_stays_a_link() {
    let yard = Yard::new();
    let real = yard.folder.path().join("dotfiles.json");
    fs::write(&real, "{}\n").unwrap();
    fs::create_dir_all(yard.settings().parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&real, yard.settings()).unwrap();
    yard.install();
    assert!(fs::symlink_metadata(yard.settings()).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("memory hook"));
}

#[test]
fn sessions_are_captured_where_the_settings_call_us_with_the_same_folder() {
    let yard = Yard::new();
    let ground = yard.ground();
    let is_capturing = |origin, root: &str| ground.is_capturing(origin, Path::new(root));
    for origin in Origin::ALL {
        assert!(!is_capturing(origin, "/srv/kept"), "{origin:?}: nothing is installed");
        ground.apply(&ground.install(origin).unwrap()).unwrap();
        assert!(is_capturing(origin, "/srv/kept"), "{origin:?}");
        assert!(!is_capturing(origin, "/srv/kept/other"), "{origin:?}: into another folder");
        // Installed by a program that was elsewhere then.
        let moved = Ground { program: Path::new("/usr/bin/ostler"), ..ground };
        assert!(moved.is_capturing(origin, Path::new("/srv/kept")), "{origin:?}");
    }
    let settings = fs::read_to_string(yard.settings()).unwrap();
    fs::write(yard.settings(), settings.replacen('{', r#"{"disableAllHooks": true,"#, 1)).unwrap();
    assert!(!is_capturing(Origin::Claude, "/srv/kept"), "all hooks are switched off");
    fs::write(yard.settings(), "{").unwrap();
    assert!(!is_capturing(Origin::Claude, "/srv/kept"), "it cannot be read");
    for origin in Origin::ALL {
        let usual = Ground { ostler_home: None, ..ground };
        let _ = fs::remove_file(ground.path(origin));
        usual.apply(&usual.install(origin).unwrap()).unwrap();
        assert!(
            is_capturing(origin, "/any"),
            "{origin:?}: into the directory of the user who starts the agent"
        );
        usual.apply(&usual.uninstall(origin).unwrap()).unwrap();
        assert!(!is_capturing(origin, "/any"), "{origin:?}");
    }
}
