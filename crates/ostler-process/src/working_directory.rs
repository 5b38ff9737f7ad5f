//! `PWD` of every program that Ostler starts. Ostler's own names the directory in which Ostler was started, and programs
//! believe it: OpenCode 1.18.33 works in `PWD`, whatever its working directory is. So both agree by construction: the
//! places that start programs, `contain::shim`, `group` and `notify`, call this.

use std::path::Path;

use tokio::process::Command;

const CURRENT: &str = "PWD";

/// The directory that a shell was in before. It is nothing to a program that starts in another one.
const PREVIOUS: &str = "OLDPWD";

/// Sets `PWD` in an environment to the directory that the program will start in. One without a path, because it is
/// removed or a parent is closed to us, has none.
#[cfg(target_os = "linux")]
pub(crate) fn set_pwd(
    environment: &mut Vec<(std::ffi::OsString, std::ffi::OsString)>,
    directory: std::io::Result<std::path::PathBuf>,
) {
    environment.retain(|(name, _)| name != CURRENT && name != PREVIOUS);
    if let Ok(directory) = directory {
        environment.push((CURRENT.into(), directory.into_os_string()));
    }
}

/// The same for a command, from the directory that it is given, or ours.
pub(crate) fn set_pwd_of(command: &mut Command) {
    let directory = match command.as_std().get_current_dir() {
        // With links resolved, as the kernel would name it.
        Some(directory) => Path::canonicalize(directory),
        None => std::env::current_dir(),
    };
    command.env_remove(CURRENT).env_remove(PREVIOUS);
    if let Ok(directory) = directory {
        command.env(CURRENT, directory);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io;
    use std::path::PathBuf;

    use super::*;

    #[cfg(target_os = "linux")]
    fn variables(entries: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        entries.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_inherited_pwd_gives_way_to_the_working_directory() {
        let inherited = [("A", "1"), ("PWD", "/elsewhere"), ("OLDPWD", "/before"), ("PWDX", "2")];
        let kept = [("A", "1"), ("PWDX", "2")];
        let directory = Some("/ws");
        let set = |given: &[(&str, &str)], directory: Option<&str>| {
            let mut environment = variables(given);
            set_pwd(&mut environment, directory.map(PathBuf::from).ok_or(io::ErrorKind::NotFound.into()));
            environment
        };
        assert_eq!(set(&inherited, directory), variables(&[&kept[..], &[("PWD", "/ws")]].concat()));
        assert_eq!(set(&inherited, None), variables(&kept));
        assert_eq!(set(&[], directory), variables(&[("PWD", "/ws")]));
    }

    #[test]
    fn a_command_is_told_the_directory_it_starts_in() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&real, real.join("link")).unwrap();
        let pwd = |command: &Command| {
            let found = command.as_std().get_envs().find(|(name, _)| *name == CURRENT);
            found.and_then(|(_, value)| value.map(PathBuf::from))
        };
        let mut command = Command::new("true");
        command.current_dir(real.join("link")).env(CURRENT, "/elsewhere");
        set_pwd_of(&mut command);
        assert_eq!(pwd(&command), Some(real));
        let mut command = Command::new("true");
        set_pwd_of(&mut command);
        assert_eq!(pwd(&command), Some(std::env::current_dir().unwrap()));
    }
}
