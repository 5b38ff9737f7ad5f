use serde_json::Value;

use super::item::VERBS;
use super::*;

fn read(text: &str) -> Result<Script, Mistake> {
    Script::read(&Document::new("s.toml", text, Format::Toml))
}

/// One item of each verb, with every option it has.
const EVERYTHING: &str = r#"
v = 1
version = "9.9.9"
start = [{ trust_screen = true }, { lose_enter = 1 }, { stderr = "hello" }]
[[step]]
expect = { contains = "a", matches = "^a", turn = 1, resumed = false }
do = [
  { say = "Hello", chunk = 4, gap = "1ms" },
  { think = "Hmm" },
  { tool = "Bash", arguments = { command = "ls" }, output = "a", exit_code = 1, is_error = true, for = "1ms" },
  { permission_ask = "Write", arguments = { file_path = "a" }, output = "ok", for = "1ms" },
  { result = "api_error", message = "no", status = 500 },
  { result = "success", usage = { input = 1, output = 2 } },
  { limit_banner = true },
  { limit_banner = "resets 3pm" },
  { stall = "1s" },
  { stall = "forever", deaf = true },
  { never_exit = true },
  { exit_without_result = 1 },
  { exit = 3 },
  { drop_stdout_keep_transcript = true },
  { setsid_child = {} },
  { setsid_child = { count = 50, daemon = true, ignore_sigterm = true, holds_stdout = true, busy = true, life = "1s", pids = "p" } },
  { ignore_sigterm = true, sigint = true },
  { split_utf8 = "é", gap = "1ms" },
  { long_line = {} },
  { long_line = { bytes = 10 } },
  { flood = { records = 10, bytes = 2 } },
  { unknown_frame = "new", body = { x = 1 } },
  { garbage = "?" },
  { stderr = "oh" },
  { read_stdin_forever = true },
  { write_file = "f", content = "c" },
  { wait_for_file = "f", within = "1s" },
]
"#;

#[test]
fn every_verb_can_be_written() {
    let script = read(EVERYTHING).unwrap();
    assert_eq!(script.step[0].items.len(), 27);
    let unused: Vec<_> = VERBS.iter().filter(|verb| !EVERYTHING.contains(&format!("{{ {verb} ="))).collect();
    assert!(unused.is_empty(), "not in the script above: {unused:?}");
}

#[test]
fn json_reads_like_toml() {
    let text = r#"{"v": 1, "step": [{"do": [{"say": "x"}, {"stall": "1s"}]}]}"#;
    let script = Script::read(&Document::new("s.json", text, Format::Json)).unwrap();
    assert_eq!(script.step[0].items.len(), 2);
}

