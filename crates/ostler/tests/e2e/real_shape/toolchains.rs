//! Builds behind a wall: they find what the user's caches have and write there as ever, and the user's caches stay as
//! they are. What they need comes from local files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{DECLARES, RealShape};
use crate::player::Player;
use crate::yard::Ended;

/// Makes, in the directory that it runs in: an npm package, a wheel, and a registry with one crate.
const PACKAGES: &str = r#"
set -e
mkdir -p package && echo '{"name":"dep","version":"1.0.0"}' > package/package.json
tar czf ../workspace/dep.tgz package
mkdir -p dep-0.1.0/src registry/index/3/d
printf '[package]\nname = "dep"\nversion = "0.1.0"\nedition = "2021"\n' > dep-0.1.0/Cargo.toml
echo 'pub fn answer() -> u8 { 42 }' > dep-0.1.0/src/lib.rs
tar czf registry/dep-0.1.0.crate dep-0.1.0
sum=$(sha256sum registry/dep-0.1.0.crate | cut -d' ' -f1)
echo '{"name":"dep","vers":"0.1.0","deps":[],"cksum":"'$sum'","features":{},"yanked":false}' > registry/index/3/d/dep
mkdir -p wheel/dep-1.0.dist-info && cd wheel
echo 'ANSWER = 42' > dep.py
printf 'Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n' > dep-1.0.dist-info/METADATA
printf 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n' > dep-1.0.dist-info/WHEEL
printf 'dep.py,,\ndep-1.0.dist-info/METADATA,,\ndep-1.0.dist-info/WHEEL,,\ndep-1.0.dist-info/RECORD,,\n' > dep-1.0.dist-info/RECORD
/usr/bin/python3 -m zipfile -c ../../workspace/dep-1.0-py3-none-any.whl dep.py dep-1.0.dist-info
"#;

const LOCK: &str = r#"{"name":"app","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{
"":{"name":"app","version":"1.0.0","dependencies":{"dep":"file:dep.tgz"}},
"node_modules/dep":{"version":"1.0.0","resolved":"file:dep.tgz"}}}"#;

const NPM: &str = "npm ci --offline --no-audit --no-fund && test -f node_modules/dep/package.json";
const PIP: &str = "/usr/bin/python3 -m pip install -q --no-index --target site ./dep-1.0-py3-none-any.whl \
                   && test -f site/dep.py";
const GIT: &str =
    "echo x >> README && git add README && git commit -qm 'a change' && git log --oneline | grep -q change";
const CARGO: &str =
    "cargo build --offline --manifest-path app/Cargo.toml && ls ~/.cargo/registry/src/*/dep-0.1.0/src/lib.rs";

/// Codex behind a wall, in a home with caches that have something in them.
fn with_caches(shape: Option<RealShape>, kind: &str) -> Option<RealShape> {
    let shape = shape?.with_bridge().variable("OSTLER_FORCE_JAIL", kind);
    let put = |path: &str, text: &str| {
        let path = shape.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    fs::create_dir(shape.at("made")).unwrap();
    let script =
        Command::new("/bin/sh").args(["-c", PACKAGES]).current_dir(shape.at("made")).output().unwrap();
    assert!(script.status.success(), "{}", String::from_utf8_lossy(&script.stderr));
    fs::rename(shape.at("made/registry"), shape.workspace().join("registry")).unwrap();
    let registry = shape.workspace().join("registry").canonicalize().unwrap();
    put(
        "home/.cargo/config.toml",
        &format!(
            "[source.crates-io]\nreplace-with = \"local\"\n[source.local]\nlocal-registry = {:?}\n",
            registry.display().to_string()
        ),
    );
    put("home/.cargo/credentials.toml", "the owner's token");
    put("home/.cargo/kept/old", "old");
    put("home/.npm/_cacache/kept", "old");
    put("home/.cache/pip/kept", "old");
    put("home/.gitconfig", "[user]\nname = Ada\nemail = ada@example.com\n");
    put(
        "workspace/package.json",
        r#"{"name":"app","version":"1.0.0","dependencies":{"dep":"file:dep.tgz"}}"#,
    );
    put("workspace/package-lock.json", LOCK);
    put(
        "workspace/app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ndep = \"0.1\"\n[workspace]\n",
    );
    put("workspace/app/src/main.rs", "fn main() { assert_eq!(dep::answer(), 42); }\n");
    let init = Command::new("git").args(["init", "-q"]).current_dir(shape.workspace()).status().unwrap();
    assert!(init.success());
    Some(shape)
}

/// Every path below the caches of the home, with its mode, its time and its bytes.
fn caches(shape: &RealShape) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    fn collect(path: &Path, found: &mut BTreeMap<PathBuf, (u32, i64, Vec<u8>)>) {
        let about = path.symlink_metadata().unwrap();
        let bytes = if about.is_file() { fs::read(path).unwrap() } else { Vec::new() };
        found.insert(path.to_owned(), (about.permissions().mode(), about.mtime_nsec(), bytes));
        if about.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                collect(&entry.unwrap().path(), found);
            }
        }
    }
    let mut found = BTreeMap::new();
    for folder in [".cargo", ".npm", ".cache/pip"] {
        collect(&shape.at("home").join(folder), &mut found);
    }
    found
}

