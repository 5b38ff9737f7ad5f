//! `fixtures/home-0.1`: an `OSTLER_HOME` that version 0.1 wrote, copied to where a test may change it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Copies it to `home`, with the modes that Ostler gives its files and that git does not keep.
pub(crate) fn copy_home_0_1(home: &Path) {
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/home-0.1"), home);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}
