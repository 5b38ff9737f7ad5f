//! Ways out, each with what should come of it.

use std::fs;

use ostler_agent::jail::JailKind;

use super::yard::{User, Yard};

/// A way out that is closed, or something that must still work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Kept,
    Works,
}
use Want::{Kept, Works};

const WAYS: [(&str, &str, Want); 37] = [
    ("read the workspace", "cat src/main.rs", Works),
    ("write in the workspace", "echo x > new && cat new && rm new", Works),
    ("write to the temporary directory", "echo x > /tmp/x && mktemp", Works),
    ("write to the home", "mkdir -p ~/.cache && echo x > ~/.cache/x", Works),
    ("use devices", "head -c 1 /dev/urandom > /dev/null", Works),
    ("use shared memory", "echo x > /dev/shm/x", Works),
    ("see itself", "cat /proc/self/environ", Works),
    ("add to the repository", "echo x > .git/index", Works),
    ("write below what is hidden, where it is granted", "echo x > hidden/open/x", Works),
    ("what is hidden beside it", "ls -d hidden/other", Kept),
    ("write to what is hidden", "touch hidden/new", Kept),
    ("absolute path", "cat $R/home/.ssh/id", Kept),
    ("parent directory", "cat ../home/.ssh/id", Kept),
    ("symbolic link made before", "cat link", Kept),
    ("symbolic link made inside", "ln -s $R/home/.ssh/id mine; cat mine", Kept),
    ("hard link", "ln $R/home/.ssh/id hard", Kept),
    ("canary", "cat $CANARY", Kept),
    ("password hashes", "grep . /etc/shadow", Kept),
    ("write to the system", "echo x > /etc/x || touch /usr/x", Kept),
    ("write to the root", "touch /x", Kept),
    ("environment of a process outside", "cat /proc/$HOST/environ", Kept),
    ("root of a process outside", "ls /proc/$HOST/root/", Kept),
    ("files of a process outside", "readlink /proc/$HOST/fd/1", Kept),
    ("working directory of a process outside", "ls /proc/$HOST/cwd/", Kept),
    ("memory of a process outside", "head -c 1 /proc/$HOST/mem", Kept),
    ("signal to a process outside", "kill -0 $HOST", Kept),
    ("hook of the repository", "echo x > .git/hooks/post-commit", Kept),
    ("configuration of the repository", "echo x >> .git/config", Kept),
    ("move the directory of the repository", "mv .git moved", Kept),
    ("replace the configuration", "mv .git/config .git/old || rm .git/config", Kept),
    ("settings of the agent", "echo x > .claude/settings.json || mv .claude moved || rm -r .claude", Kept),
    ("kernel settings", "echo 1 > /proc/sys/kernel/printk", Kept),
    ("control groups", "find /sys/fs/cgroup -name cgroup.procs -writable | grep .", Kept),
    ("disks and other terminals", "ls /dev/[vsh]d[a-z]* /dev/nvme* /dev/pts/[0-9]*", Kept),
    ("mount", "mount -t tmpfs x /tmp || umount .claude || mount -o remount,rw /", Kept),
    (
        "nested user namespace",
        "unshare -Urm sh -c 'umount .claude || mount -o remount,bind,rw .claude'",
        Kept,
    ),
    ("more rights from a program", "grep 'NoNewPrivs:.0' /proc/self/status", Kept),
];

async fn every_way_is_closed(user: User) {
    let Some(yard) = Yard::of(user) else { return };
    let mut script = String::new();
    for (name, command, _) in WAYS {
        script.push_str(&format!(
            "if ( {command} ) >/dev/null 2>&1; then echo '{name}: open'; else echo '{name}: closed'; fi\n"
        ));
    }
    let (printed, _) = yard.run(JailKind::Namespace, &script).await;
    let mut wrong = Vec::new();
    for (name, _, want) in WAYS {
        let word = if want == Works { "open" } else { "closed" };
        if !printed.lines().any(|line| line == format!("{name}: {word}")) {
            wrong.push(name);
        }
    }
    assert_eq!(wrong, Vec::<&str>::new(), "{user:?}:\n{printed}");
    assert_eq!(fs::read_to_string(yard.at("home/.ssh/id")).unwrap(), "secret");
    assert_eq!(fs::read_dir(yard.at("home")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(yard.at("work/.git/hooks")).unwrap().count(), 0);
    assert!(!yard.at("work/missing").exists());
}

#[tokio::test]
async fn every_way_out_is_closed_to_root() {
    every_way_is_closed(User::Root).await;
}

#[tokio::test]
async fn every_way_out_is_closed_to_a_plain_user() {
    every_way_is_closed(User::Plain).await;
}
