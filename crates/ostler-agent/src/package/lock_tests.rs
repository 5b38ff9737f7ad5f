use super::*;
use crate::agents::{CLAUDE, CODEX, OPENCODE};

/// A hash that looks like one.
fn hash(letter: char) -> String {
    format!("{SHA512}{}==", letter.to_string().repeat(86))
}

/// A lock as npm writes it for Codex 0.1.0, with these hashes of the package and of its native one.
fn written(root: &str, native: &str) -> String {
    json!({
        "name": "tree", "lockfileVersion": 3, "requires": true,
        "packages": {
            "": {"dependencies": {"@openai/codex": "0.1.0"}},
            "node_modules/@openai/codex": {
                "version": "0.1.0", "resolved": "https://r.example/codex.tgz", "integrity": root,
                "hasInstallScript": true, "bin": {"codex": "bin/codex.js"}, "engines": {"node": ">=16"},
                "optionalDependencies": {
                    "@openai/codex-linux-x64": "npm:@openai/codex@0.1.0-linux-x64",
                    "@openai/codex-win32-x64": "npm:@openai/codex@0.1.0-win32-x64",
                },
            },
            "node_modules/@openai/codex-linux-x64": {
                "name": "@openai/codex", "version": "0.1.0-linux-x64", "integrity": native, "optional": true,
                "os": ["linux"], "cpu": ["x64"],
            },
            "node_modules/@openai/codex-win32-x64": {
                "name": "@openai/codex", "version": "0.1.0-win32-x64", "integrity": hash('w'), "optional": true,
                "os": ["win32"], "cpu": ["x64"],
            },
        },
    })
    .to_string()
}

fn parsed(text: &str) -> Result<PackageLock, LockError> {
    PackageLock::parse(&CODEX, "0.1.0", text, None)
}

/// OpenCode's packages for other platforms than these are pinned once a registry within reach has them.
#[test]
fn the_verified_version_of_every_agent_is_pinned_with_its_native_packages() {
    let table = [
        (&CLAUDE, vec![("linux", "x86_64"), ("linux", "aarch64"), ("macos", "x86_64"), ("macos", "aarch64")]),
        (&CODEX, vec![("linux", "x86_64"), ("linux", "aarch64"), ("macos", "x86_64"), ("macos", "aarch64")]),
        (&OPENCODE, vec![]),
    ];
    for (package, platforms) in table {
        let pins = PackageLock::pinned(package, package.verified).unwrap();
        for (os, arch) in platforms {
            assert!(pins.covers(package, os, arch), "{} on {os} {arch}", package.npm);
        }
        for (place, entry) in &pins.entries {
            assert!(text_of(entry, "integrity").and_then(strongest).is_some(), "{place}");
        }
    }
    let opencode = PackageLock::pinned(&OPENCODE, OPENCODE.verified).unwrap();
    for name in ["opencode-ai", "opencode-linux-x64", "opencode-linux-x64-baseline"] {
        assert!(opencode.hash_of(name).is_some(), "{name}");
    }
    assert_eq!(opencode.hash_of("@openai/codex"), None, "the lock of one agent has nothing of another");
    assert!(PackageLock::pinned(&CLAUDE, "2.1.325").is_some(), "the newer one that is tested is pinned too");
    assert_eq!(PackageLock::pinned(&CODEX, "0.1.0"), None);
}

#[test]
fn a_lock_for_npm_names_no_registry_and_no_other_platform() {
    let lock = parsed(&written(&hash('r'), &hash('n'))).unwrap().for_platform("linux", "x86_64");
    let Project { manifest, lock } = lock.project();
    let dependencies = json!({"@openai/codex": "0.1.0"});
    assert_eq!(
        serde_json::from_str::<Value>(&manifest).unwrap(),
        json!({"private": true, "dependencies": dependencies})
    );
    let want = json!({
        "lockfileVersion": 3, "requires": true,
        "packages": {
            "": {"dependencies": dependencies},
            "node_modules/@openai/codex": {
                "version": "0.1.0", "integrity": hash('r'),
                "optionalDependencies": {"@openai/codex-linux-x64": "npm:@openai/codex@0.1.0-linux-x64"},
            },
            "node_modules/@openai/codex-linux-x64": {
                "name": "@openai/codex", "version": "0.1.0-linux-x64", "integrity": hash('n'), "optional": true,
                "os": ["linux"], "cpu": ["x64"],
            },
        },
    });
    assert_eq!(serde_json::from_str::<Value>(&lock).unwrap(), want);
}

#[test]
fn what_was_recorded_is_read_back_the_same() {
    let lock = parsed(&written(&hash('r'), &hash('n'))).unwrap();
    assert_eq!(parsed(&lock.project().lock), Ok(lock));
}

#[test]
fn a_package_alone_is_required_under_its_alias() {
    let lock = parsed(&written(&hash('r'), &hash('n'))).unwrap();
    let project = lock.project_of("node_modules/@openai/codex-linux-x64").unwrap();
    let lock: Value = serde_json::from_str(&project.lock).unwrap();
    let want = json!({
        "": {"dependencies": {"@openai/codex-linux-x64": "npm:@openai/codex@0.1.0-linux-x64"}},
        "node_modules/@openai/codex-linux-x64": {
            "name": "@openai/codex", "version": "0.1.0-linux-x64", "integrity": hash('n'),
            "os": ["linux"], "cpu": ["x64"],
        },
    });
    assert_eq!(lock["packages"], want);
}

