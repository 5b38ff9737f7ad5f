//! What changed between two of Claude Code's screens: text of the turn, or only its spinner. Seen on 2.1.197 and 2.1.325.
//!
//! An answer is drawn line by line as it streams, thoughts are not drawn at all, and the transcript gets both only when
//! they are complete. Meanwhile a row with a glyph that turns, the seconds and, for an answer, the tokens so far stands
//! above the input box: `✶ Stewing… (5s · ↓ 9 tokens)`. Once a line of the answer is drawn that row is gone, and only
//! the window title still turns. Glyph, seconds and title turn over a dead connection too; the count of tokens does not.

use std::collections::HashMap;

use super::screen::{above_box, dialog};
use crate::look::{Look, ScreenChange};

/// What a row with a spinner begins with. The words behind it are random.
const SPINNERS: [char; 8] = ['·', '✢', '✳', '✶', '✻', '✽', '*', '∗'];

/// What the output of a tool, and a hint below the spinner, begin with.
const BRANCH: char = '⎿';

/// What a hint begins with.
const HINT: &str = "Tip: ";

/// At the end of what is still being done.
const GOES_ON: char = '…';

/// In the row of a request that failed.
const RETRYING: &str = "Retrying in ";

/// Before a count of tokens: received, sent.
const ARROWS: [&str; 2] = ["↓", "↑"];

/// What changed from one screen to the next. The input box and all below it say nothing about the agent: people type
/// there, and a status line may show a clock.
pub(super) fn screen_change(before: &Look, after: &Look) -> ScreenChange {
    if dialog(after).is_some() {
        return ScreenChange::Nothing;
    }
    let (old, new) = (above_box(before), above_box(after));
    let (old_words, new_words) = (all_words(old), all_words(new));
    let (gone, come) = (missing(&old_words, &new_words), missing(&new_words, &old_words));
    let is_tick = |index: &usize| gone.contains(index) && masked(&old[*index]) == masked(&new[*index]);
    let (ticks, fresh): (Vec<usize>, Vec<usize>) = come.into_iter().partition(is_tick);
    let is_text = fresh.iter().any(|index| !is_spinner(&new[*index]));
    let count = token_count(new);
    if is_text || (count.is_some() && count != token_count(old)) {
        ScreenChange::Text
    } else if !ticks.is_empty() || !fresh.is_empty() || glyphs_turn(old, new) || title_turns(before, after) {
        ScreenChange::Spinner
    } else {
        ScreenChange::Nothing
    }
}

/// A row without what is drawn before it: bullets blink.
fn words(row: &str) -> &str {
    row.trim_start_matches(|letter: char| !letter.is_alphanumeric()).trim_end()
}

fn all_words(rows: &[String]) -> Vec<&str> {
    rows.iter().map(|row| words(row)).collect()
}

/// The rows of one screen that the other has not, wherever they stand: what only scrolled is no change.
fn missing(rows: &[&str], others: &[&str]) -> Vec<usize> {
    let mut known: HashMap<&str, usize> = HashMap::new();
    for row in others {
        *known.entry(row).or_default() += 1;
    }
    let mut missing = Vec::new();
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
        match known.get_mut(row) {
            Some(left) if *left > 0 => *left -= 1,
            Some(_) | None => missing.push(index),
        }
    }
    missing
}

