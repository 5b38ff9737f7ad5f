//! What a run may spend, and what it has spent: money, tokens, turns. Summed over all processes of a run.
//!
//! Absent is not zero: an agent that tells no costs is not stopped by a limit on costs, and [`Ledger::unmeasured`] says so.

use crate::event::{AgentEvent, Usage};
use crate::outcome::Limit;

/// What a run may spend. Absent is without limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// US dollars.
    pub max_cost: Option<f64>,
    /// Tokens, read and written.
    pub max_tokens: Option<u64>,
    /// Turns: prompts that were answered, resumes included.
    pub max_turns: Option<u32>,
}

/// What a run has spent, against what it may.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ledger {
    budget: Budget,
    spent: Option<Usage>,
    turns: u32,
}

/// A limit that cannot be kept, because the agent does not tell what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmeasured {
    /// Costs.
    Cost,
    /// Tokens.
    Tokens,
}

impl Ledger {
    /// A ledger without entries.
    pub fn new(budget: Budget) -> Self {
        Self { budget, ..Self::default() }
    }

    /// A ledger that goes on with what was spent before.
    pub fn going_on(budget: Budget, spent: Option<Usage>, turns: u32) -> Self {
        Self { budget, spent, turns }
    }

    /// Enters an event. Names the limit that stops the run if it goes on: money or tokens that are used up, or a turn
    /// more than is allowed. Names it every time, so the caller may come late.
    pub fn enter(&mut self, event: &AgentEvent) -> Option<Limit> {
        if let AgentEvent::Spent(usage) = event {
            self.spent = Some(sum(self.spent.unwrap_or_default(), usage));
        }
        if let AgentEvent::TurnEnded(_) = event {
            self.turns = self.turns.saturating_add(1);
        }
        let turns = self.budget.max_turns.filter(|max| self.turns > *max);
        self.used_up().or(turns.map(|turns| Limit::MaxTurns { turns }))
    }

    /// The limit that forbids another turn.
    pub fn forbids_a_turn(&self) -> Option<Limit> {
        let turns = self.budget.max_turns.filter(|max| self.turns >= *max);
        self.used_up().or(turns.map(|turns| Limit::MaxTurns { turns }))
    }

    /// What was spent, as far as the agent told it.
    pub fn spent(&self) -> Option<Usage> {
        self.spent
    }

    /// How many turns ended.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// A limit that was set and could not be kept, once a turn ended without the figures.
    pub fn unmeasured(&self) -> Option<Unmeasured> {
        let spent = self.spent.unwrap_or_default();
        match self.turns {
            0 => None,
            _ if self.budget.max_cost.is_some() && spent.cost_usd.is_none() => Some(Unmeasured::Cost),
            _ if self.budget.max_tokens.is_some() && tokens(&spent).is_none() => Some(Unmeasured::Tokens),
            _ => None,
        }
    }

    fn used_up(&self) -> Option<Limit> {
        let spent = self.spent?;
        let over_cost = self.budget.max_cost.filter(|max| spent.cost_usd.is_some_and(|cost| cost >= *max));
        let over_tokens =
            self.budget.max_tokens.filter(|max| tokens(&spent).is_some_and(|used| used >= *max));
        over_cost.map(|usd| Limit::MaxCost { usd }).or(over_tokens.map(|tokens| Limit::MaxTokens { tokens }))
    }
}

fn tokens(usage: &Usage) -> Option<u64> {
    added(usage.input_tokens, usage.output_tokens)
}

fn sum(one: Usage, two: &Usage) -> Usage {
    Usage {
        input_tokens: added(one.input_tokens, two.input_tokens),
        output_tokens: added(one.output_tokens, two.output_tokens),
        cached_tokens: added(one.cached_tokens, two.cached_tokens),
        cost_usd: match (one.cost_usd, two.cost_usd) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or_default() + two.unwrap_or_default()),
        },
    }
}

/// Nothing and nothing is nothing; nothing and something is something.
fn added(one: Option<u64>, two: Option<u64>) -> Option<u64> {
    match (one, two) {
        (None, None) => None,
        (one, two) => Some(one.unwrap_or_default().saturating_add(two.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TurnOutcome;

    fn spent(tokens: Option<(u64, u64)>, cost_usd: Option<f64>) -> AgentEvent {
        AgentEvent::Spent(Usage {
            input_tokens: tokens.map(|(read, _)| read),
            output_tokens: tokens.map(|(_, written)| written),
            cached_tokens: None,
            cost_usd,
        })
    }

    fn turn() -> AgentEvent {
        AgentEvent::TurnEnded(TurnOutcome::Done { text: String::new() })
    }

    #[test]
    fn limits() {
        let cost = Budget { max_cost: Some(1.0), ..Budget::default() };
        let tokens = Budget { max_tokens: Some(100), ..Budget::default() };
        let turns = Budget { max_turns: Some(2), ..Budget::default() };
        let dollar = Some(Limit::MaxCost { usd: 1.0 });
        let hundred = Some(Limit::MaxTokens { tokens: 100 });
        let two = Some(Limit::MaxTurns { turns: 2 });
        let free = Some(Limit::MaxCost { usd: 0.0 });
        type Case<'a> = (&'a str, Budget, Vec<(AgentEvent, Option<Limit>, Option<Limit>)>);
        let table: Vec<Case<'_>> = vec![
            ("no limit", Budget::default(), vec![(spent(Some((u64::MAX, u64::MAX)), Some(1e9)), None, None)]),
            (
                "costs add up",
                cost,
                vec![(spent(None, Some(0.5)), None, None), (spent(None, Some(0.5)), dollar, dollar)],
            ),
            (
                "and stay used up",
                cost,
                vec![(spent(None, Some(2.0)), dollar, dollar), (turn(), dollar, dollar)],
            ),
            (
                "absent is not zero",
                Budget { max_cost: Some(0.0), ..cost },
                vec![(spent(Some((1, 1)), None), None, None), (spent(None, Some(0.0)), free, free)],
            ),
            (
                "read and written",
                tokens,
                vec![
                    (spent(Some((40, 59)), None), None, None),
                    (spent(Some((1, 0)), None), hundred, hundred),
                ],
            ),
            (
                "the last turn may end, another may not begin",
                turns,
                vec![(turn(), None, None), (turn(), None, two), (turn(), two, two)],
            ),
        ];
        for (name, budget, steps) in table {
            let mut ledger = Ledger::new(budget);
            for (index, (event, stop, next)) in steps.into_iter().enumerate() {
                assert_eq!(ledger.enter(&event), stop, "{name}, {index}");
                assert_eq!(ledger.forbids_a_turn(), next, "{name}, {index}");
            }
        }
    }

    #[test]
    fn a_limit_that_cannot_be_kept_is_told() {
        let budget = Budget { max_cost: Some(1.0), max_tokens: Some(10), max_turns: None };
        let mut ledger = Ledger::new(budget);
        assert_eq!(ledger.unmeasured(), None);
        ledger.enter(&turn());
        assert_eq!((ledger.unmeasured(), ledger.spent(), ledger.turns()), (Some(Unmeasured::Cost), None, 1));
        ledger.enter(&spent(None, Some(0.1)));
        assert_eq!(ledger.unmeasured(), Some(Unmeasured::Tokens));
        ledger.enter(&spent(Some((1, 1)), None));
        assert_eq!(ledger.unmeasured(), None);
    }
}
