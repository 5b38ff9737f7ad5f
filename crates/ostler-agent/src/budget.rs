//! What a run may spend, and what it has spent: money, tokens, turns. Summed over all processes of a run.
//!
//! Limits are checked after every model call. What calls of the current turn used is provisional: the total that the
//! agent reports when the turn ends takes its place, so that nothing counts twice. Absent is not zero: where an agent
//! reports no cost, [`Ledger::unmeasured`] says so, and a process that ended before it reported its cost is taken to have
//! spent all that it was allowed.

use crate::event::{AgentEvent, Failure, FailureClass, Usage, sum};
use crate::outcome::Limit;
use crate::stopping::StopReason;

/// Costs are sums of fractions: what differs by less than this is the same.
const LEAST_COST: f64 = 1e-9;

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

impl Budget {
    /// Why a run that uses a model without a known price is stopped.
    pub fn cannot_hold(&self, model: &str) -> Option<StopReason> {
        self.max_cost?;
        let detail = format!(
            "it reports no cost for the model `{model}`, so --max-cost cannot be enforced; set [prices.\"{model}\"]"
        );
        let failure = Failure { class: FailureClass::Limit, detail, resets_at: None, cut_short: None };
        Some(StopReason::Failed { failure })
    }
}

/// What a run has spent, against what it may.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ledger {
    budget: Budget,
    /// What ended turns used, and what the agent reported in full.
    settled: Option<Usage>,
    /// What the current turn used besides, as far as it is known.
    provisional: Option<Usage>,
    turns: u32,
    /// The process that runs.
    process: Process,
    /// US dollars that processes of unknown cost may have spent, besides what is known.
    reserved: f64,
}

/// The cost of one process of the agent.
#[derive(Debug, Clone, Copy, Default)]
struct Process {
    /// What it may spend; nothing if that is not limited, or if there is no process.
    allowed: Option<f64>,
    /// What the run had cost when it started.
    cost_before: f64,
    /// Whether it used tokens whose cost it has not reported.
    is_uncosted: bool,
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
    pub fn going_on(budget: Budget, spent: Option<Usage>, turns: u32, reserved: f64) -> Self {
        Self { budget, settled: spent, turns, reserved, ..Self::default() }
    }

    /// A process of the agent starts, and may spend what is left.
    pub fn on_spawn(&mut self) {
        let cost_before = self.cost();
        self.process = Process { allowed: self.cost_left(), cost_before, is_uncosted: false };
    }

    /// Enters an event. Names the limit that stops the run if it goes on: money or tokens that are used up, or a turn
    /// more than is allowed. Names it every time, so the caller may come late.
    pub fn enter(&mut self, event: &AgentEvent) -> Option<Limit> {
        match event {
            AgentEvent::Spent(usage) => {
                self.settled = Some(sum(self.settled.unwrap_or_default(), *usage));
                self.provisional = None;
                self.note_cost(usage);
            }
            AgentEvent::SpentSoFar(usage) => {
                self.provisional = Some(*usage);
                self.note_cost(usage);
            }
            // The run ends for it.
            AgentEvent::Unpriced { .. } => self.process.allowed = None,
            AgentEvent::TurnEnded(_) => {
                self.settle_turn();
                self.turns = self.turns.saturating_add(1);
            }
            _ => {}
        }
        let turns = self.budget.max_turns.filter(|max| self.turns > *max);
        self.used_up().or(turns.map(|turns| Limit::MaxTurns { turns }))
    }

    /// The limit that forbids another turn.
    pub fn forbids_a_turn(&self) -> Option<Limit> {
        let turns = self.budget.max_turns.filter(|max| self.turns >= *max);
        self.used_up().or(turns.map(|turns| Limit::MaxTurns { turns }))
    }

    /// What was spent, as far as the agent reported it.
    pub fn spent(&self) -> Option<Usage> {
        match (self.settled, self.provisional) {
            (Some(settled), Some(provisional)) => Some(sum(settled, provisional)),
            (settled, provisional) => settled.or(provisional),
        }
    }

    /// A process of the agent has ended: what it reported is all that it will report. If it did not report what its
    /// calls cost, it may have spent all that it was allowed.
    pub fn settle(&mut self) {
        self.settle_turn();
        let process = std::mem::take(&mut self.process);
        if let Some(allowed) = process.allowed.filter(|_| process.is_uncosted) {
            self.reserved += (allowed - (self.cost() - process.cost_before)).max(0.0);
        }
    }

