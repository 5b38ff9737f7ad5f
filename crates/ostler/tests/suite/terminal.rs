//! What a person sees of `ostler run` on a terminal: lines that stay, and one that moves below them and goes.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;

use crate::ground::{self, Ground};
use crate::screen::{Screen, Size};

const SIZES: [Size; 3] = [Size(24, 80), Size(12, 40), Size(60, 200)];

/// Speaks as Codex does. What it says is in `records`; the rest follows once there is a file `go`.
const CODEX: &str = r#"
case $1 in --version) echo codex-cli 0.166.0; exit;; esac
cat > /dev/null
cat records
while [ ! -e go ]; do sleep 0.02; done
cat rest
"#;

const CALL: &str = r#"{"type":"thread.started","thread_id":"t-1"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"m","type":"agent_message","text":"I will \u001b[31mtry\u001b[0m it.\u0007"}}
{"type":"item.started","item":{"id":"c","type":"command_execution","command":"bash -lc 'echo 世界世界世界世界世界世界 👍👍👍'"}}
"#;

const REST: &str = r#"{"type":"item.completed","item":{"id":"c","type":"command_execution","command":"x","exit_code":0,"aggregated_output":"ok","status":"completed"}}
{"type":"item.completed","item":{"id":"e","type":"agent_message","text":"It works."}}
{"type":"turn.completed","usage":{"input_tokens":2500,"output_tokens":700}}
"#;

fn ground(records: &str) -> Ground {
    let ground = Ground::new().with("PATH", "/usr/bin:/bin").with("TERM", "xterm-256color");
    let codex = ground.script("codex", CODEX);
    ground
        .put("ostler/config.toml", &format!("[agents.codex]\nprogram = {:?}\n", codex.display().to_string()));
    ground.put("project/records", records);
    ground.put("project/rest", REST);
    ground
}

fn start(ground: &Ground, size: Size) -> Screen {
    Screen::start(&ground.command(&["run", "-a", "codex", "do it"]), size)
}

fn go(ground: &Ground) {
    ground.put("project/go", "");
}

fn is_status(row: &str) -> bool {
    row.starts_with(" codex · ")
}

/// Waits for the line at the bottom, with the open call in it where there is room.
fn until_at_work(screen: &Screen, word: &str) -> Vec<String> {
    screen.until("the line at the bottom", |rows| {
        rows.last().is_some_and(|row| is_status(row) && row.contains(word))
    })
}

#[test]
fn one_line_moves_below_those_that_stay_and_is_gone_at_the_end() {
    for size in SIZES {
        let ground = ground(CALL);
        let mut screen = start(&ground, size);
        let rows = until_at_work(&screen, "shell echo");
        assert_eq!(rows.iter().filter(|row| is_status(row)).count(), 1, "{rows:#?}");
        assert!(rows.contains(&"I will try it.".to_owned()), "{rows:#?}");
        go(&ground);
        let (code, rows) = screen.end();
        assert_eq!(code, Some(0), "{rows:#?}");
        assert!(!rows.iter().any(|row| is_status(row)), "{rows:#?}");
        let words = [
            "✓ shell echo 世界世界",
            "It works.",
            "✓ completed: the task is done (",
            "  used     2,500 tokens read, 700",
            "  look     ostler runs show ",
        ];
        assert!(words.iter().all(|word| rows.iter().any(|row| row.starts_with(word))), "{rows:#?}");
    }
}

#[test]
fn many_lines_are_whole_and_in_order() {
    let said = |number: u32| {
        let words = format!("line {number} ").repeat(12);
        format!(
            "{{\"type\":\"item.completed\",\"item\":{{\"id\":\"i{number}\",\"type\":\"agent_message\",\"text\":\"{words}\"}}}}\n"
        )
    };
    let records: String = (0..150).map(said).collect();
    let ground = ground(&format!("{{\"type\":\"thread.started\",\"thread_id\":\"t\"}}\n{records}"));
    let mut screen = start(&ground, Size(12, 40));
    screen.until("the last of them", |rows| rows.iter().any(|row| row.contains("line 149")));
    go(&ground);
    let (code, rows) = screen.end();
    assert_eq!(code, Some(0), "{rows:#?}");
    // The terminal breaks lines where it must; put together again they are what was said.
    let all = rows.join("").replace(' ', "");
    let begin = all.find("line0line0").unwrap();
    let want: String = (0..150).map(|number| format!("line{number}").repeat(12)).collect();
    assert!(all[begin..].starts_with(&want), "{rows:#?}");
}

#[test]
fn a_smaller_window_gets_a_shorter_line() {
    let ground = ground(CALL);
    let mut screen = start(&ground, Size(24, 100));
    until_at_work(&screen, "👍👍👍");
    screen.resize(Size(24, 36));
    let rows = until_at_work(&screen, "…");
    assert_eq!(rows.iter().filter(|row| is_status(row)).count(), 1, "{rows:#?}");
    screen.resize(Size(24, 100));
    until_at_work(&screen, "👍👍👍");
    go(&ground);
    let (code, rows) = screen.end();
    assert_eq!(code, Some(0), "{rows:#?}");
    assert!(!screen.rows().iter().any(|row| is_status(row)), "{:#?}", screen.rows());
}

