//! What Claude Code's terminal program showed, at four sizes and in two versions, and what is made of it.
//!
//! `recordings/claude/screens/<version>.txt` has the rendered screens, one after the other: a line with scene, size,
//! cursor and title, then the rows. A character that stands often in a row is written once, with its number.

use std::sync::LazyLock;

use ostler_agent::agent::{Agent as _, Permissions};
use ostler_agent::agents::ClaudeTerminal;
use ostler_agent::dialogs::{Answer, Dialog, DialogKind, Wish, answer};
use ostler_agent::look::Look;
use ostler_agent::terminal::Interactive;
use ostler_agent::typing::Sight;

const VERSIONS: [(&str, &str); 2] = [
    ("2.1.197", include_str!("../../recordings/claude/screens/2.1.197.txt")),
    ("2.1.325", include_str!("../../recordings/claude/screens/2.1.325.txt")),
];

const SIZES: [&str; 4] = ["120x40", "80x24", "200x60", "40x12"];

struct Screen {
    version: &'static str,
    scene: String,
    size: String,
    look: Look,
}

fn claude() -> &'static dyn Interactive {
    ClaudeTerminal.interactive().unwrap()
}

static SCREENS: LazyLock<Vec<Screen>> = LazyLock::new(|| {
    let of = |(version, text): (&'static str, &'static str)| {
        text.split("=== ").skip(1).map(move |section| screen(version, section)).collect::<Vec<_>>()
    };
    VERSIONS.into_iter().flat_map(of).collect()
});

fn screen(version: &'static str, section: &str) -> Screen {
    let (head, rows) = section.split_once('\n').unwrap();
    let (place, title) = head.split_once(" titled ").unwrap();
    let words: Vec<&str> = place.split(' ').collect();
    let [scene, size, "at", cursor] = words[..] else { panic!("{place}") };
    let (columns, height) = size.split_once('x').unwrap();
    let (row, column) = cursor.split_once(',').unwrap();
    let mut rows: Vec<String> = rows.trim_end_matches('\n').split('\n').map(unpacked).collect();
    rows.resize(height.parse().unwrap(), String::new());
    let look = Look {
        rows,
        columns: columns.parse().unwrap(),
        cursor: Some((row.parse().unwrap(), column.parse().unwrap())),
        title: title.to_owned(),
    };
    Screen { version, scene: scene.to_owned(), size: size.to_owned(), look }
}

/// `⟦─×120⟧` is a hundred and twenty of them.
fn unpacked(row: &str) -> String {
    let mut parts = row.split('⟦');
    let mut whole = parts.next().unwrap().to_owned();
    for part in parts {
        let (packed, rest) = part.split_once('⟧').unwrap();
        let (char, times) = packed.split_once('×').unwrap();
        whole.push_str(&char.repeat(times.parse().unwrap()));
        whole.push_str(rest);
    }
    whole
}

fn dialog(scene: &str, version: &str, size: &str) -> Dialog {
    let found = SCREENS.iter().find(|s| s.scene == scene && s.version == version && s.size == size);
    let found = found.unwrap_or_else(|| panic!("{scene} {version} {size} was not recorded"));
    claude().dialog(&found.look).unwrap_or_else(|| panic!("{scene} {version} {size}:\n{}", found.look.dump()))
}

const DIALOGS: &[(&str, DialogKind)] = &[
    ("trust", DialogKind::Trust),
    ("api-key", DialogKind::ApiKey),
    ("bypass", DialogKind::Bypass),
    ("project-mcp", DialogKind::ProjectServers),
    ("project-mcp-two", DialogKind::ProjectServers),
    ("write", DialogKind::Permission(Wish::Write)),
    ("long-write", DialogKind::Permission(Wish::Write)),
    ("edit", DialogKind::Permission(Wish::Write)),
    ("bash", DialogKind::Permission(Wish::Command)),
    ("command", DialogKind::Permission(Wish::Command)),
    ("fetch", DialogKind::Permission(Wish::Other)),
    ("mcp", DialogKind::Permission(Wish::Mcp)),
    ("ask-one", DialogKind::Question),
    ("ask-many", DialogKind::Question),
    ("ask-two", DialogKind::Question),
    ("ask-two-second", DialogKind::Question),
    ("ask-two-review", DialogKind::Review),
    ("plan", DialogKind::Plan),
    ("plan-file", DialogKind::Plan),
    ("login", DialogKind::Login),
];

