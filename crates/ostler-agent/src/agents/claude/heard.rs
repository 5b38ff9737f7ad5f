//! Which records were heard on the standard output, by their ids: the transcript has them with the same ones. And the
//! other way round, when the transcript told them first.
//!
//! Only the last of them are remembered, so that a long run needs no more memory than a short one. Both are written in
//! the same order, so what the transcript has before the first record that is remembered was heard, and forgotten.

use std::collections::HashMap;

/// How many are remembered at least. A transcript that was not looked into is never that far behind for long: this many
/// records are hours of work.
const REMEMBERED: usize = 16 * 1024;

/// What the transcript has, compared with what was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Twin {
    /// It was not heard.
    None,
    /// It was heard in this turn.
    Heard { turn: u32 },
    /// It was heard so long ago that nothing more is known of it.
    Forgotten,
}

/// Records that were heard, with the turns they belong to.
#[derive(Debug, Default)]
pub(super) struct Heard {
    recent: HashMap<String, u32>,
    /// Those before, until as many again have come.
    older: HashMap<String, u32>,
    /// Whether the transcript may still have records that are forgotten.
    is_behind: bool,
}

impl Heard {
    /// A record was heard.
    pub(super) fn note(&mut self, id: String, turn: u32) {
        if self.recent.len() >= REMEMBERED {
            self.is_behind |= !self.older.is_empty();
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(id, turn);
    }

    /// What is known of a record of the transcript, which is read in order.
    pub(super) fn twin(&mut self, id: Option<&str>) -> Twin {
        let heard = id.and_then(|id| self.recent.get(id).or_else(|| self.older.get(id)));
        match heard {
            Some(turn) => {
                self.is_behind = false;
                Twin::Heard { turn: *turn }
            }
            None if self.is_behind => Twin::Forgotten,
            None => Twin::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forgotten_is_not_taken_for_new() {
        let mut heard = Heard::default();
        assert_eq!(heard.twin(Some("a")), Twin::None);
        let name = |number: usize| format!("record-{number}");
        for number in 0..3 * REMEMBERED {
            heard.note(name(number), 7);
        }
        assert!(heard.recent.len() + heard.older.len() <= 2 * REMEMBERED);
        assert_eq!(heard.twin(Some(&name(0))), Twin::Forgotten);
        assert_eq!(heard.twin(None), Twin::Forgotten);
        assert_eq!(heard.twin(Some(&name(2 * REMEMBERED))), Twin::Heard { turn: 7 });
        assert_eq!(heard.twin(Some(&name(3 * REMEMBERED - 1))), Twin::Heard { turn: 7 });
        assert_eq!(heard.twin(Some("new")), Twin::None);
    }
}
