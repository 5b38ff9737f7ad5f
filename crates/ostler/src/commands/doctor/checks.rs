//! What the doctor looks at. Each check reads only, and says only what it saw.

use std::path::Path;

use ostler_agent::agents::AGENTS;
use ostler_agent::package::Standing;
use ostler_process::host::{self, Cgroup2, UserNamespaces};
use ostler_process::install::Npm;
use ostler_process::locate::{Form, LocateError, Origin, on_path};
use ostler_process::probe;

use super::{Finding, Status};
use crate::config::{PROJECT_CONFIG, Settings, Trust, project_file, project_of};
use crate::display::{short, with_causes};
use crate::failure::Failure;
use crate::log;
use crate::programs::{Sighting, place, survey};
use crate::surroundings::Surroundings;

/// Less free space than this is worth a note: an agent takes up to 500 MB, and npm's cache half of that again.
const LITTLE_SPACE_BYTES: u64 = 2_000_000_000;

const MOVE_HOME: &str = "set OSTLER_HOME to a folder that you can write to";

/// All checks, in the order of their lines.
pub(super) async fn all(here: &Surroundings) -> Result<Vec<Finding>, Failure> {
    let mut findings = vec![home(here)];
    let settings = config(here, &mut findings)?;
    let sightings = survey(AGENTS, &settings, here).await?;
    findings.extend(sightings.iter().map(|sighting| agent(sighting, &settings)));
    findings.push(npm(&settings, here).await);
    findings.push(tool("node", "needed by npm", "install Node.js, which brings npm too", here).await);
    findings.push(tool("git", "used by agents", "install git by your system's package manager", here).await);
    if cfg!(target_os = "linux") {
        findings.extend(kernel());
    }
    #[cfg(target_os = "linux")]
    findings.push(super::walls::find_walls().await);
    Ok(findings)
}

fn home(here: &Surroundings) -> Finding {
    let root = here.home.root();
    let shown = short(root);
    if let Err(error) = here.home.check_format() {
        let finding = Finding::new("home", Status::Broken, with_causes(&error));
        return match error.hint() {
            Some(hint) => finding.with_remedy(hint),
            None => finding,
        };
    }
    let Some(existing) = root.ancestors().find(|folder| folder.exists()) else {
        return Finding::new("home", Status::Broken, format!("{shown}: no folder on the way to it exists"))
            .with_remedy(MOVE_HOME);
    };
    if let Err(error) = host::try_writing(existing) {
        let detail = format!("{shown}: cannot write in {}: {error}", existing.display());
        return Finding::new("home", Status::Broken, detail).with_remedy(MOVE_HOME);
    }
    let space = host::free_bytes(existing);
    let free = space.as_ref().map_or_else(|_| "free space unknown".to_owned(), |bytes| gigabytes(*bytes));
    if space.is_ok_and(|bytes| bytes < LITTLE_SPACE_BYTES) {
        let remedy = "make room, or set OSTLER_HOME to a roomier place";
        return Finding::new("home", Status::Note, format!("{shown}: only {free}")).with_remedy(remedy);
    }
    if existing != root {
        return Finding::new(
            "home",
            Status::Ok,
            format!("{shown}, {free}; will be created when it is needed"),
        );
    }
    Finding::new("home", Status::Ok, format!("{shown}, writable, {free}"))
}

fn gigabytes(bytes: u64) -> String {
    format!("{}.{} GB free", bytes / 1_000_000_000, bytes / 100_000_000 % 10)
}

/// The settings to go on with: those in force, or the defaults if there are none.
fn config(here: &Surroundings, findings: &mut Vec<Finding>) -> Result<Settings, Failure> {
    match here.settings() {
        Err(error) => {
            let detail = format!("{}; what follows is by the defaults", with_causes(&error));
            findings.push(Finding::new("config", Status::Broken, detail).with_hint(error.hint()));
            Ok(Settings::defaults()?)
        }
        Ok(settings) => {
            if settings.files.is_empty() {
                let detail =
                    format!("no file ({} does not exist): defaults apply", short(here.home.user_config()));
                findings.push(Finding::new("config", Status::Ok, detail));
            }
            for file in &settings.files {
                findings.push(Finding::new(
                    "config",
                    Status::Ok,
                    format!("{}{}", short(file), trust_of(file, here)),
                ));
            }
            if let Err(error) = log::check(&settings) {
                findings
                    .push(Finding::new("log", Status::Broken, with_causes(&error)).with_hint(error.hint()));
            }
            Ok(settings)
        }
    }
}

fn trust_of(file: &Path, here: &Surroundings) -> &'static str {
    let project = project_of(&here.cwd, here.home.user_config());
    let is_trusted = |project: &Path| {
        let by_path = Trust::read(&here.home.trusted()).is_ok_and(|trust| trust.covers(project));
        let by_content = || {
            let content = std::fs::read(file).unwrap_or_default();
            here.gate().trusts_config(project, PROJECT_CONFIG, &content).unwrap_or(false)
        };
        by_path || by_content()
    };
    match project {
        Some(project) if file == project_file(&project) => {
            if is_trusted(&project) {
                " (project, trusted)"
            } else {
                " (project)"
            }
        }
        _ => "",
    }
}

