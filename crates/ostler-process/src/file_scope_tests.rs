//! What an agent can put in the way of the host.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::fs::{CWD, FileType, mknodat};
use tempfile::TempDir;

use super::*;

/// An agent's directory, and a file of somebody else's beside it.
struct Ground {
    folder: TempDir,
    scope: FileScope,
}

const SECRET: &str = "the owner's";

impl Ground {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("agent")).unwrap();
        fs::create_dir(folder.path().join("owner")).unwrap();
        fs::write(folder.path().join("owner/file"), SECRET).unwrap();
        let scope = FileScope::Below(vec![folder.path().join("agent")]);
        Self { folder, scope }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn link(&self, target: &str, path: &str) {
        symlink(self.at(target), self.at(path)).unwrap();
    }
}

#[test]
fn files_of_the_agent_are_read() {
    let ground = Ground::new();
    fs::create_dir(ground.at("agent/deep")).unwrap();
    fs::write(ground.at("agent/deep/file"), "12345").unwrap();
    assert_eq!(ground.scope.read(&ground.at("agent/deep/file"), 5).unwrap(), b"12345");
    let long = ground.scope.read(&ground.at("agent/deep/file"), 4).unwrap_err();
    assert_eq!(long.to_string(), "longer than 4 bytes");
}

#[test]
fn no_link_leads_a_reader_out() {
    let ground = Ground::new();
    ground.link("owner/file", "agent/file");
    ground.link("owner", "agent/folder");
    for path in ["agent/file", "agent/folder/file", "agent/../owner/file", "owner/file"] {
        assert!(ground.scope.open(&ground.at(path)).is_err(), "{path}");
        assert!(FileScope::Anywhere.open(&ground.at(path)).is_ok(), "{path}");
    }
}

#[test]
fn nothing_but_files_is_read_and_a_pipe_is_not_waited_for() {
    let ground = Ground::new();
    mknodat(CWD, ground.at("agent/pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::create_dir(ground.at("agent/folder")).unwrap();
    for scope in [&ground.scope, &FileScope::Anywhere] {
        for name in ["agent/pipe", "agent/folder"] {
            let refused = scope.open(&ground.at(name)).unwrap_err();
            assert_eq!(refused.to_string(), "not a regular file", "{name}");
        }
    }
    let endless = fs::File::create(ground.at("agent/endless")).unwrap();
    endless.set_len(1 << 40).unwrap();
    assert!(ground.scope.read(&ground.at("agent/endless"), 1024).is_err());
}

#[test]
fn no_link_leads_a_writer_out() {
    let ground = Ground::new();
    ground.link("owner/file", "agent/file");
    ground.link("owner", "agent/folder");
    let folder = ground.scope.create_directory(&ground.at("agent")).unwrap();
    folder.replace_file(Path::new("file"), b"new").unwrap();
    assert_eq!(fs::read_to_string(ground.at("agent/file")).unwrap(), "new");
    for path in ["agent/folder", "agent/folder/new", "agent/../owner", "elsewhere"] {
        assert!(ground.scope.create_directory(&ground.at(path)).is_err(), "{path}");
    }
    assert_eq!(fs::read_to_string(ground.at("owner/file")).unwrap(), SECRET);
    assert_eq!(fs::read_dir(ground.at("owner")).unwrap().count(), 1);
    assert!(!ground.at("elsewhere").exists());
}

#[test]
fn what_is_made_is_for_its_owner_alone_and_leaves_no_draft() {
    let ground = Ground::new();
    let folder = ground.scope.create_directory(&ground.at("agent/a/b")).unwrap();
    folder.create_file(Path::new("file"), b"x").unwrap();
    assert_eq!(folder.create_file(Path::new("file"), b"y").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    folder.replace_link(Path::new("link"), Path::new("/one")).unwrap();
    folder.replace_link(Path::new("link"), Path::new("/two")).unwrap();
    assert_eq!(fs::read_link(ground.at("agent/a/b/link")).unwrap(), Path::new("/two"));
    folder.remove_file(Path::new("link")).unwrap();
    folder.remove_file(Path::new("link")).unwrap();
    let mode = |path: &str| fs::metadata(ground.at(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("agent/a"), mode("agent/a/b/file")), (0o700, 0o600));
    assert_eq!(fs::read_dir(ground.at("agent/a/b")).unwrap().count(), 1);
}
