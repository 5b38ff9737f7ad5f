//! How fast places become free, and when a client that was refused should try again.
//!
//! A client that gets `Retry-After: 1` while turns take half a minute comes back forty times for nothing, and so do all
//! others with it. So each refused client gets the time at which a slot becomes free that no other client
//! got: they come back one after the other, as fast as turns really end.

use std::time::Duration;

/// What a turn takes until one has ended.
const UNKNOWN: Duration = Duration::from_secs(5);

/// How much the last turn counts against those before it: about eight turns are remembered.
const WEIGHT: u32 = 8;

/// Longest `Retry-After`: what happens later than this is not known.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// Most clients that get different times. Clients that come back early get a time again and again, and must not
/// push the times of others ahead for ever.
const MOST_PROMISES: u32 = 256;

/// How long turns take, and which times were promised to clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pace {
    /// Running mean of how long a turn held its place.
    mean: Option<Duration>,
    /// The last time that a client was told to come back at.
    promised: Duration,
}

impl Pace {
    /// A place was held for this long, and is free.
    pub fn on_release(&mut self, held: Duration) {
        self.mean = Some(match self.mean {
            None => held,
            Some(mean) => (mean * (WEIGHT - 1) + held) / WEIGHT,
        });
    }

    /// No client waits any more: those that were told a time do not come back, or are served at once.
    pub fn on_empty_queue(&mut self) {
        self.promised = Duration::ZERO;
    }

    /// How long a client should wait that is refused now, while this many places are in use. The next one gets a later
    /// time.
    pub fn promise(&mut self, now: Duration, in_use: usize) -> Duration {
        let gap = self.mean.unwrap_or(UNKNOWN) / u32::try_from(in_use.max(1)).unwrap_or(u32::MAX);
        let longest = gap.saturating_mul(MOST_PROMISES).min(LONGEST);
        let wait = (self.promised.saturating_sub(now) + gap).min(longest);
        self.promised = now + wait;
        wait
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::{BinaryHeap, VecDeque};

    use super::*;

    const fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn clients_are_told_times_one_after_the_other() {
        let mut pace = Pace::default();
        assert_eq!(pace.promise(secs(0), 1), UNKNOWN);
        pace.on_empty_queue();
        pace.on_release(secs(8));
        let told: Vec<u64> = (0..3).map(|_| pace.promise(secs(100), 4).as_secs()).collect();
        assert_eq!(told, [2, 4, 6]);
        // What was promised passes with time, and is void once no client waits.
        assert_eq!(pace.promise(secs(104), 4), secs(4));
        assert_eq!(pace.promise(secs(200), 4), secs(2));
        pace.on_empty_queue();
        assert_eq!(pace.promise(secs(200), 4), secs(2));
        // The mean follows what happens.
        (0..100).for_each(|_| pace.on_release(secs(80)));
        pace.on_empty_queue();
        assert_eq!(pace.promise(secs(300), 4).as_secs(), 19);
        // Clients that hammer do not push others ahead for ever.
        for _ in 0..10_000 {
            let _ = pace.promise(secs(300), 4);
        }
        assert_eq!(pace.promise(secs(300), 4), LONGEST);
    }

    /// What a client does at a time.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Happens {
        Asks { client: usize },
        Ends { client: usize, held_ms: u64 },
    }

    /// Conversations of several turns each, on few sessions with a bounded queue. The most tries that a turn needed.
    fn most_tries(clients: usize, (sessions, queue): (usize, usize), wait: impl Fn(Duration) -> u64) -> u32 {
        const TURNS: u32 = 3;
        let (mut pace, mut busy, mut waiting) = (Pace::default(), 0, VecDeque::new());
        let (mut tries, mut left, mut most) = (vec![0_u32; clients], vec![TURNS; clients], 0);
        let mut agenda: BinaryHeap<_> =
            (0..clients).map(|client| Reverse((client as u64, Happens::Asks { client }))).collect();
        // Between 5 and 55 seconds, and the same in every run.
        let mut seed = 7_u64;
        let mut takes = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            5_000 + (seed >> 33) % 50_000
        };
        while let Some(Reverse((now, happens))) = agenda.pop() {
            let begins = match happens {
                Happens::Asks { client } => {
                    tries[client] += 1;
                    most = most.max(tries[client]);
                    if busy < sessions {
                        busy += 1;
                        Some(client)
                    } else if waiting.len() < queue {
                        waiting.push_back(client);
                        None
                    } else {
                        let told = wait(pace.promise(Duration::from_millis(now), busy));
                        agenda.push(Reverse((now + told * 1_000, Happens::Asks { client })));
                        None
                    }
                }
                Happens::Ends { client, held_ms } => {
                    pace.on_release(Duration::from_millis(held_ms));
                    (tries[client], left[client]) = (0, left[client] - 1);
                    if left[client] > 0 {
                        agenda.push(Reverse((now + 1, Happens::Asks { client })));
                    }
                    let next = waiting.pop_front();
                    if next.is_none() {
                        busy -= 1;
                        pace.on_empty_queue();
                    }
                    next
                }
            };
            if let Some(client) = begins {
                let held_ms = takes();
                agenda.push(Reverse((now + held_ms, Happens::Ends { client, held_ms })));
            }
        }
        assert_eq!(left, vec![0; clients]);
        most
    }

    #[test]
    fn a_hundred_conversations_on_four_sessions_need_few_tries() {
        // In whole seconds, as the header has it.
        let honest = |wait: Duration| wait.as_secs_f64().ceil() as u64;
        let most = most_tries(100, (4, 32), honest);
        assert!(most <= 20, "{most} tries");
        // What every client used to get.
        let most = most_tries(100, (4, 32), |_| 1);
        assert!(most > 40, "{most} tries");
    }
}
