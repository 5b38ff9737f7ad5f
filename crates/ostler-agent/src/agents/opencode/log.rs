//! OpenCode's log on its standard error, in logfmt: the only place that reports a failed request that it retries, and
//! of the session before the model's first answer. Lines as seen on 1.18.33.

use crate::agents::reading::LOG_LINE;

/// What a line of the log says, as far as it matters.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A turn of a session begins: its prompt is in the database.
    Turn {
        /// The session's id.
        session: String,
    },
    /// A request to the provider failed.
    RequestFailed {
        /// The session's id.
        session: String,
        /// In OpenCode's words.
        text: String,
    },
}

/// Reads a line. Most say nothing that matters, and others are no log.
pub(super) fn read(line: &str) -> Option<Entry> {
    if !line.starts_with(LOG_LINE) {
        return None;
    }
    let field = |name: &str| {
        let start = line.find(&format!(" {name}="))? + name.len() + 2;
        value(&line[start..])
    };
    match field("message")?.as_str() {
        "loop" => Some(Entry::Turn { session: field("session.id")? }),
        "stream error" => {
            let text = field("error.error")?;
            let text = text.strip_prefix("AI_APICallError: ").unwrap_or(&text).to_owned();
            Some(Entry::RequestFailed { session: field("session.id")?, text })
        }
        _ => None,
    }
}

/// The value at the beginning of a text: a word, or a string in quotes as JSON writes it.
fn value(text: &str) -> Option<String> {
    if !text.starts_with('"') {
        return text.split(' ').next().map(str::to_owned);
    }
    let mut strings = serde_json::Deserializer::from_str(text).into_iter::<String>();
    strings.next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_requests_and_turns_are_read() {
        let turn = "timestamp=2026-11-17T22:03:38.993Z level=INFO run=ee8d150d message=loop session.id=ses_e1 step=0";
        let error = |text: &str| {
            format!(
                "timestamp=2026-11-17T22:03:40.708Z level=ERROR run=ee8d150d message=\"stream error\" \
                 providerID=mock modelID=m session.id=ses_e1 small=false agent=build mode=primary \
                 error.error={text}"
            )
        };
        let session = "ses_e1".to_owned();
        let failed =
            |text: &str| Some(Entry::RequestFailed { session: session.clone(), text: text.to_owned() });
        let table = [
            (turn.to_owned(), Some(Entry::Turn { session: session.clone() })),
            (turn.replace("session.id", "session"), None),
            (
                error(r#""AI_APICallError: Rate limit reached for \"m\"""#),
                failed("Rate limit reached for \"m\""),
            ),
            (error("Cut"), failed("Cut")),
            (error(r#""unterminated"#), None),
            ("timestamp=2026 level=INFO message=process session.id=ses_e1".to_owned(), None),
            (format!("note: {turn}"), None),
            ("timestamp=".to_owned(), None),
            (String::new(), None),
        ];
        for (line, want) in table {
            assert_eq!(read(&line), want, "{line}");
        }
    }
}
