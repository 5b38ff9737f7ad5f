//! Workspaces and home directories that no wall fits around, or only with care.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use ostler_agent::jail::JailKind;

use super::yard::{User, Yard, start_jailed};
use super::{assert_refused, ground, outcome, printed, run, script, warnings};

#[test]
fn a_workspace_that_shows_too_much_is_refused_by_the_program() {
    let ground = ground();
    fs::create_dir_all(ground.at("ostler/agents")).unwrap();
    symlink(ground.at("home"), ground.at("link")).unwrap();
    symlink("/", ground.at("project/root")).unwrap();
    let path = |name: &str| ground.at(name).display().to_string();
    let (home, ostler) = (path("home"), path("ostler"));
    let one_project = "use --cwd with the directory of one project, or --no-jail";
    let another = "use --cwd with another directory, or --no-jail";
    let table = [
        ("/".to_owned(), "it is the root of the file system".to_owned(), one_project),
        (path("project/root"), "it is the root of the file system".to_owned(), one_project),
        (home.clone(), format!("it contains the home directory {home}"), one_project),
        (path("link"), format!("it contains the home directory {home}"), one_project),
        (path(""), format!("it contains the home directory {home}"), one_project),
        (ostler.clone(), format!("it contains Ostler's own directory {ostler}"), one_project),
        (path("ostler/agents"), format!("it is in Ostler's own directory {ostler}"), another),
        (path("home/.ssh"), format!("it is in {home}/.ssh, which a jailed agent never sees"), another),
        ("/usr".to_owned(), "it is shared by all programs of this machine".to_owned(), "directory below it"),
    ];
    for (workspace, message, hint) in &table {
        // A plain user is told first that nothing can be changed in `/`.
        let is_writable = rustix::fs::access(workspace.as_str(), rustix::fs::Access::WRITE_OK).is_ok();
        for level in ["deny", "edits"].into_iter().take(if is_writable { 2 } else { 1 }) {
            let args = ["run", "-a", "command:true", "--permissions", level, "--cwd", workspace, "x"];
            assert_refused(&ground, &ground.run(&args), message, &[hint]);
        }
    }
}

/// `/home` is such a link on some systems.
#[test]
fn a_home_behind_a_link_is_private_under_both_names() {
    let ground = ground();
    fs::create_dir(ground.at("home/work")).unwrap();
    symlink(ground.at("home"), ground.at("link")).unwrap();
    let text =
        "pwd; cat ~/.ssh/id ../.ssh/id $REAL/.ssh/id; echo x > ~/written && cat $REAL/written; echo x > made";
    let agent = format!("command:sh -c '{text}'");
    let (link, real) = (ground.at("link"), ground.at("home"));
    let workspace = link.join("work").display().to_string();
    let mut command = ground.command(&["run", "-a", &agent, "--json", "--cwd", &workspace, "x"]);
    let ended = run(command.env("HOME", &link).env("REAL", &real));
    let last = outcome(&ended);
    assert_eq!(
        (&last["outcome"], &last["jail"]["kind"]),
        (&"completed".into(), &"namespace".into()),
        "{last}"
    );
    assert_eq!(printed(&ground, &last), format!("{}\nx\n", real.join("work").display()));
    assert!(real.join("work/made").exists() && !real.join("written").exists());
    let refused = run(ground
        .command(&["run", "-a", "command:true", "--cwd", &real.display().to_string(), "x"])
        .env("HOME", &link));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("it contains the home directory "), "{}", refused.stderr);
}

const ODD_NAMES: [&[u8]; 7] = [b"a b", b"a\nb", b"a:b", b"a\\b", b"a,b", b"-a", b"a\xff"];

/// Prints where it is, and what it can reach. The mode is that of a private home; its cache has a layer, whose options the kernel reads as text.
const LOOK_AROUND: &str = r#"pwd
stat -c %a "$HOME"
cat "$HOME/.ssh/id" && echo open
echo x > "$HOME/written" && test -f "$(mktemp)" && echo x > made && echo works
cat "$HOME/.cargo/seen"
test -z "$CARGO_HOME" && echo x > "$HOME/.cargo/registry" && echo layered
"#;

