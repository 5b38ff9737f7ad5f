use std::ffi::OsString;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::super::rule_set::is_visible;
use super::super::world::{HOME, PRIVATE, World, repository};
use super::super::{
    Access, CONFIGURATION, ConfigWrites, EntryFault, GitFacts, Grant, JailLevel, JailRefusal,
    NestedRepository, Repository, Rule, WorkspaceFault,
};
use crate::agents::{AGENTS, Codex};
use Grant::{None as Nothing, Read, Write};

fn access(world: &World, path: &str) -> Option<Access> {
    let jail = world.jail();
    let rule = jail.policy.rules.iter().rfind(|rule| rule.path == Path::new(path));
    rule.map(|rule| rule.access.clone())
}

#[test]
fn edits_change_the_workspace_but_not_its_configuration() {
    World::default().assert_grants(&[
        ("/home/me/work/src/main.rs", Write),
        ("/home/me/work/.git/index", Write),
        ("/home/me/work/.git/hooks/pre-commit", Read),
        ("/home/me/work/.git/config", Read),
        ("/home/me/work/.git/config.worktree", Read),
        ("/home/me/work/.git/commondir", Read),
        ("/home/me/work/.claude/settings.json", Read),
        ("/home/me/work/.codex/config.toml", Read),
        ("/home/me/work/.opencode/plugins/x.js", Read),
        ("/home/me/work/opencode.json", Read),
        ("/home/me/work/opencode.jsonc", Read),
        ("/home/me/work/.mcp.json", Read),
        ("/home/me/work/.gemini", Read),
        ("/home/me/work/.cursor", Read),
        ("/home/me/work/.agents", Read),
        ("/home/me/work/.ostler/config.toml", Read),
    ]);
    // A mount of its own, so that it cannot be renamed away.
    assert_eq!(access(&World::default(), "/home/me/work/.git"), Some(Access::Write));
}

#[test]
fn deny_changes_nothing_but_what_is_the_runs_and_the_agents_own() {
    let world = World { level: JailLevel::Deny, ..World::default() };
    world.assert_grants(&[
        ("/home/me/work/src/main.rs", Read),
        ("/home/me/work/.git/index", Read),
        ("/home/me/work/.claude", Read),
        (PRIVATE, Write),
        ("/home/me/.claude/.credentials.json", Write),
        ("/home/me/.claude/projects/-home-me-work/s.jsonl", Write),
    ]);
}

#[test]
fn config_writes_open_the_list_but_not_what_leads_git_elsewhere() {
    let world = World { config_writes: ConfigWrites::Allowed, ..World::default() };
    let names = CONFIGURATION.iter().chain(&[".git/hooks", ".git/config"]);
    let paths: Vec<String> = names.map(|name| format!("/home/me/work/{name}")).collect();
    let open: Vec<(&str, Grant)> = paths.iter().map(|path| (path.as_str(), Write)).collect();
    world.assert_grants(&open);
    world.assert_grants(&[("/home/me/work/.git/commondir", Read)]);
}

#[test]
fn the_system_is_readable_without_its_secrets() {
    World::default().assert_grants(&[
        ("/usr/bin/git", Read),
        ("/etc/passwd", Read),
        ("/opt/tool", Read),
        ("/etc/shadow", Nothing),
        ("/etc/ssl/private/key.pem", Nothing),
        ("/run/systemd/resolve/stub-resolv.conf", Read),
        ("/run/systemd", Nothing),
        ("/var/lib", Nothing),
        ("/", Nothing),
        ("/home", Nothing),
    ]);
    // The wall makes the links of a rule's path anew.
    assert_eq!(access(&World::default(), "/bin"), Some(Access::Read));
}