/// A row without its numbers: a clock or a counter that advances in its place is no new row.
fn masked(row: &str) -> String {
    words(row).chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

fn is_spinner(row: &str) -> bool {
    let row = row.trim_start();
    let is_marked = row.starts_with(SPINNERS) || row.starts_with(BRANCH);
    is_marked && (row.contains(GOES_ON) || row.contains(RETRYING) || words(row).starts_with(HINT))
}

/// The glyph alone changed: the seconds do so less often.
fn glyphs_turn(old: &[String], new: &[String]) -> bool {
    let rows = old.iter().zip(new);
    rows.into_iter().any(|(old, new)| old != new && is_spinner(new) && words(old) == words(new))
}

/// The title of a program that works begins with a dot pattern, which changes every second.
fn title_turns(before: &Look, after: &Look) -> bool {
    let is_pattern = |letter: char| ('\u{2800}'..='\u{28ff}').contains(&letter);
    before.title != after.title && after.title.starts_with(is_pattern)
}

/// The tokens that the spinner counts, as they stand there. The program counts what comes, so it stands still while
/// nothing does.
fn token_count(rows: &[String]) -> Option<&str> {
    let row = rows.iter().rev().find(|row| is_spinner(row))?;
    let (before, _) = row.rsplit_once(" tokens")?;
    let (before, count) = before.rsplit_once(' ')?;
    ARROWS.iter().any(|arrow| before.ends_with(arrow)).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "────────────────────────────────────────";

    fn look(content: &[&str]) -> Look {
        let below = [RULE, "❯ ", RULE, "  esc to interrupt"];
        let rows = content.iter().chain(&below).map(|row| row.trim_end().to_owned()).collect();
        Look { rows, columns: 40, cursor: Some((0, 2)), title: "⠂ Claude Code".to_owned() }
    }

    #[test]
    fn text_is_told_from_a_spinner() {
        use ScreenChange::{Nothing, Spinner, Text};
        // Rows as both versions draw them, with a scripted model.
        let table: &[(&str, &[&str], &[&str], ScreenChange)] = &[
            (
                "nothing happens",
                &["❯ count", "✢ Puttering… (2s)"],
                &["❯ count", "✢ Puttering… (2s)"],
                Nothing,
            ),
            ("only the glyph", &["✢ Puttering… (2s)"], &["✶ Puttering… (2s)"], Spinner),
            ("glyph and seconds", &["✢ Stewing… (9s · thinking)"], &["* Stewing… (10s · thinking)"], Spinner),
            (
                "words of the spinner",
                &["✢ Stewing… (10s · thinking)"],
                &["* Proofing… (11s · still thinking)"],
                Spinner,
            ),
            (
                "the count of tokens",
                &["✢ Puttering… (2s · ↓ 3 tokens)"],
                &["· Puttering… (3s · ↓ 5 tokens)"],
                Text,
            ),
            (
                "large counts",
                &["✢ Puttering… (9m 2s · ↓ 1.2k tokens)"],
                &["· Puttering… (9m 3s · ↓ 1.3k tokens)"],
                Text,
            ),
            (
                "a count that stands still",
                &["✢ Puttering… (2s · ↓ 5 tokens)"],
                &["· Puttering… (13s · ↓ 5 tokens)"],
                Spinner,
            ),
            (
                "a line of the answer",
                &["❯ count", "● - line number 0 of it"],
                &["❯ count", "● - line number 0 of it", "  - line number 1 of it"],
                Text,
            ),
            (
                "a full screen that scrolls by one line",
                &["  - line number 7 of it", "  - line number 8 of it"],
                &["  - line number 8 of it", "  - line number 9 of it"],
                Text,
            ),
            (
                "rows that only scroll",
                &["", "❯ count", "  - line number 7 of it"],
                &["❯ count", "  - line number 7 of it", ""],
                Nothing,
            ),
            (
                "a tool that runs: its bullet blinks, its seconds pass",
                &["● Bash(sleep 90)", "  ⎿  Running… (9s)"],
                &["  Bash(sleep 90)", "  ⎿  Running… (10s · timeout 2m)"],
                Spinner,
            ),
            ("a hint", &["✢ Stewing… (9s)", ""], &["✢ Stewing… (9s)", "  ⎿  Tip: press a key"], Spinner),
            (
                "a request that failed",
                &["✢ Stewing… (9s)"],
                &["✻ API error · Retrying in 1s · attempt 2/10"],
                Spinner,
            ),
            (
                "its seconds",
                &["✻ API error · Retrying in 9s · attempt 2/10"],
                &["✻ API error · Retrying in 8s · attempt 2/10"],
                Spinner,
            ),
            (
                "a summary that is made",
                &["✽ Compacting conversation… ▱▱▱ 1%"],
                &["✶ Compacting conversation… ▰▱▱ 2%"],
                Spinner,
            ),
            ("a row that is gone", &["● It is said.", "✢ Stewing… (9s)"], &["● It is said.", ""], Nothing),
        ];
        for (name, before, after, want) in table {
            assert_eq!(screen_change(&look(before), &look(after)), *want, "{name}");
        }
    }

    #[test]
    fn only_the_title_turns_below_a_half_drawn_answer() {
        let before = look(&["● - line number 0 of it"]);
        let after = |title: &str| Look { title: title.to_owned(), ..before.clone() };
        assert_eq!(screen_change(&before, &after("⠐ Claude Code")), ScreenChange::Spinner);
        assert_eq!(screen_change(&before, &after("✳ Claude Code")), ScreenChange::Nothing, "it is idle");
    }

    #[test]
    fn what_stands_in_the_box_and_below_it_is_no_sign_of_life() {
        let before = look(&["● It is said."]);
        for (row, text) in [(2, "❯ what somebody types"), (4, "  12:03:07")] {
            let mut after = before.clone();
            after.rows[row] = text.to_owned();
            assert_eq!(screen_change(&before, &after), ScreenChange::Nothing, "{text}");
        }
    }

    #[test]
    fn a_dialog_is_no_sign_of_life() {
        let rows = [
            RULE,
            " Bash command",
            "",
            " Do you want to proceed?",
            " ❯ 1. Yes",
            "   2. No",
            "",
            " Esc to cancel",
        ];
        let after = Look { rows: rows.map(str::to_owned).to_vec(), columns: 40, ..Look::default() };
        assert_eq!(screen_change(&look(&["● It is said."]), &after), ScreenChange::Nothing);
    }
}
