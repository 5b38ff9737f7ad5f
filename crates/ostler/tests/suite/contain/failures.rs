//! A start that fails says why, and leaves nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ostler_process::contain::{Contained, Spawn, StartError, Tier};

use super::watched::{leaves, marked};
use super::yard::{run_name, shell, tiers};

type IsRight = fn(&StartError) -> bool;

fn file(folder: &Path, name: &str, content: &[u8], mode: u32) {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

async fn refusal(spawn: Spawn<'_>) -> StartError {
    Contained::start(spawn).await.unwrap_err()
}

#[tokio::test]
async fn each_cause_is_told_apart_in_every_tier() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut foreign = fs::read(env!("CARGO_BIN_EXE_ostler")).unwrap();
    foreign.truncate(4096);
    foreign[18..20].copy_from_slice(&[0xf7, 0x7f]);
    fs::create_dir(at("folder")).unwrap();
    file(folder.path(), "plain", b"#!/bin/sh\n", 0o600);
    file(folder.path(), "text", b"echo no first line\n", 0o700);
    file(folder.path(), "foreign", &foreign, 0o700);
    file(folder.path(), "orphan", b"#!/no/such/interpreter\n", 0o700);

    let programs: [(&str, IsRight); 6] = [
        ("missing", |error| matches!(error, StartError::NoProgram { .. })),
        ("folder", |error| matches!(error, StartError::Directory { .. })),
        ("plain", |error| matches!(error, StartError::NotExecutable { .. })),
        ("text", |error| matches!(error, StartError::NotAProgram { .. })),
        ("foreign", |error| matches!(error, StartError::NotAProgram { .. })),
        ("orphan", |error| matches!(error, StartError::NoInterpreter { .. })),
    ];
    for tier in tiers().await {
        for (name, is_right) in programs {
            let run = run_name();
            let mut spawn = shell(&run, "", tier);
            spawn.program = at(name);
            let error = refusal(spawn).await;
            assert!(is_right(&error), "{name} in {}: {error:?}", tier.name());
            assert!(error.to_string().contains(name) && error.hint().is_some(), "{error}");
            assert_eq!((marked(&run).len(), leaves(&run).len()), (0, 0), "{name}");
        }
    }
}

#[tokio::test]
async fn a_name_is_looked_for_on_the_path_of_the_agent() {
    let run = run_name();
    let mut spawn = shell(&run, "exit 0", Tier::Sweep);
    spawn.program = "sh".into();
    assert!(Contained::start(spawn.clone()).await.is_ok());
    spawn.env = vec![("PATH".into(), "/nowhere".into())];
    assert!(matches!(refusal(spawn).await, StartError::NoProgram { .. }));
}

#[tokio::test]
async fn too_much_is_told_as_such() {
    let run = run_name();
    let mut spawn = shell(&run, "exit 0", Tier::Sweep);
    spawn.args.push("x".repeat(3 * 1024 * 1024).into());
    assert!(matches!(refusal(spawn).await, StartError::TooLong { .. }));
    let mut spawn = shell(&run, "exit 0", Tier::Sweep);
    spawn.env.push(("A".into(), "b\0c".into()));
    assert!(matches!(refusal(spawn).await, StartError::Nul { .. }));
}

#[tokio::test]
async fn a_folder_that_cannot_be_entered_is_told_apart_from_the_program() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "file", b"", 0o600);
    let run = run_name();
    let mut spawn = shell(&run, "exit 0", Tier::Sweep);
    spawn.cwd = folder.path().join("missing");
    let error = refusal(spawn.clone()).await;
    assert!(matches!(error, StartError::NoFolder { .. }), "{error:?}");
    spawn.cwd = folder.path().join("file");
    let error = refusal(spawn).await;
    assert!(matches!(error, StartError::Folder { .. }), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("file")));
}

#[tokio::test]
async fn a_guardian_that_is_none_is_told_as_our_own_failure() {
    let run = run_name();
    for guard in ["/no/such/ostler", "/bin/true"] {
        let mut spawn = shell(&run, "exit 0", Tier::Sweep);
        spawn.guard = guard.into();
        let error = refusal(spawn).await;
        assert!(matches!(error, StartError::Guard { .. }), "{error:?}");
    }
}