#[test]
fn nothing_of_the_home_is_visible_but_toolchains_and_the_agents_state() {
    let world = World::default();
    let jail = world.jail();
    let table = [
        ("/home/me/other/secret", false),
        ("/home/me/.ssh/id_ed25519", false),
        ("/home/me/.aws/credentials", false),
        ("/home/me/.config/chromium/Default", false),
        ("/home/me/.codex/auth.json", false),
        ("/home/me/.local/share/opencode/auth.json", false),
        ("/home/me/.local/share/ostler/runs/1/journal.ndjson", false),
        ("/home/me/.local/share/ostler/runs/2/private", false),
        ("/home/me/.local/share/ostler/runs/1/canary", false),
        ("/home/me/.cargo/bin/cargo", true),
        ("/home/me/.cargo/credentials.toml", false),
        ("/home/me/.gradle/caches", true),
        ("/home/me/.gradle/gradle.properties", false),
        ("/home/me/.rustup/toolchains", true),
        ("/home/me/.gitconfig", true),
        ("/home/me/.git-credentials", false),
        ("/home/me/.local/bin/tool", true),
        ("/home/me/.local/lib", false),
        ("/home/me/bin/ostler", true),
        ("/home/me/bin/other", false),
        // The run has a copy.
        ("/home/me/.claude.json", false),
        (PRIVATE, true),
    ];
    for (path, want) in table {
        assert_eq!(is_visible(&jail.policy, Path::new(path)), want, "{path}");
    }
    let source = |name: &str| Some(Access::Substitute { source: Path::new(PRIVATE).join(name) });
    for (path, want) in [(HOME, "home"), ("/tmp", "tmp"), ("/var/tmp", "tmp")] {
        assert_eq!(access(&world, path), source(want), "{path}");
    }
    assert!(jail.create.contains(&Path::new(PRIVATE).join("home")));
    assert!(jail.create.contains(&Path::new(PRIVATE).join("tmp")));
}

#[test]
fn the_agents_installation_is_all_that_is_visible_of_ostlers_directory_besides_the_private_one() {
    World::default().assert_grants(&[(
        "/home/me/.local/share/ostler/agents/claude/2/node_modules/@anthropic-ai/x/claude",
        Read,
    )]);
    let jail = World::default().jail();
    let seen = |path: &str| is_visible(&jail.policy, Path::new(path));
    assert!(!seen("/home/me/.local/share/ostler/agents/codex"));
    assert!(!seen("/home/me/.local/share/ostler/memory"));
}

#[test]
fn builds_write_to_layers_above_the_caches() {
    let layer = |name: &str| Path::new("/home/me/.local/share/ostler/layers/work/cargo").join(name);
    let (upper, work) = (layer("upper"), layer("work"));
    let world = World::default();
    let want = Access::CopyOnWrite { upper: upper.clone(), work: work.clone() };
    assert_eq!(access(&world, "/home/me/.cargo"), Some(want));
    let jail = world.jail();
    assert!(jail.create.contains(&upper) && jail.create.contains(&work));
    assert!(jail.environment.set.iter().all(|(name, _)| !name.starts_with("CARGO")));
    // No layer for what does not exist.
    assert!(jail.create.iter().all(|path| !path.ends_with("npm/upper")));

    let world = World { has_overlay: false, ..World::default() };
    assert_eq!(access(&world, "/home/me/.cargo"), Some(Access::Read));
    let set = world.jail().environment.set;
    let cargo = "/home/me/.local/share/ostler/layers/work/cargo";
    assert!(set.contains(&("CARGO_HOME".to_owned(), cargo.into())), "{set:?}");
    world.assert_grants(&[(cargo, Write), ("/home/me/.local/share/ostler/layers", Write)]);
    assert!(!is_visible(&world.jail().policy, Path::new("/home/me/.local/share/ostler/layers/other")));
}