#[test]
fn directories_with_odd_names_have_the_same_walls() {
    for name in ODD_NAMES {
        let ground = ground();
        let agent = ground.put("agent.sh", LOOK_AROUND);
        let odd = |start: &str| -> PathBuf {
            let folder = ground.at(start).join(OsStr::from_bytes(name));
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        let (home, ostler, mut workspace) = (odd("homes"), odd("ostlers"), odd("workspaces"));
        for (path, text) in [(".ssh/id", "secret\n"), (".cargo/seen", "cache\n")] {
            fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
            fs::write(home.join(path), text).unwrap();
        }
        let start = |workspace: &Path| {
            let agent = format!("command:sh {}", agent.display());
            let mut command = ground.command(&["run", "-a", &agent, "--json", "x", "--cwd"]);
            command.arg(workspace).env("HOME", &home).env("OSTLER_HOME", &ostler);
            run(command.env("OSTLER_CFG__JAIL__READ", &agent[11..]))
        };
        if name.contains(&0xff) {
            let refused = start(&workspace);
            assert_eq!(refused.code, Some(2), "{}", refused.stderr);
            assert!(refused.stderr.contains(" is not UTF-8\n  try: rename it"), "{}", refused.stderr);
            workspace = ground.at("project");
        }
        let ended = start(&workspace);
        let last = outcome(&ended);
        assert_eq!(last["jail"]["kind"], "namespace", "{name:?}: {last}");
        assert_eq!(warnings(&ended), [""; 0], "{name:?}");
        let raw = ostler.join("runs").join(last["run"].as_str().unwrap()).join("raw/stdout");
        let want = format!("{}\n700\nworks\ncache\nlayered\n", workspace.display());
        assert_eq!(fs::read_to_string(raw).unwrap(), want, "{name:?}: {last}");
        assert!(workspace.join("made").exists(), "{name:?}");
        assert!(!home.join("written").exists() && !home.join(".cargo/registry").exists(), "{name:?}");
    }
}

fn git(folder: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]);
    let output = command.arg("-C").arg(folder).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A repository with one commit of one file.
fn repository(folder: &Path) {
    fs::create_dir_all(folder.join("sub")).unwrap();
    git(folder, &["init", "--quiet"]);
    fs::write(folder.join("file"), "content\n").unwrap();
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", "first"]);
}

/// What git does works; what would make git execute something later does not. `DIR` is the git directory.
const COMMIT: &str = r#"git() { command git -c user.name=a -c user.email=a@b "$@"; }
echo x > made && git add made && git commit --quiet -m second && git log --format=%s
git config core.fsmonitor ./x && echo open config
echo x > "$DIR/hooks/post-commit" && echo open hook
mv "$DIR" "$DIR.moved" && echo open move
test -z "$OUTSIDE" || { cat "$OUTSIDE/file" && echo x > "$OUTSIDE/written" && echo open outside; }
"#;

#[test]
fn git_works_wherever_in_a_repository_the_workspace_is_and_its_hooks_stay() {
    let path = std::env::var("PATH").unwrap();
    let ground = ground().with("PATH", path);
    let main = ground.at("main");
    repository(&main);
    repository(&main.join("nested"));
    git(&main, &["worktree", "add", "--quiet", "../tree"]);
    let path = |name: &str| ground.at(name).display().to_string();
    let nothing = String::new();
    let table = [
        (path("main"), path("main/.git"), nothing.clone()),
        // Below the root the rest of the repository can be read.
        (path("main/sub"), path("main/.git"), path("main")),
        (path("main/nested"), path("main/nested/.git"), nothing.clone()),
        (path("tree"), path("main/.git"), nothing),
    ];
    for (workspace, dir, outside) in &table {
        let mut command = ground.command(&["run", "-a", "command:sh", "--json", "--cwd", workspace, COMMIT]);
        let ended = run(command.env("DIR", dir).env("OUTSIDE", outside));
        let last = outcome(&ended);
        let shown = if outside.is_empty() { "" } else { "content\n" };
        assert_eq!(printed(&ground, &last), format!("second\nfirst\n{shown}"), "{workspace}: {last}");
        git(Path::new(workspace), &["reset", "--quiet", "--hard", "HEAD~"]);
    }
    assert!(!main.join("written").exists() && !main.join(".git/hooks/post-commit").exists());
    // A repository in the workspace is guarded as the one around it.
    let inner = COMMIT.replace("git() {", "cd nested; git() {");
    let mut command = ground.command(&["run", "-a", "command:sh", "--json", "--cwd", &path("main"), &inner]);
    let last = outcome(&run(command.env("DIR", path("main/nested/.git")).env("OUTSIDE", "")));
    assert_eq!(printed(&ground, &last), "second\nfirst\n", "{last}");
}

/// A `.git` file can name any repository. One that does not name the workspace in return is not shown.
#[test]
fn a_workspace_that_claims_the_repository_of_another_project_does_not_see_it() {
    let path = std::env::var("PATH").unwrap();
    let ground = ground().with("PATH", path);
    let other = ground.at("other");
    repository(&other);
    ground.put("project/.git", &format!("gitdir: {}/.git\n", other.display()));
    let agent = script(&ground, "cat $OTHER/.git/config $OTHER/file; git log; echo end");
    let mut command = ground.command(&["run", "-a", &agent, "--json", "x"]);
    let last = outcome(&run(command.env("OTHER", &other)));
    assert_eq!(printed(&ground, &last), "end\n", "{last}");
}

/// Whoever may write beside a workspace could replace it after its path was looked at.
#[tokio::test]
async fn a_workspace_that_became_a_link_is_not_entered() {
    for kind in [JailKind::Namespace, JailKind::Landlock] {
        let Some(yard) = Yard::of(User::Root) else { return };
        fs::rename(yard.at("work"), yard.at("moved")).unwrap();
        symlink(yard.at("home/.ssh"), yard.at("work")).unwrap();
        let started =
            start_jailed(&yard.at(""), env!("CARGO_BIN_EXE_ostler"), kind, "cat id").await.map(|_| ());
        let text = format!("{:?}", started.unwrap_err());
        assert!(text.contains("Folder"), "{kind:?}: {text}");
    }
}
