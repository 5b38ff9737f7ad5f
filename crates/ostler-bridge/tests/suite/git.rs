//! What git says about the workspace, whatever the repository would have it run.

use std::path::Path;
use std::process::Command;

use ostler_bridge::event::{Barred, BridgeEvent, Touched};
use serde_json::json;

use super::ground::{Ground, RUN};

/// Runs git as a person would.
fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
        .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")
        .output()
        .unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A repository with two commits and something changed since.
fn repository(ground: &Ground) {
    let workspace = ground.workspace();
    git(&workspace, &["init", "--quiet"]);
    ground.put("a.txt", "one\n");
    ground.put("src/b.txt", "one\n");
    ground.put("bin", b"\0");
    git(&workspace, &["add", "."]);
    git(&workspace, &["commit", "--quiet", "-m", "First"]);
    ground.put("a.txt", "one\ntwo\n");
    git(&workspace, &["commit", "--quiet", "-a", "-m", "Second"]);
    git(&workspace, &["tag", "v1"]);
    ground.put("src/b.txt", "one\nzwei é\n");
    ground.put("new é.txt", "");
}

#[tokio::test]
async fn git_tells_what_changed() {
    let ground = Ground::new().await;
    repository(&ground);
    let (_route, _events, guest) = ground.works(RUN, "files:ro");
    let status = guest.says("git_status", json!({})).await;
    assert_eq!(status, "ok: ## main\n M src/b.txt\n?? \"new é.txt\"\n");
    let diff = guest.says("git_diff", json!({})).await;
    assert!(diff.contains("+++ b/src/b.txt\n@@ -1 +1,2 @@\n one\n+zwei é\n"), "{diff}");
    assert!(!diff.contains("a.txt"), "{diff}");
    assert_eq!(guest.says("git_diff", json!({ "path": "a.txt" })).await, "ok: There is no difference.");
    assert_eq!(guest.says("git_diff", json!({ "staged": true })).await, "ok: There is no difference.");
    let commits = guest.says("git_diff", json!({ "from": "HEAD~1", "to": "v1" })).await;
    assert!(commits.contains("+two\n") && !commits.contains("zwei"), "{commits}");
    let log = guest.says("git_log", json!({})).await;
    let subjects: Vec<&str> = log.lines().map(|line| line.rsplit_once(": ").unwrap().1).collect();
    assert_eq!(subjects, ["Second", "First"]);
    assert!(log.contains(" 2026-01-02T03:04:05"), "{log}");
    let first = guest.says("git_log", json!({ "path": "src", "rev": "main" })).await;
    assert!(first.ends_with("Ann: First\n") && first.lines().count() == 1, "{first}");
    assert_eq!(guest.says("git_log", json!({ "count": 1 })).await.lines().count(), 1);
    let show = guest.says("git_show", json!({ "rev": "v1" })).await;
    assert!(show.contains("Second\n") && show.contains("+two\n"), "{show}");
    assert_eq!(guest.says("git_show", json!({ "rev": "HEAD~1", "path": "a.txt" })).await, "ok: one\n");
    assert_eq!(guest.says("git_show", json!({ "rev": "HEAD", "path": "./src/b.txt" })).await, "ok: one\n");
    let binary = guest.says("git_show", json!({ "rev": "HEAD", "path": "bin" })).await;
    assert_eq!(binary, "failed: That is binary, 1 bytes, and is not shown.");
}

#[tokio::test]
async fn what_git_cannot_answer_is_a_sentence() {
    let ground = Ground::new().await;
    let (_route, mut events, guest) = ground.works(RUN, "files:ro");
    for tool in ["git_status", "git_diff", "git_log"] {
        let said = guest.says(tool, json!({})).await;
        assert!(said.starts_with("failed: git has no answer: "), "{tool}: {said}");
        assert!(said.to_lowercase().contains("not a git repository"), "{tool}: {said}");
    }
    repository(&ground);
    let no_commit = |name: &str| {
        format!("failed: `{name}` is not the name of one commit. Give a branch, a tag or a hash.")
    };
    let table = [
        ("git_show", json!({ "rev": "--output=evil" }), no_commit("--output=evil")),
        ("git_show", json!({ "rev": "HEAD:a.txt" }), no_commit("HEAD:a.txt")),
        ("git_log", json!({ "rev": "HEAD~1..HEAD" }), no_commit("HEAD~1..HEAD")),
        ("git_diff", json!({ "from": "" }), no_commit("")),
        (
            "git_diff",
            json!({ "to": "HEAD" }),
            "failed: `to` needs a `from`, and cannot be compared with what is staged. Leave one of them out."
                .to_owned(),
        ),
        (
            "git_show",
            json!({}),
            "failed: `git_show` was not called: missing key `rev`. Try: write `\"rev\": …`.".to_owned(),
        ),
    ];
    for (tool, arguments, want) in table {
        assert_eq!(guest.says(tool, arguments).await, want);
    }
    let unknown = guest.says("git_show", json!({ "rev": "nowhere" })).await;
    assert!(unknown.starts_with("failed: git has no answer: fatal: "), "{unknown}");
    events.all();
    for (path, why) in [("../secret", Barred::Parent), ("/etc/passwd", Barred::Absolute)] {
        for (tool, arguments) in [
            ("git_diff", json!({ "path": path })),
            ("git_log", json!({ "path": path })),
            ("git_show", json!({ "rev": "HEAD", "path": path })),
        ] {
            let said = guest.says(tool, arguments).await;
            assert!(said.starts_with(&format!("failed: `{path}` {why}. ")), "{said}");
            let told = events.find(|event| match event {
                BridgeEvent::Touched(Touched::Barred { tool, why, .. }) => Some((tool, why)),
                _ => None,
            });
            assert_eq!(told.await, (tool.to_owned(), why));
        }
    }
}

