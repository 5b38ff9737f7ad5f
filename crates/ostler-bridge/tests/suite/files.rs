//! Files of the workspace: read, listed, searched, written, edited, all within bounds.

use std::os::unix::fs::PermissionsExt as _;

use ostler_bridge::event::{BridgeEvent, Touched};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ground::{Ground, RUN};

#[tokio::test]
async fn tools_for_files_are_listed_as_they_are_granted() {
    let ground = Ground::new().await;
    let reading = ["read_file", "list_files", "search_files"];
    let git = ["git_status", "git_diff", "git_log", "git_show"];
    let table: [(&str, Vec<&str>); 4] = [
        ("files:ro", [&reading[..], &git].concat()),
        ("files:rw", [&reading[..], &["write_file", "edit_file"], &git].concat()),
        ("exec", vec!["exec"]),
        ("artifacts,progress,ask", vec!["submit_artifact", "edit_artifact", "report_progress", "ask_human"]),
    ];
    for (capabilities, want) in table {
        let (route, _events, guest) = ground.works(RUN, capabilities);
        let mut tools = guest.tools().await;
        assert_eq!(route.preflight().await.unwrap(), tools);
        tools.retain(|tool| tool != "read_instructions" && tool != "declare_complete");
        assert_eq!(tools, want, "{capabilities}");
        drop(route);
    }
    // Without a guardian no program is run, and none is offered.
    let capabilities = ostler_bridge::capability::parse("files:ro,exec").unwrap();
    let terms = ostler_bridge::route::Terms { capabilities, ..ground.terms(RUN) };
    let (route, _events) = ground.keeper.admit(terms).unwrap();
    let guest = super::ground::Guest::of(&route);
    assert_eq!(guest.tools().await[1..4], reading);
    for tool in ["exec", "git_status"] {
        let said = guest.says(tool, json!({})).await;
        assert!(
            said.starts_with(&format!("failed: There is no tool called `{tool}` in this run.")),
            "{said}"
        );
    }
}

#[tokio::test]
async fn tools_for_the_workspace_have_schemas() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.works(RUN, "files:rw,exec");
    let message = guest.send("tools/list", json!({})).await.message();
    let tools = serde_json::to_string_pretty::<Value>(&message["result"]["tools"]).unwrap();
    insta::assert_snapshot!("workspace_tools", tools);
}

#[tokio::test]
async fn a_reader_writes_nothing() {
    let ground = Ground::new().await;
    let (_route, _events, guest) = ground.works(RUN, "files:ro");
    for (tool, arguments) in [
        ("write_file", json!({ "path": "x", "content": "x" })),
        ("edit_file", json!({ "path": "x", "old": "x", "new": "y" })),
        ("exec", json!({ "command": "touch x" })),
    ] {
        let said = guest.says(tool, arguments).await;
        assert!(
            said.starts_with(&format!("failed: There is no tool called `{tool}` in this run.")),
            "{said}"
        );
    }
    assert!(!ground.workspace().join("x").exists());
}