#[test]
fn mistakes_say_where_and_what_instead() {
    let items = |item: &str| format!("v = 1\n[[step]]\ndo = [\n  {{ say = \"a\" }},\n  {item},\n]\n");
    let table = [
        (
            items("{ stal = \"1s\" }"),
            "s.toml, line 5, `step[0].do[1]`: unknown key `stal`",
            Some("did you mean `stall`?"),
        ),
        (
            items("{ say = \"x\", chnk = 2 }"),
            "s.toml, line 5, `step[0].do[1]`: unknown key `chnk`",
            Some("did you mean `chunk`?"),
        ),
        (
            items("{ setsid_child = { cuont = 2 } }"),
            "s.toml, line 5, `step[0].do[1]`: unknown key `cuont`",
            Some("did you mean `count`?"),
        ),
        (
            items("{ say = \"x\", stall = \"1s\" }"),
            "s.toml, line 5, `step[0].do[1]`: `say` and `stall` in one item: write them as two items",
            None,
        ),
        (items("{}"), "s.toml, line 5, `step[0].do[1]`: an empty item: name one verb", None),
        (
            items("{ never_exit = false }"),
            "s.toml, line 5, `step[0].do[1]`: only `true` makes sense here: leave the item out instead",
            None,
        ),
        (
            items("{ split_utf8 = \"abc\" }"),
            "s.toml, line 5, `step[0].do[1].split_utf8`: has no character of several bytes to split",
            None,
        ),
        (
            items("{ trust_screen = true }"),
            "s.toml, line 5, `step[0].do[1].trust_screen`: no step can show the trust screen",
            Some("put it in `start = [ … ]`: it is shown before any prompt"),
        ),
        (
            items("{ setsid_child = { count = 9999 } }"),
            "s.toml, line 5, `step[0].do[1].setsid_child.count`: more than 200 processes",
            None,
        ),
        (
            items("{ setsid_child = { life = \"1day\" } }"),
            "s.toml, line 5, `step[0].do[1].setsid_child.life`: longer than 10m",
            None,
        ),
        ("v = 2\n".to_owned(), "s.toml, line 1, `v`: version 2 is not known", Some("write `v = 1`")),
        (
            "v = 1\nstart = [{ say = \"x\" }]\n".to_owned(),
            "s.toml, line 2, `start[0]`: there is no turn yet when the process starts",
            Some("put it in a step's `do`"),
        ),
        (
            "v = 1\n[[step]]\nexpect = { contians = \"x\" }\n".to_owned(),
            "s.toml, line 3, `step[0].expect`: unknown key `contians`",
            Some("did you mean `contains`?"),
        ),
    ];
    for (text, words, hint) in table {
        let mistake = read(&text).unwrap_err();
        assert_eq!((mistake.to_string().as_str(), mistake.hint().as_deref()), (words, hint), "{text}");
    }
    let mistake = read("v = 1\n[[step]]\nexpect = { matches = \"(\" }\n").unwrap_err().to_string();
    assert!(
        mistake.starts_with("s.toml, line 3, `step[0].expect.matches`: not a regular expression"),
        "{mistake}"
    );
}

#[test]
fn the_first_step_that_fits_is_played() {
    let script = read(
        r#"
        v = 1
        [[step]]
        expect = { contains = "fix", resumed = true }
        do = [{ say = "resumed" }]
        [[step]]
        expect = { turn = 2 }
        do = [{ say = "second" }]
        [[step]]
        expect = { matches = "^fix \\d+$" }
        do = [{ say = "number" }]
        "#,
    )
    .unwrap();
    let table = [
        ("fix 7", 1, false, Some("number")),
        ("fix 7", 2, false, Some("second")),
        ("fix 7", 2, true, Some("resumed")),
        ("fix it", 1, false, None),
        ("hello", 2, true, Some("second")),
    ];
    for (prompt, turn, resumed, want) in table {
        let step = script.step_for(Occasion { prompt, turn, resumed });
        let said = step.map(|step| match &step.items[0] {
            Item::Say(say) => say.say.as_str(),
            other => panic!("{other:?}"),
        });
        assert_eq!(said, want, "{prompt}, turn {turn}, resumed {resumed}");
    }
}

#[test]
fn the_schema_says_what_the_reader_says() {
    let schema = crate::schema().to_value();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let json = |text: &str| Document::new("s", text, Format::Toml).read::<Value>().unwrap();
    let all = json(EVERYTHING);
    let errors: Vec<String> = validator.iter_errors(&all).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    for wrong in [
        "v = 1\nstart = [{ sya = \"x\" }]",
        "v = 1\n[[step]]\ndo = [{ say = \"x\", stall = \"1s\" }]",
        "x = 1",
    ] {
        assert!(!validator.is_valid(&json(wrong)), "{wrong}");
    }
}

#[test]
fn no_option_is_called_like_a_verb() {
    let schema = crate::schema().to_value();
    let definitions = schema["$defs"].as_object().unwrap();
    let tables = definitions.values().filter_map(|definition| definition["properties"].as_object());
    for table in tables.filter(|table| table.keys().any(|key| VERBS.contains(&key.as_str()))) {
        let verbs: Vec<&String> = table.keys().filter(|key| VERBS.contains(&key.as_str())).collect();
        assert_eq!(verbs.len(), 1, "{verbs:?}");
    }
}
