use super::*;

const SIZE: Size = Size { columns: 10, rows: 3 };

fn fed(bytes: &[u8]) -> Screen {
    let mut screen = Screen::new(SIZE);
    screen.feed(bytes);
    screen
}

#[test]
fn what_is_shown_is_told_as_text() {
    let screen = fed("ab\x1b[5Gc \r\n世界\x1b]0;✳ a title\x07".as_bytes());
    let look = screen.look();
    assert_eq!(look.rows, ["ab  c", "世界", ""]);
    assert_eq!((look.columns, look.cursor, look.title.as_str()), (10, Some((1, 4)), "✳ a title"));
    assert_eq!(fed(b"\x1b[?25l").look().cursor, None);
    // A cursor that waits in the last column is in that column.
    assert_eq!(fed(b"0123456789").look().cursor, Some((0, 9)));
}

#[test]
fn sequences_that_the_emulator_takes_otherwise_are_put_as_xterm_takes_them() {
    let table: &[(&str, &str, &[&str])] = &[
        ("backspace from the waiting column", "0123456789\x08X", &["01234567X9", "", ""]),
        ("left from the waiting column", "0123456789\x1b[2DX", &["0123456X89", "", ""]),
        ("up ends the waiting", "\r\n0123456789\x1b[AX", &["         X", "0123456789", ""]),
        ("a row ends the waiting", "0123456789\x1b[2dX", &["0123456789", "         X", ""]),
        ("the next letter goes on below", "0123456789X", &["0123456789", "X", ""]),
        ("the other names of save and restore", "ab\x1b[scd\x1b[uX", &["abXd", "", ""]),
        ("next row, next line", "ab\x1bDc\x1bEd", &["ab", "  c", "d"]),
        ("two modes at once", "a\x1b[?25;1049hb", &[" b", "", ""]),
    ];
    for (name, bytes, want) in table {
        assert_eq!(fed(bytes.as_bytes()).look().rows, *want, "{name}");
    }
}

#[test]
fn a_frame_is_shown_when_it_is_whole() {
    let mut screen = fed(b"old");
    screen.feed(b"\x1b[?2026h\r\x1b[2Khalf");
    assert!(screen.is_mid_frame());
    assert_eq!(screen.look().rows[0], "old");
    screen.feed(b" new");
    assert_eq!(screen.look().rows[0], "old");
    screen.feed(b"\x1b[?2026l");
    assert_eq!(screen.look().rows[0], "half new");
    // A program that begins a frame twice shows what was there before the first.
    screen.feed(b"\x1b[?2026h\rX\x1b[?2026hY");
    assert_eq!(screen.look().rows[0], "half new");
}

#[test]
fn a_frame_that_is_never_whole_is_shown_after_a_while() {
    let mut screen = fed(b"old\x1b[?2026h\rnew");
    let Some((since, _)) = &mut screen.frame else { panic!("there is no frame") };
    *since -= LONGEST_FRAME;
    assert_eq!(screen.look().rows[0], "new");
    assert!(!screen.is_mid_frame());
}

#[test]
fn questions_are_answered_once_and_not_without_bound() {
    let mut screen = fed(b"\x1b[c\x1b[>0q\x1b[6n");
    let want = format!("\x1b[?62;22c\x1bP>|ostler({})\x1b\\\x1b[1;1R", env!("CARGO_PKG_VERSION"));
    assert_eq!(screen.replies(), want.as_bytes());
    assert_eq!(screen.replies(), b"");
    screen.feed(&b"\x1b[c".repeat(10_000));
    assert!(screen.replies().len() <= MOST_REPLIES);
}

#[test]
fn what_is_drawn_again_goes_on_in_the_same_way() {
    let table: &[(&str, &str, &str)] = &[
        ("text and colours", "a\x1b[1;31mb\x1b[48;5;4mc", "d\x1b[mX"),
        ("a cursor that waits", "\x1b[32m0123456789", "X"),
        ("a saved cursor", "abc\x1b[3m\x1b7\r\n\r\nx\x1b[m", "\x1b8d"),
        ("a saved cursor that waits", "0123456789\x1b7\r\nx", "\x1b8y"),
        ("rows that scroll", "a\r\nb\r\nc\x1b[1;2r", "\x1b[2;1H\nd"),
        ("the other screen", "main\x1b[?1049halt\x1b[2;2H", "X\x1b[?1049lY"),
        ("rows of the other screen", "m\x1b[?1049h\x1b[2;3ra\x1b[3;1H", "\nx\x1b[?1049l\nz"),
        ("half a sequence", "ab\x1b[1", ";31mX\x1b[D"),
        ("half a letter", "ab", ""),
        ("modes", "\x1b[?2004h\x1b[?25l\x1b[?1h\x1b[?1000h\x1b[?1006h\x1b[?1004h\x1b[?2031h", "x"),
        ("a title", "\x1b]2;one\x07", "x\x1b]2;two\x07"),
        ("wide letters", "世界世界世", "界"),
        ("a wrapped row", "0123456789abc", "\x1b[1;5HX"),
        ("half a frame", "old\x1b[?2026h\rnew", "er\x1b[?2026l"),
    ];
    for (name, before, after) in table {
        let mut one = fed(before.as_bytes());
        if *name == "half a letter" {
            one.feed(&"é".as_bytes()[..1]);
        }
        let mut other = fed(&one.restore());
        let tail: &[u8] = if *name == "half a letter" { &"é".as_bytes()[1..] } else { after.as_bytes() };
        if *name != "half a frame" {
            assert_eq!(one.look(), other.look(), "{name}, at once");
        }
        for screen in [&mut one, &mut other] {
            screen.feed(tail);
        }
        assert_eq!(one.look(), other.look(), "{name}, afterwards");
        let (one, other) = (one.parser.screen(), other.parser.screen());
        // But for which rows were wrapped, which nothing here depends on.
        let cells = |screen: &vt100::Screen| screen.rows_formatted(0, 9).collect::<Vec<_>>();
        assert_eq!(cells(one), cells(other), "{name}");
        assert_eq!(one.attributes_formatted(), other.attributes_formatted(), "{name}");
        assert_eq!(one.input_mode_formatted(), other.input_mode_formatted(), "{name}");
        assert_eq!(one.cursor_position(), other.cursor_position(), "{name}");
    }
}

#[test]
fn what_whoever_shows_it_must_know_is_in_what_is_drawn_again() {
    let mut screen = fed(b"\x1b[?1004h\x1b[?2031h\x1b[?1004l");
    let drawn = String::from_utf8(screen.restore()).unwrap();
    assert!(drawn.contains("\x1b[?2031h") && !drawn.contains("1004"), "{drawn:?}");
}

#[test]
fn another_size_cuts_and_does_not_fail() {
    let mut screen = fed("0123456789\r\n世界世界世\r\nthree".as_bytes());
    for (columns, rows) in [(5, 2), (1, 1), (30, 8), (7, 3), (10, 3)] {
        screen.resize(Size { columns, rows });
        assert_eq!(screen.size(), Size { columns, rows });
        screen.feed("more 世界\r\n".as_bytes());
        assert_eq!(screen.look().rows.len(), usize::from(rows));
        screen.restore();
    }
}

#[test]
fn the_last_bytes_are_kept_as_they_came() {
    let mut screen = fed(b"a\x1b[");
    assert_eq!(screen.recent(), b"a\x1b[");
    screen.feed(&vec![b'x'; 2 * RING]);
    assert_eq!(screen.recent().len(), RING);
}