#[tokio::test]
async fn a_file_is_read_by_lines_and_what_is_cut_says_how_to_go_on() {
    let ground = Ground::new().await;
    ground.put("src/a.txt", "one\ntwo\nthree");
    ground.put("long.txt", "0123456789abcde\n".repeat(10_000));
    ground.put("wide.txt", "é".repeat(100_000));
    ground.put("empty", "");
    ground.put("picture.png", b"\x89PNG\r\n\0\0");
    ground.put("latin", b"caf\xe9\n");
    let (_route, _events, guest) = ground.works(RUN, "files:ro");
    let table = [
        (json!({ "path": "src/a.txt" }), "ok: one\ntwo\nthree"),
        (json!({ "path": "./src//a.txt" }), "ok: one\ntwo\nthree"),
        (
            json!({ "path": "src/a.txt", "limit": 1 }),
            "ok: one\n[Cut: these are lines 1 to 1. Go on with `offset` 2.]",
        ),
        (json!({ "path": "src/a.txt", "offset": 2 }), "ok: two\nthree"),
        (json!({ "path": "src/a.txt", "offset": 0, "limit": 9 }), "ok: one\ntwo\nthree"),
        (
            json!({ "path": "src/a.txt", "offset": 4 }),
            "failed: `src/a.txt` has 3 lines; line 4 is beyond its end.",
        ),
        (json!({ "path": "empty" }), "ok: `empty` is empty."),
        (json!({ "path": "empty", "offset": 9 }), "ok: `empty` is empty."),
        (
            json!({ "path": "picture.png" }),
            "failed: `picture.png` is a binary file of 8 bytes, which is not shown.",
        ),
        (
            json!({ "path": "latin" }),
            "ok: caf\u{fffd}\n[Not all of it is UTF-8: \u{fffd} stands for what is not.]",
        ),
        (json!({ "path": "src" }), "failed: `src` is a folder. `list_files` shows what is in it."),
        (
            json!({ "path": "gone" }),
            "failed: There is no `gone` in the workspace. `list_files` shows what there is.",
        ),
        (
            json!({ "path": "src/a.txt/b" }),
            "failed: `src/a.txt/b` leads through something that is not a folder. `list_files` shows what there is.",
        ),
        (json!({ "path": "a\0b" }), "failed: The path contains a NUL character, which no path has."),
        (json!({ "path": "x".repeat(5000) }), "failed: The path is too long. Use a shorter one."),
        (
            json!({ "path": 3 }),
            "failed: `read_file` was not called: expected text in quotes, found the number 3 in `path`. Try: write \
             `\"path\": \"…\"`.",
        ),
    ];
    for (arguments, want) in table {
        assert_eq!(guest.says("read_file", arguments.clone()).await, want, "{arguments}");
    }
    let long = guest.says("read_file", json!({ "path": "long.txt" })).await;
    assert!(long.ends_with("[Cut: these are lines 1 to 2000. Go on with `offset` 2001.]"), "{}", long.len());
    let longer = guest.says("read_file", json!({ "path": "long.txt", "limit": 100_000 })).await;
    assert!(
        longer.ends_with("[Cut: these are lines 1 to 4096. Go on with `offset` 4097.]"),
        "{}",
        longer.len()
    );
    let rest = guest.says("read_file", json!({ "path": "long.txt", "offset": 10_000 })).await;
    assert_eq!(rest, "ok: 0123456789abcde\n");
    let wide = guest.says("read_file", json!({ "path": "wide.txt" })).await;
    assert!(wide.ends_with("[Cut: line 1 has more than 65536 bytes. Go on after it with `offset` 2.]"));
    assert!(wide.len() < 66_000, "{}", wide.len());
}

