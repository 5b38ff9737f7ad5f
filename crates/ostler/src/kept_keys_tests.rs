use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::config::Config;

fn kept() -> (tempfile::TempDir, KeptKeys) {
    let folder = tempfile::tempdir().unwrap();
    let kept = KeptKeys::at(folder.path().join("keys.json"), KeyLimits::default());
    (folder, kept)
}

#[test]
fn the_first_key_is_made_once_and_kept_as_its_hash() {
    let (_folder, kept) = kept();
    let (first, secret) = kept.usable().unwrap();
    let secret = secret.unwrap();
    assert!(secret.starts_with(PREFIX) && secret.len() > 60);
    let text = std::fs::read_to_string(&kept.path).unwrap();
    assert!(!text.contains(&secret[PREFIX.len()..]), "{text}");
    assert_eq!(std::fs::metadata(&kept.path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(kept.usable().unwrap(), (first, None));
    std::fs::write(&kept.path, "{").unwrap();
    assert!(matches!(kept.usable(), Err(KeysError::Understand { .. })));
    std::fs::write(&kept.path, r#"{"v": 4, "keys": []}"#).unwrap();
    assert!(matches!(kept.usable(), Err(KeysError::Newer { version: 4, .. })));
}

#[test]
fn a_key_of_the_first_version_still_opens_everything() {
    let (_folder, kept) = kept();
    let hash = Key::of("first", "ostler_old", Policy::owner()).hash();
    std::fs::write(&kept.path, format!(r#"{{"v": 1, "keys": [{{"id": "first", "sha256": "{hash}"}}]}}"#))
        .unwrap();
    assert_eq!(kept.usable().unwrap(), (vec![Key::of("first", "ostler_old", Policy::owner())], None));
}

#[test]
fn keys_of_an_earlier_version_get_a_kind_once() {
    let (_folder, kept) = kept();
    let hash = Key::of("x", "ostler_old", Policy::chat()).hash();
    let key = |id: &str, scopes: &str| format!(r#"{{"id": "{id}", "sha256": "{hash}"{scopes}}}"#);
    let keys = [
        key("first", ""),
        key("all", r#", "scopes": ["chat", "admin"]"#),
        key("chat", r#", "scopes": ["chat"]"#),
        key("odd", r#", "scopes": ["something else"]"#),
    ];
    std::fs::write(&kept.path, format!(r#"{{"v": 2, "keys": [{}]}}"#, keys.join(","))).unwrap();
    let kinds = |keys: &[Kept]| -> Vec<(String, KeyKind)> {
        keys.iter().map(|kept| (kept.id.clone(), kept.policy(&KeyLimits::default()).kind)).collect()
    };
    let before = kinds(&kept.list().unwrap());
    let want = [
        ("first", KeyKind::Owner),
        ("all", KeyKind::Owner),
        ("chat", KeyKind::Tenant),
        ("odd", KeyKind::Tenant),
    ];
    assert_eq!(before, want.map(|(id, kind)| (id.to_owned(), kind)));
    assert_eq!(kinds(&kept.migrate().unwrap()), before, "they are reported");
    assert_eq!(kinds(&kept.list().unwrap()), before);
    assert_eq!(kept.migrate().unwrap(), [], "once");
    assert!(std::fs::read_to_string(&kept.path).unwrap().starts_with(r#"{"v":3,"#));
}

/// What a server accepts that asks again and again, as requests come.
struct Running {
    kept: KeptKeys,
    known: Vec<Key>,
}

impl Running {
    fn accepts(&mut self) -> Result<Vec<Key>, KeysUnreadable> {
        if let Some(keys) = self.kept.changed()? {
            self.known = keys;
        }
        Ok(self.known.clone())
    }
}

#[test]
fn what_is_made_and_revoked_is_noticed_by_who_uses_them() {
    let (_folder, kept) = kept();
    let (first, _) = kept.usable().unwrap();
    let mut running =
        Running { kept: KeptKeys::at(kept.path.clone(), KeyLimits::default()), known: Vec::new() };
    assert_eq!(running.kept.usable().unwrap().0, first);
    assert_eq!(running.accepts(), Ok(first.clone()));
    let (requests_per_minute, turns_at_once) = (Some(9), Some(2));
    let permissions = Permissions::Edits;
    let policy = Policy { requests_per_minute, turns_at_once, permissions, ..Policy::chat() };
    let (made, secret) = kept.make("ci", policy.clone()).unwrap();
    // What it does not say is the usual.
    let policy = Policy { open_questions: Some(64), ..policy };
    let second = Key::of(&made.id, &secret, policy);
    assert_eq!(running.accepts(), Ok(vec![first[0].clone(), second.clone()]));
    assert_eq!(running.accepts(), Ok(vec![first[0].clone(), second.clone()]));
    kept.revoke("first").unwrap();
    assert_eq!(running.accepts(), Ok(vec![second]));
    assert!(matches!(kept.revoke("first"), Err(KeysError::Unknown { .. })));
    std::fs::remove_file(&kept.path).unwrap();
    assert_eq!(running.accepts(), Ok(Vec::new()));
}

/// The file was marked as read before it was: after one failure a revoked key was accepted until the next change.
#[test]
fn a_key_that_is_revoked_while_the_file_cannot_be_read_is_refused_at_the_next_request() {
    let (folder, kept) = kept();
    kept.usable().unwrap();
    let (made, _) = kept.make("ci", Policy::chat()).unwrap();
    let mut running =
        Running { kept: KeptKeys::at(kept.path.clone(), KeyLimits::default()), known: Vec::new() };
    assert_eq!(running.accepts().unwrap().len(), 2);
    kept.revoke(&made.id).unwrap();
    let aside = folder.path().join("aside");
    // Root ignores permissions, so that a folder in the place of the file makes it unreadable.
    std::fs::rename(&kept.path, &aside).unwrap();
    std::fs::create_dir(&kept.path).unwrap();
    assert_eq!(running.accepts(), Err(KeysUnreadable));
    assert_eq!(running.accepts(), Err(KeysUnreadable), "it does not count as read");
    std::fs::remove_dir(&kept.path).unwrap();
    std::os::unix::fs::symlink(&kept.path, &kept.path).unwrap();
    assert_eq!(running.accepts(), Err(KeysUnreadable), "not even its metadata");
    std::fs::remove_file(&kept.path).unwrap();
    std::fs::write(&kept.path, "{").unwrap();
    assert_eq!(running.accepts(), Err(KeysUnreadable), "half a file");
    std::fs::rename(&aside, &kept.path).unwrap();
    let accepted = running.accepts().unwrap();
    assert_eq!(accepted.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["first"]);
}

/// A file system gives the inode of a removed file to the next one, and its clock stands still for some milliseconds.
#[test]
fn a_file_that_was_written_just_now_is_read_again() {
    let (_folder, kept) = kept();
    kept.usable().unwrap();
    let running = KeptKeys::at(kept.path.clone(), KeyLimits::default());
    assert!(running.changed().unwrap().is_some());
    assert_eq!(*running.seen.lock().unwrap(), None, "it may have been written again within the same tick");
    let mut old = stamp(&kept.path).unwrap().unwrap();
    assert!(old.is_recent());
    old.changed.0 -= 1;
    assert!(!old.is_recent());
}

#[test]
fn keys_that_are_made_at_once_are_all_kept() {
    let (_folder, kept) = kept();
    let path = &kept.path;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope
                .spawn(|| KeptKeys::at(path.clone(), KeyLimits::default()).make("", Policy::chat()).unwrap());
        }
    });
    assert_eq!(kept.list().unwrap().len(), 8);
}

#[test]
fn a_tenants_key_without_limits_of_its_own_has_the_usual_ones() {
    let (_folder, kept) = kept();
    let limits = |policy: Policy, usual: &KeyLimits| {
        let (made, _) = kept.make("", policy).unwrap();
        let Policy { requests_per_minute, turns_at_once, open_questions, .. } = made.policy(usual);
        (requests_per_minute, turns_at_once, open_questions)
    };
    let usual = KeyLimits::default();
    assert_eq!(limits(Policy::chat(), &usual), (Some(600), Some(32), Some(64)));
    let own = Policy { requests_per_minute: Some(9_000), turns_at_once: Some(2), ..Policy::chat() };
    assert_eq!(limits(own, &usual), (Some(9_000), Some(2), Some(64)));
    // The owner has none, also with a key that cannot do everything.
    assert_eq!(limits(Policy::owner(), &usual), (None, None, None));
    let notebook = Policy { kind: KeyKind::Owner, ..Policy::chat() };
    assert_eq!(limits(notebook, &usual), (None, None, None));
    let section =
        toml::from_str::<Config>("[serve]\nrequests_per_minute = 5\nturns_at_once = 3\nopen_questions = 1");
    let set = KeyLimits::from_config(&section.unwrap().serve);
    assert_eq!(limits(Policy::chat(), &set), (Some(5), Some(3), Some(1)));
    assert_eq!(KeyLimits::from_config(&ServeSection::default()), usual);
}
