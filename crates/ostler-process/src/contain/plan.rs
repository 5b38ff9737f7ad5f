//! What the shim becomes: program, arguments, environment, folder. It travels in a file without a name, because it may
//! be megabytes long and may hold secrets, which have no place in arguments.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::jail::Jail;

/// Every part ends with a NUL, which none of them can contain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) program: OsString,
    pub(super) folder: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) jail: Option<Jail>,
}

impl Plan {
    /// `None` if a part contains a NUL, which no program can be given.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let jail = self.jail.as_ref().map(Jail::to_texts).unwrap_or_default();
        let counts = [jail.len().to_string(), self.arguments.len().to_string()];
        let [jails, arguments] = counts.each_ref().map(OsStr::new);
        let head = [self.program.as_os_str(), self.folder.as_os_str(), jails, arguments];
        let variables = self.environment.iter().flat_map(|(name, value)| [name, value]);
        let tail = jail.iter().chain(&self.arguments).chain(variables).map(OsString::as_os_str);
        for part in head.into_iter().chain(tail) {
            if part.as_bytes().contains(&0) {
                return None;
            }
            bytes.extend_from_slice(part.as_bytes());
            bytes.push(0);
        }
        Some(bytes)
    }

    /// `None` if it was cut short.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut parts =
            bytes.strip_suffix(&[0])?.split(|byte| *byte == 0).map(|part| OsString::from_vec(part.to_vec()));
        let (program, folder) = (parts.next()?, PathBuf::from(parts.next()?));
        let mut count = || parts.next()?.to_str()?.parse::<usize>().ok();
        let (texts, count) = (count()?, count()?);
        let jail: Vec<_> = parts.by_ref().take(texts).collect();
        let jail = if texts == 0 { None } else { Some(Jail::from_texts(&jail)?) };
        let arguments: Vec<_> = parts.by_ref().take(count).collect();
        let mut environment = Vec::new();
        while let Some(name) = parts.next() {
            environment.push((name, parts.next()?));
        }
        (arguments.len() == count).then_some(Self { program, folder, arguments, environment, jail })
    }
}

/// Puts an encoded plan into a file without a name.
pub(super) fn write(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("ostler-plan", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

pub(super) fn read(file: OwnedFd) -> io::Result<Plan> {
    let mut file = File::from(file);
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Plan::decode(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a plan that ends early"))
}

#[cfg(test)]
mod tests {
    use ostler_agent::jail::{Access, JailKind, JailPolicy, Rule};

    use super::*;

    fn plan(arguments: &[&str], environment: &[(&str, &str)]) -> Plan {
        Plan {
            program: "/bin/agent".into(),
            folder: "/a b".into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            jail: None,
        }
    }

    fn jail() -> Jail {
        let rules = vec![Rule { path: "/usr".into(), access: Access::Read }];
        Jail { kind: JailKind::Namespace, policy: JailPolicy { rules, canary: "/c".into() }, network: None }
    }

    #[test]
    fn a_plan_arrives_as_it_was_sent() {
        for plan in [
            plan(&[], &[]),
            plan(&["", "-p", "two\nlines", ""], &[("A", ""), ("B", "=x")]),
            Plan { program: OsString::from_vec(vec![0xff, 0xfe]), ..plan(&["é"], &[]) },
            Plan { jail: Some(jail()), ..plan(&["a"], &[("A", "1")]) },
        ] {
            let file = write(&plan.encode().unwrap()).unwrap();
            assert_eq!(read(file).unwrap(), plan);
        }
    }

    #[test]
    fn a_nul_has_no_place_and_a_cut_is_noticed() {
        assert_eq!(plan(&["a\0b"], &[]).encode(), None);
        let whole = plan(&["a", "b"], &[("A", "1")]).encode().unwrap();
        let cuts: Vec<usize> =
            (0..whole.len()).filter(|end| Plan::decode(&whole[..*end]).is_some()).collect();
        // One cut cannot be told: between arguments and environment, both are whole.
        assert_eq!(cuts.len(), 1, "{cuts:?}");
    }
}