#[test]
fn every_dialog_is_known_at_every_size_in_both_versions() {
    let mut wrong = Vec::new();
    for (version, _) in VERSIONS {
        for size in SIZES {
            for (scene, want) in DIALOGS {
                let dialog = dialog(scene, version, size);
                // The smallest screen does not show what a permission is for.
                let small = size == "40x12" && matches!(want, DialogKind::Permission(_));
                let known = if small {
                    matches!(dialog.kind, DialogKind::Permission(_))
                } else {
                    dialog.kind == *want
                };
                // Nor always what a question of the model is.
                if !known || dialog.question.is_empty() && size != "40x12" {
                    wrong.push(format!("{version} {size} {scene}: {dialog:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_input_box_is_seen_with_what_it_holds() {
    let mut wrong = Vec::new();
    for Screen { version, scene, size, look } in &*SCREENS {
        let sight = claude().sight(look);
        let fits = match scene.as_str() {
            "ready" | "cleared" | "busy" | "interrupted" | "hanging" | "retrying" | "limit" => {
                sight == Sight::Empty
            }
            "held" => sight == Sight::Holds("some words that stay".to_owned()),
            "held-two" => sight == Sight::Holds("one\n  two".replace("\n  ", "\n")),
            "returned" => sight == Sight::Holds("go @HANG@".to_owned()),
            scene if scene.starts_with("held") => matches!(sight, Sight::Holds(_)),
            scene if DIALOGS.iter().any(|(dialog, _)| *dialog == scene) => sight == Sight::Dialog,
            _ => true,
        };
        if !fits {
            wrong.push(format!("{version} {size} {scene}: {sight:?}\n{}", look.dump()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";
const TAB: &str = "\t";
const ENTER: &str = "\r";
const ESC: &str = "\x1b";
const DENIED: &str = "this run may only read; go on without it";
const NOBODY: &str = "nobody is there to answer; choose what seems best, say what you chose, and go on";
const BLOCKED: &str = "blocked";

fn key(dialog: &Dialog, permissions: Permissions) -> String {
    match answer(dialog, permissions) {
        Answer::Press(press) => String::from_utf8(press.bytes).unwrap(),
        Answer::Blocked { .. } => BLOCKED.to_owned(),
    }
}

/// The first step for each dialog, with everything allowed and with nothing. Menus at the start have digits in the older
/// version only, and point elsewhere.
#[test]
fn what_is_pressed_first() {
    let both = VERSIONS.map(|(version, _)| version);
    let [older, newer] = both;
    let table: &[(&str, &[&str], &str, &str)] = &[
        ("trust", &[older], "1", "1"),
        ("trust", &[newer], DOWN, DOWN),
        ("api-key", &[older], "1", "1"),
        ("api-key", &[newer], UP, UP),
        ("bypass", &[older], "2", BLOCKED),
        ("bypass", &[newer], DOWN, BLOCKED),
        ("project-mcp", &[older], "3", "3"),
        ("project-mcp", &[newer], ENTER, ENTER),
        ("project-mcp-two", &both, ESC, ESC),
        ("write", &both, "1", DOWN),
        ("edit", &both, "1", DOWN),
        ("bash", &both, "1", DOWN),
        ("command", &both, "1", DOWN),
        ("fetch", &both, "1", DOWN),
        ("mcp", &both, "1", DOWN),
        ("ask-one", &both, DOWN, DOWN),
        ("ask-many", &both, DOWN, DOWN),
        ("ask-two-review", &both, "1", "1"),
        ("plan", &both, "1", DOWN),
        ("login", &both, BLOCKED, BLOCKED),
    ];
    let mut wrong = Vec::new();
    for (scene, versions, all, deny) in table {
        for version in *versions {
            for size in SIZES {
                let dialog = dialog(scene, version, size);
                let pressed = [key(&dialog, Permissions::All), key(&dialog, Permissions::Deny)];
                if pressed != [*all, *deny] {
                    wrong.push(format!("{scene} {version} {size}: {pressed:?} {dialog:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Recorded while keys were pressed by hand: on each screen the right next key is found, until the dialog is gone.
#[test]
fn words_are_put_where_there_is_room_for_them() {
    let table: &[(&str, &[&str])] = &[
        ("no-write", &[TAB, DENIED, ENTER]),
        ("no-bash", &[TAB, DENIED, ENTER]),
        ("no-mcp", &[TAB, DENIED, ENTER]),
        ("no-fetch", &[ENTER]),
        ("words-one", &[DOWN, NOBODY, ENTER]),
        ("words-many", &[DOWN, NOBODY, DOWN, ENTER, "1"]),
        ("words-two", &[DOWN, NOBODY, ENTER, DOWN, DOWN, NOBODY, DOWN, ENTER, "1"]),
        ("plan-words", &[DOWN, DENIED, ENTER]),
    ];
    let mut wrong = Vec::new();
    for (version, _) in VERSIONS {
        for size in ["120x40", "40x12"] {
            for (scene, keys) in table {
                for (step, want) in keys.iter().enumerate() {
                    let dialog = dialog(&format!("{scene}-step{}", step + 1), version, size);
                    let pressed = key(&dialog, Permissions::Deny);
                    if pressed != **want {
                        wrong.push(format!("{scene} {step} {version} {size}: {pressed:?} {dialog:?}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a file, a command or an answer says is not taken for what the program asks.
#[test]
fn foreign_words_make_no_dialog() {
    let rule = "─".repeat(80);
    let spoken = [
        "● Here is what it asks:",
        " Do you want to proceed?",
        " ❯ 1. Yes",
        "   2. No",
        "",
        " Esc to cancel",
        "",
        &rule,
        "❯ ",
        &rule,
        "  ? for shortcuts",
    ];
    let look = Look { rows: spoken.map(str::to_owned).to_vec(), columns: 80, ..Look::default() };
    assert_eq!(claude().dialog(&look), None);
    assert_eq!(claude().sight(&look), Sight::Empty);

    let lines = ["❯ a prompt of", "  several lines", "", "● Working", "  esc to interrupt"];
    let look = Look { rows: lines.map(str::to_owned).to_vec(), columns: 80, ..Look::default() };
    assert_eq!(claude().dialog(&look), None, "a sent prompt is no menu");

    let asked = [
        &rule,
        " ☐ Trap",
        "",
        "Do you want to create x?",
        "",
        "❯ 1. Yes, I trust this folder",
        "     WARNING: Claude Code running in Bypass Permissions mode",
        "  2. Yes, I accept",
        "  3. Type something.",
        &rule,
        "  4. Chat about this",
        "",
        "Enter to select · Esc to cancel",
    ];
    let look = Look { rows: asked.map(str::to_owned).to_vec(), columns: 80, ..Look::default() };
    assert_eq!(claude().dialog(&look).unwrap().kind, DialogKind::Question);
}

/// Synthetic: these cannot be provoked without an account. The words are those of the program's own messages.
#[test]
fn dialogs_of_an_account_stop_the_run() {
    let table: [(DialogKind, &[&str]); 3] = [
        (
            DialogKind::UsageLimit,
            &[
                " What do you want to do?",
                "",
                " ❯ 1. Stop and wait for limit to reset",
                "   2. Upgrade your plan",
                "",
                " Enter to confirm · Esc to cancel",
            ],
        ),
        (
            DialogKind::Update,
            &[" Update available", "", " Install it now?", " ❯ 1. Yes", "   2. Later", "", " Esc to cancel"],
        ),
        (
            DialogKind::UnknownMenu,
            &[" Something quite new", "", " ❯ Blue pill", "   Red pill", "", " Enter to confirm"],
        ),
    ];
    for (kind, rows) in table {
        for columns in [40_u16, 80, 120, 200] {
            let rule = "─".repeat(usize::from(columns));
            let rows =
                std::iter::once(rule.as_str()).chain(rows.iter().copied()).map(str::to_owned).collect();
            let dialog = claude().dialog(&Look { rows, columns, ..Look::default() }).unwrap();
            assert_eq!(dialog.kind, kind);
            for permissions in [Permissions::All, Permissions::Edits, Permissions::Deny] {
                assert!(matches!(answer(&dialog, permissions), Answer::Blocked { .. }), "{dialog:?}");
            }
        }
    }
}
