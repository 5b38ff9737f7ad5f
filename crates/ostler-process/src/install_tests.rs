use std::os::unix::fs::PermissionsExt as _;

use ostler_agent::agents::{CODEX, OPENCODE};
use ostler_agent::package::lock::PackageLock;

use super::*;
use crate::scripts::write_script;

/// How long an install may take: none of these does more than start a few shells.
const DEADLINE: Duration = Duration::from_secs(60);

/// A folder for agents, and an npm that is a shell script.
struct Ground(tempfile::TempDir);

impl Ground {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn agents(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("home/agents")
    }

    fn place(&self) -> Place {
        Place { homes: self.0.path().join("probes"), guard: None }
    }

    /// `script` sees the version in `$version` and the tree in `$tree`. Hashes are announced before it is asked.
    fn order(&self, name: &str, version: &str, script: &str) -> Order {
        let npm = self.0.path().join(name);
        write_script(&npm, &format!("#!/bin/sh\n{}{script}\n", announcing(&hash('A'))));
        Order {
            package: &CODEX,
            wanted: Wanted::parse(version).unwrap(),
            agents: self.agents(),
            npm: Npm::find(Some(&npm), None).unwrap(),
            place: self.place(),
        }
    }

    /// Everything below the folder for agents that is not a lock or inside a `node_modules`, sorted.
    fn left(&self) -> Vec<String> {
        fn walk(folder: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if name != "node_modules" && name != ".lock" {
                    found.push(entry.path().strip_prefix(root).unwrap().display().to_string());
                    if entry.metadata().unwrap().is_dir() {
                        walk(&entry.path(), root, found);
                    }
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.agents(), &self.agents(), &mut found);
        found.sort();
        found
    }
}

/// A hash that looks like one.
fn hash(letter: char) -> String {
    format!("sha512-{}==", letter.to_string().repeat(86))
}

/// What npm does when it is asked for a lock: the registry announces that hash.
fn announcing(hash: &str) -> String {
    let script = r#"
        version=$(sed -n 's/.*"@openai\/codex": "\(.*\)".*/\1/p' package.json 2> /dev/null)
        tree=$PWD
        case " $* " in *' --package-lock-only '*)
            entry="{\"version\": \"$version\", \"integrity\": \"HASH\"}"
            echo "{\"packages\": {\"node_modules/@openai/codex\": $entry}}" > package-lock.json
            exit;;
        esac
    "#;
    script.replace("HASH", hash)
}

/// What a good npm does: a manifest, and a native program that prints its version.
fn good() -> String {
    let native = CODEX.native_paths(std::env::consts::OS, std::env::consts::ARCH).remove(0);
    let script = r#"
        case " $* " in *' view '*) echo '"0.9.9"'; exit;; esac
        program="node_modules/NATIVE"
        mkdir -p node_modules/@openai/codex "$(dirname "$program")"
        echo "{\"version\": \"$version\"}" > node_modules/@openai/codex/package.json
        printf '#!/bin/sh\necho codex-cli %s\n' "$version" > "$program"
        chmod 755 "$program"
    "#;
    script.replace("NATIVE", &native.display().to_string())
}

/// What is there after the install of one version.
const ONE: [&str; 5] =
    ["codex", "codex/0.1.0", "codex/0.1.0.lock.json", "codex/0.1.0/program", "codex/current"];

async fn run(order: &Order) -> Result<Installation, InstallError> {
    within(install(order, &mut |_| {})).await
}

/// Past the deadline the work is dropped, which ends whatever it started.
async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.expect("to be done in time")
}

