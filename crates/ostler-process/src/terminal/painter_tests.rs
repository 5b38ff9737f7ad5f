use proptest::prelude::*;

use super::*;

const SIZE: Size = Size { columns: 12, rows: 5 };

/// A window with what was painted in it.
struct Window {
    parser: vt100::Parser,
    painter: Painter,
    size: Size,
}

fn parser(size: Size) -> vt100::Parser {
    let side = |side| std::num::NonZero::new(side).unwrap();
    vt100::Parser::new(side(size.rows), side(size.columns), 0)
}

impl Window {
    fn new(manner: Manner, size: Size) -> Self {
        let mut parser = parser(size);
        parser.process(b"$ ostler attach\r\n");
        let painter = Painter::new(manner, size);
        parser.process(painter.enter());
        Self { parser, painter, size }
    }

    fn show(&mut self, shown: &Shown) {
        self.painter.show(shown);
        let bytes = self.painter.paint();
        self.parser.process(&bytes);
    }

    fn rows(&self) -> Vec<String> {
        self.parser.screen().rows(0, self.size.columns).map(|row| row.trim_end().to_owned()).collect()
    }
}

fn anew(bytes: &[u8]) -> Shown {
    Shown::Anew { size: SIZE, bytes: bytes.to_vec() }
}

#[test]
fn a_window_of_any_size_shows_what_fits() {
    let bytes = "one\r\ntwo \x1b[31mred\x1b[m\r\n世界世界世界\r\nfour\r\n> ".as_bytes();
    let table: &[((u16, u16), &[&str])] = &[
        ((12, 5), &["one", "two red", "世界世界世界", "four", ">"]),
        ((20, 7), &["one", "two red", "世界世界世界", "four", ">", "", ""]),
        ((12, 2), &["four", ">"]),
        ((5, 3), &["世界", "four", ">"]),
        ((1, 1), &[">"]),
    ];
    for ((columns, rows), want) in table {
        let mut window = Window::new(Manner::View, Size { columns: *columns, rows: *rows });
        window.show(&anew(bytes));
        assert_eq!(window.rows(), *want, "{columns}x{rows}");
    }
}

#[test]
fn the_window_is_left_as_it_was_found() {
    for manner in [Manner::View, Manner::Hold] {
        let mut found = parser(SIZE);
        found.process(b"$ ostler attach\r\n");
        let mut window = Window::new(manner, SIZE);
        window.show(&anew(b"\x1b[?2004h\x1b[?1h\x1b[?1003h\x1b[?1006h\x1b[?25l\x1b[31m\x1b=text\x1b[3 q"));
        let is_typing = manner == Manner::Hold;
        assert_eq!(
            window.parser.screen().bracketed_paste(),
            is_typing,
            "only keys that are typed are changed"
        );
        window.show(&Shown::Bytes(b"\x1b[?1049hother".to_vec()));
        let leave = window.painter.leave();
        window.parser.process(&leave);
        assert_eq!(window.parser.screen().state_formatted(), found.screen().state_formatted(), "{manner:?}");
    }
}

#[test]
fn nothing_is_written_when_nothing_changed_nor_within_a_frame() {
    let mut painter = Painter::new(Manner::Hold, SIZE);
    assert!(painter.paint().is_empty());
    painter.show(&anew(b"text"));
    assert!(!painter.paint().is_empty());
    assert!(painter.paint().is_empty());
    painter.show(&Shown::Bytes(b"\x1b[?2026hmore".to_vec()));
    assert!(painter.paint().is_empty());
    painter.show(&Shown::Bytes(b"\x1b[?2026l".to_vec()));
    assert!(!painter.paint().is_empty());
    painter.show(&Shown::Bytes(b"\x1b[D".to_vec()));
    assert!(!painter.paint().is_empty(), "the cursor moved");
}

#[test]
fn a_window_that_changes_is_painted_anew() {
    let mut window = Window::new(Manner::View, SIZE);
    window.show(&anew(b"text"));
    let larger = Size { columns: 15, rows: 6 };
    window.painter.resize(larger);
    window.parser = parser(larger);
    window.size = larger;
    window.show(&Shown::Bytes(Vec::new()));
    assert_eq!(window.rows()[0], "text");
}

proptest! {
    #[test]
    fn whatever_is_shown_in_pieces_the_window_shows_the_end_of_it(
        words in prop::collection::vec(prop::sample::select(vec![
            "a", "word ", "世", "\r\n", "\x1b[K", "\x1b[2A", "\x1b[1;7m", "\x1b[m", "\x1b[5G", "\x1b[44m", "\x1b[2J",
            "\x1b[H", "0123456789ab", "\x1b[?25l", "\x1b[?25h",
        ]), 0..40),
        every in 1_usize..6,
    ) {
        let mut window = Window::new(Manner::Hold, SIZE);
        window.show(&anew(b""));
        let mut direct = Screen::new(SIZE);
        for piece in words.chunks(every) {
            let piece = piece.concat();
            direct.feed(piece.as_bytes());
            window.show(&Shown::Bytes(piece.into_bytes()));
        }
        prop_assert_eq!(window.rows(), direct.look().rows);
        let (ours, theirs) = (window.parser.screen(), direct.shown());
        for row in 0..SIZE.rows {
            for column in 0..SIZE.columns {
                let (one, other) = (ours.cell(row, column).unwrap(), theirs.cell(row, column).unwrap());
                prop_assert_eq!(one.bgcolor(), other.bgcolor(), "row {}, column {}", row, column);
                prop_assert_eq!(one.inverse(), other.inverse() && other.has_contents());
            }
        }
        prop_assert_eq!(ours.hide_cursor(), theirs.hide_cursor());
    }
}