#[tokio::test]
async fn a_file_without_end_is_not_read_to_its_end() {
    let ground = Ground::new().await;
    let sparse = std::fs::File::create(ground.workspace().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let (_route, _events, guest) = ground.works(RUN, "files:rw");
    for arguments in [json!({ "path": "sparse" }), json!({ "path": "sparse", "offset": 1_000_000 })] {
        let said = guest.says("read_file", arguments).await;
        assert_eq!(said, "failed: `sparse` is a binary file of 1099511627776 bytes, which is not shown.");
    }
    let found = guest.says("search_files", json!({ "pattern": "x" })).await;
    assert_eq!(found, "ok: Nothing was found.\n[Passed over: 1 files of more than 8388608 bytes.]\n");
    let edited = guest.says("edit_file", json!({ "path": "sparse", "old": "a", "new": "b" })).await;
    assert!(
        edited.starts_with("failed: `sparse` would have 1099511627776 bytes; at most 4194304"),
        "{edited}"
    );
    // The line may be far away, and the file text.
    use std::io::Write as _;
    (&sparse).write_all(&[b'x'; 8192]).unwrap();
    let said = guest.says("read_file", json!({ "path": "sparse", "offset": 2 })).await;
    assert_eq!(said, "failed: Line 2 of `sparse` is more than 256 MiB into it, and is not looked for.");
}

#[tokio::test]
async fn files_are_listed_in_order_without_what_git_ignores() {
    let ground = Ground::new().await;
    for path in ["b.rs", "src/lib.rs", "src/deep/x.rs", "target/debug/ostler", "notes.log", ".git/config"] {
        ground.put(path, "");
    }
    ground.put(".gitignore", "target\n*.log\n");
    std::os::unix::fs::symlink("b.rs", ground.workspace().join("link")).unwrap();
    let (_route, _events, guest) = ground.works(RUN, "files:ro");
    let table = [
        (json!({}), "ok: .gitignore\nb.rs\nlink -> b.rs\nsrc/\n"),
        (json!({ "path": "src" }), "ok: src/deep/\nsrc/lib.rs\n"),
        (
            json!({ "depth": 9 }),
            "ok: .gitignore\nb.rs\nlink -> b.rs\nsrc/\nsrc/deep/\nsrc/deep/x.rs\nsrc/lib.rs\n",
        ),
        (json!({ "glob": "*.rs" }), "ok: b.rs\nsrc/deep/x.rs\nsrc/lib.rs\n"),
        (json!({ "glob": "src/*.rs" }), "ok: src/lib.rs\n"),
        (json!({ "glob": "*.rs", "depth": 1 }), "ok: b.rs\n"),
        (json!({ "ignored": true }), "ok: .gitignore\nb.rs\nlink -> b.rs\nnotes.log\nsrc/\ntarget/\n"),
        (json!({ "glob": "*.png" }), "ok: Nothing is there.\n"),
        (
            json!({ "path": "b.rs" }),
            "failed: `b.rs` is not a folder. Name one, or leave `path` out for the workspace.",
        ),
    ];
    for (arguments, want) in table {
        assert_eq!(guest.says("list_files", arguments.clone()).await, want, "{arguments}");
    }
    let bad = guest.says("list_files", json!({ "glob": "[" })).await;
    assert!(bad.starts_with("failed: `glob` is none: "), "{bad}");
}

#[tokio::test]
async fn a_long_list_is_cut_and_says_so() {
    let ground = Ground::new().await;
    for number in 0..2100 {
        ground.put(&format!("many/{number:04}"), "word\n");
    }
    let (_route, _events, guest) = ground.works(RUN, "files:ro");
    let list = guest.says("list_files", json!({ "path": "many" })).await;
    assert!(list.ends_with("many/1999\n[Cut after 2000 names. Name a folder below, or a `glob`.]\n"));
    let found = guest.says("search_files", json!({ "pattern": "word" })).await;
    let want = "many/0499:1: word\n[Cut after 500 lines. Name a folder, a `glob` or a narrower `pattern`.]\n";
    assert!(found.ends_with(want), "{}", &found[found.len() - 200..]);
}

#[tokio::test]
async fn files_are_searched_line_by_line() {
    let ground = Ground::new().await;
    ground.put("a.rs", "fn main() {\r\n    let näme = 1;\n}\n");
    ground.put("src/b.rs", "FN other\n\nlast fn");
    ground.put("c.txt", "fn in a text\n");
    ground.put("bin", b"fn\0");
    ground.put(".gitignore", "hidden\n");
    ground.put("hidden", "fn hidden\n");
    ground.put("wide.js", format!("{}fn here{}", "a".repeat(5000), "b".repeat(5000)));
    let (_route, _events, guest) = ground.works(RUN, "files:ro");
    let binary = "[Passed over: 1 binary files.]\n";
    let wide = format!("wide.js:1: …{}fn here{}…\n", "a".repeat(100), "b".repeat(293));
    let table = [
        (json!({ "pattern": "^fn" }), format!("ok: a.rs:1: fn main() {{\nc.txt:1: fn in a text\n{binary}")),
        (json!({ "pattern": "fn$", "glob": "*.rs" }), "ok: src/b.rs:3: last fn\n".to_owned()),
        (
            json!({ "pattern": "^fn", "glob": "*.rs", "ignore_case": true }),
            "ok: a.rs:1: fn main() {\nsrc/b.rs:1: FN other\n".to_owned(),
        ),
        (json!({ "pattern": "fn here" }), format!("ok: {wide}{binary}")),
        (json!({ "pattern": r"n\wme", "path": "a.rs" }), "ok: a.rs:2:     let näme = 1;\n".to_owned()),
        (json!({ "pattern": "fn", "path": "src" }), "ok: src/b.rs:3: last fn\n".to_owned()),
        (
            json!({ "pattern": "hidden", "ignored": true, "glob": "hidden" }),
            "ok: hidden:1: fn hidden\n".to_owned(),
        ),
        (json!({ "pattern": "nowhere" }), format!("ok: Nothing was found.\n{binary}")),
    ];
    for (arguments, want) in table {
        assert_eq!(guest.says("search_files", arguments.clone()).await, want, "{arguments}");
    }
    for pattern in ["(", "(?=x)", r"(a)\1", "((((a{1000}){1000}){1000}){1000})"] {
        let said = guest.says("search_files", json!({ "pattern": pattern })).await;
        assert!(said.starts_with("failed: `pattern` cannot be used. "), "{said}");
    }
    // A pattern that takes for ever elsewhere.
    ground.put("evil.txt", "a".repeat(100_000));
    let said = guest.says("search_files", json!({ "pattern": "(a*)*b", "path": "evil.txt" })).await;
    assert_eq!(said, "ok: Nothing was found.\n");
}

#[tokio::test]
async fn files_are_written_whole_and_keep_their_mode() {
    let ground = Ground::new().await;
    ground.put("run.sh", "old\n");
    let script = ground.workspace().join("run.sh");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o750)).unwrap();
    let (_route, mut events, guest) = ground.works(RUN, "files:rw");
    let write = |path: &str, content: &str| json!({ "path": path, "content": content });
    assert_eq!(guest.says("write_file", write("run.sh", "new\n")).await, "ok: Replaced `run.sh`, 4 bytes.");
    assert_eq!(std::fs::read_to_string(&script).unwrap(), "new\n");
    assert_eq!(script.metadata().unwrap().permissions().mode() & 0o777, 0o750);
    let said = guest.says("write_file", write("a/b/c.txt", "é")).await;
    assert_eq!(said, "ok: Made `a/b/c.txt`, 2 bytes.");
    let told: Vec<BridgeEvent> =
        events.all().into_iter().filter(|event| matches!(event, BridgeEvent::Touched(_))).collect();
    let wrote = |path: &str, bytes| BridgeEvent::Touched(Touched::Wrote { path: path.to_owned(), bytes });
    assert_eq!(told, [wrote("run.sh", 4), wrote("a/b/c.txt", 2)]);
    let table = [
        ("a", "failed: `a` is a folder. Name a file in it."),
        ("", "failed: `` is a folder. Name a file in it."),
        ("new/", "failed: `new/` is a folder. Name a file in it."),
        ("run.sh/x", "failed: `run.sh/x` leads through something that is not a folder."),
    ];
    for (path, want) in table {
        let said = guest.says("write_file", write(path, "x")).await;
        assert!(said.starts_with(want), "{said}");
    }
    let ten = "x".repeat(10_000_000);
    let said = guest.says("write_file", write("big", &ten)).await;
    assert_eq!(said, "failed: `big` would have 10000000 bytes; at most 4194304 are written. Write less.");
    // Nothing was left beside them.
    let mut names: Vec<_> =
        std::fs::read_dir(ground.workspace()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "run.sh"]);
}

