use std::os::unix::fs::PermissionsExt as _;

use ostler_agent::canonical::read;
use ostler_agent::event::Usage;

use super::*;

fn terms() -> Terms {
    Terms {
        kind: ostler_agent::access::KeyKind::Owner,
        memory: ostler_agent::access::KeyMemory::Off,
        tenant: "a".to_owned(),
        agent: "claude-headless".to_owned(),
        engine: Engine::Stream,
        model: Some("opus".to_owned()),
        workspace: Place::Folder(PathBuf::from("/srv/stable")),
        system_prompt: None,
        permissions: Permissions::Edits,
        asks_client: false,
        allow: vec!["Bash(ls)".to_owned()],
        tools: String::new(),
    }
}

fn known(text: &str) -> Known {
    super::super::known_on(&terms(), &read(&[json!({"role": "user", "content": text})]).unwrap())
}

fn keepsake(session: &str, folder: Option<&Path>) -> Keepsake {
    Keepsake::recorded(session, folder)
}

#[test]
fn what_is_noted_is_there_for_the_next_server_and_for_its_owner_alone() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("parked");
    let shelf = Shelf::open(&folder).unwrap().unwrap();
    let _ = shelf.note(keepsake("s-1", None), &terms(), known("x"));
    assert!(Shelf::open(&folder).unwrap().is_none(), "one server has it");
    assert_eq!(shelf.take(&terms(), &known("x")), None, "its process is there");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("s-1.json"))), (0o700, 0o600));
    let before = fs::read(folder.join("s-1.json")).unwrap();
    drop(shelf);
    fs::write(folder.join("broken.json"), "{").unwrap();
    let shelf = Shelf::open(&folder).unwrap().unwrap();
    assert!(!folder.join("broken.json").exists());
    let other = Terms { tenant: "b".to_owned(), ..terms() };
    assert_eq!(shelf.take(&other, &known("x")), None, "it is another's");
    assert_eq!(shelf.take(&terms(), &known("y")), None, "it knows something else");
    let parked = shelf.take(&terms(), &known("x")).unwrap();
    assert_eq!((&parked.terms, parked.known), (&terms(), known("x")));
    assert_eq!(parked.written().to_string().into_bytes(), before);
    assert_eq!(shelf.take(&terms(), &known("x")), None, "it is given once");
    shelf.put_back("s-1");
    assert!(shelf.take(&terms(), &known("x")).is_some());
}

/// OSTLER_HOME may be such a folder. Noting the session panicked, in the middle of a turn.
#[test]
fn a_session_in_a_folder_that_is_not_utf_8_is_there_for_the_next_server() {
    let home = tempfile::tempdir().unwrap();
    let odd = home.path().join(OsString::from_vec(b"f\xf6lder \xff".to_vec()));
    let folder = odd.join("parked");
    let terms = Terms { workspace: Place::Folder(odd.join("shared")), ..terms() };
    let shelf = Shelf::open(&folder).unwrap().unwrap();
    let _ = shelf.note(keepsake("s-1", Some(&odd.join("own"))), &terms, known("x"));
    drop(shelf);
    let shelf = Shelf::open(&folder).unwrap().unwrap();
    let parked = shelf.take(&terms, &known("x")).unwrap();
    assert_eq!((parked.keepsake.folder, &parked.terms), (Some(odd.join("own")), &terms));
}

#[test]
fn what_is_forgotten_leaves_its_folder_to_be_removed() {
    let home = tempfile::tempdir().unwrap();
    let (folder, own) = (home.path().join("parked"), home.path().join("own"));
    fs::create_dir(&own).unwrap();
    let shelf = Shelf::open(&folder).unwrap().unwrap();
    assert_eq!(shelf.note(keepsake("s-1", Some(&own)), &terms(), known("x")), None);
    assert_eq!(shelf.forget("s-1"), Some(own.clone()), "whoever can wait for it removes it");
    assert_eq!(shelf.forget("s-1"), None);
    assert!(own.exists() && !folder.join("s-1.json").exists());
    // An id that is a path is not written.
    let _ = shelf.note(keepsake("../s", None), &terms(), known("x"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "the lock");
}

/// It used to be removed under the lock, by whoever put another one there.
#[test]
fn whoever_has_to_go_leaves_his_folder_to_be_removed() {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join("own");
    fs::create_dir(&own).unwrap();
    let shelf = Shelf::open(&home.path().join("parked")).unwrap().unwrap();
    let parked = |session: String, at: u64, folder: Option<&Path>| Parked {
        keepsake: keepsake(&session, folder),
        terms: terms(),
        known: known("x"),
        at,
    };
    for at in 1..=MOST {
        let (id, folder) = (format!("s-{at}"), (at == 7).then_some(own.as_path()));
        let used_at = if at == 7 { 1 } else { 2 };
        assert_eq!(shelf.insert(id.clone(), parked(id.clone(), used_at, folder)), None);
        shelf.put_back(&id);
    }
    assert_eq!(shelf.note(keepsake("s-new", None), &terms(), known("x")), Some(own.clone()));
    assert!(own.exists());
    let left = shelf.parked();
    assert_eq!((left.len(), left.iter().any(|parked| parked.keepsake.session == "s-7")), (MOST - 1, false));
}

#[test]
fn what_is_noted_again_is_noted_instead() {
    let home = tempfile::tempdir().unwrap();
    let opened = || Shelf::open(home.path()).unwrap().unwrap();
    let shelf = opened();
    let long = Terms { system_prompt: Some("long ".repeat(100)), ..terms() };
    let _ = shelf.note(keepsake("s-1", None), &long, known("x"));
    let _ = shelf.note(keepsake("s-1", None), &terms(), known("y"));
    drop(shelf);
    let parked = opened().parked();
    let found: Vec<_> = parked.iter().map(|parked| (&parked.terms, parked.known)).collect();
    assert_eq!(found, [(&terms(), known("y"))]);
}

/// Nobody else could tell that the agent knows more since.
#[test]
fn what_only_we_know_does_not_outlive_a_question() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("parked");
    let used = Usage { input_tokens: Some(7), ..Usage::default() };
    let noted =
        Keepsake { noted: Some(Noted { session: Some("thread".to_owned()), used }), ..keepsake("s-1", None) };
    let opened = || Shelf::open(&folder).unwrap().unwrap();
    let shelf = opened();
    let _ = shelf.note(noted.clone(), &terms(), known("x"));
    drop(shelf);
    let shelf = opened();
    assert_eq!(shelf.parked().pop().map(|parked| parked.keepsake), Some(noted.clone()));
    assert!(shelf.take(&terms(), &known("x")).is_some());
    drop(shelf);
    assert_eq!(opened().parked(), [], "it was asked something when its server was killed");
    let shelf = opened();
    let _ = shelf.note(noted, &terms(), known("x"));
    shelf.begin("s-1");
    drop(shelf);
    assert_eq!(opened().parked(), []);
    // With a record the agent itself tells.
    let shelf = opened();
    let _ = shelf.note(keepsake("s-2", None), &terms(), known("x"));
    shelf.begin("s-2");
    drop(shelf);
    assert_eq!(opened().parked().len(), 1);
}
