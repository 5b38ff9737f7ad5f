//! What a server prints when it listens.

use serde_json::json;

use super::Args;
use crate::display;
use crate::failure::Failure;

/// Where it listens, and how to ask the first of the agents that are served.
pub(super) fn tell(
    args: &Args,
    (first, titles): (&str, &[&str]),
    url: &str,
    fresh: Option<&str>,
) -> Result<(), Failure> {
    if args.json {
        let told = json!({"v": 1, "kind": "listening", "url": url, "key": fresh});
        return display::text(&format!("{told}\n"));
    }
    display::text(&greeting(url, (first, titles), fresh))
}

fn greeting(url: &str, (first, titles): (&str, &[&str]), fresh: Option<&str>) -> String {
    let key = fresh.unwrap_or("$OSTLER_KEY");
    let mut words = format!("Serving {} on {url}\n", titles.join(", "));
    if fresh.is_some() {
        words += &format!("\nYour key, which is not shown again: {key}\n");
    }
    words
        + &format!(
            "\nTry it:\n  curl {url}/v1/chat/completions -H \"authorization: Bearer {key}\" \\\n    \
             -H 'content-type: application/json' \\\n    \
             -d '{{\"model\": \"{first}\", \"messages\": [{{\"role\": \"user\", \"content\": \"hello\"}}]}}'\n"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_asks_an_agent_that_is_served() {
        let told = greeting("http://127.0.0.1:7433", ("codex", &["Codex", "OpenCode"]), Some("ostler_x"));
        assert!(told.starts_with("Serving Codex, OpenCode on http://127.0.0.1:7433\n"), "{told}");
        assert!(told.contains("Bearer ostler_x\"") && told.contains("\"model\": \"codex\""), "{told}");
        assert!(!told.contains("claude"), "{told}");
    }
}
