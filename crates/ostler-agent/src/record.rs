//! One line of an agent's output: a record, or not. Three rules: what is not JSON is noise, what begins like JSON and
//! is not is garbled, and a record of an unknown kind is still a record.

use serde_json::Value;

/// Longest part of a line that is not a record that is shown. All of it is in the raw journal.
const EXCERPT: usize = 2_000;

/// What a line is.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A JSON object.
    Json(Value),
    /// Text that was never meant as a record.
    Noise(String),
    /// A record that is broken.
    Garbled(String),
    /// Nothing.
    Blank,
}

impl Record {
    /// Reads a line. Never fails, never panics. Invalid UTF-8 is read with replacement characters.
    pub fn read(line: &[u8]) -> Self {
        let line = line.trim_ascii();
        match line.first() {
            None => Self::Blank,
            Some(b'{') => match serde_json::from_slice(line) {
                Ok(value) => Self::Json(value),
                Err(_) => Self::read_lossily(line),
            },
            Some(_) => Self::Noise(shown(line)),
        }
    }

    /// A line of a program that writes no records.
    pub fn text(line: &[u8]) -> Self {
        match line.trim_ascii() {
            [] => Self::Blank,
            line => Self::Noise(shown(line)),
        }
    }

    fn read_lossily(line: &[u8]) -> Self {
        match std::str::from_utf8(line) {
            Ok(_) => Self::Garbled(shown(line)),
            Err(_) => match serde_json::from_str(&String::from_utf8_lossy(line)) {
                Ok(value) => Self::Json(value),
                Err(_) => Self::Garbled(shown(line)),
            },
        }
    }
}

/// The beginning of a text, without control characters.
fn shown(line: &[u8]) -> String {
    let start = &line[..line.len().min(EXCERPT)];
    let mut text: String =
        String::from_utf8_lossy(start).chars().filter(|letter| !letter.is_control()).collect();
    if line.len() > EXCERPT {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn where_nothing_is_a_record_json_is_text_as_it_was_written() {
        assert_eq!(Record::text(b" {\"b\":1,  \"a\":2} "), Record::Noise("{\"b\":1,  \"a\":2}".into()));
        assert_eq!(Record::text(b" \t"), Record::Blank);
    }

    #[test]
    fn a_line_is_a_record_noise_or_garbled() {
        let table: [(&[u8], Record); 8] = [
            (b"{\"type\":\"x\"}", Record::Json(json!({"type": "x"}))),
            (b"  {\"a\": 1}\t", Record::Json(json!({"a": 1}))),
            (
                b"Reading additional input from stdin...",
                Record::Noise("Reading additional input from stdin...".into()),
            ),
            (b"\x1b[31mred", Record::Noise("[31mred".into())),
            (b"{\"type\":", Record::Garbled("{\"type\":".into())),
            (b"{\"a\": \"\xff\"}", Record::Json(json!({"a": "\u{fffd}"}))),
            (b"", Record::Blank),
            (b"[1, 2]", Record::Noise("[1, 2]".into())),
        ];
        for (line, want) in table {
            assert_eq!(Record::read(line), want, "{}", String::from_utf8_lossy(line));
        }
        let Record::Noise(long) = Record::read(&[b'x'; 5_000]) else { panic!("noise") };
        assert_eq!(long.chars().count(), EXCERPT + 1);
    }
}
