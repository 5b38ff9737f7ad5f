use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Play {
    name: String,
    #[serde(default)]
    acts: Vec<Act>,
    #[serde(default)]
    props: BTreeMap<String, u32>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Act {
    title: String,
    mood: Option<Mood>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Mood {
    Calm,
    Stormy,
}

fn complaint(text: &str, format: Format) -> (String, Option<String>) {
    let mistake = Document::new("play", text, format).read::<Play>().unwrap_err();
    (mistake.to_string(), mistake.hint())
}

#[test]
fn a_mistake_names_file_line_key_and_the_nearest_valid_key() {
    let toml = "name = \"x\"\n\n[[acts]]\ntitle = \"one\"\n\n[[acts]]\ntitel = \"two\"\n";
    let json = "{\"name\": \"x\",\n \"acts\": [\n {\"titel\": \"two\"}]}";
    let table: &[(&str, Format, &str, Option<&str>)] = &[
        (toml, Format::Toml, "play, line 7, `acts[1]`: unknown key `titel`", Some("did you mean `title`?")),
        (json, Format::Json, "play, line 3, `acts[0]`: unknown key `titel`", Some("did you mean `title`?")),
        ("nmae = 1", Format::Toml, "play, line 1: unknown key `nmae`", Some("did you mean `name`?")),
        ("zzz = 1", Format::Toml, "play, line 1: unknown key `zzz`", Some("valid here: name, acts, props")),
        (
            "name = \"x\"\n[[acts]]\ntitle = \"t\"\nmood = \"stromy\"",
            Format::Toml,
            "play, line 4, `acts[0].mood`: unknown value `stromy`",
            Some("did you mean `stormy`?"),
        ),
        (
            "name = 3",
            Format::Toml,
            "play, line 1, `name`: expected text in quotes, found the number 3",
            Some("write `name = \"…\"`"),
        ),
        (
            "{\"name\": 3}",
            Format::Json,
            "play, line 1, `name`: expected text in quotes, found the number 3",
            Some("write `\"name\": \"…\"`"),
        ),
        ("acts = []", Format::Toml, "play, line 1: missing key `name`", Some("write `name = …`")),
        ("{} {}", Format::Json, "play, line 1: missing key `name`", Some("write `\"name\": …`")),
        (
            "name = \"x\"\nprops.hat = -1",
            Format::Toml,
            "play, line 2, `props.hat`: expected a whole number from 0 to 4294967295, found the number -1",
            Some("write `hat = NUMBER`"),
        ),
        (
            "name = \"x\"\nacts = [1]",
            Format::Toml,
            "play, line 2, `acts[0]`: expected a table, found the number 1",
            Some("write a table here"),
        ),
        (
            "{\"name\": \"x\", \"acts\": [{\"ti",
            Format::Json,
            "play, line 1, `acts[0]`: EOF while parsing a string",
            Some("mend it there: the file is not valid JSON"),
        ),
    ];
    for (text, format, message, hint) in table {
        assert_eq!(complaint(text, *format), ((*message).to_owned(), hint.map(str::to_owned)), "{text}");
    }
}

#[test]
fn broken_syntax_is_placed_on_its_line() {
    let (message, _) = complaint("name = \"x\"\nacts = [\n", Format::Toml);
    assert!(message.starts_with("play, line "), "{message}");
    let (message, _) = complaint("{\"name\": \"x\",\n oops}", Format::Json);
    assert!(message.starts_with("play, line 2"), "{message}");
}

#[test]
fn a_rule_of_ours_is_placed_where_its_value_stands() {
    let key = |name: &str| Segment::Key(name.to_owned());
    let toml = Document::new(
        "play",
        "name = \"x\"\n[[acts]]\ntitle = \"a\"\n[[acts]]\ntitle = \"b\"\n",
        Format::Toml,
    );
    let json = Document::new(
        "play",
        "{\"name\": \"x\",\n\"acts\": [{\"title\": \"a\"},\n{\"title\": \"b\"}]}",
        Format::Json,
    );
    let inline = Document::new(
        "play",
        "name = \"x\"\nacts = [\n  { title = \"a\" },\n  { title = \"b\" },\n]",
        Format::Toml,
    );
    let table = [
        (&toml, vec![key("acts"), Segment::Index(1)], 4),
        (&toml, vec![key("acts"), Segment::Index(1), key("title")], 5),
        (&toml, vec![key("acts"), Segment::Index(1), key("missing")], 4),
        (&json, vec![key("acts"), Segment::Index(1), key("title")], 3),
        (&json, vec![key("acts"), Segment::Index(9)], 2),
        (&inline, vec![key("acts"), Segment::Index(1), key("title")], 4),
    ];
    for (document, path, line) in table {
        assert_eq!(document.mistake(&path, "no", None).line, Some(line), "{path:?}");
    }
}

#[test]
fn a_name_is_only_suggested_when_it_is_close() {
    assert_eq!(nearest("tex", ["text", "tool", "stall"]), Some("text"));
    assert_eq!(nearest("stal", ["text", "tool", "stall"]), Some("stall"));
    assert_eq!(nearest("xyz", ["text", "tool", "stall"]), None);
}

proptest! {
    #[test]
    fn no_text_makes_a_document_panic(text in ".{0,200}") {
        for format in [Format::Toml, Format::Json] {
            let document = Document::new("any", text.clone(), format);
            let _ = document.read::<Play>();
            let _ = document.mistake(&[Segment::Key("acts".to_owned()), Segment::Index(0)], "no", None);
        }
    }
}
