//! What the jail of a tenant shows.

use std::path::{Path, PathBuf};

use super::super::world::{HOME, World};
use super::super::{Grant, Resident, StatePlaces};
use crate::agents::AGENTS;
use Grant::{None as Nothing, Read, Write};

#[test]
fn a_tenants_agent_sees_nothing_of_the_users_home() {
    let home = PathBuf::from("/home/me/.local/share/ostler/serve/tenants/a/home");
    let world = World {
        resident: Resident::Tenant,
        own: vec![home.clone()],
        home,
        read: vec!["/home/me/other".into()],
        ..World::default()
    };
    world.assert_grants(&[
        ("/home/me/work/src", Grant::Write),
        ("/usr/bin/env", Grant::Read),
        ("/home/me/.local/share/ostler/serve/tenants/a/home/.claude", Grant::Write),
        ("/home/me/.local/share/ostler/serve/tenants/b/home/.claude", Grant::None),
        ("/home/me/.local/share/ostler/runs/1/journal.ndjson", Grant::None),
        ("/home/me/.claude/settings.json", Grant::None),
        ("/home/me/.claude.json", Grant::None),
        ("/home/me/.codex/auth.json", Grant::None),
        ("/home/me/.cargo/bin", Grant::None),
        ("/home/me/.local/bin/tool", Grant::None),
        ("/home/me/.gitconfig", Grant::None),
        ("/home/me/other/secret", Grant::None),
        ("/home/me", Grant::None),
    ]);
}

/// A tenant writes in its home, so that whatever is there may be a link to the owner's files.
#[test]
fn links_in_a_tenants_home_open_nothing() {
    let home = PathBuf::from("/home/me/.local/share/ostler/serve/tenants/a/home");
    for agent in AGENTS {
        let base = World {
            agent: *agent,
            resident: Resident::Tenant,
            own: vec![home.clone()],
            home: home.clone(),
            paths: World::default().paths.into_iter().chain([home.clone()]).collect(),
            ..World::default()
        };
        let places = StatePlaces { home: &home, variable: &|_| None, workspace: &base.workspace };
        let state = agent.state(&places);
        let entries = state.entries.iter().map(|entry| entry.path.clone());
        for planted in entries.chain(state.directories).filter(|path| path.starts_with(&home)) {
            for target in ["/home/me/other", "/home/me/.claude", "/home/me/.claude/.credentials.json"] {
                let world = base.clone().link(&planted.display().to_string(), target);
                let jail = world.jail();
                let about = format!("{}: {} -> {target}", agent.name(), planted.display());
                assert_eq!(jail.policy.grant(Path::new(target)), Grant::None, "{about}");
                assert_eq!((&jail.copies, &jail.sign_in), (&Vec::new(), &None), "{about}");
                assert!(jail.policy.rules.iter().all(|rule| rule.path != planted), "{about}");
            }
        }
    }
}

#[test]
fn a_tenant_sees_no_repository_around_its_workspace() {
    let home = PathBuf::from("/home/me/.local/share/ostler/serve/tenants/a/home");
    let world = World {
        resident: Resident::Tenant,
        own: vec![home.clone()],
        home,
        workspace: "/home/me/work/src".into(),
        ..World::default()
    };
    let table = [("/home/me/work/src/main.rs", Write), ("/home/me/work/.env", Nothing)];
    world.assert_grants(&table);
    world.assert_grants(&[("/home/me/work/.git/config", Nothing), ("/home/me/work/.git/index", Nothing)]);
    World { resident: Resident::User, home: HOME.into(), own: Vec::new(), ..world }
        .assert_grants(&[("/home/me/work/.git/index", Write), ("/home/me/work/.env", Read)]);
}