/// Runs with these checks, all of which must pass.
fn builds(shape: &RealShape, checks: &[&str]) -> Ended {
    let mut args = vec!["--max-resumes", "0"];
    args.extend(checks.iter().flat_map(|check| ["--check", check]));
    args.push("Do it.");
    let ended = shape.run(&args, DECLARES);
    let outcome = ended.outcome();
    let failed = outcome["checks"].as_array().unwrap().iter().filter(|check| check["passed"] != true);
    assert_eq!(failed.collect::<Vec<&Value>>(), Vec::<&Value>::new());
    ended.ends("completed", 0);
    ended
}

/// With the tools of this machine's Rust toolchain on the `PATH`: those of rustup would look for it in the home.
fn with_cargo(shape: RealShape) -> RealShape {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap().stdout;
    let sysroot = String::from_utf8(sysroot).unwrap();
    shape.variable("PATH", format!("{}/bin:/usr/bin:/bin", sysroot.trim()))
}

/// In the order of a run: a later process finds what an earlier one wrote, and so does a later run.
fn layers_take_what_builds_write(shape: Option<RealShape>, more: &[&str]) {
    let Some(shape) = with_caches(shape, "namespace") else { return };
    let shape = if more.is_empty() { shape } else { with_cargo(shape) };
    // Ostler gives the files to the user first.
    drop(shape.ostler(&["--version"]));
    let before = caches(&shape);
    let layered = "test -z \"$CARGO_HOME$npm_config_cache$PIP_CACHE_DIR\" && cat ~/.cargo/kept/old ~/.npm/_cacache/kept";
    let write = "echo new > ~/.cargo/kept/old && rm ~/.npm/_cacache/kept && echo x > ~/.cache/pip/new";
    let written = "test \"$(cat ~/.cargo/kept/old)\" = new && test ! -e ~/.npm/_cacache/kept && test -e ~/.cache/pip/new";
    let hidden = "! grep -r token ~/.cargo/credentials.toml";
    builds(&shape, &[&[layered, hidden, NPM, PIP, GIT, write, written][..], more].concat());
    assert_eq!(caches(&shape), before);
    let warm = "rm -rf node_modules site app/target";
    builds(&shape, &[&[written, warm, NPM, PIP][..], more].concat());
    assert_eq!(caches(&shape), before);
    // Nothing of the next project's: layers are private.
    let other = shape.in_folder("other");
    builds(&other, &[layered]);
    assert_eq!(other.names("ostler/layers").len(), 2);
    let pruned = other.ostler(&["runs", "prune", "--older-than", "30d", "--json"]).output().unwrap();
    let pruned: Value = serde_json::from_slice(&pruned.stdout).unwrap();
    assert_eq!(pruned["layers"].as_array().unwrap().len(), 1, "the renamed workspace is gone: {pruned}");
    assert_eq!(other.names("ostler/layers").len(), 1);
}

#[test]
fn layers_take_what_builds_of_a_plain_user_write() {
    layers_take_what_builds_write(RealShape::unprivileged(Player::Codex), &[]);
}

#[test]
fn layers_take_what_builds_of_the_current_user_write() {
    layers_take_what_builds_write(RealShape::of(Player::Codex), &[CARGO]);
}

/// Variables have the toolchains write to the run's own directory.
fn builds_without_layers(shape: RealShape) {
    let shape = with_cargo(shape);
    drop(shape.ostler(&["--version"]));
    let before = caches(&shape);
    let moved = "test -n \"$CARGO_HOME\" && test -n \"$npm_config_cache\" && cat ~/.cargo/kept/old";
    let closed = "! echo new > ~/.cargo/kept/old";
    let cargo = "cp ~/.cargo/config.toml $CARGO_HOME && cargo build --offline --manifest-path app/Cargo.toml";
    builds(&shape, &[moved, closed, NPM, PIP, GIT, cargo]);
    assert_eq!(caches(&shape), before);
}

#[test]
fn builds_work_behind_landlock() {
    let Some(shape) = with_caches(RealShape::of(Player::Codex), "landlock") else { return };
    builds_without_layers(shape);
}

#[test]
fn builds_work_where_layers_cannot_be_mounted() {
    let Some(shape) = with_caches(RealShape::of(Player::Codex), "namespace") else { return };
    // The kernel takes no path of more than 255 bytes for a layer.
    let deep = shape.at("ostler").join("d".repeat(200));
    fs::create_dir(&deep).unwrap();
    fs::copy(shape.at("ostler/config.toml"), deep.join("config.toml")).unwrap();
    let deep = deep.display().to_string();
    builds_without_layers(shape.variable("OSTLER_HOME", deep));
}