#[test]
fn a_lock_that_cannot_be_verified_is_refused() {
    let no_hash = |package: &str| LockError::NoHash { package: package.to_owned() };
    let foreign = |package: &str| LockError::NotInRegistry { package: package.to_owned() };
    let fine = written(&hash('r'), &hash('n'));
    let other = LockError::Other { package: "@openai/codex", version: "0.1.0".to_owned() };
    let table = [
        (String::new(), LockError::NotALock),
        (r#"{"lockfileVersion": 1, "dependencies": {}}"#.to_owned(), LockError::NotALock),
        (r#"{"packages": {}}"#.to_owned(), other),
        (written("sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", &hash('n')), no_hash("@openai/codex")),
        (written(&hash('r'), "sha512-short"), no_hash("@openai/codex-linux-x64")),
        (
            fine.replace("https://r.example/codex.tgz", "git+ssh://git@r.example/codex"),
            foreign("@openai/codex"),
        ),
        (fine.replace("\"hasInstallScript\":true", "\"link\":true"), foreign("@openai/codex")),
    ];
    for (text, want) in table {
        assert_eq!(parsed(&text), Err(want), "{text}");
    }
}

#[test]
fn pinned_hashes_hold_against_the_registry() {
    let pins = parsed(&written(&hash('r'), &hash('n'))).unwrap();
    let with =
        |root: &str, native: &str| PackageLock::parse(&CODEX, "0.1.0", &written(root, native), Some(&pins));
    assert_eq!(with(&hash('r'), &hash('n')), Ok(pins.clone()));
    assert_eq!(with("sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", &hash('n')), Ok(pins.clone()));
    assert_eq!(with(&format!("sha1-x {}", hash('r')), &hash('n')), Ok(pins.clone()));
    let mismatch = Mismatch {
        package: "@openai/codex-linux-x64".to_owned(),
        version: "0.1.0-linux-x64".to_owned(),
        expected: hash('n'),
        received: hash('x'),
    };
    assert_eq!(with(&hash('r'), &hash('x')), Err(LockError::Differs(Box::new(mismatch.clone()))));
    let came = parsed(&written(&hash('r'), &hash('x'))).unwrap();
    assert_eq!(pins.difference(&came), Some(mismatch));
    assert_eq!(pins.difference(&pins), None);
}

#[test]
fn the_package_that_npm_complains_about_is_found() {
    let lock = parsed(&written(&hash('r'), &hash('n'))).unwrap();
    let (wanted, came) = (hash('n'), hash('x'));
    let table = [
        format!("Integrity checksum failed when using sha512: wanted {wanted} but got {came}."),
        format!(
            "{wanted} integrity checksum failed when using sha512: wanted {wanted} but got {came}. (9 bytes)"
        ),
    ];
    for words in table {
        let found = lock.mismatch_in(&words).unwrap();
        assert_eq!(
            (found.package.as_str(), found.received.as_str()),
            ("@openai/codex-linux-x64", came.as_str())
        );
    }
    assert_eq!(lock.mismatch_in("something else"), None);
}

#[test]
fn a_package_that_was_left_out_is_told_from_one_for_another_c_library() {
    let lock = |libc: [Option<&str>; 2]| {
        let entries = ["a", "b"].into_iter().zip(libc).map(|(name, libc)| {
            let mut entry = Map::from_iter([("optional".to_owned(), Value::Bool(true))]);
            entry.extend(libc.map(|libc| ("libc".to_owned(), json!([libc]))));
            (location(name), entry)
        });
        PackageLock { npm: "x", version: "1.0.0".to_owned(), entries: entries.collect() }
    };
    let (glibc, musl) = (Some("glibc"), Some("musl"));
    let table = [
        ([glibc, musl], vec!["a", "b"], vec![]),
        ([glibc, musl], vec!["a"], vec![]),
        ([glibc, musl], vec!["b"], vec![]),
        ([glibc, musl], vec![], vec!["a", "b"]),
        ([glibc, glibc], vec!["a"], vec!["b"]),
        ([None, None], vec!["b"], vec!["a"]),
        ([None, musl], vec!["a"], vec!["b"]),
    ];
    for (libc, installed, want) in table {
        let lock = lock(libc);
        let left_out = lock.left_out(|place| installed.contains(&name_at(place)));
        let want: Vec<String> = want.iter().map(|name| location(name)).collect();
        assert_eq!(left_out, want, "{libc:?} {installed:?}");
    }
}

#[test]
fn lists_of_platforms_allow_and_exclude() {
    let table = [
        (json!(null), true),
        (json!(["linux", "darwin"]), true),
        (json!(["darwin"]), false),
        (json!(["!win32"]), true),
        (json!(["!linux"]), false),
    ];
    for (list, want) in table {
        let entry = Map::from_iter([("os".to_owned(), list.clone())]);
        assert_eq!(is_for(&entry, "os", "linux"), want, "{list}");
    }
}