#[tokio::test]
async fn a_version_is_installed_once_and_made_current() {
    let ground = Ground::new();
    let installed = run(&ground.order("npm", "0.1.0", &good())).await.unwrap();
    assert_eq!((installed.version.as_str(), installed.change), ("0.1.0", Change::Installed));
    assert_eq!(installed_program(&ground.agents(), &CODEX), Some(installed.program));
    let again = run(&ground.order("npm", "0.1.0", "exit 1")).await.unwrap();
    assert_eq!(again.change, Change::None);
    run(&ground.order("npm", "0.2.0", &good())).await.unwrap();
    let back = run(&ground.order("npm", "0.1.0", "exit 1")).await.unwrap();
    assert_eq!(back.change, Change::Switched);
    let want = [
        "codex",
        "codex/0.1.0",
        "codex/0.1.0.lock.json",
        "codex/0.1.0/program",
        "codex/0.2.0",
        "codex/0.2.0.lock.json",
        "codex/0.2.0/program",
        "codex/current",
    ];
    assert_eq!(ground.left(), want);
    let mode = fs::metadata(ground.agents()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn a_tag_is_resolved_first() {
    let ground = Ground::new();
    let mut steps = Vec::new();
    let order = ground.order("npm", "latest", &good());
    let installed = within(install(&order, &mut |step| steps.push(step))).await.unwrap();
    assert_eq!(installed.version, "0.9.9");
    assert_eq!(steps.first(), Some(&Step::Resolving));
    assert_eq!(steps.last(), Some(&Step::Verifying));
}

#[tokio::test]
async fn two_installs_of_one_version_at_once_both_end_well() {
    let ground = Ground::new();
    // A pipe is opened only when both ends are, so that each waits until the other has begun and they do overlap.
    let pipe = ground.0.path().join("meet");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let meet = |direction: &str| format!(": {direction} '{}'\n{}", pipe.display(), good());
    let (left, right) =
        (ground.order("npm-left", "0.1.0", &meet("<")), ground.order("npm-right", "0.1.0", &meet(">")));
    let (left, right) = tokio::join!(run(&left), run(&right));
    assert_eq!(left.unwrap().program, right.unwrap().program);
    assert_eq!(ground.left(), ONE);
}

#[tokio::test]
async fn what_is_installed_and_does_not_start_is_replaced() {
    let ground = Ground::new();
    let installed = run(&ground.order("npm", "0.1.0", &good())).await.unwrap();
    write_script(&installed.program, "#!/bin/sh\nexit 1\n");
    let again = run(&ground.order("npm", "0.1.0", &good())).await.unwrap();
    assert_eq!(again.change, Change::Installed);
    assert_eq!(probe::version(&CODEX, &again.program, &ground.place()).await.unwrap(), "0.1.0");
    assert_eq!(ground.left(), ONE);
}

/// What npm was started with, and where: each call a line.
fn logged(ground: &Ground, script: &str) -> (String, PathBuf) {
    let log = ground.0.path().join("log");
    (format!("echo \"$PWD $(pwd -P) $*\" >> '{}'\n{script}", log.display()), log)
}

#[tokio::test]
async fn npm_starts_in_a_folder_of_ours_and_takes_it_for_the_project() {
    let ground = Ground::new();
    let mut order = ground.order("npm", "latest", "");
    let (script, log) = logged(&ground, &format!("{}{}", announcing(&hash('A')), good()));
    let npm = ground.0.path().join("npm-logging");
    write_script(&npm, &format!("#!/bin/sh\n{script}"));
    order.npm = Npm::find(Some(&npm), None).unwrap();
    run(&order).await.unwrap();
    let log = fs::read_to_string(log).unwrap();
    let ours = ground.agents().join(".installing-").display().to_string();
    for line in log.lines() {
        let mut words = line.split(' ');
        let (pwd, real) = (words.next().unwrap(), words.next().unwrap());
        assert!(pwd == real && pwd.starts_with(&ours), "{line}");
        assert!(line.contains(&format!(" --prefix {pwd}")), "{line}");
        assert!(line.contains(" view ") || line.contains(" --ignore-scripts"), "{line}");
    }
    let asked = |word: &str| log.lines().filter(|line| line.contains(word)).count();
    assert_eq!(
        (asked(" view "), asked(" --package-lock-only "), asked(" ci "), log.lines().count()),
        (1, 1, 1, 3)
    );
}

#[tokio::test]
async fn the_hashes_of_a_first_install_are_recorded_and_required() {
    let ground = Ground::new();
    let first = run(&ground.order("npm", "0.1.0", &good())).await.unwrap();
    let record = ground.agents().join("codex/0.1.0.lock.json");
    let packages = vec![("@openai/codex".to_owned(), hash('A'))];
    let integrity = |source| Some(Integrity { source, packages: packages.clone() });
    assert_eq!(first.integrity, integrity(HashSource::Registry { record: record.clone() }));
    // The registry is not asked again, and npm is held to what was recorded.
    fs::remove_dir_all(ground.agents().join("codex/0.1.0")).unwrap();
    let (script, log) =
        logged(&ground, &format!("grep -q '{}' package-lock.json || exit 3\n{}", hash('A'), good()));
    let again = run(&ground.order("npm", "0.1.0", &script)).await.unwrap();
    assert_eq!(again.integrity, integrity(HashSource::Recorded { record: record.clone() }));
    assert_eq!(fs::read_to_string(log).unwrap().lines().count(), 1);
    // It says so if something else comes.
    fs::remove_dir_all(ground.agents().join("codex/0.1.0")).unwrap();
    let complaint = format!("wanted {} but got {}.", hash('A'), hash('B'));
    let other = format!(
        "mkdir -p node_modules/half; echo '{{\"error\": {{\"code\": \"EINTEGRITY\", \"summary\": \"{complaint}\"}}}}'; exit 1"
    );
    let error = run(&ground.order("npm", "0.1.0", &other)).await.unwrap_err();
    let want =
        format!("`@openai/codex` 0.1.0 is refused: its hash should be {} and is {}", hash('A'), hash('B'));
    assert_eq!(error.to_string(), want);
    assert!(error.hint().unwrap().contains(&format!("remove {} and install again", record.display())));
    assert_eq!(ground.left(), ["codex", "codex/0.1.0.lock.json", "codex/current"]);
}

#[tokio::test]
async fn of_two_first_installs_at_once_with_different_hashes_one_is_refused() {
    let ground = Ground::new();
    let pipe = ground.0.path().join("meet");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let meet = |direction: &str| format!(": {direction} '{}'\n{}", pipe.display(), good());
    let left = ground.order("npm-left", "0.1.0", &meet("<"));
    let right = ground.order("npm-right", "0.1.0", "");
    let script = format!("#!/bin/sh\n{}{}", announcing(&hash('B')), meet(">"));
    write_script(&ground.0.path().join("npm-right"), &script);
    let (left, right) = tokio::join!(run(&left), run(&right));
    let (accepted, refused) = if left.is_ok() { (left, right) } else { (right, left) };
    let kept = accepted.unwrap().integrity.unwrap().packages[0].1.clone();
    let InstallError::Integrity { mismatch, .. } = refused.unwrap_err() else { panic!("another error") };
    assert_eq!(mismatch.expected, kept);
    assert_eq!(ground.left(), ONE);
}

/// OpenCode's native packages are not pinned for every platform, so the registry is asked.
#[tokio::test]
async fn what_the_registry_announces_is_held_to_the_pins_that_there_are() {
    let pinned = PackageLock::pinned(&OPENCODE, OPENCODE.verified).unwrap();
    let pin = pinned.hash_of(OPENCODE.npm).unwrap();
    let native = OPENCODE.native_paths(std::env::consts::OS, std::env::consts::ARCH).remove(0);
    let codex = CODEX.native_paths(std::env::consts::OS, std::env::consts::ARCH).remove(0);
    let script = good()
        .replace(&codex.display().to_string(), &native.display().to_string())
        .replace("@openai/codex", OPENCODE.npm)
        .replace("codex-cli ", "");
    let ordered = |ground: &Ground, hash: &str| {
        let announced =
            announcing(hash).replace("@openai\\/codex", OPENCODE.npm).replace("@openai/codex", OPENCODE.npm);
        let order = ground.order("npm", OPENCODE.verified, "");
        write_script(&ground.0.path().join("npm"), &format!("#!/bin/sh\n{announced}{script}"));
        Order { package: &OPENCODE, ..order }
    };
    let ground = Ground::new();
    let installed = run(&ordered(&ground, pin)).await.unwrap();
    let packages = vec![(OPENCODE.npm.to_owned(), pin.to_owned())];
    assert_eq!(installed.integrity, Some(Integrity { source: HashSource::Pinned, packages }));
    let version = format!("opencode/{}", OPENCODE.verified);
    assert_eq!(ground.left(), ["opencode", &version, &format!("{version}/program"), "opencode/current"]);
    let ground = Ground::new();
    let error = run(&ordered(&ground, &hash('B'))).await.unwrap_err();
    let InstallError::Integrity { mismatch, expected_by } = error else { panic!("{error}") };
    assert_eq!((mismatch.expected.as_str(), mismatch.received), (pin, hash('B')));
    assert_eq!(expected_by, HashSource::Pinned);
    assert_eq!(ground.left(), Vec::<String>::new());
}

#[tokio::test]
async fn a_record_or_lock_that_cannot_be_used_is_refused() {
    let ground = Ground::new();
    let announced = |integrity: &str| {
        let script = announcing(integrity);
        let npm = ground.0.path().join("npm");
        let order = ground.order("npm", "0.1.0", "");
        write_script(&npm, &format!("#!/bin/sh\n{script}{}", good()));
        order
    };
    let error = run(&announced("sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=")).await.unwrap_err();
    assert_eq!(error.to_string(), "`@openai/codex` cannot be verified by what the registry says of it");
    assert!(error.hint().unwrap().contains("sha512"), "{:?}", error.hint());
    assert_eq!(ground.left(), Vec::<String>::new());
    let record = ground.agents().join("codex/0.1.0.lock.json");
    fs::create_dir_all(record.parent().unwrap()).unwrap();
    fs::write(&record, "{").unwrap();
    let error = run(&announced(&hash('A'))).await.unwrap_err();
    assert!(error.to_string().starts_with("the recorded hashes in "), "{error}");
    assert_eq!(ground.left(), ["codex", "codex/0.1.0.lock.json"]);
}

#[tokio::test]
async fn a_failure_leaves_nothing() {
    let half = "mkdir -p node_modules/x; echo half > node_modules/x/y\n";
    let say = |code: &str| {
        format!("{half}echo '{{\"error\": {{\"code\": \"{code}\", \"summary\": \"s\"}}}}'; exit 1")
    };
    let table = [
        (say("EAI_AGAIN"), "npm cannot reach its registry"),
        (say("E404"), "there is no `@openai/codex` in version `0.1.0`"),
        (say("ENOSPC"), "no space left to install into "),
        (format!("{half}exit 127"), "npm ("),
        (format!("{half}exit 0"), "there is no `@openai/codex` in version `0.1.0`"),
        (
            good().replace("echo codex-cli %s", "exit 9 #"),
            "what npm installed as `@openai/codex` does not start",
        ),
        (good().replace("chmod 755", "rm"), "npm installed `@openai/codex` without its native program"),
    ];
    for (script, want) in table {
        let ground = Ground::new();
        let error = run(&ground.order("npm", "0.1.0", &script)).await.unwrap_err();
        assert!(error.to_string().starts_with(want), "{error}");
        assert_eq!(ground.left(), Vec::<String>::new(), "{want}");
    }
}

#[tokio::test]
async fn a_cancelled_install_leaves_neither_files_nor_processes() {
    let ground = Ground::new();
    let pid_file = ground.0.path().join("pid");
    let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", pid_file.display());
    let order = ground.order("npm", "0.1.0", &script);
    let begun = async {
        while !pid_file.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        done = run(&order) => panic!("{done:?}"),
        () = begun => {}
    }
    assert_eq!(ground.left(), Vec::<String>::new());
    let pid = fs::read_to_string(&pid_file).unwrap();
    let gone = async {
        // Its parent is whoever takes orphans here; until that looks, it is a zombie without a command line.
        while !fs::read(Path::new("/proc").join(pid.trim()).join("cmdline")).unwrap_or_default().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
}

#[test]
fn only_versions_and_tags_may_be_asked_for() {
    let fine = ["1.2.3", "0.167.0-alpha.3", "latest", "1.2", "2"];
    let refused = ["", "-g", "file:/tmp/x", "git+https://x/y", "../x", "1.2.3 || 2", ">1", "a b"];
    assert!(fine.iter().all(|text| Wanted::parse(text).is_ok()));
    assert!(refused.iter().all(|text| Wanted::parse(text).is_err()));
}