#[test]
fn a_jail_without_its_layers_is_the_one_that_would_have_been_decided_without_overlays() {
    let world = World::default();
    let jail = world.jail().without_layers();
    assert_eq!(jail.policy.rule(Path::new("/home/me/.cargo/bin")).unwrap().access, Access::Read);
    assert!(jail.policy.rules.iter().all(|rule| !matches!(rule.access, Access::CopyOnWrite { .. })));
    let cargo = Path::new(PRIVATE).join("caches/cargo");
    assert_eq!(jail.policy.grant(&cargo), Write);
    assert!(jail.create.contains(&cargo));
    let names = |jail: &super::RunJail| {
        let set = jail.environment.set.iter();
        set.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let decided = World { has_overlay: false, ..World::default() }.jail();
    assert_eq!(names(&jail), names(&decided));
    assert!(jail.environment.set.contains(&("CARGO_HOME".to_owned(), cargo.into())));
}

#[test]
fn a_toolchain_in_the_workspace_stays_as_the_level_says() {
    let world = World::default().set("CARGO_HOME", "/home/me/work/.cargo").with(&["/home/me/work/.cargo"]);
    world.assert_grants(&[("/home/me/work/.cargo/registry", Write)]);
}

#[test]
fn a_directory_on_the_path_brings_its_installation_unless_that_is_too_much() {
    let world = World::default()
        .set(
            "PATH",
            "/home/me/node/bin:/home/me/scripts/bin:/home/me/bin:/home/me/.config/bin:/home/me:relative:\
             /home/me/.ssh/bin:/home/me/work/bin:/",
        )
        .with(&[
            "/home/me/node/bin",
            "/home/me/node/lib",
            "/home/me/scripts/bin",
            "/home/me/scripts/notes",
            "/home/me/bin",
            "/home/me/.config/bin",
            "/home/me/.config/share",
            "/home/me/.ssh/bin",
            "/home/me/work/bin",
            "/home/me/lib",
        ]);
    let jail = world.jail();
    let table = [
        ("/home/me/node/lib", true),
        ("/home/me/scripts/bin", true),
        ("/home/me/scripts/notes", false),
        ("/home/me/bin", true),
        ("/home/me/lib", false),
        ("/home/me/.config/bin", true),
        ("/home/me/.config/share", false),
        ("/home/me/.ssh/bin", false),
    ];
    for (path, want) in table {
        assert_eq!(is_visible(&jail.policy, Path::new(path)), want, "{path}");
    }
    assert_eq!(jail.policy.grant(Path::new("/home/me/work/bin/x")), Write);
}

/// An agent could replace a directory of an earlier workspace that is on `PATH` by a link.
#[test]
fn a_link_that_an_agent_may_have_made_shows_nothing_new() {
    let world = World::default()
        .set("PATH", "/home/me/first/bin:/home/me/tools/bin")
        .set("VIRTUAL_ENV", "/home/me/first/venv")
        .with(&["/home/me/first", "/home/me/tools"])
        .link("/home/me/first/bin", "/home/me/other")
        .link("/home/me/first/venv", "/home/me/other")
        .link("/home/me/tools/bin", "/usr/bin");
    let jail = world.jail();
    assert!(!is_visible(&jail.policy, Path::new("/home/me/other/secret")));
    // The way to what is readable anyway stays open.
    assert_eq!(access(&world, "/home/me/tools/bin"), Some(Access::Read));
}

#[test]
fn a_home_that_is_a_link_is_replaced_under_both_names() {
    let mut world = World::default().link("/home", "/data/home").with(&["/data/home/me/.cargo"]);
    for path in &mut world.paths {
        if let Ok(rest) = path.strip_prefix("/home") {
            *path = Path::new("/data/home").join(rest);
        }
    }
    world.workspace = "/data/home/me/work".into();
    world.git.repository = Some(repository("/data/home/me/work"));
    let source = Path::new(PRIVATE).join("home");
    for path in ["/home/me", "/data/home/me"] {
        assert_eq!(access(&world, path), Some(Access::Substitute { source: source.clone() }), "{path}");
    }
    let jail = world.jail();
    for (path, want) in [
        ("/data/home/me/.cargo/bin/cargo", true),
        ("/data/home/me/.cargo/credentials.toml", false),
        ("/data/home/me/.ssh/id_ed25519", false),
        ("/data/home/me/work/src", true),
        ("/data/home/me/.claude/.credentials.json", true),
    ] {
        assert_eq!(is_visible(&jail.policy, Path::new(path)), want, "{path}");
    }
}

#[test]
fn git_works_below_the_root_of_a_repository_and_in_a_linked_worktree() {
    let mut world = World { workspace: "/home/me/work/src".into(), ..World::default() };
    world.assert_grants(&[
        ("/home/me/work/src/main.rs", Write),
        ("/home/me/work/README.md", Read),
        ("/home/me/work/.claude", Read),
        ("/home/me/work/.git/index", Write),
        ("/home/me/work/.git/hooks", Read),
        ("/home/me/work/src/.claude", Read),
    ]);
    let git_dir = PathBuf::from("/home/me/main/.git/worktrees/feature");
    world.workspace = "/home/me/feature".into();
    world.git.repository = Some(Repository {
        git_dir: git_dir.clone(),
        common_dir: "/home/me/main/.git".into(),
        worktrees: vec![git_dir, "/home/me/main/.git/worktrees/other".into()],
        modules: vec!["/home/me/main/.git/modules/lib/json".into()],
        hooks_path: Some("/home/me/feature/.husky".into()),
        ..repository("/home/me/feature")
    });
    world.assert_grants(&[
        ("/home/me/feature/x", Write),
        ("/home/me/feature/.git", Read),
        ("/home/me/feature/.husky/pre-commit", Read),
        ("/home/me/main/.git/objects", Write),
        ("/home/me/main/.git/hooks", Read),
        ("/home/me/main/.git/config", Read),
        ("/home/me/main/.git/worktrees/feature/index", Write),
        ("/home/me/main/.git/worktrees/feature/commondir", Read),
        ("/home/me/main/.git/worktrees/other/gitdir", Read),
        ("/home/me/main/.git/modules/lib/json/index", Write),
        ("/home/me/main/.git/modules/lib/json/hooks", Read),
        ("/home/me/main/.git/modules/lib/json/config", Read),
    ]);
    assert!(!is_visible(&world.jail().policy, Path::new("/home/me/main/src")));
    for path in ["modules", "modules/lib", "modules/lib/json", "worktrees", "worktrees/feature"] {
        let path = format!("/home/me/main/.git/{path}");
        assert_eq!(access(&world, &path), Some(Access::Write), "{path} is a mount of its own");
    }
    world.level = JailLevel::Deny;
    world.assert_grants(&[("/home/me/feature/x", Read), ("/home/me/main/.git/index", Read)]);
}

#[test]
fn nested_repositories_and_their_configuration_are_guarded() {
    let mut world = World::default();
    world.git.nested = vec![
        NestedRepository::Directory("/home/me/work/vendor/a/.git".into()),
        NestedRepository::File("/home/me/work/vendor/b/.git".into()),
    ];
    world.git.configuration = vec!["/home/me/work/apps/web/.claude".into()];
    world.assert_grants(&[
        ("/home/me/work/vendor/a/.git/index", Write),
        ("/home/me/work/vendor/a/.git/hooks/x", Read),
        ("/home/me/work/vendor/a/.git/config", Read),
        ("/home/me/work/vendor/b/.git", Read),
        ("/home/me/work/apps/web/.claude/settings.json", Read),
        ("/home/me/work/apps/web/src", Write),
    ]);
    assert_eq!(world.jail().not_enforced, Vec::<String>::new());
    world.git.is_complete = false;
    assert_eq!(world.jail().not_enforced.len(), 1);
}

#[test]
fn a_repository_around_the_home_directory_is_not_shown() {
    let world = World {
        git: GitFacts { repository: Some(repository(HOME)), is_complete: true, ..GitFacts::default() },
        ..World::default()
    };
    assert!(matches!(access(&world, HOME), Some(Access::Substitute { .. })));
    assert_eq!(access(&world, "/home/me/.git"), None);
}

#[test]
fn the_session_records_of_other_projects_are_hidden() {
    let jail = World::default().jail();
    let seen = |path: &str| is_visible(&jail.policy, Path::new(path));
    assert!(seen("/home/me/.claude/projects/-home-me-work/1.jsonl"));
    assert!(!seen("/home/me/.claude/projects/-home-me-other/1.jsonl"));
    assert!(jail.create.contains(&"/home/me/.claude/projects/-home-me-work".into()));
}

#[test]
fn what_ostler_made_for_the_run_is_visible_in_its_own_directory() {
    let rehearsal: PathBuf = "/home/me/.local/share/ostler/runs/1/home".into();
    let world = World { home: rehearsal.clone(), own: vec![rehearsal], ..World::default() };
    let jail = world.jail();
    assert_eq!(jail.policy.grant(Path::new("/home/me/.local/share/ostler/runs/1/home/.claude")), Write);
    for path in ["/home/me/.claude/.credentials.json", "/home/me/.local/share/ostler/runs/1/journal.ndjson"] {
        assert!(!is_visible(&jail.policy, Path::new(path)), "{path}");
    }
    let served = "/home/me/.local/share/ostler/serve/workspaces/1";
    let mut world = World::default().works_in(served);
    assert!(world.decide().is_err());
    world.own = vec![served.into()];
    world.assert_grants(&[("/home/me/.local/share/ostler/serve/workspaces/1/x", Write)]);
    assert!(!is_visible(&world.jail().policy, Path::new("/home/me/.local/share/ostler/serve/workspaces/2")));
    world.level = JailLevel::Deny;
    world.assert_grants(&[("/home/me/.local/share/ostler/serve/workspaces/1/x", Read)]);
}

#[test]
fn what_is_never_visible_is_hidden_where_something_covers_it() {
    let world = World::default().works_in("/home/me/.config");
    let jail = world.jail();
    assert_eq!(jail.policy.grant(Path::new("/home/me/.config/nvim")), Write);
    for path in
        ["/home/me/.config/chromium/Default", "/home/me/.config/ostler/config.toml", "/home/me/.config/gh"]
    {
        assert_eq!(jail.policy.grant(Path::new(path)), Nothing, "{path}");
    }
    let world = World { hide: vec!["/home/me/work/.env".into(), "/opt/tool".into()], ..World::default() };
    world.assert_grants(&[("/home/me/work/.env", Nothing), ("/opt/tool", Nothing), ("/opt/x", Read)]);
    // What grants something in there has no effect.
    let world = World { hide: vec!["/home/me/.cargo".into()], ..World::default() };
    assert!(!is_visible(&world.jail().policy, Path::new("/home/me/.cargo/bin/cargo")));
    let world =
        World { ostler_home: "/opt/ostler".into(), ..World::default() }.with(&["/opt/ostler/keys.json"]);
    world.assert_grants(&[("/opt/ostler/keys.json", Nothing), ("/opt/tool", Read)]);
}

#[test]
fn reading_more_is_a_matter_of_the_configuration() {
    let world = World {
        read: vec!["/home/me/other".into(), "/home/me/.gradle/gradle.properties".into()],
        ..World::default()
    };
    world.assert_grants(&[("/home/me/other/secret", Read), ("/home/me/.gradle/gradle.properties", Read)]);
    // It takes nothing away.
    let world = World { read: vec!["/home/me/work/src".into()], ..World::default() };
    world.assert_grants(&[("/home/me/work/src/main.rs", Write)]);
}

#[test]
fn a_workspace_that_shows_too_much_is_refused() {
    use WorkspaceFault::{AboveHome, AboveOstler, AgentsOwn, InOstler, NeverVisible, Root, Shared};
    let ostler = || PathBuf::from("/home/me/.local/share/ostler");
    let table = [
        ("/", Root),
        ("/home", AboveHome(HOME.into())),
        (HOME, AboveHome(HOME.into())),
        ("/home/me/.local", AboveOstler(ostler())),
        ("/home/me/.local/share/ostler", AboveOstler(ostler())),
        ("/home/me/.local/share/ostler/runs", InOstler(ostler())),
        ("/home/me/.ssh", NeverVisible("/home/me/.ssh".into())),
        ("/home/me/.ssh/keys", NeverVisible("/home/me/.ssh".into())),
        ("/home/me/.claude", AgentsOwn("/home/me/.claude".into())),
        ("/home/me/.claude/skills/x", AgentsOwn("/home/me/.claude".into())),
        ("/tmp", Shared),
        ("/usr", Shared),
        ("/etc", Shared),
        ("/proc/self", Shared),
        ("/var", Shared),
    ];
    for (workspace, reason) in table {
        let refusal = World::default().works_in(workspace).decide().unwrap_err();
        assert_eq!(refusal, JailRefusal::Workspace { workspace: workspace.into(), reason });
        assert!(refusal.hint().unwrap().contains("--no-jail"));
    }
    for workspace in ["/usr/src/app", "/tmp/x", "/dev/shm/x", "/srv/x", "/home/me/.config/nvim"] {
        assert!(World::default().works_in(workspace).decide().is_ok(), "{workspace}");
    }
    let hidden = World { hide: vec!["/home/me/work".into()], ..World::default() };
    assert!(hidden.decide().unwrap_err().hint().unwrap().contains("[jail] hide"));
}

#[test]
fn entries_of_the_configuration_that_show_or_hide_too_much_are_refused() {
    let shows = |path: &str| EntryFault::Shows(path.into());
    let table = [
        ("other", EntryFault::Relative),
        ("/home/me/missing", EntryFault::Missing),
        ("/home", shows(HOME)),
        (HOME, shows(HOME)),
        ("/home/me/.ssh", shows("/home/me/.ssh")),
        ("/home/me/.ssh/id_ed25519", shows("/home/me/.ssh")),
        ("/home/me/.config", shows("/home/me/.config/ostler")),
        ("/home/me/link", EntryFault::Link("/home/me/other".into())),
        ("/proc/1", EntryFault::NoFiles),
    ];
    for (path, reason) in table {
        let world = World { read: vec![path.into()], ..World::default() };
        let refusal = world.link("/home/me/link", "/home/me/other").with(&["/proc/1"]).decide().unwrap_err();
        assert_eq!(refusal, JailRefusal::Read { path: path.into(), reason });
        assert!(refusal.hint().is_some());
    }
    for (path, reason) in [
        ("x", EntryFault::Relative),
        ("/", EntryFault::Needed(PRIVATE.into())),
        ("/usr", EntryFault::Needed("/usr".into())),
        // A link to what is needed, and what is needed behind a link.
        ("/home/me/link", EntryFault::Needed("/usr".into())),
        ("/usr/bin", EntryFault::Needed("/bin".into())),
        ("/bin", EntryFault::Needed("/bin".into())),
        // Every jail has them, whatever the rules say.
        ("/proc", EntryFault::NoFiles),
        ("/dev/shm", EntryFault::NoFiles),
    ] {
        let world = World { hide: vec![path.into()], ..World::default() };
        let refusal = world.link("/home/me/link", "/usr").link("/bin", "/usr/bin").decide().unwrap_err();
        assert_eq!(refusal, JailRefusal::Hide { path: path.into(), reason });
        assert!(refusal.hint().is_some());
    }
    let world = World { hide: vec!["/dev/shm/x/secret".into()], ..World::default() };
    assert!(world.works_in("/dev/shm/x").decide().is_ok());
}

/// A name that was misspelled.
#[test]
fn what_is_to_be_hidden_and_is_missing_is_named() {
    let world = World { hide: vec!["/home/me/wrok".into(), "/home/me/other".into()], ..World::default() };
    let warnings = world.jail().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("[jail] hide: /home/me/wrok does not exist"), "{warnings:?}");
}