    fn settle_turn(&mut self) {
        self.settled = self.spent();
        self.provisional = None;
    }

    /// A cost covers all that the process used before it was reported.
    fn note_cost(&mut self, usage: &Usage) {
        self.process.is_uncosted = match (usage.cost_usd, tokens(usage)) {
            (Some(_), _) => false,
            (None, None | Some(0)) => self.process.is_uncosted,
            (None, Some(_)) => true,
        };
    }

    /// The US dollars that are known to be spent.
    fn cost(&self) -> f64 {
        self.spent().and_then(|spent| spent.cost_usd).unwrap_or(0.0)
    }

    /// The US dollars that may still be spent; none without a limit.
    pub fn cost_left(&self) -> Option<f64> {
        self.budget.max_cost.map(|max| (max - self.cost() - self.reserved).max(0.0))
    }

    /// The US dollars that processes of unknown cost may have spent, besides what is known.
    pub fn reserved(&self) -> f64 {
        self.reserved
    }

    /// How many turns ended.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// A limit that was set and could not be kept, once a turn ended without the figures.
    pub fn unmeasured(&self) -> Option<Unmeasured> {
        let spent = self.spent().unwrap_or_default();
        match self.turns {
            0 => None,
            _ if self.reserved > 0.0 => None,
            _ if self.budget.max_cost.is_some() && spent.cost_usd.is_none() => Some(Unmeasured::Cost),
            _ if self.budget.max_tokens.is_some() && tokens(&spent).is_none() => Some(Unmeasured::Tokens),
            _ => None,
        }
    }

    fn used_up(&self) -> Option<Limit> {
        let spent = self.spent()?;
        let cost = spent.cost_usd.or((self.reserved > 0.0).then_some(0.0)).map(|cost| cost + self.reserved);
        let over_cost = self.budget.max_cost.filter(|max| cost.is_some_and(|cost| cost + LEAST_COST >= *max));
        let over_tokens =
            self.budget.max_tokens.filter(|max| tokens(&spent).is_some_and(|used| used >= *max));
        over_cost.map(|usd| Limit::MaxCost { usd }).or(over_tokens.map(|tokens| Limit::MaxTokens { tokens }))
    }
}

