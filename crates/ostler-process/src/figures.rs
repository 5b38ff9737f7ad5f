//! What a process takes of the machine, for people to read.

use std::time::Duration;

/// What a process takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Memory that it has in use, in bytes.
    pub memory: u64,
    /// Time that it has used of a processor, with those of its children that it waited for.
    pub cpu: Duration,
}

/// Of a process that may be gone: then nothing is told.
pub fn of_process(pid: u32) -> Option<Figures> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    read(&stat, rustix::param::clock_ticks_per_second(), rustix::param::page_size() as u64)
}

/// Fields are counted from behind the name, which may have anything in it.
fn read(stat: &str, ticks: u64, page: u64) -> Option<Figures> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    // utime, stime, cutime and cstime are fields 14 to 17, the resident pages 24, of which two are before the name's end.
    let used = (11..15).map(number).sum::<Option<u64>>()?;
    let cpu = Duration::from_secs_f64(used as f64 / ticks.max(1) as f64);
    Some(Figures { memory: number(21)?.saturating_mul(page), cpu })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_tells_what_it_takes() {
        let stat =
            "42 (a) b)) S 1 1 1 0 -1 4194560 1 1 1 1 150 50 20 30 20 0 7 0 1 1000 33 18446744073709551615";
        assert_eq!(
            read(stat, 100, 4096),
            Some(Figures { memory: 33 * 4096, cpu: Duration::from_millis(2500) })
        );
        assert_eq!(read("42 (a) S 1", 100, 4096), None);
        assert!(of_process(std::process::id()).is_some_and(|figures| figures.memory > 0));
        assert_eq!(of_process(u32::MAX), None);
    }
}
