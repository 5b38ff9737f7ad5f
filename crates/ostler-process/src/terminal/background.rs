//! What is blank has the colour that is written with, as in xterm: also in rows that come to be by scrolling, and on the
//! other screen. `vt100` knows that of erasing only.

/// Draws text, and gives rows that scroll in the background that is written with. `bottom` is the last row that scrolls.
pub(super) fn draw(parser: &mut vt100::Parser, text: &[u8], bottom: u16) {
    if is_plain(parser) {
        return parser.process(text);
    }
    for letter in letters(text) {
        let before = parser.screen().cursor_position();
        parser.process(letter);
        let after = parser.screen().cursor_position();
        if (before.0, after.0) != (bottom, bottom) {
            continue;
        }
        match letter {
            b"\n" | b"\x0b" | b"\x0c" => parser.process(b"\x1b[2K"),
            // It went on in the next row: what is behind it there is new.
            _ if after.1 <= before.1 && is_first(parser, bottom, letter) => parser.process(b"\x1b[K"),
            _ => {}
        }
    }
}

/// Whether a row begins with this letter. A mark is never first, and what controls is no letter.
fn is_first(parser: &vt100::Parser, row: u16, letter: &[u8]) -> bool {
    parser.screen().cell(row, 0).is_some_and(|cell| cell.contents().as_bytes() == letter)
}

fn is_plain(parser: &vt100::Parser) -> bool {
    parser.screen().bgcolor() == vt100::Color::Default
}

/// The letters of a text, and each byte that is none.
fn letters(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.chunk_by(|_, next| *next & 0b1100_0000 == 0b1000_0000)
}
