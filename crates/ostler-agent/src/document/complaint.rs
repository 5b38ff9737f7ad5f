//! serde's complaints, put for people: in the words of the format, without those of Rust, and with what to write.
//!
//! serde words every complaint of a kind alike ("unknown field `x`, expected one of `a`, `b`"), and there is no typed
//! way to it through a format's own error, so the words are read. What is not understood is passed on as it is.

use regex_lite::Regex;

use super::{Format, nearest};

/// What a type of ours puts between its complaint and what to do instead.
const TRY: &str = "; try: ";

/// serde's complaint, put for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) problem: String,
    pub(super) hint: Option<String>,
    /// The unknown key, if that is what the complaint is about.
    pub(super) unknown: Option<String>,
}

/// Puts a complaint about the value at `key` for people.
pub(super) fn explain(message: &str, key: &str, format: Format) -> Complaint {
    let message = message.trim().replace('\n', " ");
    unknown_name(&message)
        .or_else(|| missing_key(&message, format))
        .or_else(|| wrong_value(&message, key, format))
        .unwrap_or_else(|| match message.split_once(TRY) {
            Some((problem, hint)) => plain(problem.to_owned(), Some(hint.to_owned())),
            None => plain(message, None),
        })
}

fn plain(problem: String, hint: Option<String>) -> Complaint {
    Complaint { problem, hint, unknown: None }
}

fn unknown_name(message: &str) -> Option<Complaint> {
    let (kind, rest) = [("key", "unknown field `"), ("value", "unknown variant `")]
        .iter()
        .find_map(|(kind, start)| Some((*kind, message.strip_prefix(start)?)))?;
    let (name, expected) = rest.split_once('`')?;
    let valid = quoted(expected);
    let hint = match nearest(name, valid.iter().map(String::as_str)) {
        Some(close) => format!("did you mean `{close}`?"),
        None if valid.is_empty() => "nothing may stand here".to_owned(),
        None => format!("valid here: {}", valid.join(", ")),
    };
    let unknown = (kind == "key").then(|| name.to_owned());
    Some(Complaint { problem: format!("unknown {kind} `{name}`"), hint: Some(hint), unknown })
}

fn missing_key(message: &str, format: Format) -> Option<Complaint> {
    if let Some(name) = message.strip_prefix("duplicate field `").and_then(|rest| rest.strip_suffix('`')) {
        return Some(plain(format!("key `{name}` is there twice"), Some("remove one of the two".to_owned())));
    }
    let name = message.strip_prefix("missing field `")?.strip_suffix('`')?;
    Some(plain(format!("missing key `{name}`"), Some(writing(name, "…", format))))
}

/// "invalid type: integer `3`, expected a string", and likewise for values and lengths.
fn wrong_value(message: &str, key: &str, format: Format) -> Option<Complaint> {
    let rest = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|start| message.strip_prefix(start))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let (words, example) = in_words(expected, format);
    let last = key.rsplit('.').next().unwrap_or_default();
    let hint = match example {
        Some(example) if !last.is_empty() && !last.ends_with(']') => writing(last, example, format),
        _ => format!("write {words} here"),
    };
    Some(plain(format!("expected {words}, found {}", found_in_words(found, format)), Some(hint)))
}

fn writing(name: &str, value: &str, format: Format) -> String {
    match format {
        Format::Toml => format!("write `{name} = {value}`"),
        Format::Json => format!("write `\"{name}\": {value}`"),
    }
}

/// What a type expects, and how that is written.
fn in_words(expected: &str, format: Format) -> (String, Option<&'static str>) {
    if let Some((least, most)) = bounds(expected) {
        return (format!("a whole number from {least} to {most}"), Some("NUMBER"));
    }
    let (table, example) = match format {
        Format::Toml => ("a table", "{ … }"),
        Format::Json => ("an object", "{ … }"),
    };
    let is = |starts: &[&str]| starts.iter().any(|start| expected.starts_with(start));
    if is(&["a string", "string", "a borrowed string", "path string", "a character"]) {
        ("text in quotes".to_owned(), Some("\"…\""))
    } else if is(&["a boolean", "bool"]) {
        ("`true` or `false`".to_owned(), Some("true"))
    } else if is(&["f32", "f64", "a float", "floating point"]) {
        ("a number".to_owned(), Some("NUMBER"))
    } else if is(&["struct ", "a map", "map", "internally tagged enum", "adjacently tagged enum"]) {
        (table.to_owned(), Some(example))
    } else if is(&["a sequence", "sequence", "an array", "a tuple", "tuple", "a list"]) {
        ("a list".to_owned(), Some("[…]"))
    } else if is(&["enum ", "variant identifier", "field identifier", "identifier", "string only"]) {
        ("one of the words that are valid here".to_owned(), Some("\"…\""))
    } else {
        (expected.to_owned(), Some("…"))
    }
}