#[test]
fn ctrl_c_and_sigterm_leave_a_clean_screen() {
    let table = [(130, "it was cancelled by Ctrl-C"), (143, "it was cancelled by SIGTERM")];
    for (want, words) in table {
        let ground = ground(CALL);
        let mut screen = start(&ground, Size(24, 80));
        until_at_work(&screen, "shell");
        match want {
            130 => screen.press("\u{3}"),
            _ => screen.signal(Signal::TERM),
        }
        let (code, rows) = screen.end();
        assert_eq!(code, Some(want), "{rows:#?}");
        assert!(!rows.iter().any(|row| is_status(row) || row.contains("^C")), "{rows:#?}");
        assert!(rows.iter().any(|row| row.starts_with(&format!("✗ cancelled: {words}"))), "{rows:#?}");
        let resumed = rows.iter().any(|row| row.contains("ostler run --resume "));
        assert!(resumed, "it says how to go on: {rows:#?}");
    }
}

#[test]
fn colours_and_the_line_that_moves_can_be_refused() {
    let escapes = |ground: &Ground| {
        go(ground);
        let mut screen = start(ground, Size(24, 80));
        let (code, rows) = screen.end();
        assert_eq!(code, Some(0), "{rows:#?}");
        String::from_utf8(screen.bytes()).unwrap()
    };
    let coloured = escapes(&ground(CALL));
    assert!(coloured.contains("\u{1b}[32m"), "{coloured:?}");
    let plain = escapes(&ground(CALL).with("NO_COLOR", "1"));
    let styles = plain
        .split("\u{1b}[")
        .skip(1)
        .filter(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m'));
    assert_eq!(styles.count(), 0, "{plain:?}");
    let dumb = escapes(&ground(CALL).with("TERM", "dumb"));
    assert!(!dumb.contains('\u{1b}'), "{dumb:?}");
    assert!(!dumb.contains(" codex · "), "{dumb:?}");
}

#[test]
fn what_is_not_a_terminal_gets_lines_without_control_characters() {
    let ground = ground(CALL);
    go(&ground);
    let ended = ground.run(&["run", "-a", "codex", "do it"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    let control: Vec<char> =
        ended.stdout.chars().filter(|letter| letter.is_control() && *letter != '\n').collect();
    assert_eq!(control, Vec::<char>::new(), "{:?}", ended.stdout);
    assert!(ended.stdout.contains("\nI will try it.\n"), "{}", ended.stdout);
    assert!(!ended.stdout.contains(" codex · "), "{}", ended.stdout);
    let first = ended.stdout.lines().next().unwrap_or_default();
    assert!(first.starts_with("$ codex exec --json "), "the command is told once: {first}");
    let shown = ground.run(&["runs", "show", "last"]).stdout;
    for words in ["state    completed\n", "said     It works.\n", "calls    1\n", "prompt   do it\n"] {
        assert!(shown.contains(words), "{shown}");
    }
}

/// Somebody who pressed Ctrl-S: the run goes on, ends and is kept; only its last words wait.
#[test]
fn a_reader_who_does_not_read_does_not_hold_up_the_run() {
    let said = format!(
        "{{\"type\":\"item.completed\",\"item\":{{\"id\":\"i\",\"type\":\"agent_message\",\"text\":\"{}\"}}}}\n",
        "word ".repeat(2_000)
    );
    let ground =
        ground(&format!("{{\"type\":\"thread.started\",\"thread_id\":\"t\"}}\n{}", said.repeat(100)));
    go(&ground);
    let (reader, writer) = std::io::pipe().unwrap();
    let child = ground
        .command(&["run", "-a", "codex", "do it"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let runs = ground.at("ostler/runs");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let is_kept = || {
        let mut runs = fs::read_dir(&runs).into_iter().flatten().flatten();
        runs.any(|run| run.path().join("outcome.json").exists())
    };
    while !is_kept() {
        assert!(std::time::Instant::now() < deadline, "the run waits for its reader");
        std::thread::yield_now();
    }
    drop(reader);
    assert_eq!(ground::ended(child).status.code(), Some(0));
}

/// Asked once, before anything is started: a no leaves the files out, a yes lets them in and is not asked for again.
#[test]
fn a_repository_that_is_not_trusted_is_asked_about_on_a_terminal() {
    let question =
        |screen: &Screen| screen.until("the question", |rows| rows.iter().any(|row| row.contains("[y/N]")));
    let trusted = |ground: &Ground| {
        let state = ground.run(&["trust", "--json"]).stdout;
        serde_json::from_str::<serde_json::Value>(&state).unwrap()["trusted"] == true
    };
    let ground = ground(CALL);
    ground.put("project/.codex/config.toml", "");
    go(&ground);
    let mut screen = start(&ground, SIZES[2]);
    let rows = question(&screen);
    assert!(
        rows.iter().any(|row| row.contains(".codex/config.toml") && row.contains("starts MCP servers")),
        "{rows:?}"
    );
    screen.press("n\r");
    let (code, rows) = screen.end();
    assert_eq!((code, trusted(&ground)), (Some(0), false), "{rows:?}");
    assert!(rows.iter().any(|row| row.contains("not loaded: `.codex/config.toml`")), "{rows:?}");

    let mut screen = start(&ground, SIZES[2]);
    question(&screen);
    screen.press("y\r");
    let (code, rows) = screen.end();
    assert_eq!((code, trusted(&ground)), (Some(0), true), "{rows:?}");
    assert!(!rows.iter().any(|row| row.contains("not loaded")), "{rows:?}");

    let (code, rows) = start(&ground, SIZES[2]).end();
    assert_eq!(code, Some(0), "{rows:?}");
    assert!(!rows.iter().any(|row| row.contains("[y/N]")), "{rows:?}");
}
