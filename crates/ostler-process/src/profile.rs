//! A profile of an agent while a process of it lives: the private file, and the link in the agent's own configuration
//! folder, or in what a jail puts in its place, that names it. A link that a killed Ostler left leads nowhere once the private file is gone, and is removed
//! by the next start.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use ostler_agent::agent::{Launch, PrivateFile};
use ostler_agent::profile::{InvalidSettings, PREFIX, Profile};

use crate::file_scope::{FileScope, ScopedDirectory};
use crate::run::{PlannedJail, PrivateError, write_private};

/// Settings are some kilobytes.
const LONGEST_SETTINGS: u64 = 16 * 1024 * 1024;

/// The link to a profile, if a launch has one. Removed when it is dropped.
#[derive(Debug, Default)]
pub struct ProfileLink {
    link: Option<(ScopedDirectory, String)>,
}

impl Drop for ProfileLink {
    fn drop(&mut self) {
        if let Some((folder, link)) = &self.link
            && let Err(error) = folder.remove_file(Path::new(link))
        {
            tracing::warn!(%error, link, "the link to an agent's settings could not be removed");
        }
    }
}

/// Writes all that a launch needs on disk, for its owner alone. `env` is the environment that the agent is started in,
/// `jail` the wall that it will be behind.
pub fn write_launch(
    private: &Path,
    launch: &Launch,
    env: &[(OsString, OsString)],
    jail: Option<&PlannedJail>,
) -> Result<ProfileLink, PrivateError> {
    write_private(private, &[], &launch.files)?;
    let Some(profile) = &launch.profile else { return Ok(ProfileLink::default()) };
    let folder = place(profile, env);
    let files = jail.map(|jail| jail.files.clone()).unwrap_or_default();
    let content = content(profile, &folder, &files)?;
    write_private(private, &[], &[PrivateFile { path: profile.path.clone(), content }])?;
    if files == FileScope::Anywhere {
        remove_dangling(&folder);
    }
    let inside = jail.map_or_else(|| folder.clone(), |jail| jail.host_path(&folder));
    // The one below the home directory is made if it is missing, as the agent does.
    let is_made = inside != folder || folder.ends_with(profile.below_home);
    let opened = match is_made {
        true => files.create_directory(&inside),
        false => files.open_directory(&inside),
    };
    let opened = opened.map_err(PrivateError::at(&inside))?;
    // Of a process before this one, in the same private folder.
    let linked = opened.replace_link(Path::new(&profile.link), &profile.path);
    linked.map_err(PrivateError::at(&inside.join(&profile.link)))?;
    Ok(ProfileLink { link: Some((opened, profile.link.clone())) })
}

/// A warning if settings of the project in `workspace` would overrule the launch's instructions. The user's own settings,
/// which may be in a folder above it, do not: the profile has them.
pub fn overrule_warning(launch: &Launch, workspace: &Path, env: &[(OsString, OsString)]) -> Option<String> {
    let profile = launch.profile.as_ref()?;
    let own = place(profile, env).join(profile.settings).canonicalize().ok();
    let mut projects = workspace.ancestors().map(|folder| folder.join(profile.project));
    let is_overruled = |path: PathBuf| {
        let is_own = own.is_some() && path.canonicalize().ok() == own;
        // Whoever works there may have put anything under that name.
        let settings = || FileScope::Anywhere.read(&path, LONGEST_SETTINGS).ok();
        !is_own && settings().is_some_and(|text| profile.is_overruled_by(&String::from_utf8_lossy(&text)))
    };
    projects.any(is_overruled).then(|| profile.overrule_warning())
}

/// Where the agent's configuration folder is, whether it exists or not.
fn place(profile: &Profile, env: &[(OsString, OsString)]) -> PathBuf {
    let variable = |name: &str| {
        let found = env.iter().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| PathBuf::from(value))
    };
    variable(profile.variable).unwrap_or_else(|| {
        variable("HOME").or_else(std::env::home_dir).unwrap_or_default().join(profile.below_home)
    })
}

