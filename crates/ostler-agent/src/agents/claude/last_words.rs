//! What Claude Code's terminal program printed when it ended, without the screen that it leaves there. Seen on 2.1.197,
//! which leaves its input box, and on 2.1.325, which does not.

use crate::look::Look;

/// What it prints at every end, with the command on the next row.
const RESUME: &str = "Resume this session with:";

/// Shorter rows of lines are drawn by answers.
const SHORTEST_RULE: usize = 10;

/// The rows below its input box and its footer, or all rows if there is no box: an error before it had drawn anything.
pub(super) fn last_words(look: &Look) -> String {
    let rows: Vec<&str> = look.rows.iter().map(|row| row.trim()).collect();
    let below = match rows.iter().rposition(|row| is_rule(row)) {
        // The footer is the first row below.
        Some(rule) => rows.get(rule + 2..).unwrap_or_default(),
        None => &rows[..],
    };
    let mut words = Vec::new();
    let mut below = below.iter();
    while let Some(row) = below.next() {
        match *row {
            RESUME => drop(below.next()),
            "" => {}
            row => words.push(row),
        }
    }
    words.join("\n")
}

fn is_rule(row: &str) -> bool {
    row.chars().count() >= SHORTEST_RULE && row.chars().all(|letter| matches!(letter, '─' | '╰' | '╯'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_that_it_leaves_is_no_reason() {
        let rule = "─".repeat(40);
        let boxed = format!("● half\n{rule}\n❯\n{rule}\n  esc to interrupt · ← for agents");
        let resume = "Resume this session with:\nclaude --resume 88dece73";
        let table = [
            ("Error: Settings file not found: /x".to_owned(), "Error: Settings file not found: /x"),
            (format!("{boxed}\n\n{resume}\n"), ""),
            (format!("{boxed}\nError: out of memory\n{resume}"), "Error: out of memory"),
            (resume.to_owned(), ""),
            (boxed, ""),
            (String::new(), ""),
        ];
        for (text, want) in table {
            let look = Look { rows: text.lines().map(str::to_owned).collect(), ..Look::default() };
            assert_eq!(last_words(&look), want, "{text}");
        }
    }
}
