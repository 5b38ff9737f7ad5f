use std::path::Path;

use super::super::JailLevel;
use super::super::world::World;
use super::{Denial, Opening, Wanted};
use Wanted::{Read, Write};

/// What of a text the jail denied. Without a jail the user could do all that the file system has room for.
fn denials(world: &World, text: &str) -> Vec<Denial> {
    let exists = |path: &Path| world.real_path(path).is_some();
    let could = |path: &Path, wanted| match wanted {
        Read => exists(path),
        Write => exists(path) || path.parent().is_some_and(exists),
    };
    world.jail().denials(text, &world.workspace, &could)
}

fn rows(world: &World, text: &str) -> Vec<(String, Wanted, String)> {
    let found = denials(world, text).into_iter();
    found.map(|denial| (denial.path.display().to_string(), denial.wanted, denial.opens.to_string())).collect()
}

#[test]
fn real_messages_of_tools_name_the_path_and_what_opens_it() {
    let world = World::default().with(&[
        "/home/me/work/.git/hooks",
        "/home/me/work/.git/worktrees",
        "/home/me/work/.claude",
        "/home/me/other/.git/objects",
        "/home/me/.npm/_cacache",
        "/home/me/a b/notes",
    ]);
    let other = "/home/me/other/secret";
    let opens_other = "[jail] read = [\"/home/me/other/secret\"]";
    let config = "--allow-config-writes";
    let table: &[(&str, &str, Wanted, &str)] = &[
        // bash and coreutils
        ("cat: /home/me/other/secret: No such file or directory", other, Read, opens_other),
        ("cat: /home/me/other/secret: Permission denied", other, Read, opens_other),
        ("cat: ../other/secret: No such file or directory", other, Read, opens_other),
        (
            "cat: '/home/me/a b/notes': No such file or directory",
            "/home/me/a b/notes",
            Read,
            "[jail] read = [\"/home/me/a b/notes\"]",
        ),
        (
            "ls: cannot access '/home/me/other': No such file or directory",
            "/home/me/other",
            Read,
            "[jail] read = [\"/home/me/other\"]",
        ),
        (
            "bash: line 1: .git/hooks/pre-commit: Read-only file system",
            "/home/me/work/.git/hooks/pre-commit",
            Write,
            config,
        ),
        ("bash: line 1: /usr/share: Read-only file system", "", Write, ""),
        (
            "bash: /home/me/other/new.txt: No such file or directory",
            "/home/me/other/new.txt",
            Write,
            "--permissions all",
        ),
        (
            "mkdir: cannot create directory ‘/opt/tool/x’: Read-only file system",
            "/opt/tool/x",
            Write,
            "--permissions all",
        ),
        (
            "cp: cannot create regular file '.claude/settings.json': Read-only file system",
            "/home/me/work/.claude/settings.json",
            Write,
            config,
        ),
        (
            "rm: cannot remove '.git/hooks': Device or resource busy",
            "/home/me/work/.git/hooks",
            Write,
            config,
        ),
        (
            "mv: cannot move '.git' to 'x': Device or resource busy",
            "/home/me/work/.git",
            Write,
            "--permissions all",
        ),
        (
            "cat: /home/me/.ssh/id_ed25519: No such file or directory",
            "/home/me/.ssh/id_ed25519",
            Read,
            "--no-jail",
        ),
        ("touch: cannot touch '/home/me/.ssh/config': Permission denied", "", Write, ""),
        // git
        (
            "error: could not write config file .git/config: Device or resource busy",
            "/home/me/work/.git/config",
            Write,
            config,
        ),
        (
            "error: could not lock config file .git/config: Read-only file system",
            "/home/me/work/.git/config",
            Write,
            config,
        ),
        (
            "fatal: could not create file '/home/me/work/.git/config.lock': Read-only file system",
            "/home/me/work/.git/config",
            Write,
            config,
        ),
        (
            "error: object directory /home/me/other/.git/objects does not exist; check .git/objects/info/alternates",
            "/home/me/other/.git/objects",
            Read,
            "[jail] read = [\"/home/me/other/.git/objects\"]",
        ),
        (
            "fatal: not a git repository: /home/me/other/.git",
            "/home/me/other/.git",
            Read,
            "[jail] read = [\"/home/me/other/.git\"]",
        ),
        (
            "fatal: cannot change to '/home/me/other': No such file or directory",
            "/home/me/other",
            Read,
            "[jail] read = [\"/home/me/other\"]",
        ),
        // cargo
        (
            "error: failed to read `/home/me/other/secret`\n\nCaused by:\n  No such file or directory (os error 2)",
            other,
            Read,
            opens_other,
        ),
        (
            "error: failed to create directory `/opt/tool/registry`\n\nCaused by:\n  Read-only file system (os error 30)",
            "/opt/tool/registry",
            Write,
            "--permissions all",
        ),
        // npm and node
        (
            "npm error code EROFS\nnpm error syscall mkdir\nnpm error path /opt/tool/node_modules\nnpm error errno -30",
            "/opt/tool/node_modules",
            Write,
            "--permissions all",
        ),
        ("Error: EACCES: permission denied, open '/home/me/other/secret'", other, Read, opens_other),
        ("Error: ENOENT: no such file or directory, open '/home/me/other/secret'", other, Read, opens_other),
        (
            "Error: EROFS: read-only file system, open '/home/me/work/.mcp.json'",
            "/home/me/work/.mcp.json",
            Write,
            config,
        ),
        (
            "Error: EBUSY: resource busy or locked, rename '/home/me/work/.git/config.tmp' -> '/home/me/work/.git/config'",
            "/home/me/work/.git/config",
            Write,
            config,
        ),
        // python
        ("PermissionError: [Errno 13] Permission denied: '/home/me/other/secret'", other, Read, opens_other),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/home/me/other/secret'",
            other,
            Read,
            opens_other,
        ),
        (
            "OSError: [Errno 30] Read-only file system: '/opt/tool/x'",
            "/opt/tool/x",
            Write,
            "--permissions all",
        ),
        // go
        ("open /home/me/other/secret: permission denied", other, Read, opens_other),
        ("stat /home/me/other/secret: no such file or directory", other, Read, opens_other),
        ("mkdir /opt/tool/pkg: read-only file system", "/opt/tool/pkg", Write, "--permissions all"),
        // java and ruby
        (
            "java.io.FileNotFoundException: /home/me/other/secret (Permission denied)",
            other,
            Read,
            opens_other,
        ),
        ("Permission denied @ rb_sysopen - /home/me/other/secret (Errno::EACCES)", other, Read, opens_other),
    ];
    for (text, path, wanted, opens) in table {
        let found = rows(&world, text);
        match (path.is_empty(), found.as_slice()) {
            (true, found) => assert!(found.len() <= 1, "{text}: {found:?}"),
            (false, found) => {
                assert_eq!(found, [((*path).to_owned(), *wanted, (*opens).to_owned())], "{text}");
            }
        }
    }
}

