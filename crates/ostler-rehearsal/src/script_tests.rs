use ostler_agent::document::Format;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

const HEAD: &str = "v = 1\n[[conversation]]\n[[conversation.step]]\n";

fn told(text: &str) -> String {
    let mistake = parse("play.toml", text, Format::Toml).expect_err(text);
    format!("{mistake} | {}", mistake.hint().unwrap_or_default())
}

#[test]
fn a_bad_script_says_where_what_and_what_was_meant() {
    let table: &[(&str, &str)] = &[
        ("v = 2\nconversation = []", "play.toml, line 1, `v`: version 2 is not known | write `v = 1`"),
        (
            "v = 1\nconversation = []",
            "play.toml, line 2, `conversation`: there is no conversation | add one with a step",
        ),
        (
            "reply = [{ texd = \"x\" }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0]`: unknown key `texd` | did you mean `text`?",
        ),
        (
            "reply = [\n  { text = \"a\" },\n  { tool_by_role = \"shel\", command = \"ls\" },\n]",
            "play.toml, line 6, `conversation[0].step[0].reply[1].tool_by_role`: unknown role `shel` | did you mean `shell`?",
        ),
        (
            "reply = [{ stall = \"mid_txt\" }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0].stall`: unknown value `mid_txt` | did you mean `mid_text`?",
        ),
        (
            "reply = [{ text = \"a\", tool = \"b\" }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0]`: `text` and `tool` are two items | write them as two items, one after the other",
        ),
        (
            "reply = [{ chunk = 3 }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0]`: nothing names this item | give it one of text, thinking, tool, tool_by_role, http, stall, cut, stop_reason, usage",
        ),
        (
            "reply = [{ http = 429, gap = \"1s\" }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0].gap`: `gap` does not belong to `http` | with `http` go retry_after, message, body, headers, times",
        ),
        (
            "reply = [{ http = 200 }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0].http`: 200 is not an error status | give 400 to 599",
        ),
        (
            "reply = [{ tool_by_role = \"write_file\", path = \"x\" }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0]`: the role `write_file` needs `content` | add `content = \"…\"`",
        ),
        (
            "reply = [{ text = \"{{promt}}\" }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0].text`: unknown template `{{promt}}` | did you mean `{{prompt}}`?",
        ),
        (
            "reply = [{ text = \"a\", gap = \"soon\" }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0].gap`: `soon` is not a duration: expected number at 0 | write it as 30s or 10ms",
        ),
        (
            "reply = [{ stall = \"before_headers\", keep_alive = \"1s\" }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0]`: an answer that has not begun has no keep-alives | write `stall = \"mid_text\", keep_alive = \"15s\"`",
        ),
        (
            "reply = [{ text = \"a\" }, { stall = \"mid_text\", keep_alive = \"0s\" }]",
            "play.toml, line 4, `conversation[0].step[0].reply[1]`: `keep_alive` must be longer than zero | write `stall = \"mid_text\", keep_alive = \"15s\"`",
        ),
        (
            "reply = [{ http = 500 }, { text = \"a\" }]",
            "play.toml, line 4, `conversation[0].step[0].reply[1]`: this item can never be played: the fault before it happens every time | give that fault `times = 1`",
        ),
        (
            "reply = [{ text = \"a\" }, { http = 500, times = 1 }]",
            "play.toml, line 4, `conversation[0].step[0].reply[1]`: an answer that has begun cannot fail this way | put it before the text, or use `mid_text`",
        ),
        (
            "reply = [{ text = \"a\" }]\n[[conversation.step]]\nreply = [{ text = \"b\" }]",
            "play.toml, line 5, `conversation[0].step[1]`: this step can never match: the one before it calls no tool, so the turn ends there | call a tool in the step before, or put this step into a conversation of its own",
        ),
        (
            "reply = [{ text = \"a\" }]\n[[conversation]]\n[[conversation.step]]\nexpect = { contains = \"x\" }\nreply = [{ text = \"b\" }]",
            "play.toml, line 5, `conversation[1]`: this conversation can never match: `conversation 1` takes every prompt it would take | give its first step an `expect` that tells them apart, or put the general one last",
        ),
        (
            "expect = { result_contains = \"x\" }\nreply = [{ text = \"a\" }]",
            "play.toml, line 4, `conversation[0].step[0].expect.result_contains`: this step can never match: before the first step no tool was called | expect the result in the step after the call",
        ),
        (
            "repeat = 3\nreply = [{ text = \"a\" }]",
            "play.toml, line 4, `conversation[0].step[0].repeat`: the repetition can never match: the step calls no tool, so the turn ends there | call a tool in this step, or leave `repeat` out",
        ),
        (
            "reply = [{ text = \"hello\", repeat = 4000000000 }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0].repeat`: more than 64 MiB of text | say less",
        ),
        (
            "reply = [{ tool_by_role = \"mcp:x\", arguments = { a = \"{{promt}}\" } }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0].arguments.a`: unknown template `{{promt}}` | did you mean `{{prompt}}`?",
        ),
        (
            "reply = [{ http = 500, headers = { Content-Length = \"5\" } }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0].headers.Content-Length`: this header belongs to the server | leave it out",
        ),
        (
            "reply = [{ tool = \"\" }]",
            "play.toml, line 4, `conversation[0].step[0].reply[0].tool`: a tool has a name | write the tool's name",
        ),
        (
            "expect = { contains = \"a\" }\nreply = [{ text = \"a\" }]\n[[conversation]]\n[[conversation.step]]\nexpect = { contains = \"abc\" }\nreply = [{ text = \"b\" }]",
            "play.toml, line 6, `conversation[1]`: this conversation can never match: `conversation 1` takes every prompt it would take | give its first step an `expect` that tells them apart, or put the general one last",
        ),
        (
            "when = { offered = \"x\" }\nreply = [{ text = \"a\" }]\n[[conversation.step]]\nwhen = { offered = \"x\" }\nreply = [{ text = \"b\" }]",
            "play.toml, line 6, `conversation[0].step[1]`: this step can never match: the one before it calls no tool, so the turn ends there | call a tool in the step before, or put this step into a conversation of its own",
        ),
        (
            "reply = []",
            "play.toml, line 3, `conversation[0].step[0]`: there is no reply | say something: reply = [{ text = \"…\" }]",
        ),
    ];
    for (text, want) in table {
        let whole = if text.starts_with("v = ") { (*text).to_owned() } else { format!("{HEAD}{text}") };
        assert_eq!(told(&whole), *want);
    }
}