#[test]
fn a_home_that_is_a_directory_of_the_system_is_refused() {
    for home in ["/", "/usr", "/tmp", "", "x"] {
        let refusal = World { home: home.into(), ..World::default() }.decide().unwrap_err();
        assert_eq!(refusal, JailRefusal::Home { home: home.into() });
    }
    let world = World { home: "/nonexistent".into(), ..World::default() };
    assert!(matches!(access(&world, "/nonexistent"), Some(Access::Substitute { .. })));
}

#[test]
fn variables_that_name_sockets_are_removed() {
    let world = World { agent: &Codex, ..World::default() }
        .set("SSH_AUTH_SOCK", "/run/user/1/ssh")
        .set("TMUX", "/tmp/tmux-1/default,1,0")
        .set("XDG_RUNTIME_DIR", "/run/user/1")
        .set("DISPLAY", ":0")
        .set("DOCKER_HOST", "tcp://host:1")
        .set("CONTAINER_HOST", "unix:///run/podman.sock")
        .set("TEMP", "/tmp");
    let environment = world.jail().environment;
    let want = ["SSH_AUTH_SOCK", "TMUX", "XDG_RUNTIME_DIR", "CONTAINER_HOST", "DISPLAY"];
    assert_eq!(environment.removed, want);
    let temporary = OsString::from(format!("{PRIVATE}/tmp"));
    let set = |name: &str| (name.to_owned(), temporary.clone());
    let jailed = ("OSTLER_JAIL".to_owned(), "1".into());
    assert_eq!(environment.set, [set("TMPDIR"), set("TEMP"), jailed]);
}

