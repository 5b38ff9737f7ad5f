use std::path::{Path, PathBuf};

use super::super::rule_set::is_visible;
use super::super::world::{HOME, PRIVATE, World};
use super::super::{Grant, JailKind, JailRefusal, RunJail, StateCopy};
use crate::agent::Agent;
use crate::agents::{AGENTS, Claude, Codex, OpenCode};
use Grant::{Read, Write};

/// What a run does to a file of the agent.
#[derive(Debug, PartialEq)]
enum Effect {
    /// It changes the user's.
    WritesThrough,
    /// It reads the user's.
    Reads,
    /// It has one of its own.
    Private,
}

fn effect(jail: &RunJail, path: &str) -> Effect {
    let path = Path::new(path);
    match (jail.policy.grant(path), jail.policy.host_path(path) == path) {
        (Write, true) => Effect::WritesThrough,
        (_, false) => Effect::Private,
        (Read, true) => Effect::Reads,
        (Grant::None, true) => panic!("{} cannot be reached", path.display()),
    }
}

#[track_caller]
fn assert_effects(world: &World, table: &[(&str, Effect)]) {
    let jail = world.jail();
    for (path, want) in table {
        assert_eq!(effect(&jail, path), *want, "{path}");
    }
}

#[test]
fn a_run_reads_the_users_settings_and_makes_none() {
    use Effect::{Private, Reads, WritesThrough};
    let world = World::default().with(&[
        "/home/me/.claude/scripts/status.sh",
        "/home/me/.claude/plugins/marketplaces/x",
        "/home/me/.claude/sessions/1.json",
    ]);
    assert_effects(
        &world,
        &[
            ("/home/me/.claude/settings.json", Reads),
            ("/home/me/.claude/scripts/status.sh", Reads),
            ("/home/me/.claude/plugins/marketplaces/x", Reads),
            ("/home/me/.claude/.credentials.json", WritesThrough),
            ("/home/me/.claude/projects/-home-me-work/1.jsonl", WritesThrough),
            // Not there yet: what a run makes is gone with it.
            ("/home/me/.claude/settings.local.json", Private),
            ("/home/me/.claude/hooks/x", Private),
            ("/home/me/.claude/plugins/new.json", Private),
            ("/home/me/.claude/shell-snapshots/x", Private),
            ("/home/me/.claude/sessions/1.json", Private),
            ("/home/me/.claude.json", Private),
        ],
    );
    let jail = world.jail();
    let copy =
        StateCopy { from: "/home/me/.claude.json".into(), to: Path::new(PRIVATE).join("home/.claude.json") };
    assert_eq!(jail.copies, [copy]);
    assert_eq!(
        jail.policy.host_path(Path::new("/home/me/.claude/sessions/7.json")),
        Path::new(PRIVATE).join("state/0/sessions/7.json")
    );
    // Nothing is made in the user's directory but where this project's sessions go.
    let made: Vec<&PathBuf> =
        jail.create.iter().filter(|path| path.starts_with("/home/me/.claude")).collect();
    assert_eq!(made, [Path::new("/home/me/.claude/projects/-home-me-work")]);
}

/// A lock beside the file is seen by other runs only where they share a directory.
#[test]
fn jailed_runs_share_the_directory_in_which_they_lock_the_sign_in() {
    let shared = "/home/me/.local/share/ostler/sign-in/claude";
    let jail = World::default().jail();
    let variable = "CLAUDE_SECURESTORAGE_CONFIG_DIR";
    let set = |jail: &RunJail| jail.environment.set.iter().find(|(name, _)| name == variable).cloned();
    assert_eq!(set(&jail), Some((variable.to_owned(), shared.into())));
    let file = Path::new("/home/me/.claude/.credentials.json");
    assert_eq!(jail.policy.host_path(&Path::new(shared).join(".credentials.json")), file);
    assert_eq!(effect(&jail, &format!("{shared}/.oauth_refresh.lock")), Effect::WritesThrough);
    let sign_in = jail.sign_in.unwrap();
    assert_eq!((sign_in.file.as_path(), sign_in.folder.as_path()), (file, Path::new(shared)));
    assert!(jail.create.contains(&shared.into()));
    // The user's own choice of the directory.
    let moved = World::default().set(variable, "/home/me/keys").with(&["/home/me/keys/.credentials.json"]);
    assert_eq!(moved.jail().sign_in.unwrap().file, Path::new("/home/me/keys/.credentials.json"));
    // Who has not signed in shares nothing.
    let mut world = World::default();
    world.paths.retain(|path| path != file);
    assert_eq!((set(&world.jail()), world.jail().sign_in), (None, None));
}