fn content(profile: &Profile, folder: &Path, files: &FileScope) -> Result<String, PrivateError> {
    let read = |name: &str| {
        let path = folder.join(name);
        match files.read(&path, LONGEST_SETTINGS) {
            Ok(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(PrivateError::at(&path)(error)),
        }
    };
    let settings = read(profile.settings)?;
    let chosen = profile.chosen.as_deref().map(read).transpose()?.flatten();
    let content = profile.content(settings.as_deref(), chosen.as_deref());
    content.map_err(|error: InvalidSettings| {
        let path = folder.join(profile.chosen.as_deref().unwrap_or(profile.settings));
        PrivateError::at(&path)(io::Error::new(io::ErrorKind::InvalidData, error))
    })
}

fn remove_dangling(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_ours && is_link && !entry.path().exists() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use ostler_agent::agent::{Agent as _, Task};
    use ostler_agent::agents::Codex;

    use super::*;

    fn launched(private: &Path, system_prompt: &str) -> Launch {
        let extra = ["--profile=work".to_owned()];
        let system_prompt = Some(system_prompt);
        let task = Task { system_prompt, extra: &extra, ..Task::new("p", Path::new("/w"), private) };
        Codex.launch(&task).unwrap()
    }

    #[test]
    fn a_profile_is_there_while_the_process_lives_and_what_a_killed_ostler_left_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let (private, folder) = (home.path().join("private"), home.path().join(".codex"));
        let env = [(OsString::from("HOME"), home.path().as_os_str().to_owned())];
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), "model = \"own\"\n").unwrap();
        std::fs::write(folder.join("ostler-own.config.toml"), "").unwrap();
        symlink("/nowhere/at/all", folder.join("ostler-dead.config.toml")).unwrap();
        let written = write_launch(&private, &launched(&private, "A secret."), &env, None).unwrap();
        let links: Vec<PathBuf> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_symlink())
            .collect();
        assert_eq!(links.len(), 1, "{links:?}");
        let text = std::fs::read_to_string(&links[0]).unwrap();
        assert!(text.contains("A secret.") && !text.contains("own"), "{text}");
        let target = links[0].canonicalize().unwrap();
        assert!(target.starts_with(private.canonicalize().unwrap()));
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(written);
        let mut left: Vec<OsString> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["config.toml", "ostler-own.config.toml"]);
        assert_eq!(std::fs::read_to_string(folder.join("config.toml")).unwrap(), "model = \"own\"\n");
    }

    #[test]
    fn a_profile_of_the_users_that_cannot_be_read_is_an_error_that_names_it() {
        let home = tempfile::tempdir().unwrap();
        let env = [(OsString::from("CODEX_HOME"), home.path().as_os_str().to_owned())];
        std::fs::write(home.path().join("work.config.toml"), "model = ").unwrap();
        let private = home.path().join("private");
        let error = write_launch(&private, &launched(&private, "x"), &env, None).unwrap_err();
        assert!(error.to_string().contains("work.config.toml"), "{error}");
    }

    #[test]
    fn instructions_that_a_project_overrules_are_noticed() {
        let project = tempfile::tempdir().unwrap();
        let workspace = project.path().join("below");
        std::fs::create_dir_all(project.path().join(".codex")).unwrap();
        let launch = launched(project.path(), "x");
        let elsewhere = [(OsString::from("HOME"), OsString::from("/nowhere"))];
        assert_eq!(overrule_warning(&launch, &workspace, &elsewhere), None);
        std::fs::write(project.path().join(".codex/config.toml"), "developer_instructions = \"y\"").unwrap();
        let warning = overrule_warning(&launch, &workspace, &elsewhere);
        assert!(warning.unwrap().contains(".codex/config.toml"));
        // The same file is the user's own, if the workspace is below their home: the profile has it.
        let own = [(OsString::from("HOME"), project.path().as_os_str().to_owned())];
        assert_eq!(overrule_warning(&launch, &workspace, &own), None);
    }
}
