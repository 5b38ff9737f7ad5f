use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use ostler_agent::agents::{CODEX, Codex};

use super::*;

const ELF: &[u8] = b"\x7fELF, as far as we look";
const SCRIPT: &[u8] = b"#!/usr/bin/env node\n";

/// A folder in which programs are laid out.
struct Ground(tempfile::TempDir);

impl Ground {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    fn put(&self, path: impl AsRef<Path>, content: &[u8]) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn link(&self, path: &str, to: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
    }

    fn search(&self) -> Search {
        Search {
            configured: None,
            agents: self.at("home/agents"),
            path: Some(self.at("bin").into_os_string()),
        }
    }
}

fn native_path() -> PathBuf {
    CODEX.native_paths(consts::OS, consts::ARCH).remove(0)
}

#[test]
fn what_is_configured_wins_over_what_is_installed_and_that_over_path() {
    let ground = Ground::new();
    let on_path = ground.put("bin/codex", ELF);
    assert_eq!(locate(&Codex, &ground.search()).unwrap().path, on_path);
    let installed = ground.put(Path::new("home/agents/codex/0.1.0/node_modules").join(native_path()), ELF);
    ground.link("home/agents/codex/current", "0.1.0");
    ground.link("home/agents/codex/0.1.0/program", &format!("node_modules/{}", native_path().display()));
    let found = locate(&Codex, &ground.search()).unwrap();
    assert_eq!(found, Program { path: installed, origin: Origin::Installed, form: Form::Native });
    let configured = ground.put("mine/codex", ELF);
    let search = Search { configured: Some(configured.clone()), ..ground.search() };
    let found = locate(&Codex, &search).unwrap();
    assert_eq!(found, Program { path: configured, origin: Origin::Configured, form: Form::Native });
}

#[test]
fn a_configured_program_that_is_not_there_is_not_replaced_by_another() {
    let ground = Ground::new();
    ground.put("bin/codex", ELF);
    let search = Search { configured: Some(ground.at("gone")), ..ground.search() };
    let error = locate(&Codex, &search).unwrap_err();
    assert_eq!(error, LocateError::NotThere { agent: "codex", path: ground.at("gone") });
}

#[test]
fn an_npm_wrapper_on_path_gives_way_to_the_native_program_beside_it_or_inside_it() {
    for modules in ["lib/node_modules", "lib/node_modules/@openai/codex/node_modules"] {
        let ground = Ground::new();
        ground.put("lib/node_modules/@openai/codex/bin/codex.js", SCRIPT);
        ground.link("bin/codex", "../lib/node_modules/@openai/codex/bin/codex.js");
        let native = ground.put(Path::new(modules).join(native_path()), ELF);
        let found = locate(&Codex, &ground.search()).unwrap();
        assert_eq!(found, Program { path: native, origin: Origin::OnPath, form: Form::Native }, "{modules}");
    }
}

#[test]
fn a_wrapper_without_a_native_program_is_used_and_said_to_be_one() {
    let ground = Ground::new();
    let wrapper = ground.put("lib/node_modules/@openai/codex/bin/codex.js", SCRIPT);
    ground.link("bin/codex", "../lib/node_modules/@openai/codex/bin/codex.js");
    let found = locate(&Codex, &ground.search()).unwrap();
    assert_eq!(found, Program { path: wrapper, origin: Origin::OnPath, form: Form::Script });
}

#[test]
fn relative_folders_of_path_do_not_count() {
    let ground = Ground::new();
    let search = Search { path: Some(OsString::from(".:bin:/nonexistent")), ..ground.search() };
    assert!(matches!(locate(&Codex, &search), Err(LocateError::NotInstalled { agent: "codex", .. })));
}

/// Takes the permission to execute away.
fn lock(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn a_non_executable_binary_is_described_wherever_it_is_found() {
    let ground = Ground::new();
    let file = ground.put("mine/codex", SCRIPT);
    lock(&file);
    let folder = ground.at("mine");
    ground.link("mine/dangling", "/no/such/program");
    let table = [
        (file, "is a script that may not be executed", "chmod +x"),
        (folder, "is a folder, not a program", "correct `agents.codex.program`"),
        (
            ground.at("mine/dangling"),
            "is a symbolic link to /no/such/program, which does not exist",
            "correct `agents.codex.program`",
        ),
        (PathBuf::from("/dev/null"), "is not a regular file", "correct `agents.codex.program`"),
    ];
    for (path, want, hint) in table {
        let search = Search { configured: Some(path.clone()), ..ground.search() };
        let error = locate(&Codex, &search).unwrap_err();
        let sentence = format!("agent `codex` cannot be started: {} {want}", path.display());
        assert_eq!(error.to_string(), sentence);
        assert!(error.hint().unwrap().contains(hint), "{:?}", error.hint());
        assert_eq!(error.unusable_path(), Some(path.as_path()));
    }
}

#[test]
fn a_damaged_install_is_not_replaced_by_what_is_on_path() {
    let ground = Ground::new();
    ground.put("bin/codex", ELF);
    let native = Path::new("home/agents/codex/0.1.0/node_modules").join(native_path());
    let installed = ground.put(&native, b"#!/bin/sh\n");
    ground.link("home/agents/codex/current", "0.1.0");
    ground.link("home/agents/codex/0.1.0/program", &format!("node_modules/{}", native_path().display()));
    assert!(locate(&Codex, &ground.search()).is_ok());
    lock(&installed);
    let error = locate(&Codex, &ground.search()).unwrap_err();
    let fault = Unusable::NotExecutable(FileKind::Script);
    assert_eq!(
        error,
        LocateError::Unusable { agent: "codex", path: installed.clone(), origin: Origin::Installed, fault }
    );
    assert_eq!(error.hint().unwrap(), "`ostler agents install codex` installs it again");
    fs::remove_file(installed).unwrap();
    let gone = locate(&Codex, &ground.search()).unwrap_err();
    assert!(gone.to_string().contains("is a symbolic link to node_modules/"), "{gone}");
    // Without a current version nothing is installed, and PATH counts.
    fs::remove_file(ground.at("home/agents/codex/current")).unwrap();
    assert_eq!(locate(&Codex, &ground.search()).unwrap().origin, Origin::OnPath);
}

#[test]
fn a_file_on_path_that_may_not_be_executed_is_named_unless_another_may() {
    let ground = Ground::new();
    let first = ground.put("bin/codex", b"words\n");
    lock(&first);
    let error = locate(&Codex, &ground.search()).unwrap_err();
    let want = format!(
        "agent `codex` cannot be started: {} is a text file without a `#!` line that may not be executed",
        first.display()
    );
    assert_eq!(error.to_string(), want);
    let second = ground.put("more/codex", ELF);
    let path = std::env::join_paths([ground.at("bin"), ground.at("more")]).unwrap();
    let search = Search { path: Some(path), ..ground.search() };
    assert_eq!(locate(&Codex, &search).unwrap().path, second);
    // A folder of that name is nothing, as for a shell.
    fs::remove_file(&first).unwrap();
    fs::create_dir(&first).unwrap();
    assert!(matches!(locate(&Codex, &ground.search()), Err(LocateError::NotInstalled { .. })));
}