#[test]
fn behind_landlock_alone_the_agent_has_its_own_directories() {
    let world = World { kind: JailKind::Landlock, ..World::default() };
    world.assert_grants(&[
        ("/home/me/.claude/settings.json", Read),
        ("/home/me/.claude/hooks/x", Read),
        ("/home/me/.claude/shell-snapshots/x", Write),
        ("/home/me/.claude.json", Write),
    ]);
    assert_eq!(world.jail().copies, []);
}

#[test]
fn the_agent_finds_its_state_where_its_variables_say() {
    use Effect::{Private, Reads, WritesThrough};
    let codex = World { agent: &Codex, ..World::default() }.with(&[
        "/home/me/.codex/config.toml",
        "/home/me/.codex/skills/mine",
        "/home/me/.codex/state_5.sqlite",
    ]);
    assert_effects(
        &codex,
        &[
            ("/home/me/.codex/auth.json", WritesThrough),
            ("/home/me/.codex/sessions/2026", WritesThrough),
            ("/home/me/.codex/config.toml", Reads),
            ("/home/me/.codex/skills/mine", Reads),
            ("/home/me/.codex/skills/.system/x", Private),
            ("/home/me/.codex/state_5.sqlite", Private),
            ("/home/me/.codex/hooks.json", Private),
        ],
    );
    let moved = codex.set("CODEX_HOME", "/home/me/x").with(&["/home/me/x/auth.json"]);
    assert!(!is_visible(&moved.jail().policy, Path::new("/home/me/.codex/auth.json")));
    assert_effects(&moved, &[("/home/me/x/auth.json", WritesThrough), ("/home/me/x/AGENTS.md", Private)]);
    // Codex refuses to start without the directory, and Ostler does not create it.
    let missing = World { agent: &Codex, ..World::default() }.set("CODEX_HOME", "/home/me/y");
    assert!(!missing.jail().create.iter().any(|path| path.starts_with("/home/me/y")));

    let opencode = World { agent: &OpenCode, ..World::default() }
        .set("XDG_CONFIG_HOME", "/home/me/c")
        .with(&["/home/me/c/opencode/plugins/x.js", "/home/me/c/opencode/package.json"]);
    assert_effects(
        &opencode,
        &[
            ("/home/me/.local/share/opencode/auth.json", WritesThrough),
            ("/home/me/.local/share/opencode/opencode.db-wal", WritesThrough),
            ("/home/me/.local/share/opencode/snapshot/x", Private),
            ("/home/me/.local/share/opencode/log/x", Private),
            ("/home/me/c/opencode/plugins/x.js", Reads),
            ("/home/me/c/opencode/package.json", Private),
            ("/home/me/c/opencode/opencode.json", Private),
            ("/home/me/.local/state/opencode/locks", Private),
        ],
    );
    assert_eq!(opencode.jail().copies[0].from, Path::new("/home/me/c/opencode/package.json"));

    let claude = World::default().set("CLAUDE_CONFIG_DIR", "/home/me/cc").with(&["/home/me/cc/.claude.json"]);
    assert_effects(&claude, &[("/home/me/cc/.claude.json", Private)]);
    assert_eq!(claude.jail().copies[0].to, Path::new(PRIVATE).join("state/0/.claude.json"));
}

/// What is in the agent's directories may have been written by a jailed agent.
#[test]
fn a_link_among_session_records_is_refused() {
    let slug = "/home/me/.claude/projects/-home-me-work";
    for (link, want) in [(slug, slug), ("/home/me/.claude/projects", slug)] {
        let world = World::default().link(link, "/home/me/other");
        let refusal = world.decide().unwrap_err();
        assert!(
            matches!(&refusal, JailRefusal::StateElsewhere { path, .. } if path == Path::new(want)),
            "{refusal}"
        );
        assert!(refusal.hint().unwrap().contains("--no-jail"));
    }
}