#[test]
fn what_fails_for_another_reason_is_no_denial() {
    let world = World::default().with(&["/home/me/work/locked", "/home/me/.cargo/registry"]);
    let table = [
        // Granted.
        "cat: src/main.rs: Permission denied",
        "bash: ./locked: Permission denied",
        "/usr/bin/env: ‘python’: No such file or directory",
        // Nowhere on this machine.
        "cat: missing.txt: No such file or directory",
        "cat: /home/me/work/src/missing: No such file or directory",
        "cat: /home/me/.config/tool/missing: No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/x'",
        "ls: cannot access '/usr/missing': No such file or directory",
        "error: failed to read `/home/me/.cargo/registry/x`\nCaused by:\n  No such file or directory (os error 2)",
        // Not a path.
        "ssh: connect to host x port 22: Permission denied (publickey).",
        "git@github.com: Permission denied (publickey).",
        "GET https://registry.npmjs.org/x/y: permission denied",
        "this and/or that: Permission denied",
        "Permission denied",
        "",
        // No error.
        "read /home/me/other/secret and /home/me/.ssh",
        "wrote .git/config",
    ];
    for text in table {
        assert_eq!(rows(&world, text), [], "{text}");
    }
}

#[test]
fn under_deny_the_level_opens_the_workspace() {
    let world = World { level: JailLevel::Deny, ..World::default() };
    let text = "fatal: Unable to create '/home/me/work/.git/index.lock': Read-only file system";
    let want = [("/home/me/work/.git/index.lock".to_owned(), Write, "--permissions edits".to_owned())];
    assert_eq!(rows(&world, text), want);
    for text in ["touch: cannot touch 'x': Read-only file system", "bash: line 1: x: Read-only file system"] {
        let want = [("/home/me/work/x".to_owned(), Write, "--permissions edits".to_owned())];
        assert_eq!(rows(&world, text), want, "{text}");
    }
}

#[test]
fn what_the_configuration_hides_it_opens() {
    let world = World { hide: vec!["/home/me/work/.env".into()], ..World::default() };
    let text = "cat: .env: Permission denied";
    let want =
        [("/home/me/work/.env".to_owned(), Read, "[jail] hide without \"/home/me/work/.env\"".to_owned())];
    assert_eq!(rows(&world, text), want);
}

#[test]
fn every_path_of_a_long_output_is_named_once() {
    let line = "cat: /home/me/other/secret: No such file or directory\n";
    let world = World::default();
    let both =
        format!("{}ok\nls: cannot access '/home/me/other': No such file or directory\n", line.repeat(9));
    let found = denials(&world, &both);
    assert_eq!(
        found.iter().map(|denial| denial.path.clone()).collect::<Vec<_>>(),
        [Path::new("/home/me/other/secret"), Path::new("/home/me/other")]
    );
    let wide = "é".repeat(100_000);
    assert_eq!(denials(&world, &wide), []);
}

#[test]
fn a_denial_is_one_sentence() {
    let read = Denial { path: "/x".into(), wanted: Read, opens: Opening::JailRead("/x".into()) };
    assert_eq!(read.to_string(), "the jail does not show /x; [jail] read = [\"/x\"] does");
    let write = Denial { path: "/x".into(), wanted: Write, opens: Opening::AllowConfigWrites };
    assert_eq!(write.to_string(), "the jail keeps /x from being changed; --allow-config-writes allows it");
    let text = serde_json::to_string(&read).unwrap();
    assert_eq!(text, r#"{"path":"/x","wanted":"read","opens":{"jail_read":"/x"}}"#);
    assert_eq!(serde_json::from_str::<Denial>(&text).unwrap(), read);
}