/// The least and the greatest number that fit into one of Rust's types.
fn bounds(rust: &str) -> Option<(String, String)> {
    let pair = |least: &dyn ToString, most: &dyn ToString| Some((least.to_string(), most.to_string()));
    match rust {
        "u8" => pair(&u8::MIN, &u8::MAX),
        "u16" => pair(&u16::MIN, &u16::MAX),
        "u32" => pair(&u32::MIN, &u32::MAX),
        "u64" | "usize" => pair(&u64::MIN, &u64::MAX),
        "i8" => pair(&i8::MIN, &i8::MAX),
        "i16" => pair(&i16::MIN, &i16::MAX),
        "i32" => pair(&i32::MIN, &i32::MAX),
        "i64" | "isize" => pair(&i64::MIN, &i64::MAX),
        "a nonzero u8" => pair(&1, &u8::MAX),
        "a nonzero u16" => pair(&1, &u16::MAX),
        "a nonzero u32" => pair(&1, &u32::MAX),
        "a nonzero u64" | "a nonzero usize" => pair(&1, &u64::MAX),
        _ => None,
    }
}

fn found_in_words(found: &str, format: Format) -> String {
    let number = ["integer `", "floating point `"].iter().find_map(|start| found.strip_prefix(start));
    match (found, number.and_then(|rest| rest.strip_suffix('`'))) {
        (_, Some(number)) => format!("the number {number}"),
        ("map", _) if format == Format::Toml => "a table".to_owned(),
        ("map", _) => "an object".to_owned(),
        ("sequence", _) => "a list".to_owned(),
        ("null" | "unit value" | "Option value", _) => "nothing".to_owned(),
        _ => match (found.strip_prefix("boolean "), found.strip_prefix("string ")) {
            (Some(truth), _) => truth.to_owned(),
            (_, Some(text)) => format!("the text {text}"),
            _ if found.bytes().all(|byte| byte.is_ascii_digit()) => format!("a list of {found}"),
            _ => found.to_owned(),
        },
    }
}

fn quoted(text: &str) -> Vec<String> {
    match Regex::new("`([^`]+)`") {
        Ok(pattern) => pattern.captures_iter(text).map(|found| found[1].to_owned()).collect(),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_in_the_words_of_the_format_and_say_what_to_write() {
        use Format::{Json, Toml};
        let table = [
            (
                "invalid type: integer `3`, expected a string",
                "log.filter",
                Toml,
                "expected text in quotes, found the number 3 | write `filter = \"…\"`",
            ),
            (
                "invalid type: integer `3`, expected struct Log",
                "log",
                Toml,
                "expected a table, found the number 3 | write `log = { … }`",
            ),
            (
                "invalid type: sequence, expected struct Log",
                "log",
                Json,
                "expected an object, found a list | write `\"log\": { … }`",
            ),
            (
                "invalid value: integer `70000`, expected u16",
                "a.port",
                Toml,
                "expected a whole number from 0 to 65535, found the number 70000 | write `port = NUMBER`",
            ),
            (
                "invalid type: string \"x, expected y\", expected i8",
                "a[0]",
                Toml,
                "expected a whole number from -128 to 127, found the text \"x, expected y\" | \
                 write a whole number from -128 to 127 here",
            ),
            (
                "invalid type: boolean `true`, expected a sequence",
                "acts",
                Toml,
                "expected a list, found `true` | write `acts = […]`",
            ),
            (
                "invalid type: null, expected a duration such as `5m`",
                "wait",
                Json,
                "expected a duration such as `5m`, found nothing | write `\"wait\": …`",
            ),
            (
                "invalid length 1, expected a tuple of size 2",
                "",
                Json,
                "expected a list, found a list of 1 | write a list here",
            ),
            ("missing field `v`", "", Toml, "missing key `v` | write `v = …`"),
            ("missing field `v`", "", Json, "missing key `v` | write `\"v\": …`"),
            ("duplicate field `v`", "", Json, "key `v` is there twice | remove one of the two"),
            ("`x` is no path; try: `/x`", "", Toml, "`x` is no path | `/x`"),
            ("some words of their own", "", Toml, "some words of their own | "),
        ];
        for (message, key, format, want) in table {
            let told = explain(message, key, format);
            assert_eq!(format!("{} | {}", told.problem, told.hint.unwrap_or_default()), want, "{message}");
        }
    }
}
