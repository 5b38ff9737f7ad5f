//! npm as a child: what it is asked, and what its complaints mean.

use std::env::consts::{ARCH, OS};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use ostler_agent::package::lock::Project;
use ostler_agent::package::{Package, is_exact};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::capture::{Captured, capture};
use crate::install::error::InstallError;
use crate::install::integrity::{TrustedLock, is_installed};
use crate::install::workshop::{Workshop, create_private};
use crate::locate::{executable, native_in, on_path};

/// After how long npm gives up a connection on which nothing moves.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How often npm tries again, and how long it waits before: enough for a hiccup, little enough that no network is
/// told in seconds (npm's own settings take minutes).
const RETRIES: &str = "--fetch-retries=1";
const RETRY_WAIT: [&str; 2] = ["--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=1000"];

/// No scripts of packages, all platforms' packages, and nothing that asks the registry for more.
const QUIETLY: [&str; 4] = ["--ignore-scripts", "--include=optional", "--no-audit", "--no-fund"];

/// How long the question for a version or its hashes may take.
const RESOLVE_LIMIT: Duration = Duration::from_secs(60);

/// How much of npm's words is kept in a message: three hashes, and what npm says of them.
const SUMMARY_CHARS: usize = 500;

/// npm's code for a tarball that has another hash than its lock says, and for a package for another platform.
const OTHER_HASH: &str = "EINTEGRITY";
const OTHER_PLATFORM: &str = "EBADPLATFORM";

/// A shell's exit code for a program that it did not find: here Node.js, by `env node`.
const NOT_FOUND: i32 = 127;

/// An npm that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Npm(PathBuf);

/// What npm said went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// npm's own code: `ENOTFOUND`, `E404`. Empty if it gave none.
    pub code: String,
    /// npm's own words, on one line.
    pub summary: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code.as_str() {
            "" => write!(out, "npm says: {}", self.summary),
            code => write!(out, "npm says {code}: {}", self.summary),
        }
    }
}

impl std::error::Error for Complaint {}

