//! What a server of others answers, cut to what is passed on.

use std::io;

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

/// What an answer may have. An agent shows its model a tenth of it; pictures are longer.
pub(super) const MOST_BYTES: usize = 1024 * 1024;

/// The answer, or as much of it as is passed on. What is cut says so.
pub(super) fn bounded(server: &str, mut answer: CallToolResult) -> CallToolResult {
    let bytes = length(&answer);
    if bytes <= MOST_BYTES {
        return answer;
    }
    let mut left = MOST_BYTES;
    let mut kept = Vec::new();
    for block in answer.content {
        let needed = length(&block);
        if needed <= left {
            left -= needed;
            kept.push(block);
        } else if let ContentBlock::Text(mut text) = block {
            // As JSON it is longer than it is, by as much as is in quotes and escapes.
            let mut most = left;
            while length(&text) > left {
                cut(&mut text.text, most);
                most /= 2;
            }
            kept.push(ContentBlock::Text(text));
            break;
        }
    }
    let structured = answer.structured_content.filter(|value| length(value) <= left);
    kept.push(ContentBlock::text(format!(
        "[Cut: the MCP server `{server}` answered with {bytes} bytes, of which at most {MOST_BYTES} are passed on. Ask \
         it for less.]"
    )));
    answer.content = kept;
    answer.structured_content = structured;
    answer.meta = None;
    answer
}

fn cut(text: &mut String, most: usize) {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
}

/// How long something is as JSON.
fn length(value: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    // Nothing here fails to be written as JSON; if it did, it would be too long.
    serde_json::to_writer(&mut counted, value).map_or(usize::MAX, |()| counted.0)
}

struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(answer: &CallToolResult) -> Vec<usize> {
        answer.content.iter().map(|block| block.as_text().map_or(0, |text| text.text.len())).collect()
    }

    #[test]
    fn what_is_short_is_passed_on_as_it_is() {
        let mut answer =
            CallToolResult::error(vec![ContentBlock::text("No."), ContentBlock::image("AAAA", "image/png")]);
        answer.structured_content = Some(json!({ "a": 1 }));
        assert_eq!(bounded("x", answer.clone()), answer);
    }

    #[test]
    fn what_is_long_is_cut_and_says_so() {
        let long = "é".repeat(MOST_BYTES);
        let mut answer = CallToolResult::error(vec![ContentBlock::text("first"), ContentBlock::text(long)]);
        answer.structured_content = Some(json!("x".repeat(MOST_BYTES)));
        let cut = bounded("x", answer);
        assert_eq!(cut.is_error, Some(true));
        assert_eq!(cut.structured_content, None);
        assert_eq!(texts(&cut).len(), 3);
        assert!(length(&cut) <= MOST_BYTES + 1000, "{}", length(&cut));
        assert!(texts(&cut)[1] > MOST_BYTES / 3, "{:?}", texts(&cut));
        let last = cut.content.last().and_then(ContentBlock::as_text).unwrap();
        assert!(last.text.starts_with("[Cut: the MCP server `x` answered with "), "{}", last.text);
        // A picture cannot be cut: it is left out, and what comes after it is kept.
        let picture = ContentBlock::image("A".repeat(MOST_BYTES), "image/png");
        let cut = bounded("x", CallToolResult::success(vec![picture, ContentBlock::text("after")]));
        assert_eq!(texts(&cut)[0], 5);
    }
}
