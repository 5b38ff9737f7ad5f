//! Which conversations have to go when a tenant has too many.
//!
//! What holds something is counted by itself: however many conversations only ever failed, were begun and never asked, or
//! were not to be kept, none that holds something goes for them. Where bytes are short they go first.

use super::conversation::Summary;

/// How much is kept for one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Conversations that hold something.
    pub count: usize,
    /// Conversations that hold nothing: they only ever failed, or were never asked.
    pub empty: usize,
    /// Conversations that are not on disk.
    pub unkept: usize,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of all tenants together.
    pub total_bytes: u64,
}

impl Default for Bounds {
    /// A few weeks of somebody who talks much.
    fn default() -> Self {
        Self { count: 1_000, empty: 500, unkept: 100, bytes: 256 << 20, total_bytes: 4 << 30 }
    }
}

/// What a client would lose with a conversation. The first is lost last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holding {
    /// What was said in at least one turn.
    Something,
    /// Nothing: it only ever failed, or was never asked.
    Nothing,
    /// Nothing: it is not on disk.
    Unkept,
}

/// A conversation, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) holding: Holding,
    pub(super) touched_at: i64,
    pub(super) bytes: u64,
    /// A turn is under way.
    pub(super) is_busy: bool,
}

impl Candidate {
    pub(super) fn of(summary: &Summary) -> Self {
        let Summary { holding, touched_at, bytes, turn, .. } = summary;
        Self { holding: *holding, touched_at: *touched_at, bytes: *bytes, is_busy: turn.is_some() }
    }
}

/// Those that have to go. One at work stays, and so does the last one that would go, however long it is.
pub(super) fn choose(listed: &[Candidate], bounds: &Bounds) -> Vec<usize> {
    let mut order: Vec<usize> = (0..listed.len()).collect();
    order.sort_by_key(|at| (listed[*at].holding, std::cmp::Reverse(listed[*at].touched_at)));
    let (mut counts, mut bytes) = ([0_usize; 3], 0_u64);
    let mut chosen = Vec::new();
    for (nth, at) in order.into_iter().enumerate() {
        let candidate = &listed[at];
        let (count, most) = match candidate.holding {
            Holding::Something => (&mut counts[0], bounds.count),
            Holding::Nothing => (&mut counts[1], bounds.empty),
            Holding::Unkept => (&mut counts[2], bounds.unkept),
        };
        *count += 1;
        bytes = bytes.saturating_add(candidate.bytes);
        let is_over = *count > most || bytes > bounds.bytes;
        if is_over && !candidate.is_busy && nth > 0 {
            chosen.push(at);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::Holding::{Nothing, Something, Unkept};
    use super::*;

    /// What is chosen, by when it was touched.
    fn chosen(listed: &[(Holding, i64, u64)], busy: &[i64]) -> Vec<i64> {
        let bounds = Bounds { count: 2, empty: 1, unkept: 1, bytes: 100, total_bytes: 100 };
        let candidate = |(holding, touched_at, bytes): &(Holding, i64, u64)| Candidate {
            holding: *holding,
            touched_at: *touched_at,
            bytes: *bytes,
            is_busy: busy.contains(touched_at),
        };
        let listed: Vec<Candidate> = listed.iter().map(candidate).collect();
        let mut chosen: Vec<i64> =
            choose(&listed, &bounds).into_iter().map(|at| listed[at].touched_at).collect();
        chosen.sort_unstable();
        chosen
    }

    #[test]
    fn what_holds_nothing_goes_first_and_then_what_was_touched_longest_ago() {
        type Row<'a> = (&'a str, &'a [(Holding, i64, u64)], &'a [i64], &'a [i64]);
        let table: &[Row<'_>] = &[
            (
                "all fit",
                &[(Something, 1, 10), (Something, 2, 10), (Nothing, 3, 10), (Unkept, 4, 0)],
                &[],
                &[],
            ),
            ("too many", &[(Something, 1, 10), (Something, 2, 10), (Something, 3, 10)], &[], &[1]),
            (
                "failures do not displace an older one that holds something",
                &[(Something, 1, 10), (Nothing, 2, 10), (Nothing, 3, 10), (Nothing, 4, 10)],
                &[],
                &[2, 3],
            ),
            (
                "nor do those that are not kept",
                &[(Something, 1, 10), (Unkept, 2, 0), (Unkept, 3, 0)],
                &[],
                &[2],
            ),
            (
                "bytes are short: what holds nothing first, however young",
                &[(Something, 1, 60), (Something, 2, 40), (Nothing, 3, 10)],
                &[],
                &[3],
            ),
            ("then the oldest", &[(Something, 1, 60), (Something, 2, 60)], &[], &[1]),
            ("one at work stays", &[(Something, 1, 60), (Something, 2, 60)], &[1], &[]),
            ("a single one stays, however long", &[(Something, 1, 600)], &[], &[]),
        ];
        for (what, listed, busy, want) in table {
            assert_eq!(chosen(listed, busy), *want, "{what}");
        }
    }
}
