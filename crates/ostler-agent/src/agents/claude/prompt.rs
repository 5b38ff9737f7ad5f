//! Which prompts Claude Code's terminal program takes as they are, and in which form. Each rule was seen on 2.1.197 and
//! 2.1.325; the table is in `docs/design/terminal.md`.
//!
//! What it does to every prompt is done before: then what it records is exactly what was written. What it would take for
//! a command, or would silently drop, is refused.

use crate::canonical::composed;
use crate::typing::{Prepared, Unsendable};

const PASTE_BEGINS: &str = "\x1b[200~";
const PASTE_ENDS: &str = "\x1b[201~";

/// Put behind a last `\`, which makes Enter a new line, and behind a last `@name` or `:name`, for which Enter chooses a
/// completion. The program cuts blanks at the end.
const GUARD: &str = " ";

/// With more ends of lines than this, or more UTF-16 units than the next, a paste is shown as its number: its end does
/// nothing then, and blanks there are not cut.
const SHOWN_LINES: usize = 2;
const SHOWN_UNITS: usize = 800;

/// What ends the program, with or without blanks around.
const FAREWELLS: [&str; 6] = ["exit", "quit", ":q", ":q!", ":wq", ":wq!"];

/// The longest prompt: a megabyte was seen to arrive whole.
const LONGEST: usize = 1_048_576;

/// The form in which a prompt is typed, or why it cannot be.
pub(super) fn sendable(text: &str) -> Result<Prepared, Unsendable> {
    let recorded = recorded(text);
    match objection(&recorded) {
        Some(why) => Err(Unsendable { why, is_too_long: recorded.len() > LONGEST }),
        None => {
            let guard = if needs_guard(&recorded) { GUARD } else { "" };
            let bytes = format!("{PASTE_BEGINS}{recorded}{guard}{PASTE_ENDS}").into_bytes();
            Ok(Prepared { bytes, recorded })
        }
    }
}

/// A prompt as the program records it: ends of lines as `\n`, a tab as four blanks, composed letters, no blanks at the
/// end.
pub(super) fn recorded(text: &str) -> String {
    let lines = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ");
    composed(lines.trim_end()).into_owned()
}

fn needs_guard(text: &str) -> bool {
    let is_shown = text.matches('\n').count() <= SHOWN_LINES && text.encode_utf16().count() <= SHOWN_UNITS;
    let last = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    is_shown && (last.ends_with('\\') || last.starts_with(['@', ':']))
}

fn objection(text: &str) -> Option<String> {
    let words = text.trim();
    if words.is_empty() {
        return Some("there are no words in it".to_owned());
    }
    if text.len() > LONGEST {
        return Some(format!("it is longer than {LONGEST} bytes"));
    }
    // Blanks before them help on one version only.
    if words.starts_with('!') {
        return Some("it begins with `!`, which runs the rest as a command without asking".to_owned());
    }
    if words.starts_with('/') {
        return Some("it begins with `/`, which is taken for a command".to_owned());
    }
    if FAREWELLS.contains(&words) {
        return Some(format!("`{words}` alone ends the program"));
    }
    let chars: Vec<char> = text.chars().collect();
    let dropped = chars.iter().enumerate().find(|(at, char)| {
        let before = at.checked_sub(1).and_then(|at| chars.get(at)).copied();
        !is_kept(before, **char, chars.get(at + 1).copied())
    });
    dropped.map(|(_, char)| {
        format!("it has the character U+{:04X}, which is not passed on as it is", u32::from(*char))
    })
}

/// Whether a character arrives. Control characters do not. Invisible ones do only where they change how others look:
/// within emoji, and within words of the scripts that were tried.
fn is_kept(before: Option<char>, char: char, after: Option<char>) -> bool {
    let (is_before, is_after) =
        (|kind: fn(char) -> bool| before.is_some_and(kind), |kind: fn(char) -> bool| after.is_some_and(kind));
    match char {
        '\n' => true,
        '\u{200D}' => is_before(is_joined) && is_after(is_joined),
        '\u{200C}' => is_before(is_script) && is_after(is_script),
        '\u{FE0E}' => is_before(is_emoji),
        '\u{FE0F}' => is_before(is_emoji) || is_before(is_key) && after == Some('\u{20E3}'),
        '\u{E0020}'..='\u{E007F}' => is_before(|char| is_tag(char) || char == '\u{1F3F4}'),
        '\u{2028}' | '\u{2029}' => false,
        _ => !char.is_control() && !is_invisible(char),
    }
}

fn is_joined(char: char) -> bool {
    is_emoji(char) || is_script(char) || char == '\u{FE0F}'
}

/// Arabic, Devanagari.
fn is_script(char: char) -> bool {
    matches!(char, '\u{0620}'..='\u{06FF}' | '\u{0900}'..='\u{097F}')
}

fn is_emoji(char: char) -> bool {
    matches!(char, '\u{2190}'..='\u{2BFF}' | '\u{1F000}'..='\u{1FAFF}')
}

/// With a variation selector and an enclosing square it is a key.
fn is_key(char: char) -> bool {
    matches!(char, '0'..='9' | '#' | '*')
}

fn is_tag(char: char) -> bool {
    matches!(char, '\u{E0020}'..='\u{E007F}')
}

