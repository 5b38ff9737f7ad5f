//! How foreign text, times and numbers are put for people. What an agent wrote is shown without its control characters.

use std::time::Duration;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Letters that paint nothing of their own but change how others are read: from right to left, or not at all.
const HIDDEN: [char; 13] = [
    '\u{200b}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}', '\u{feff}',
];

/// Without control characters, escapes included; lines stay lines, and a tab is a few spaces.
pub(crate) fn plain(text: &str) -> String {
    let stripped = anstream::adapter::strip_str(text).to_string();
    let mut plain = String::with_capacity(stripped.len());
    for letter in stripped.chars() {
        match letter {
            '\n' => plain.push('\n'),
            '\t' => plain.push_str("    "),
            hidden if hidden.is_control() || HIDDEN.contains(&hidden) => {}
            letter => plain.push(letter),
        }
    }
    plain
}

/// The same, on one line.
pub(crate) fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How many columns it takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Cut at the end to fit into so many columns, whatever its letters take.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 0);
    for letter in text.chars() {
        let wide = letter.width().unwrap_or(0);
        // One column for the sign that there is more.
        if used + wide + 1 > columns {
            break;
        }
        used += wide;
        kept.push(letter);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// Cut at the beginning to fit into so many columns: the end of a path says more than its beginning.
pub(crate) fn cut_front(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (mut kept, mut used) = (Vec::new(), 0);
    for letter in text.chars().rev() {
        let wide = letter.width().unwrap_or(0);
        // One column for the sign that there is more.
        if used + wide + 1 > columns {
            break;
        }
        used += wide;
        kept.push(letter);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept.into_iter().rev().collect()
}

/// Broken between words to fit into so many columns. A word that is too long for a line has one of its own.
pub(crate) fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last().map_or(0, |line| line.width());
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if last + 1 + word.width() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// How much of a body is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fold {
    /// So many lines.
    pub(crate) lines: usize,
    /// So many characters of all lines together.
    pub(crate) letters: usize,
}

/// The beginning of a body, and what is said of the rest: nothing if it is whole.
pub(crate) fn folded(text: &str, fold: Fold, pointer: &str) -> (String, Option<String>) {
    let by_letters = text.char_indices().nth(fold.letters).map_or(text.len(), |(at, _)| at);
    let by_lines =
        text.match_indices('\n').nth(fold.lines.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
    let end = by_letters.min(by_lines);
    let (head, rest) = text.split_at(end);
    if rest.trim().is_empty() {
        return (text.trim_end().to_owned(), None);
    }
    let lines = rest.trim_end().matches('\n').count();
    let more = if lines > 0 {
        counted(lines as u64, "more line")
    } else {
        counted(rest.chars().count() as u64, "more letter")
    };
    (head.trim_end().to_owned(), Some(format!("… {more}: {pointer}")))
}

/// A time as a person says it: `0.4s`, `12s`, `3m07s`, `1h02m`.
pub(crate) fn time(time: Duration) -> String {
    match time.as_secs() {
        0..=9 => format!("{:.1}s", time.as_secs_f64()),
        _ => whole(time),
    }
}

/// The same in whole seconds, for what moves; `6m` for whole minutes.
pub(crate) fn whole(time: Duration) -> String {
    match time.as_secs() {
        all @ 0..=59 => format!("{all}s"),
        all @ 60..=3_599 if all % 60 == 0 => format!("{}m", all / 60),
        all @ 60..=3_599 => format!("{}m{:02}s", all / 60, all % 60),
        all if all % 3_600 < 60 => format!("{}h", all / 3_600),
        all => format!("{}h{:02}m", all / 3_600, all % 3_600 / 60),
    }
}

/// A number with its thousands apart.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number for where there is little room: `950`, `3.2k`, `66k`, `1.2M`.
pub(crate) fn roughly(number: u64) -> String {
    match number {
        0..=999 => number.to_string(),
        1_000..=9_949 => format!("{}.{}k", (number + 50) / 1_000, (number + 50) % 1_000 / 100),
        9_950..=999_499 => format!("{}k", (number + 500) / 1_000),
        _ => format!("{}.{}M", (number + 50_000) / 1_000_000, (number + 50_000) % 1_000_000 / 100_000),
    }
}

/// `1 file`, `2 files`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", number(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_paint() {
        let table = [
            ("a\u{1b}[31mred\u{1b}[0m\u{7}b", "aredb"),
            ("\u{1b}]0;title\u{7}x\r\ny\tz", "x\ny    z"),
            ("\u{9b}31mx\u{85}", "31mx"),
            ("abc\u{202e}txt.exe\u{200b}", "abctxt.exe"),
            ("héllo 世界 👍", "héllo 世界 👍"),
        ];
        for (text, want) in table {
            assert_eq!(plain(text), want, "{text:?}");
        }
        assert_eq!(one_line(" a\n\n  b\u{1b}[2J c "), "a b c");
    }

    #[test]
    fn a_line_is_cut_by_what_it_takes_on_the_screen() {
        let table = [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("世界世界", 8, "世界世界"),
            ("世界世界", 7, "世界世…"),
            ("世界世界", 6, "世界…"),
            ("👍👍", 3, "👍…"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ];
        for (text, columns, want) in table {
            assert_eq!(cut(text, columns), want, "{text:?} in {columns}");
            assert!(width(want) <= columns);
        }
    }

    #[test]
    fn a_path_is_cut_at_its_beginning() {
        let table =
            [("/a/b", 4, "/a/b"), ("/a/bc", 4, "…/bc"), ("/世界", 4, "…界"), ("abc", 1, "…"), ("abc", 0, "")];
        for (text, columns, want) in table {
            assert_eq!(cut_front(text, columns), want, "{text:?} in {columns}");
            assert!(width(want) <= columns);
        }
    }

    #[test]
    fn a_line_is_broken_between_words() {
        let table: [(&str, usize, &[&str]); 5] = [
            ("one two three", 80, &["one two three"]),
            ("one two three", 7, &["one two", "three"]),
            ("世界 世界 世界", 9, &["世界 世界", "世界"]),
            ("a verylongword b", 5, &["a", "verylongword", "b"]),
            ("", 5, &[""]),
        ];
        for (line, columns, want) in table {
            assert_eq!(wrapped(line, columns), want, "{line:?} in {columns}");
        }
    }

    #[test]
    fn a_long_body_is_folded_with_a_pointer() {
        let fold = Fold { lines: 2, letters: 10 };
        let told = |text: &str| folded(text, fold, "look there");
        assert_eq!(told("a\nb\n"), ("a\nb".to_owned(), None));
        assert_eq!(told("a\nb\nc"), ("a\nb".to_owned(), Some("… 1 more line: look there".to_owned())));
        assert_eq!(told("a\nb\nc\nd\n"), ("a\nb".to_owned(), Some("… 2 more lines: look there".to_owned())));
        assert_eq!(told("äääääääääääö"), ("ä".repeat(10), Some("… 2 more letters: look there".to_owned())));
        assert_eq!(told(""), (String::new(), None));
    }

    #[test]
    fn times_and_numbers_are_short() {
        let ms = Duration::from_millis;
        let table = [(40, "0.0s"), (1_550, "1.6s"), (12_900, "12s"), (60_000, "1m"), (187_000, "3m07s")];
        for (given, want) in table {
            assert_eq!(time(ms(given)), want);
        }
        assert_eq!((whole(ms(3_725_000)), whole(ms(7_200_000))), ("1h02m".to_owned(), "2h".to_owned()));
        let table = [
            (0, "0", "0"),
            (999, "999", "999"),
            (3_249, "3,249", "3.2k"),
            (9_949, "9,949", "9.9k"),
            (9_960, "9,960", "10k"),
            (66_181, "66,181", "66k"),
            (1_234_567, "1,234,567", "1.2M"),
        ];
        for (given, whole, rough) in table {
            assert_eq!((number(given).as_str(), roughly(given).as_str()), (whole, rough));
        }
        assert_eq!((counted(1, "file"), counted(2, "file")), ("1 file".to_owned(), "2 files".to_owned()));
    }
}