fn tokens(usage: &Usage) -> Option<u64> {
    added(usage.input_tokens, usage.output_tokens)
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

    fn so_far(tokens: (u64, u64), cost_usd: Option<f64>) -> AgentEvent {
        let AgentEvent::Spent(usage) = spent(Some(tokens), cost_usd) else { unreachable!() };
        AgentEvent::SpentSoFar(usage)
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
    fn a_limit_is_reached_in_the_middle_of_a_turn() {
        let budget = Budget { max_cost: Some(1.0), max_tokens: Some(3_000), max_turns: None };
        let mut ledger = Ledger::new(budget);
        assert_eq!(ledger.enter(&so_far((1_000, 10), Some(0.1))), None);
        assert_eq!(
            ledger.enter(&so_far((2_000, 20), Some(0.2))),
            None,
            "it replaces what was reported before"
        );
        assert_eq!(
            ledger.enter(&so_far((3_000, 30), Some(0.3))),
            Some(Limit::MaxTokens { tokens: 3_000 }),
            "no turn has ended"
        );
        assert_eq!(ledger.enter(&so_far((3_000, 30), Some(1.0))), Some(Limit::MaxCost { usd: 1.0 }));
    }

    /// Figures of the turn as a whole take the place of those of its calls, whether they are more or less.
    #[test]
    fn nothing_counts_twice() {
        let usage = |read, written, cost_usd| Usage {
            input_tokens: Some(read),
            output_tokens: Some(written),
            cached_tokens: None,
            cost_usd,
        };
        let table: [(&str, Vec<AgentEvent>, Usage); 5] = [
            ("calls alone", vec![so_far((10, 1), None), so_far((20, 2), None)], usage(20, 2, None)),
            (
                "then the turn",
                vec![so_far((20, 2), None), spent(Some((25, 5)), Some(0.5)), turn()],
                usage(25, 5, Some(0.5)),
            ),
            (
                "a turn with less than its calls",
                vec![so_far((20, 2), Some(0.9)), spent(Some((15, 1)), Some(0.5)), turn()],
                usage(15, 1, Some(0.5)),
            ),
            (
                "a turn that ends without figures",
                vec![so_far((20, 2), None), turn(), so_far((5, 1), None)],
                usage(25, 3, None),
            ),
            (
                "two turns",
                vec![
                    so_far((20, 2), None),
                    spent(Some((20, 2)), Some(0.5)),
                    turn(),
                    so_far((5, 1), None),
                    spent(Some((6, 1)), Some(0.25)),
                    turn(),
                ],
                usage(26, 3, Some(0.75)),
            ),
        ];
        for (name, events, want) in table {
            let mut ledger = Ledger::new(Budget::default());
            for event in &events {
                let _ = ledger.enter(event);
            }
            assert_eq!(ledger.spent(), Some(want), "{name}");
            ledger.settle();
            assert_eq!(ledger.spent(), Some(want), "{name}, settled");
        }
    }

    #[test]
    fn what_is_left_is_what_was_not_spent() {
        let mut ledger = Ledger::new(Budget { max_cost: Some(0.3), ..Budget::default() });
        assert_eq!(ledger.cost_left(), Some(0.3));
        ledger.enter(&spent(None, Some(0.1)));
        let left = ledger.cost_left().unwrap();
        // An agent that stops at what is left has reached the limit, however fractions are rounded.
        assert!(ledger.enter(&spent(None, Some(left))).is_some());
        assert_eq!(ledger.cost_left(), Some(0.0));
        assert_eq!(Ledger::new(Budget::default()).cost_left(), None);
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

    /// However often a process ends before it reports its cost: all of them together are allowed no more than the limit.
    #[test]
    fn processes_of_unknown_cost_are_not_allowed_more_than_the_limit_together() {
        let dollar = Budget { max_cost: Some(1.0), ..Budget::default() };
        let mut ledger = Ledger::new(dollar);
        ledger.on_spawn();
        ledger.enter(&so_far((1_000, 10), None));
        assert_eq!((ledger.cost_left(), ledger.reserved()), (Some(1.0), 0.0), "it may report it yet");
        ledger.settle();
        assert_eq!((ledger.cost_left(), ledger.reserved()), (Some(0.0), 1.0));
        assert_eq!(ledger.forbids_a_turn(), Some(Limit::MaxCost { usd: 1.0 }));
        assert_eq!(ledger.spent().unwrap().cost_usd, None, "what is not known is not reported");
        // A person allows more.
        let two = Budget { max_cost: Some(2.0), ..Budget::default() };
        let ledger = Ledger::going_on(two, ledger.spent(), ledger.turns(), ledger.reserved());
        assert_eq!((ledger.cost_left(), ledger.forbids_a_turn()), (Some(1.0), None));
    }

    #[test]
    fn what_a_process_may_have_spent_is_what_it_was_allowed_without_what_is_known() {
        let budget = Budget { max_cost: Some(1.0), ..Budget::default() };
        type Case<'a> = (&'a str, Vec<AgentEvent>, f64, f64);
        let table: Vec<Case<'_>> = vec![
            ("no call", vec![], 0.75, 0.0),
            ("no tokens", vec![spent(Some((0, 0)), None)], 0.75, 0.0),
            ("a known cost", vec![so_far((10, 1), Some(0.25))], 0.5, 0.0),
            ("a cost that was reported late", vec![so_far((10, 1), None), spent(None, Some(0.25))], 0.5, 0.0),
            ("one turn is known", vec![spent(None, Some(0.25)), turn(), so_far((10, 1), None)], 0.0, 0.5),
            ("an end without figures", vec![spent(Some((10, 1)), None), turn()], 0.0, 0.75),
            (
                "a model without a price, for which the run ends",
                vec![so_far((10, 1), None), AgentEvent::Unpriced { model: String::new() }],
                0.75,
                0.0,
            ),
        ];
        for (name, events, left, reserved) in table {
            let mut ledger = Ledger::new(budget);
            ledger.on_spawn();
            ledger.enter(&spent(None, Some(0.25)));
            ledger.settle();
            ledger.on_spawn();
            for event in &events {
                let _ = ledger.enter(event);
            }
            ledger.settle();
            ledger.settle();
            assert_eq!((ledger.cost_left(), ledger.reserved()), (Some(left), reserved), "{name}");
        }
    }
}