fn some_path() -> impl Strategy<Value = String> {
    let parts = [
        "home", "me", "work", ".ssh", ".config", ".local", "share", "ostler", "runs", "1", "private", "bin",
        "lib", ".cargo", ".claude", "projects", "opt", "usr", "tmp", "chromium", "other", "x",
    ];
    prop::collection::vec(prop::sample::select(parts.to_vec()), 1..6)
        .prop_map(|parts| format!("/{}", parts.join("/")))
}

/// What the host must not show, as paths below it.
fn secrets() -> Vec<PathBuf> {
    let names = [
        ".ssh/x",
        ".gnupg/x",
        ".aws/x",
        ".kube/x",
        ".docker/config.json",
        ".netrc",
        ".git-credentials",
        ".mozilla/x",
        ".config/chromium/x",
        ".cargo/credentials.toml",
        ".local/share/keyrings/x",
        ".local/share/ostler/keys.json",
        ".local/share/ostler/runs/1/canary",
        ".local/share/ostler/runs/1/journal",
        ".local/share/ostler/runs/2/private/x",
    ];
    names.iter().map(|name| Path::new(HOME).join(name)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_facts_show_what_is_never_visible(
        workspace in some_path(),
        root in some_path(),
        git_dir in some_path(),
        read in prop::collection::vec(some_path(), 0..2),
        hide in prop::collection::vec(some_path(), 0..2),
        search_path in prop::collection::vec(some_path(), 0..4),
        (variable, value) in (prop::sample::select(vec![
            "CARGO_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "VIRTUAL_ENV",
            "LD_LIBRARY_PATH", "JAVA_HOME",
        ]), some_path()),
        (link, target) in (some_path(), some_path()),
        agent in 0..AGENTS.len(),
        is_edits: bool,
        has_overlay: bool,
        is_config_open: bool,
    ) {
        let mut world = World::default().works_in(&workspace).set("PATH", &search_path.join(":")).set(variable, &value);
        world = world.with(&[&root, &git_dir, &value, &target]);
        world.paths.extend(read.iter().chain(&search_path).map(PathBuf::from));
        // A link above the home directory moves the secrets as well.
        if !Path::new(HOME).starts_with(&link) && link != target && !target.starts_with(&link) {
            world.links.insert(link.into(), target.into());
        }
        world.workspace = world.real_path(Path::new(&workspace)).unwrap_or(world.workspace);
        if Path::new(&workspace).starts_with(&root) {
            let git_dir = PathBuf::from(git_dir);
            world.git.repository = Some(Repository { git_dir: git_dir.clone(), common_dir: git_dir, ..repository(&root) });
        }
        world.agent = AGENTS[agent];
        world.level = if is_edits { JailLevel::Edits } else { JailLevel::Deny };
        world.config_writes = if is_config_open { ConfigWrites::Allowed } else { ConfigWrites::Guarded };
        world.has_overlay = has_overlay;
        world.read = read.into_iter().map(PathBuf::from).collect();
        world.hide = hide.into_iter().map(PathBuf::from).collect();
        let Ok(jail) = world.decide() else { return Ok(()) };
        for secret in secrets() {
            prop_assert!(!is_visible(&jail.policy, &secret), "{} is visible", secret.display());
        }
        for hidden in world.hide.iter().filter(|hidden| !Path::new(PRIVATE).starts_with(hidden)) {
            prop_assert!(!is_visible(&jail.policy, &hidden.join("x")), "{} is visible", hidden.display());
        }
        for top in ["/", HOME, "/home", "/home/me/.local/share/ostler"] {
            prop_assert!(!is_visible(&jail.policy, Path::new(top)), "{top} is visible");
        }
        let is_open = |rule: &Rule| matches!(rule.access, Access::Read | Access::Write | Access::CopyOnWrite { .. });
        prop_assert!(!jail.policy.rules.iter().any(|rule| is_open(rule) && rule.path == Path::new(HOME)));
        prop_assert!(!is_visible(&jail.policy, &jail.policy.canary));
        let inside = world.workspace.join("some file that no list names");
        let want = if is_edits { Write } else { Read };
        let is_agents = jail.policy.rule(&inside).is_none_or(|rule| rule.path != world.workspace);
        prop_assert!(is_agents || jail.policy.grant(&inside) == want);
    }
}
