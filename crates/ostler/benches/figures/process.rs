//! Processes as `/proc` shows them.

use std::fs;
use std::time::Duration;

/// Ticks a second in /proc/PID/stat: fixed by Linux's interface.
const TICKS: f64 = 100.0;

/// What a process has used up.
#[derive(Clone, Copy, Default)]
pub(crate) struct Used {
    /// Processor time, without that of its children.
    pub(crate) cpu: Duration,
    /// How often it was put to sleep or put aside, all its threads together.
    pub(crate) switches: u64,
}

pub(crate) fn used(pid: u32) -> Used {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let switches = statuses
        .map(|status| {
            figure(&status, "voluntary_ctxt_switches") + figure(&status, "nonvoluntary_ctxt_switches")
        })
        .sum();
    Used { cpu: Duration::from_secs_f64((ticks(11) + ticks(12)) / TICKS), switches }
}

/// A figure of `/proc/PID/status`: kilobytes, for memory.
pub(crate) fn status(pid: u32, name: &str) -> u64 {
    figure(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(), name)
}

fn figure(status: &str, name: &str) -> u64 {
    let line = status.lines().find(|line| line.split(':').next() == Some(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Memory that would come back if it ended, in kilobytes: what it shares with others is shared out.
pub(crate) fn proportional(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    figure(&rollup, "Pss")
}

pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// The guardian of a run: the child of Ostler that was told to guard.
pub(crate) fn guardian(ostler: u32) -> Option<u32> {
    let is_guardian = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"__guard")
    };
    children(ostler).into_iter().find(is_guardian)
}

/// Processes that have the words in their environment.
pub(crate) fn marked(words: &str) -> usize {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let environs = all.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    environs.filter(|environ| String::from_utf8_lossy(environ).contains(words)).count()
}

/// How busy the machine is: the load of the last minute, and its cores.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} on {cores} cores", load.split_whitespace().next().unwrap_or("?"))
}

/// Processor time of everything that was waited for, and of what that had waited for.
pub(crate) fn of_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    Duration::from_secs_f64((ticks(13) + ticks(14)) / TICKS)
}
