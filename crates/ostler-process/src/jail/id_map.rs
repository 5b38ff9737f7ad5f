//! Who is who in a new user namespace: everybody is who they are outside.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, getegid, geteuid};

/// Writes the maps of a process that has made a user namespace. The writer is outside of it, and of the same user.
pub(crate) fn write_id_maps(process: Pid) -> io::Result<()> {
    let folder = Path::new("/proc").join(process.as_raw_pid().to_string());
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    if user == 0 {
        let own = |name: &str| {
            Ok::<_, io::Error>(identity(&fs::read_to_string(Path::new("/proc/self").join(name))?))
        };
        fs::write(folder.join("uid_map"), own("uid_map")?)?;
        return fs::write(folder.join("gid_map"), own("gid_map")?);
    }
    fs::write(folder.join("uid_map"), format!("{user} {user} 1\n"))?;
    // Without it a process could leave a group that a file is closed to.
    fs::write(folder.join("setgroups"), "deny")?;
    fs::write(folder.join("gid_map"), format!("{group} {group} 1\n"))
}

/// The map with which all ids of `map` are mapped to themselves.
fn identity(map: &str) -> String {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (first, _, count) = (fields.next()?, fields.next()?, fields.next()?);
        Some(format!("{first} {first} {count}\n"))
    };
    map.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_mapped_stay_as_they_are() {
        assert_eq!(identity("         0          0 4294967295\n"), "0 0 4294967295\n");
        assert_eq!(identity("0 1000 1\n1 100000 65536\n"), "0 0 1\n1 1 65536\n");
        assert_eq!(identity(""), "");
    }
}