impl Npm {
    /// The configured one, else the one on `PATH`.
    pub fn find(configured: Option<&Path>, path: Option<&OsStr>) -> Result<Self, InstallError> {
        let found = match configured {
            Some(npm) => executable(npm).map(|_| npm.to_owned()),
            None => on_path("npm", path),
        };
        found.map(Self).ok_or_else(|| InstallError::NoNpm { configured: configured.map(Path::to_owned) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The exact version that a tag or the beginning of a version means today.
    pub(super) async fn resolve(
        &self,
        package: &'static Package,
        wanted: &str,
        workshop: &Workshop,
    ) -> Result<String, InstallError> {
        let mut command = self.command(&workshop.tree());
        command.arg("view").arg(format!("{}@{wanted}", package.npm)).arg("version").stdin(Stdio::null());
        let captured = self.answer(&mut command).await?;
        if !captured.status.success() {
            return Err(failure(package, wanted, Path::new(""), complaint(&captured)));
        }
        newest(&captured.stdout).ok_or_else(|| {
            let summary = "it knows no such version".to_owned();
            let source = Complaint { code: String::new(), summary };
            InstallError::NoSuchVersion { package: package.npm, version: wanted.to_owned(), source }
        })
    }

    /// npm's lock of that version: its packages, with the hashes that the registry announces. Nothing is unpacked.
    pub(super) async fn lock(
        &self,
        package: &'static Package,
        version: &str,
        workshop: &Workshop,
    ) -> Result<String, InstallError> {
        let tree = workshop.tree();
        let manifest = json!({"private": true, "dependencies": { package.npm: version }});
        write(&tree.join("package.json"), &format!("{manifest:#}\n"))?;
        let mut command = self.command(&tree);
        command
            .args(["install", "--package-lock-only", "--package-lock", "--lockfile-version=3"])
            .args(QUIETLY);
        command.stdin(workshop.share_lock()?);
        let captured = self.answer(&mut command).await?;
        if !captured.status.success() {
            return Err(failure(package, version, workshop.destination(), complaint(&captured)));
        }
        let lock = tree.join("package-lock.json");
        fs::read_to_string(&lock).map_err(|source| InstallError::Folder {
            action: "read",
            path: lock,
            source,
        })
    }

    /// Fills the workshop's tree with what is in the lock, without running any script. npm compares the hash of each
    /// package before it unpacks it.
    pub(super) async fn fetch(
        &self,
        package: &'static Package,
        version: &str,
        trusted: &TrustedLock,
        workshop: &Workshop,
    ) -> Result<(), InstallError> {
        let tree = workshop.tree();
        let lock = trusted.lock.for_platform(OS, ARCH);
        let meaning = |source: Complaint| match trusted.lock.mismatch_in(&source.summary) {
            Some(mismatch) if source.code == OTHER_HASH => trusted.refuse(mismatch),
            _ => failure(package, version, workshop.destination(), source),
        };
        if let Err(source) = self.install(&lock.project(), &tree, workshop).await? {
            return Err(meaning(source));
        }
        match installed_version(&tree, package) {
            Some(found) if found == version => {}
            found => {
                let summary = format!("it brought {}", found.unwrap_or_else(|| "nothing".to_owned()));
                let source = Complaint { code: String::new(), summary };
                return Err(InstallError::NoSuchVersion {
                    package: package.npm,
                    version: version.to_owned(),
                    source,
                });
            }
        }
        let has_native = !native_in(package, &tree.join("node_modules")).is_empty();
        for place in lock.left_out(|place| is_installed(&tree, place)) {
            let Some(project) = lock.project_of(place) else { continue };
            let Err(source) = self.install(&project, &workshop.trial(), workshop).await? else { continue };
            match source.code.as_str() {
                OTHER_PLATFORM => {}
                // The next candidate will do, if this one cannot be had; but not if it is another one than it should be.
                OTHER_HASH => return Err(meaning(source)),
                _ if !has_native => return Err(meaning(source)),
                _ => tracing::warn!(%source, place, "npm left out an optional package"),
            }
        }
        for name in ["package.json", "package-lock.json"] {
            let path = tree.join(name);
            fs::remove_file(&path).map_err(|source| InstallError::Folder {
                action: "remove",
                path,
                source,
            })?;
        }
        Ok(())
    }

    /// Installs a project into a folder, by its lock alone. What npm complains about is for the caller to judge.
    async fn install(
        &self,
        project: &Project,
        folder: &Path,
        workshop: &Workshop,
    ) -> Result<Result<(), Complaint>, InstallError> {
        create_private(folder)?;
        write(&folder.join("package.json"), &project.manifest)?;
        write(&folder.join("package-lock.json"), &project.lock)?;
        let mut command = self.command(folder);
        command.arg("ci").args(QUIETLY);
        // An empty file; it holds the workshop's lock for as long as npm lives, should we be killed before.
        command.stdin(workshop.share_lock()?);
        let captured = self.run(&mut command).await?;
        Ok(if captured.status.success() { Ok(()) } else { Err(complaint(&captured)) })
    }

    /// The user's own environment and settings: that is where registry, proxy and certificates are. But npm starts in a
    /// folder of ours, and takes it for the project: an `.npmrc` or `package.json` of the current folder is not read.
    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.0);
        command.args(["--json", "--no-update-notifier", "--no-progress", RETRIES]).args(RETRY_WAIT);
        command.arg(format!("--fetch-timeout={}", IDLE_TIMEOUT.as_millis()));
        command.args(["--global=false", "--prefix"]).arg(folder).current_dir(folder);
        command
    }

    /// The answer to a question that needs little of the network.
    async fn answer(&self, command: &mut Command) -> Result<Captured, InstallError> {
        let asked = tokio::time::timeout(RESOLVE_LIMIT, self.run(command)).await;
        asked.map_err(|_| InstallError::Stalled { quiet: RESOLVE_LIMIT })?
    }

    async fn run(&self, command: &mut Command) -> Result<Captured, InstallError> {
        let captured = capture(command)
            .await
            .map_err(|source| InstallError::NpmDoesNotStart { npm: self.0.clone(), source })?;
        tracing::debug!(status = %captured.status, stderr = %captured.stderr, "npm ended");
        match captured.status.code() {
            Some(NOT_FOUND) => Err(InstallError::NoNode { npm: self.0.clone() }),
            _ => Ok(captured),
        }
    }
}

/// npm answers with one version, or, for the beginning of a version, with all that fit, the newest last.
fn newest(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let version = match &answer {
        Value::Array(versions) => versions.last()?.as_str()?,
        single => single.as_str()?,
    };
    // It becomes the name of a folder.
    is_exact(version).then(|| version.to_owned())
}

fn write(path: &Path, text: &str) -> Result<(), InstallError> {
    fs::write(path, text).map_err(|source| InstallError::Folder {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

fn installed_version(tree: &Path, package: &Package) -> Option<String> {
    let manifest = tree.join("node_modules").join(package.npm).join("package.json");
    let manifest: Value = serde_json::from_str(&fs::read_to_string(manifest).ok()?).ok()?;
    manifest["version"].as_str().map(str::to_owned)
}

/// With `--json`, npm reports an error as `{"error": {"code", "summary"}}` on stdout; if it is too broken for that,
/// its words on stderr have to do.
fn complaint(captured: &Captured) -> Complaint {
    let report: Value = serde_json::from_str(&captured.stdout).unwrap_or_default();
    let error = &report["error"];
    let said = |name: &str| error[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    let prefixed = |prefix: &str| {
        captured.stderr.lines().find_map(|line| {
            line.strip_prefix("npm error ").or(line.strip_prefix("npm ERR! "))?.strip_prefix(prefix)
        })
    };
    let code = said("code").or_else(|| prefixed("code ")).unwrap_or_default().trim().to_owned();
    let summary = said("summary").or_else(|| prefixed("")).or_else(|| captured.stderr.lines().last());
    let summary = match summary {
        Some(text) => one_line(text),
        None => format!("nothing; it ended with {}", captured.status),
    };
    Complaint { code, summary }
}

fn one_line(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    joined.chars().take(SUMMARY_CHARS).collect()
}

/// What a complaint means, by npm's own code.
fn failure(package: &'static Package, version: &str, folder: &Path, source: Complaint) -> InstallError {
    let package = package.npm;
    match source.code.as_str() {
        "ENOTFOUND" | "EAI_AGAIN" | "ECONNREFUSED" | "ECONNRESET" | "ETIMEDOUT" | "ENETUNREACH"
        | "EHOSTUNREACH" | "ENETDOWN" | "ENOTCACHED" | "ERR_SOCKET_TIMEOUT" | "EIDLETIMEOUT"
        | "ECONNECTIONTIMEOUT" | "ERESPONSETIMEOUT" | "ETRANSFERTIMEOUT" | "FETCH_ERROR" => {
            InstallError::Offline { source }
        }
        "SELF_SIGNED_CERT_IN_CHAIN"
        | "DEPTH_ZERO_SELF_SIGNED_CERT"
        | "UNABLE_TO_VERIFY_LEAF_SIGNATURE"
        | "UNABLE_TO_GET_ISSUER_CERT"
        | "UNABLE_TO_GET_ISSUER_CERT_LOCALLY"
        | "CERT_UNTRUSTED"
        | "CERT_REJECTED"
        | "CERT_SIGNATURE_FAILURE"
        | "CERT_NOT_YET_VALID"
        | "CERT_HAS_EXPIRED"
        | "ERR_TLS_CERT_ALTNAME_INVALID" => InstallError::Certificate { source },
        "E404" | "ETARGET" => InstallError::NoSuchVersion { package, version: version.to_owned(), source },
        "ENOSPC" | "EDQUOT" => InstallError::NoSpace { folder: folder.to_owned(), source: Some(source) },
        "EACCES" | "EPERM" | "EROFS" => InstallError::Denied { source },
        _ => InstallError::Npm { package, source },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use ostler_agent::agents::CODEX;

    use super::*;

    fn ended(stdout: &str, stderr: &str) -> Captured {
        let status = ExitStatus::from_raw(1 << 8);
        Captured { status, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
    }

    #[test]
    fn npms_code_is_found_in_its_report_or_in_its_words() {
        let table = [
            (r#"{"error": {"code": "E404", "summary": "no\n match"}}"#, "", "E404", "no match"),
            ("", "npm warn x\nnpm error code EAI_AGAIN\nnpm error y", "EAI_AGAIN", "code EAI_AGAIN"),
            ("", "npm ERR! code ENOSPC", "ENOSPC", "code ENOSPC"),
            ("{}", "something\nelse", "", "else"),
            ("not json", "", "", "nothing; it ended with exit status: 1"),
        ];
        for (stdout, stderr, code, summary) in table {
            let want = Complaint { code: code.to_owned(), summary: summary.to_owned() };
            assert_eq!(complaint(&ended(stdout, stderr)), want, "{stdout}{stderr}");
        }
    }

    #[test]
    fn each_code_has_a_meaning() {
        let meaning = |code: &str| {
            let source = Complaint { code: code.to_owned(), summary: String::new() };
            failure(&CODEX, "1.0.0", Path::new("/home"), source).to_string()
        };
        let table = [
            ("ENOTFOUND", "npm cannot reach its registry"),
            ("ETIMEDOUT", "npm cannot reach its registry"),
            ("SELF_SIGNED_CERT_IN_CHAIN", "npm does not trust the certificate of its registry"),
            ("UNABLE_TO_VERIFY_LEAF_SIGNATURE", "npm does not trust the certificate of its registry"),
            ("ETARGET", "there is no `@openai/codex` in version `1.0.0`"),
            ("ENOSPC", "no space left to install into /home"),
            ("EROFS", "npm was denied access"),
            ("EUSAGE", "npm could not install `@openai/codex`"),
        ];
        for (code, want) in table {
            assert_eq!(meaning(code), want, "{code}");
        }
    }

    #[test]
    fn the_newest_of_several_versions_is_taken_and_only_a_version() {
        let table = [
            ("\"1.2.3\"", Some("1.2.3")),
            ("[\"1.2.3\", \"1.2.4\"]", Some("1.2.4")),
            ("\"../../etc\"", None),
            ("[]", None),
            ("", None),
        ];
        for (answer, want) in table {
            assert_eq!(newest(answer).as_deref(), want, "{answer}");
        }
    }
}
