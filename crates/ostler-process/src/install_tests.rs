use std::os::unix::fs::PermissionsExt as _;

use ostler_agent::agents::CODEX;

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

    /// `script` sees the version in `$version` and the tree in `$tree`.
    fn order(&self, name: &str, version: &str, script: &str) -> Order {
        let npm = self.0.path().join(name);
        let given =
            "for word; do case $word in @openai/codex@*) version=${word##*@};; esac; done\ntree=$PWD\n";
        write_script(&npm, &format!("#!/bin/sh\n{given}{script}\n"));
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
        "codex/0.1.0/program",
        "codex/0.2.0",
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
    assert_eq!(ground.left(), ["codex", "codex/0.1.0", "codex/0.1.0/program", "codex/current"]);
}

#[tokio::test]
async fn what_is_installed_and_does_not_start_is_replaced() {
    let ground = Ground::new();
    let installed = run(&ground.order("npm", "0.1.0", &good())).await.unwrap();
    write_script(&installed.program, "#!/bin/sh\nexit 1\n");
    let again = run(&ground.order("npm", "0.1.0", &good())).await.unwrap();
    assert_eq!(again.change, Change::Installed);
    assert_eq!(probe::version(&CODEX, &again.program, &ground.place()).await.unwrap(), "0.1.0");
    assert_eq!(ground.left(), ["codex", "codex/0.1.0", "codex/0.1.0/program", "codex/current"]);
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
