//! From the bytes of the real program to the dialog that they draw: recorded at the smallest and the largest size, in two
//! versions. Names of the files are version, scene and size.

use std::path::Path;

use ostler_agent::agent::Agent as _;
use ostler_agent::agents::ClaudeTerminal;
use ostler_agent::typing::Sight;

use super::pty::Size;
use super::screen::Screen;

/// The word for the dialog of each scene.
const SCENES: [(&str, &str); 14] = [
    ("trust", "trust"),
    ("api-key", "api_key"),
    ("bypass", "bypass"),
    ("project-mcp", "project_servers"),
    ("project-mcp-two", "project_servers"),
    ("write", "permission"),
    ("bash", "permission"),
    ("mcp", "permission"),
    ("ask-one", "question"),
    ("ask-many", "question"),
    ("ask-two-review", "review"),
    ("plan", "plan"),
    ("plan-file", "plan"),
    ("login", "login"),
];

#[test]
fn dialogs_are_known_from_the_bytes_that_draw_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings/dialogs");
    let claude = ClaudeTerminal.interactive().expect("it has a terminal");
    for version in ["2.1.197", "2.1.325"] {
        for size in [Size { columns: 40, rows: 12 }, Size { columns: 200, rows: 60 }] {
            for (scene, want) in SCENES {
                let name = format!("{version}-{scene}-{}x{}.bin", size.columns, size.rows);
                let bytes = std::fs::read(folder.join(&name)).expect(&name);
                let mut screen = Screen::new(size);
                screen.feed(&bytes);
                let look = screen.look();
                let dialog = claude.dialog(&look).unwrap_or_else(|| panic!("{name}:\n{}", look.dump()));
                assert_eq!(dialog.kind.name(), want, "{name}: {dialog:?}");
                assert_eq!(claude.sight(&look), Sight::Dialog, "{name}");
                let mut pieces = Screen::new(size);
                for piece in bytes.chunks(7) {
                    pieces.feed(piece);
                }
                assert_eq!(pieces.look(), look, "{name} in pieces");
            }
        }
    }
}
