//! Processes as `/proc` tells them: who descends from whom, who carries a mark, what they have used up.
//!
//! A process is its number together with the moment it began. A number alone may be somebody else's by now.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{MARK, TreeSample};

/// Read at once: most environments, and every other file that is read here.
const READ_BYTES: usize = 16 * 1024;

/// One process, as it was when it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    parent: i32,
    state: u8,
    began: u64,
    own_ticks: u64,
    children_ticks: u64,
}

impl Process {
    /// What distinguishes it from every other, also from one that gets its number later.
    pub(super) fn identity(&self) -> (Pid, u64) {
        (self.pid, self.began)
    }

    /// Whether it can still do something: a dead one that nobody has waited for cannot.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }

    /// Whether a signal has stopped it, SIGSTOP or one of a terminal.
    pub(super) fn is_stopped(&self) -> bool {
        self.state == b'T'
    }

    /// Signals this very process, and no later one of its number.
    pub(super) fn signal(&self, signal: Signal) {
        // The descriptor holds whoever has the number now; only then is asked who that is.
        let Ok(held) = pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        if process(self.pid).is_some_and(|now| now.identity() == self.identity()) {
            let _ = pidfd_send_signal(held, signal);
        }
    }
}

/// The process of that number.
pub(super) fn process(pid: Pid) -> Option<Process> {
    look_at(pid, &mut Vec::new())
}

fn look_at(pid: Pid, buffer: &mut Vec<u8>) -> Option<Process> {
    let stat = read(pid, "stat", buffer).ok()?;
    // The name may be any bytes; no field after it is.
    parse(pid, &String::from_utf8_lossy(stat))
}

/// Every process that we can see.
pub(super) fn everyone() -> Vec<Process> {
    let mut buffer = Vec::new();
    numbers().filter_map(|pid| look_at(pid, &mut buffer)).collect()
}

fn numbers() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
}

/// All of a file about a process. A look reads hundreds of them, so it takes as few calls as it can, in one buffer.
fn read<'a>(pid: Pid, name: &str, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
    let mut file = File::open(format!("/proc/{}/{name}", pid.as_raw_nonzero()))?;
    let mut filled = 0;
    loop {
        if buffer.len() < filled + READ_BYTES {
            buffer.resize(filled + READ_BYTES, 0);
        }
        match file.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(&buffer[..filled]),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Those of `everyone` that descend from `ancestor`.
pub(super) fn descendants(everyone: &[Process], ancestor: Pid) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in everyone {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut seen = HashSet::from([ancestor]);
    let mut parents = vec![ancestor.as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        // A number that went to somebody else during the look could close a circle.
        for child in children.get(&parent).into_iter().flatten().filter(|child| seen.insert(child.pid)) {
            parents.push(child.pid.as_raw_nonzero().get());
            found.push(**child);
        }
    }
    found
}

/// Every process that carries the mark in the environment that it was started with.
pub(super) fn marked(mark: &str) -> Vec<Process> {
    let (mut buffer, wanted) = (Vec::new(), format!("{MARK}={mark}"));
    let mut is_marked = |pid: &Pid| {
        let environment = read(*pid, "environ", &mut buffer).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    numbers().filter(|pid| is_marked(pid)).filter_map(process).collect()
}

/// What the descendants of `ancestor` have used up, except the leader itself.
pub(super) fn sample(ancestor: Pid, leader: Pid) -> TreeSample {
    let family = descendants(&everyone(), ancestor);
    let mut ticks = 0;
    let mut sample = TreeSample::default();
    for process in family.iter().filter(|process| process.is_alive()) {
        // What the leader waited for was not the leader.
        ticks += process.children_ticks;
        if process.pid != leader {
            ticks += process.own_ticks;
            sample.io_bytes += io_bytes(process.pid);
            sample.processes += 1;
        }
    }
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    sample.cpu = Duration::from_millis(ticks.saturating_mul(1000) / ticks_per_second);
    sample
}

fn io_bytes(pid: Pid) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", pid.as_raw_nonzero())).unwrap_or_default();
    let figure = |line: &str| {
        line.strip_prefix("rchar: ").or_else(|| line.strip_prefix("wchar: "))?.parse::<u64>().ok()
    };
    io.lines().filter_map(figure).sum()
}

/// The name, which may contain anything, ends at the last bracket; the fields are numbered as in proc(5).
fn parse(pid: Pid, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let ticks = |number: usize| field(number).and_then(|text| text.parse::<u64>().ok());
    Some(Process {
        pid,
        state: *field(3)?.as_bytes().first()?,
        parent: field(4)?.parse().ok()?,
        own_ticks: ticks(14)?.saturating_add(ticks(15)?),
        // Signed in the kernel, and never negative.
        children_ticks: ticks(16)?.saturating_add(ticks(17)?),
        began: ticks(22)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    fn child(number: i32, parent: i32) -> Process {
        let (state, began, own_ticks, children_ticks) = (b'S', 0, 0, 0);
        Process { pid: pid(number), parent, state, began, own_ticks, children_ticks }
    }

    #[test]
    fn a_name_cannot_pretend_to_be_a_field() {
        let stat = "42 (a) R 1 2) (b)) S 7 42 42 0 -1 4194560 116 0 0 0 3 4 5 6 20 0 1 0 123456 2 3\n";
        let want = Process { began: 123_456, own_ticks: 7, children_ticks: 11, ..child(42, 7) };
        assert_eq!(parse(pid(42), stat), Some(want));
        assert_eq!(parse(pid(42), "42 (cut) S 7"), None);
    }

    #[test]
    fn descent_goes_all_the_way_and_never_in_circles() {
        let table = [
            (vec![child(2, 1), child(3, 2), child(4, 3), child(9, 8)], vec![2, 3, 4]),
            (vec![child(5, 1), child(1, 5)], vec![5]),
            (vec![child(3, 2)], vec![]),
        ];
        for (everyone, want) in table {
            let mut found: Vec<i32> = descendants(&everyone, pid(1))
                .iter()
                .map(|process| process.pid.as_raw_nonzero().get())
                .collect();
            found.sort_unstable();
            assert_eq!(found, want);
        }
    }

    #[test]
    fn a_later_process_of_the_same_number_is_not_signalled() {
        let mut sleeper = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let real = process(pid(i32::try_from(sleeper.id()).unwrap())).unwrap();
        Process { began: real.began + 1, ..real }.signal(Signal::KILL);
        assert!(sleeper.try_wait().unwrap().is_none());
        real.signal(Signal::KILL);
        assert!(!sleeper.wait().unwrap().success());
    }
}
