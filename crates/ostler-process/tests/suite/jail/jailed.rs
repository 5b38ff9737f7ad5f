//! `ostler-jailed`, for tests: sets a wall around itself, makes attempts, and prints how each ended. What to do is one
//! JSON document on stdin; the results are one on stdout.

#![expect(clippy::print_stdout, reason = "its results are its output")]

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsStr;
    use std::fs::{self, File, OpenOptions, Permissions};
    use std::io::{self, Read as _};
    use std::net::TcpStream;
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::time::{Duration, Instant};

    use ostler_agent::jail::{Access, JailKind, JailPolicy, Rule};
    use ostler_process::jail::{find_abi, read_back, restrict};
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::process::{Pid, test_kill_process};
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
    use serde::Deserialize;
    use serde_json::{Value, json};

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Task {
        wall: Option<JailKind>,
        capabilities: Capabilities,
        rules: Vec<(PathBuf, String, Option<PathBuf>)>,
        canary: PathBuf,
        /// A verb and what it needs. They share the process, one after the other.
        attempts: Vec<Vec<String>>,
    }

    #[derive(Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Capabilities {
        Drop,
        Keep,
    }

    pub(super) fn run() -> Result<Value, Box<dyn std::error::Error>> {
        let task: Task = serde_json::from_str(&io::read_to_string(io::stdin())?)?;
        let rules = task.rules.into_iter().map(rule).collect::<Result<_, _>>()?;
        let policy = JailPolicy { rules, canary: task.canary };
        let begun = Instant::now();
        let report = match task.wall {
            None => None,
            Some(kind) => {
                if task.capabilities == Capabilities::Drop {
                    drop_capabilities()?;
                }
                Some(restrict(&policy, kind)?)
            }
        };
        let took = begun.elapsed();
        let abi = report.as_ref().map_or_else(|| find_abi().ok(), |report| report.abi);
        let canary = read_back(&policy, task.wall.unwrap_or(JailKind::Landlock), abi);
        let results: Vec<Value> = task.attempts.iter().map(|words| outcome(words)).collect();
        Ok(json!({
            "abi": report.as_ref().and_then(|report| report.abi),
            "not_enforced": report.map(|report| report.not_enforced).unwrap_or_default(),
            "canary": canary.map_or_else(|error| error.to_string(), |()| "ok".to_owned()),
            "micros": took.as_micros(),
            "results": results,
        }))
    }

    /// As whoever sets a wall has to: with `CAP_PERFMON` or `CAP_SYS_ADMIN`, Linux 6.18 lets a process behind Landlock read
    /// `/proc/PID/environ` of any other. Those for files stay.
    fn drop_capabilities() -> io::Result<()> {
        let kept = CapabilitySet::CHOWN
            | CapabilitySet::DAC_OVERRIDE
            | CapabilitySet::FOWNER
            | CapabilitySet::FSETID;
        let kept = kept & capabilities(None)?.permitted;
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
        Ok(set_capabilities(None, sets)?)
    }

    fn rule((path, access, source): (PathBuf, String, Option<PathBuf>)) -> Result<Rule, String> {
        let access = match (access.as_str(), source) {
            ("read", None) => Access::Read,
            ("write", None) => Access::Write,
            ("guarded", None) => Access::Guarded,
            ("hidden", None) => Access::Hidden,
            ("substitute", Some(source)) => Access::Substitute { source },
            (other, _) => return Err(format!("no such access: {other}")),
        };
        Ok(Rule { path, access })
    }

    fn outcome(words: &[String]) -> Value {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match attempt(&words) {
            Ok(value) => value,
            Err(error) => Value::String(name(&error)),
        }
    }

    /// The name of an error number, for those that a wall answers with.
    fn name(error: &io::Error) -> String {
        let name = match error.raw_os_error() {
            Some(1) => "EPERM",
            Some(2) => "ENOENT",
            Some(13) => "EACCES",
            Some(18) => "EXDEV",
            Some(30) => "EROFS",
            _ => return error.to_string(),
        };
        name.to_owned()
    }

    fn attempt(words: &[&str]) -> io::Result<Value> {
        match words {
            ["read", path] => File::open(path)?.read(&mut [0]).map(drop)?,
            ["open", path] => File::open(path).map(drop)?,
            ["list", path] => fs::read_dir(path).map(drop)?,
            ["stat", path] => fs::metadata(path).map(drop)?,
            ["cd", path] => std::env::set_current_dir(path)?,
            ["write", path] => OpenOptions::new().write(true).open(path).map(drop)?,
            ["create", path] => OpenOptions::new().write(true).create_new(true).open(path).map(drop)?,
            ["truncate", path] => OpenOptions::new().write(true).truncate(true).open(path).map(drop)?,
            ["mkdir", path] => fs::create_dir(path)?,
            ["remove", path] => fs::remove_file(path)?,
            ["rename", from, to] => fs::rename(from, to)?,
            ["link", from, to] => fs::hard_link(from, to)?,
            ["symlink", to, path] => symlink(to, path)?,
            ["chmod", path] => fs::set_permissions(path, Permissions::from_mode(0o600))?,
            ["device", path] => {
                mknodat(CWD, *path, FileType::CharacterDevice, Mode::RWXU, rustix::fs::makedev(1, 3))?;
            }
            ["bind", path] => UnixListener::bind(path).map(drop)?,
            ["connect", path] => UnixStream::connect(path).map(drop)?,
            ["connect-abstract", name] => {
                UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(drop)?;
            }
            ["tcp", address] => TcpStream::connect(address).map(drop)?,
            ["signal", pid] => test_kill_process(parse_pid(pid)?)?,
            ["exec", program] => return run_program(program, &[]),
            ["shell", script] => return run_program("/bin/sh", &["-c", script]),
            ["widen"] => {
                let rules = vec![Rule { path: PathBuf::from("/"), access: Access::Write }];
                let policy = JailPolicy { rules, canary: PathBuf::new() };
                restrict(&policy, JailKind::Landlock).map(drop).map_err(io::Error::other)?;
            }
            ["time-opens", path, count] => return time_opens(Path::new(path), count),
            other => return Err(io::Error::other(format!("no such attempt: {other:?}"))),
        }
        Ok(json!("ok"))
    }

    fn parse_pid(text: &str) -> io::Result<Pid> {
        text.parse().ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    fn run_program(program: &str, args: &[&str]) -> io::Result<Value> {
        let args = args.iter().map(OsStr::new);
        let output = Command::new(program).args(args).output()?;
        Ok(json!(if output.status.success() { "ok" } else { "failed" }))
    }

    /// Nanoseconds that opening and closing take, of the quickest of ten series.
    fn time_opens(path: &Path, count: &str) -> io::Result<Value> {
        let count: u32 = count.parse().map_err(io::Error::other)?;
        let mut best = Duration::MAX;
        for _ in 0..10 {
            let begun = Instant::now();
            for _ in 0..count {
                drop(File::open(path)?);
            }
            best = best.min(begun.elapsed());
        }
        Ok(json!((best / count).as_nanos()))
    }
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", linux::run()?);
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("walls are for Linux");
}
