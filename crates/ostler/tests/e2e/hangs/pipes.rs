//! Nothing is held up in our own pipes, and nothing is lost in them.

use std::path::Path;

use serde_json::{Value, json};

use crate::hangs::COMPLETED;
use crate::player::Player;
use crate::yard::{Ended, Yard};

/// More than an argument may have, and more than a pipe holds.
const LONG_PROMPT: usize = 200_000;

/// A line that is looked at, and one that is too long for that: the bound is 64 MiB.
const LONG_LINE: u64 = 64_000_000;
const TOO_LONG: u64 = 70_000_000;

fn kept(ended: &Ended, stream: &str) -> u64 {
    let journal = Path::new(ended.outcome()["journal"].as_str().unwrap());
    std::fs::metadata(journal.join("raw").join(stream)).unwrap().len()
}

mod h10_our_own_pipes {
    use super::*;

    /// The model answers only if all of it came.
    fn a_long_prompt_comes_whole(player: Player) {
        let Some(yard) = Yard::of(player) else { return };
        let prompt: String =
            (0..).map(|line| format!("{line}: naïve, \"quoted\", 世界\n")).take(7_000).collect();
        let prompt = format!("Read this:\n{prompt}That is all.");
        assert!(prompt.len() > LONG_PROMPT, "{}", prompt.len());
        std::fs::write(yard.at("prompt.txt"), &prompt).unwrap();
        let script = yard.script(&format!(
            "[[conversation]]\n[[conversation.step]]\nexpect = {{ contains = {} }}\nreply = [{{ text = \"Read.\" }}]",
            json!(prompt)
        ));
        let file = yard.at("prompt.txt").display().to_string();
        let ended = yard.run(&[&script, "--prompt-file", &file]);
        ended.ends("completed", 0);
        assert_eq!(ended.said(), ["Read."]);
        let requests = yard.requests(&ended);
        let played: Vec<&Value> =
            requests.iter().filter(|request| request["played"]["kind"] == "step").collect();
        assert_eq!(played.len(), 1, "{requests:#?}");
        assert_eq!(yard.why(), COMPLETED);
        yard.is_empty();
    }

    #[test]
    fn a_long_prompt_reaches_claude() {
        a_long_prompt_comes_whole(Player::ClaudeStream);
    }

    #[test]
    fn a_long_prompt_reaches_codex() {
        a_long_prompt_comes_whole(Player::Codex);
    }

    #[test]
    fn a_long_prompt_reaches_opencode() {
        a_long_prompt_comes_whole(Player::OpenCode);
    }

    fn a_long_answer_comes_whole(player: Player, lines: usize) {
        let Some(yard) = Yard::of(player) else { return };
        let line = "0123456789abcdef 0123456789abcdef 0123456789abcdef 0123456789abc\n";
        let script = yard.script(&format!(
            "[[conversation]]\n[[conversation.step]]\nreply = [{{ text = {}, repeat = {lines}, chunk = 65536 }}, \
             {{ usage = {{ input = 10, output = 10 }} }}]",
            json!(line)
        ));
        let ended = yard.run(&[&script, "Say much."]);
        ended.ends("completed", 0);
        let said = ended.said();
        assert_eq!(said.len(), 1);
        assert!(said[0].trim_end() == line.repeat(lines).trim_end(), "{} bytes came", said[0].len());
        assert_eq!(yard.why(), COMPLETED);
        yard.is_empty();
    }

    /// Ten megabytes: it is told to end only when all is here.
    #[test]
    fn a_long_answer_comes_from_claude() {
        a_long_answer_comes_whole(Player::ClaudeStream, 160_000);
    }

    /// As much as the pipe holds: it ends while more is still on its way, and the rest would be lost.
    #[test]
    fn a_long_answer_comes_from_opencode() {
        a_long_answer_comes_whole(Player::OpenCode, 14_000);
    }

    /// A line of 64 MB is a record. A longer one is kept as it came, and the run goes on.
    #[test]
    fn a_long_line_is_a_record_or_kept_raw() {
        let script = format!(
            "[[step]]\ndo = [{{ long_line = {{ bytes = {LONG_LINE} }} }}, {{ long_line = {{ bytes = {TOO_LONG} }} }}, {{ say = \"Still here.\" }}]"
        );
        let yard = Yard::of_fake(Player::Codex, &script);
        let ended = yard.run(&["Say much."]);
        ended.ends("completed", 0);
        let said = ended.said();
        assert_eq!((said.len(), said.last()), (2, Some(&"Still here.")));
        let length = said[0].len() as u64;
        assert!(length > LONG_LINE - 1_000 && length < TOO_LONG, "{length}");
        let garbled: Vec<_> =
            ended.with("kind", "garbled").map(|line| line["text"].as_str().unwrap()).collect();
        assert!(matches!(garbled[..], [text] if text.starts_with("a line of 700")), "{garbled:?}");
        assert!(kept(&ended, "stdout") > LONG_LINE + TOO_LONG);
        assert_eq!(yard.why(), COMPLETED);
        yard.is_empty();
    }

    #[test]
    fn what_is_said_on_the_side_is_drained() {
        let yard = Yard::of_command(r#"sh -c "head -c 10000000 /dev/zero | tr '\\0' x >&2; echo done""#);
        let ended = yard.run(&["--permissions", "all", "Mutter."]);
        ended.ends("completed", 0);
        assert_eq!((ended.said(), kept(&ended, "stderr")), (vec!["done"], 10_000_000));
        assert_eq!(yard.why(), COMPLETED);
        yard.is_empty();
    }

    /// It is no sign of life either, however much it is.
    #[test]
    fn muttering_for_ever_is_silence() {
        let yard = Yard::of_command(r#"sh -c "echo begun; while :; do echo noise >&2; done""#);
        let ended = yard.run(&["--permissions", "all", "--silence", "3s", "Mutter."]);
        ended.ends("stalled", 12);
        assert_eq!(ended.outcome()["rule"], "silence");
        assert!(yard.why().contains("fired    rule `silence`\n"), "{}", yard.why());
        yard.is_empty();
    }
}