#[test]
fn settings_that_are_links_to_what_is_not_shown_are_named() {
    let world = World::default()
        .link("/home/me/.claude/settings.json", "/home/me/dotfiles/claude.json")
        .with(&["/home/me/dotfiles/claude.json"]);
    assert_eq!(
        world.jail().warnings,
        [
            "/home/me/.claude/settings.json is a link to /home/me/dotfiles/claude.json, which the jail does not \
          show; add that to [jail] read"
        ]
    );
    let world = World { read: vec!["/home/me/dotfiles".into()], ..world };
    assert_eq!(world.jail().warnings, Vec::<String>::new());
}

#[test]
fn every_agent_that_is_restricted_has_lists_of_its_state() {
    let variable = |_: &str| None;
    let places = super::super::StatePlaces {
        home: Path::new(HOME),
        variable: &variable,
        workspace: Path::new("/home/me/work"),
    };
    use super::super::StateList::{Copied, Credentials, Hidden, Private, Sessions, Settings};
    let table: &[(&dyn Agent, &str, _)] = &[
        (&Claude, ".claude/.credentials.json", Some(Credentials)),
        (&Claude, ".claude/projects/-home-me-work/1.jsonl", Some(Sessions)),
        (&Claude, ".claude/projects/-home-me-work/memory/x.md", Some(Sessions)),
        (&Claude, ".claude/projects/-home-me-other/1.jsonl", Some(Hidden)),
        (&Claude, ".claude/settings.json", Some(Settings)),
        (&Claude, ".claude/sessions/1.json", Some(Private)),
        (&Claude, ".claude/something new", Some(Settings)),
        (&Claude, ".claude/plugins/x", Some(Settings)),
        (&Claude, ".claude/paste-cache/x", Some(Private)),
        (&Claude, ".claude.json", Some(Copied)),
        (&Claude, ".claude.json.lock", None),
        (&Codex, ".codex/auth.json", Some(Credentials)),
        (&Codex, ".codex/sessions/2026/01/01/rollout-1.jsonl", Some(Sessions)),
        (&Codex, ".codex/state_5.sqlite-wal", Some(Private)),
        (&Codex, ".codex/skills/mine", Some(Settings)),
        (&Codex, ".codex/skills/.system/x", Some(Private)),
        (&Codex, ".codex/config.toml", Some(Settings)),
        (&Codex, ".codex/thread-writer-locks/1.lock", Some(Private)),
        (&Codex, ".codex/logs_2.sqlite", Some(Private)),
        (&OpenCode, ".local/share/opencode/auth.json", Some(Credentials)),
        (&OpenCode, ".local/share/opencode/opencode.db-shm", Some(Sessions)),
        (&OpenCode, ".local/share/opencode/log/opencode.log", Some(Private)),
        (&OpenCode, ".config/opencode/opencode.json", Some(Settings)),
        (&OpenCode, ".config/opencode/.gitignore", Some(Copied)),
        (&OpenCode, ".local/state/opencode/locks/1.lock", Some(Private)),
        (&OpenCode, ".cache/opencode/x", Some(Settings)),
        (&OpenCode, ".cache/opencode/models.json", Some(Copied)),
        (&OpenCode, ".cache/other", None),
    ];
    for (agent, path, want) in table {
        let found = agent.state(&places).list_of(&Path::new(HOME).join(path));
        assert_eq!(found, *want, "{} {path}", agent.name());
    }
    for agent in AGENTS {
        let state = agent.state(&places);
        assert!(state.entries.iter().any(|entry| entry.list == Credentials), "{}", agent.name());
        assert!(!state.directories.is_empty(), "{}", agent.name());
    }
    assert!(Credentials.is_written_through() && Sessions.is_written_through());
    assert!(![Private, Settings, Hidden].iter().any(|list| list.is_written_through()));
}
