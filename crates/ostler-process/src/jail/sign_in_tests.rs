use std::fs;
use std::time::Instant;

use super::*;

struct Place {
    _folder: tempfile::TempDir,
    sign_in: JailSignIn,
}

/// A sign-in of the user's.
fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let (outside, inside) = (folder.path().join("outside"), folder.path().join("inside"));
    fs::create_dir(&outside).unwrap();
    fs::create_dir(&inside).unwrap();
    let file = outside.join("tokens");
    fs::write(&file, "first").unwrap();
    let sign_in = JailSignIn { file, folder: inside, locks: &["a.lock"] };
    Place { _folder: folder, sign_in }
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        thread::yield_now();
    }
}

#[test]
fn a_file_that_was_replaced_outside_is_kept_in_step_with_the_one_that_the_jail_shows() {
    let place = place();
    let file = &place.sign_in.file;
    // A mount shows this one for good.
    let shown = OpenOptions::new().read(true).write(true).open(file).unwrap();
    let content = || {
        let mut text = String::new();
        let mut reader = &shown;
        reader.rewind().unwrap();
        reader.read_to_string(&mut text).unwrap();
        text
    };
    let sync = SignInSync::start(&place.sign_in).unwrap();
    replace(file, b"second").unwrap();
    wait_until("the jail sees what was refreshed outside", || content() == "second");
    // Of the same length: the thread may not be done with the length yet.
    let mut writer = &shown;
    writer.rewind().unwrap();
    writer.write_all(b"third!").unwrap();
    let outside = || fs::read_to_string(file).unwrap();
    wait_until("what the jailed agent refreshed is the user's", || outside() == "third!");
    // What is written last is not lost with the end of the jail.
    writer.rewind().unwrap();
    writer.write_all(b"fourth").unwrap();
    drop(sync);
    assert_eq!(outside(), "fourth");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn one_file_is_left_alone() {
    let place = place();
    let state = || {
        let found = place.sign_in.file.metadata().unwrap();
        (found.ino(), found.mtime(), found.mtime_nsec(), found.ctime_nsec())
    };
    let before = state();
    let sync = SignInSync::start(&place.sign_in).unwrap();
    fs::create_dir(place.sign_in.folder.join("other")).unwrap();
    drop(sync);
    assert_eq!(state(), before);
}

#[test]
fn a_lock_on_one_side_is_one_on_the_other_for_any_number_of_runs() {
    let place = place();
    let inside = place.sign_in.folder.join("a.lock");
    let outside = place.sign_in.file.with_file_name("a.lock");
    let syncs: Vec<SignInSync> = (0..3).map(|_| SignInSync::start(&place.sign_in).unwrap()).collect();
    for (held, mirror) in [(&inside, &outside), (&outside, &inside), (&inside, &outside)] {
        fs::create_dir(held).unwrap();
        wait_until("the other side is locked", || find(mirror) == Found::Mirror);
        assert!(fs::create_dir(mirror).is_err());
        fs::remove_dir(held).unwrap();
        wait_until("both are free", || find(held) == Found::Nothing && find(mirror) == Found::Nothing);
    }
    fs::create_dir(&inside).unwrap();
    wait_until("the other side is locked", || find(&outside) == Found::Mirror);
    drop(syncs);
    assert_eq!((find(&inside), find(&outside)), (Found::Lock, Found::Nothing));
}