/// What Unicode calls default ignorable, and marks of annotations.
fn is_invisible(char: char) -> bool {
    matches!(
        char,
        '\u{00AD}'
            | '\u{034F}'
            | '\u{061C}'
            | '\u{115F}'..='\u{1160}'
            | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}'
            | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> String {
        let is_guarded = ["\\", "@old.txt", ":smi"].iter().any(|end| text.ends_with(end));
        format!("{PASTE_BEGINS}{text}{}{PASTE_ENDS}", if is_guarded { " " } else { "" })
    }

    /// The prompts and what the model got are those of the table in `docs/design/terminal.md`.
    #[test]
    fn what_arrives_is_what_is_recorded() {
        let table = [
            ("hello", "hello"),
            ("ends in \\", "ends in \\"),
            ("one\ntwo\\\\", "one\ntwo\\\\"),
            ("look at @old.txt", "look at @old.txt"),
            ("smile :smi", "smile :smi"),
            ("   indented", "   indented"),
            ("\n\nlines before", "\n\nlines before"),
            ("blanks after \t\n\n", "blanks after"),
            ("a\r\nb\rc", "a\nb\nc"),
            ("\ta\t\tb", "    a        b"),
            ("e\u{301} \u{212B} \u{1100}\u{1161} \u{FB01}", "é Å 가 \u{FB01}"),
            ("漢字 שלום مرحبا", "漢字 שלום مرحبا"),
            (
                "👨\u{200D}👩\u{200D}👧 ❤\u{FE0F} 👍🏽 1\u{FE0F}\u{20E3}",
                "👨\u{200D}👩\u{200D}👧 ❤\u{FE0F} 👍🏽 1\u{FE0F}\u{20E3}",
            ),
            ("می\u{200C}خواهم", "می\u{200C}خواهم"),
            ("Exit", "Exit"),
            ("exit.", "exit."),
            ("# words", "# words"),
            ("?", "?"),
            ("do it /now!", "do it /now!"),
        ];
        for (text, want) in table {
            let prepared = sendable(text).expect(text);
            assert_eq!(prepared.recorded, want, "{text:?}");
            assert_eq!(String::from_utf8(prepared.bytes).expect("text"), typed(want), "{text:?}");
        }
    }

    /// Tried at 120x40 and 40x12: only a paste that is shown as it is has an end that does something.
    #[test]
    fn only_a_short_paste_is_guarded() {
        let long = |letter: &str, times: usize| format!("{}\\", letter.repeat(times));
        let table = [
            ("one\\".to_owned(), true),
            ("a\nb\nc\\".to_owned(), true),
            ("a\nb\nc\nd\\".to_owned(), false),
            ("a\nb\nc\n@old".to_owned(), false),
            (long("é", 500), true),
            (long("x", 900), false),
            (long("😀", 450), false),
            ("plain".to_owned(), false),
        ];
        for (text, want) in table {
            assert_eq!(needs_guard(&text), want, "{text}");
        }
    }

    #[test]
    fn what_would_be_a_command_or_be_dropped_is_refused() {
        let table = [
            ("", "no words"),
            (" \n\u{A0}", "no words"),
            ("!ls", "without asking"),
            (" !ls", "without asking"),
            ("/cost", "taken for a command"),
            ("\n/cost", "taken for a command"),
            ("/tmp/file is broken", "taken for a command"),
            ("exit", "ends the program"),
            (" quit\n", "ends the program"),
            (":wq!", "ends the program"),
            ("a\u{1B}[31mb", "U+001B"),
            ("a\u{1B}[201~b", "U+001B"),
            ("a\0b", "U+0000"),
            ("a\u{3}b", "U+0003"),
            ("a\u{1A}b", "U+001A"),
            ("a\u{7F}b", "U+007F"),
            ("a\u{9B}b", "U+009B"),
            ("a\u{85}b", "U+0085"),
            ("a\u{2028}b", "U+2028"),
            ("a\u{200B}b", "U+200B"),
            ("a\u{200D}b", "U+200D"),
            ("a\u{FE0F}b", "U+FE0F"),
            ("\u{FEFF}a", "U+FEFF"),
            ("\u{202E}abc\u{202C}", "U+202E"),
            ("a\u{E0041}b", "U+E0041"),
        ];
        for (text, want) in table {
            let why = sendable(text).expect_err(text).why;
            assert!(why.contains(want), "{text:?}: {why}");
        }
        assert!(sendable(&"x".repeat(LONGEST)).is_ok());
        assert!(sendable(&"x".repeat(LONGEST + 1)).is_err_and(|no| no.why.contains("longer")));
    }

    proptest::proptest! {
        /// Whatever is sent, the terminal gets nothing but text between the marks of one paste, and it is its own record.
        #[test]
        fn nothing_gets_out_of_the_paste(text in proptest::prelude::any::<String>()) {
            if let Ok(prepared) = sendable(&text) {
                let bytes = String::from_utf8(prepared.bytes).expect("text");
                let inside = bytes.strip_prefix(PASTE_BEGINS).and_then(|rest| rest.strip_suffix(PASTE_ENDS));
                let inside = inside.expect("a paste");
                assert!(!inside.chars().any(|char| char.is_control() && char != '\n'), "{inside:?}");
                assert_eq!(recorded(&prepared.recorded), prepared.recorded);
                assert_eq!(inside.trim_end(), prepared.recorded);
            }
        }
    }
}