#[test]
fn a_bad_pattern_is_placed() {
    let pattern = told(&format!("{HEAD}expect = {{ matches = \"(\" }}\nreply = [{{ text = \"a\" }}]"));
    assert!(
        pattern.starts_with("play.toml, line 4, `conversation[0].step[0].expect.matches`: not a regular"),
        "{pattern}"
    );
}

#[test]
fn json_is_a_script_too() {
    let text = r#"{"v": 1, "conversation": [{"step": [{"reply": [{"text": "Hello"}]}]}]}"#;
    assert_eq!(parse("play.json", text, Format::Json).unwrap().conversations.len(), 1);
    let mistake = parse("play.json", &text.replace("text", "txt"), Format::Json).unwrap_err();
    assert_eq!(mistake.hint().as_deref(), Some("did you mean `text`?"));
}

#[test]
fn every_built_in_script_loads_and_fits_the_schema() {
    let schema = jsonschema::validator_for(schema().as_value()).unwrap();
    for builtin in BUILTIN {
        let play = load(builtin.name).unwrap();
        assert!(!play.about.is_empty(), "{}", builtin.name);
        let value: Value = toml::from_str(builtin.text).unwrap();
        let complaints: Vec<_> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(complaints, Vec::<String>::new(), "{}", builtin.name);
    }
}

#[test]
fn the_schema_refuses_what_the_loader_refuses() {
    let schema = jsonschema::validator_for(schema().as_value()).unwrap();
    for item in [r#"{ text = "a", tool = "b" }"#, r#"{ chunk = 3 }"#, r#"{ txt = "a" }"#, "{ http = 200 }"] {
        let text = format!("{HEAD}reply = [{item}]");
        assert!(parse("x", &text, Format::Toml).is_err(), "{item}");
        assert!(!schema.is_valid(&toml::from_str::<Value>(&text).unwrap()), "{item}");
    }
}

#[test]
fn a_script_that_is_not_there_is_explained() {
    let error = load("tool").unwrap_err();
    assert_eq!(error.to_string(), "no script `tool`: it is neither a built-in one nor a file");
    assert_eq!(error.hint().as_deref(), Some("did you mean `tools`?"));
    assert!(load("/").unwrap_err().to_string().starts_with("could not read the script"));
}

proptest! {
    #[test]
    fn no_text_makes_the_loader_panic(tail in "(?s).{0,120}") {
        let _ = parse("any", &format!("{HEAD}reply = [{{ {tail} }}]"), Format::Toml);
        let _ = parse("any", &tail, Format::Json);
    }
}