#[tokio::test]
async fn git_runs_no_program_that_a_repository_names() {
    let ground = Ground::new().await;
    repository(&ground);
    let workspace = ground.workspace();
    let evil = ground.folder.path().join("evil.sh");
    let seen = ground.folder.path().join("seen");
    std::fs::write(&evil, format!("#!/bin/sh\necho \"$0\" \"$@\" >>{}\ncat\n", seen.display())).unwrap();
    let run = format!("/bin/sh {}", evil.display());
    for (key, value) in [
        ("core.fsmonitor", run.as_str()),
        ("core.pager", &run),
        ("pager.log", &run),
        ("core.editor", &run),
        ("diff.external", &run),
        ("diff.evil.textconv", &run),
        ("diff.evil.command", &run),
        ("filter.evil.clean", &run),
        ("filter.evil.smudge", &run),
        ("filter.evil.required", "true"),
        ("log.showSignature", "true"),
        ("gpg.program", evil.to_str().unwrap()),
        ("alias.status", &format!("!{run}")),
        ("core.sshCommand", &run),
    ] {
        git(&workspace, &["config", key, value]);
    }
    ground.put(".gitattributes", "* diff=evil filter=evil\n");
    std::fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    for hook in ["post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman"] {
        std::fs::copy(&evil, workspace.join(".git/hooks").join(hook)).unwrap();
    }
    let (_route, _events, guest) = ground.works(RUN, "files:ro");
    for (tool, arguments) in [
        ("git_status", json!({})),
        ("git_diff", json!({})),
        ("git_diff", json!({ "from": "HEAD~1" })),
        ("git_log", json!({ "path": "a.txt" })),
        ("git_show", json!({ "rev": "HEAD" })),
        ("git_show", json!({ "rev": "HEAD", "path": "a.txt" })),
    ] {
        let said = guest.says(tool, arguments).await;
        assert!(said.starts_with("ok: "), "{tool}: {said}");
    }
    assert!(!seen.exists(), "{}", std::fs::read_to_string(&seen).unwrap_or_default());
    // A filter that cannot be named cannot be switched off: then git is not asked.
    git(&workspace, &["config", "filter.a=b.clean", &run]);
    let said = guest.says("git_status", json!({})).await;
    let want = "failed: This repository has settings that cannot be switched off, so git is not asked here.";
    assert_eq!(said, want);
    assert!(!seen.exists());
}

#[tokio::test]
async fn a_repository_around_the_workspace_shows_no_more_than_the_workspace() {
    let ground = Ground::new().await;
    let top = ground.folder.path();
    git(top, &["init", "--quiet"]);
    ground.put("a.txt", "one\n");
    std::fs::write(top.join("secret"), "secret\n").unwrap();
    git(top, &["add", "workspace", "secret"]);
    git(top, &["commit", "--quiet", "-m", "First"]);
    std::fs::write(top.join("secret"), "new secret\n").unwrap();
    ground.put("a.txt", "two\n");
    let (_route, _events, guest) = ground.works(RUN, "files:ro");
    for (tool, arguments) in [
        ("git_status", json!({})),
        ("git_diff", json!({})),
        ("git_diff", json!({ "path": ":(top)secret" })),
        ("git_show", json!({ "rev": "HEAD" })),
        ("git_show", json!({ "rev": "HEAD", "path": "secret" })),
    ] {
        let said = guest.says(tool, arguments.clone()).await;
        assert!(!said.contains("secret\n"), "{tool} {arguments}: {said}");
    }
    assert_eq!(guest.says("git_show", json!({ "rev": "HEAD", "path": "a.txt" })).await, "ok: one\n");
    let diff = guest.says("git_diff", json!({})).await;
    assert!(diff.contains("+++ b/a.txt\n"), "{diff}");
}

#[tokio::test]
async fn a_long_diff_is_cut_and_says_so() {
    let ground = Ground::new().await;
    repository(&ground);
    ground.put("a.txt", "line of a long file\n".repeat(500_000));
    let (_route, _events, guest) = ground.works(RUN, "files:ro");
    let diff = guest.says("git_diff", json!({ "path": "a.txt" })).await;
    assert!(diff.len() < 66_000, "{}", diff.len());
    assert!(diff.ends_with(" more bytes.]\n"), "{}", &diff[diff.len() - 100..]);
}
