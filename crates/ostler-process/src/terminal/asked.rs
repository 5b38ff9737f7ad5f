//! What a program asks of its terminal, and the answer that it reads as if it were typed.
//!
//! The answers are those of a plain terminal with colours. What is not answered here is not supported; programs ask
//! for their class (`DA1`) last, and take its answer for the end of all others.

use super::csi::Csi;

/// What an answer depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    /// Where the cursor is, from zero.
    pub(super) cursor: (u16, u16),
    pub(super) rows: u16,
    pub(super) columns: u16,
    /// Drawing is held until a frame is whole.
    pub(super) is_synchronized: bool,
    pub(super) has_bracketed_paste: bool,
    pub(super) is_cursor_hidden: bool,
}

/// The answer to a whole sequence, if it is a question.
pub(super) fn answer(sequence: &[u8], now: Now) -> Option<String> {
    match sequence {
        [0x1b, b'[', ..] => to_control(Csi::of(sequence)?, now),
        [0x1b, b']', ..] => to_colour(sequence),
        // Capabilities and settings by name: none is told.
        [0x1b, b'P', b'+', b'q', ..] => Some("\x1bP0+r\x1b\\".to_owned()),
        [0x1b, b'P', b'$', b'q', ..] => Some("\x1bP0$r\x1b\\".to_owned()),
        _ => None,
    }
}

fn to_control(csi: Csi<'_>, now: Now) -> Option<String> {
    let (row, column) = (now.cursor.0 + 1, now.cursor.1.min(now.columns - 1) + 1);
    Some(match (csi.mark, csi.intermediate, csi.action, csi.first()) {
        // A VT220 with colours.
        (None, None, b'c', 0) => "\x1b[?62;22c".to_owned(),
        (Some(b'>'), None, b'c', 0) => "\x1b[>1;100;0c".to_owned(),
        (Some(b'>'), None, b'q', 0) => format!("\x1bP>|ostler({})\x1b\\", env!("CARGO_PKG_VERSION")),
        (None, None, b'n', 5) => "\x1b[0n".to_owned(),
        (None, None, b'n', 6) => format!("\x1b[{row};{column}R"),
        (Some(b'?'), None, b'n', 6) => format!("\x1b[?{row};{column}R"),
        // Dark.
        (Some(b'?'), None, b'n', 996) => "\x1b[?997;1n".to_owned(),
        (None, None, b't', 18) => format!("\x1b[8;{};{}t", now.rows, now.columns),
        (Some(b'?'), Some(b'$'), b'p', mode) => {
            let is_set = match mode {
                25 => Some(!now.is_cursor_hidden),
                2004 => Some(now.has_bracketed_paste),
                2026 => Some(now.is_synchronized),
                _ => None,
            };
            let word = is_set.map_or(0, |is_set| if is_set { 1 } else { 2 });
            format!("\x1b[?{mode};{word}$y")
        }
        _ => return None,
    })
}

/// What the foreground and background are: light on dark.
fn to_colour(sequence: &[u8]) -> Option<String> {
    let body = sequence.strip_prefix(b"\x1b]")?;
    let (body, end) = match body {
        [body @ .., 0x07] => (body, "\x07"),
        [body @ .., 0x1b, b'\\'] => (body, "\x1b\\"),
        _ => return None,
    };
    let colour = match body {
        b"10;?" => "10;rgb:e5e5/e5e5/e5e5",
        b"11;?" => "11;rgb:0000/0000/0000",
        b"12;?" => "12;rgb:e5e5/e5e5/e5e5",
        _ => return None,
    };
    Some(format!("\x1b]{colour}{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_answered_and_nothing_else_is() {
        let now = Now {
            cursor: (2, 80),
            rows: 24,
            columns: 80,
            is_synchronized: true,
            has_bracketed_paste: false,
            is_cursor_hidden: false,
        };
        let version = format!("\x1bP>|ostler({})\x1b\\", env!("CARGO_PKG_VERSION"));
        let table = [
            ("\x1b[c", Some("\x1b[?62;22c")),
            ("\x1b[0c", Some("\x1b[?62;22c")),
            ("\x1b[?1c", None),
            ("\x1b[>c", Some("\x1b[>1;100;0c")),
            ("\x1b[>0q", Some(version.as_str())),
            ("\x1b[5n", Some("\x1b[0n")),
            // A cursor that waits to go on in the next row is in the last column.
            ("\x1b[6n", Some("\x1b[3;80R")),
            ("\x1b[?6n", Some("\x1b[?3;80R")),
            ("\x1b[?996n", Some("\x1b[?997;1n")),
            ("\x1b[18t", Some("\x1b[8;24;80t")),
            ("\x1b[?2026$p", Some("\x1b[?2026;1$y")),
            ("\x1b[?2004$p", Some("\x1b[?2004;2$y")),
            ("\x1b[?25$p", Some("\x1b[?25;1$y")),
            ("\x1b[?9999$p", Some("\x1b[?9999;0$y")),
            ("\x1b[?u", None),
            ("\x1b]11;?\x07", Some("\x1b]11;rgb:0000/0000/0000\x07")),
            ("\x1b]10;?\x1b\\", Some("\x1b]10;rgb:e5e5/e5e5/e5e5\x1b\\")),
            ("\x1b]0;title?\x07", None),
            ("\x1bP+q544e\x1b\\", Some("\x1bP0+r\x1b\\")),
            ("\x1b[6;1H", None),
            ("\x1b7", None),
        ];
        for (asked, want) in table {
            assert_eq!(answer(asked.as_bytes(), now).as_deref(), want, "{asked:?}");
        }
    }
}