fn agent(sighting: &Sighting, settings: &Settings) -> Finding {
    let agent = sighting.agent;
    let (name, package) = (agent.name(), agent.package());
    // What is configured outranks what is installed: installing would change nothing.
    let remedy = match settings.program_key(agent) {
        Some(key) => format!("correct or remove `{key}` ({})", settings.origin(&key)),
        None => format!("ostler agents install {name}"),
    };
    let program = match &sighting.program {
        Ok(program) => program,
        Err(LocateError::NotInstalled { .. }) => {
            return Finding::new(name, Status::Missing, "not installed").with_remedy(remedy);
        }
        Err(error @ LocateError::NotThere { .. }) => {
            return Finding::new(name, Status::Missing, error.to_string()).with_remedy(remedy);
        }
        Err(error @ LocateError::Unusable { path, .. }) => {
            let finding = Finding::new(name, Status::Missing, error.to_string()).with_path(path);
            return finding.with_hint(error.hint());
        }
    };
    let from = match program.origin {
        Origin::Configured => "as configured",
        Origin::Installed => "installed by Ostler",
        Origin::OnPath => "on PATH",
    };
    let Some(version) = sighting.version() else {
        let why = sighting.trouble().map(|error| with_causes(error)).unwrap_or_default();
        let finding = Finding::new(name, Status::Missing, format!("{from}, but {why}"));
        return finding.with_path(&program.path).with_remedy(remedy);
    };
    let standing = package.standing(version);
    let proven = match standing {
        Standing::Same => "verified".to_owned(),
        Standing::Newer => format!("newer than {}, the last verified", package.verified),
        Standing::Older => format!("older than {}, the last verified", package.verified),
        Standing::Incomparable => format!("last verified: {}", package.verified),
    };
    let (status, form) = match (program.form, standing) {
        (Form::Native, Standing::Same) => (Status::Ok, ""),
        (Form::Native, _) => (Status::Note, ""),
        (Form::Script, _) => (Status::Note, "; a script: stopping it may leave the agent running"),
    };
    // An agent with a note cannot be used as it is, however well its program starts.
    let (status, note) = match agent.note() {
        "" => (status, String::new()),
        note => (Status::Note, format!("; {note}")),
    };
    Finding::new(name, status, format!("{version}, {proven}, {from}{form}{note}")).with_path(&program.path)
}

async fn npm(settings: &Settings, here: &Surroundings) -> Finding {
    let configured = settings.config.install.npm.as_ref().map(|npm| npm.resolve());
    let npm = match Npm::find(configured.as_deref(), here.variable("PATH")) {
        Ok(npm) => npm,
        Err(error) => {
            return Finding::new("npm", Status::Missing, error.to_string()).with_hint(error.hint());
        }
    };
    version_of("npm", npm.path(), "needed only to install agents", here).await
}

async fn tool(name: &'static str, purpose: &str, remedy: &str, here: &Surroundings) -> Finding {
    match on_path(name, here.variable("PATH")) {
        Some(program) => version_of(name, &program, purpose, here).await,
        None => Finding::new(name, Status::Missing, format!("not on PATH; {purpose}")).with_remedy(remedy),
    }
}

async fn version_of(name: &str, program: &Path, purpose: &str, here: &Surroundings) -> Finding {
    let finding = match probe::tool_version(program, &place(here)).await {
        Ok(version) => Finding::new(name, Status::Ok, format!("{version}; {purpose}")),
        Err(error) => Finding::new(name, Status::Missing, format!("{}; {purpose}", with_causes(&error)))
            .with_remedy(format!("start `{} --version` by hand to see what is wrong", program.display())),
    };
    finding.with_path(program)
}

fn kernel() -> Vec<Finding> {
    let (status, detail) = match host::cgroup2() {
        Cgroup2::Writable(group) => (Status::Ok, format!("version 2, writable at {}", group.display())),
        Cgroup2::Closed(group) => (Status::Note, format!("version 2, not writable at {}", group.display())),
        Cgroup2::Absent => (Status::Note, "version 2 is not mounted".to_owned()),
    };
    let cgroup = Finding::new("cgroup", status, detail);
    let pidfd = if host::has_pidfd() {
        Finding::new("pidfd", Status::Ok, "processes can be held by descriptor")
    } else {
        Finding::new("pidfd", Status::Note, "this kernel has none (Linux 5.3 and later do)")
    };
    let (status, detail) = match host::user_namespaces() {
        UserNamespaces::NotForbidden => (Status::Ok, "no kernel setting forbids user namespaces".to_owned()),
        UserNamespaces::Forbidden(by) => (Status::Note, format!("user namespaces are forbidden by {by}")),
        UserNamespaces::Unknown => {
            (Status::Note, "the kernel does not say whether it has user namespaces".to_owned())
        }
    };
    vec![cgroup, pidfd, Finding::new("userns", status, detail)]
}