#[tokio::test]
async fn a_part_of_a_file_is_changed_if_it_is_clear_which() {
    let ground = Ground::new().await;
    ground.put("a.txt", "one two two\n");
    ground.put("bin", b"\xff\xfe");
    let (_route, _events, guest) = ground.works(RUN, "files:rw");
    let edit = |old: &str, new: &str| json!({ "path": "a.txt", "old": old, "new": new });
    let table = [
        (edit("three", "x"), "failed: `old` is not in `a.txt`, which is unchanged."),
        (edit("two", "x"), "failed: `old` is 2 times in `a.txt`, which is unchanged."),
        (edit("", "x"), "failed: `old` is empty. Give the text to replace."),
        (edit("one", "three"), "ok: Changed `a.txt` in 1 place. It has 14 bytes now."),
        (
            json!({ "path": "a.txt", "old": "two", "new": "2", "all": true }),
            "ok: Changed `a.txt` in 2 places. It has 10 bytes now.",
        ),
        (
            json!({ "path": "bin", "old": "a", "new": "b" }),
            "failed: `bin` is not text in UTF-8, and is not edited.",
        ),
        (
            json!({ "path": "no/file", "old": "a", "new": "b" }),
            "failed: There is no `no/file` in the workspace.",
        ),
    ];
    for (arguments, want) in table {
        let said = guest.says("edit_file", arguments).await;
        assert!(said.starts_with(want), "{said}");
    }
    assert_eq!(std::fs::read_to_string(ground.workspace().join("a.txt")).unwrap(), "three 2 2\n");
    assert!(!ground.workspace().join("no").exists());
}

#[tokio::test]
async fn edits_at_once_do_not_undo_each_other() {
    let ground = Ground::new().await;
    let text: String = (0..64).map(|number| format!("<{number}>\n")).collect();
    ground.put("a.txt", &text);
    let (_route, mut events, guest) = ground.works(RUN, "files:rw");
    let mut calls = JoinSet::new();
    for number in 0..64 {
        let guest = guest.clone();
        calls.spawn(async move {
            let edit = json!({ "path": "a.txt", "old": format!("<{number}>"), "new": format!("({number})") });
            guest.says("edit_file", edit).await
        });
    }
    while let Some(said) = calls.join_next().await {
        let said = said.unwrap();
        assert!(said.starts_with("ok: Changed"), "{said}");
        events.all();
    }
    let want = text.replace('<', "(").replace('>', ")");
    assert_eq!(std::fs::read_to_string(ground.workspace().join("a.txt")).unwrap(), want);
}
