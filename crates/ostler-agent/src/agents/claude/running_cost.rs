//! What a process has cost so far, by its own account. With `--max-budget-usd`, Claude Code writes the cost of its calls
//! into its transcript before it calls the model again (`budget_usd`), from the start of the process, also where it
//! resumes a session: seen on 2.1.197 and 2.1.325. A process that is killed reports no result: this is all that is
//! known of its cost then, and the calls after it are estimated, never too low.

use crate::prices::{ByModel, Observed, Tokens};

/// The cost of one process.
#[derive(Debug, Default)]
pub(super) struct RunningCost {
    /// What this process had cost when that was last reported.
    cost: f64,
    /// How much of that belongs to turns that ended.
    settled: f64,
    /// The calls that are in it, and those that are not.
    covered: ByModel,
    since: ByModel,
    /// What is known from earlier processes of the run.
    earlier: Observed,
}

impl RunningCost {
    pub(super) fn set_earlier(&mut self, earlier: Observed) {
        self.earlier = earlier;
    }

    /// Tokens of a call.
    pub(super) fn add(&mut self, model: &str, tokens: Tokens) {
        let sum = self.since.entry(model.to_owned()).or_default();
        *sum = sum.plus(tokens);
    }

    /// Takes tokens back.
    pub(super) fn remove(&mut self, model: &str, tokens: Tokens) {
        if let Some(sum) = self.since.get_mut(model) {
            *sum = sum.minus(tokens);
        }
    }

    /// The agent wrote down what it has cost: all calls so far, but for those that it had not written down.
    pub(super) fn on_report(&mut self, used: f64, unwritten: ByModel) {
        self.cover(used, unwritten);
    }

    /// A result has the cost of the process, and ends a turn.
    pub(super) fn on_result(&mut self, cost: f64) {
        self.cover(cost, ByModel::new());
        self.settled = cost;
    }

    fn cover(&mut self, cost: f64, unwritten: ByModel) {
        self.cost = cost;
        for (model, tokens) in std::mem::replace(&mut self.since, unwritten) {
            let rest = self.since.get(&model).copied().unwrap_or_default();
            let sum = self.covered.entry(model).or_default();
            *sum = sum.plus(tokens.minus(rest));
        }
    }

    /// What the current turn has cost, as far as it was reported.
    pub(super) fn reported(&self) -> Option<f64> {
        (self.cost > self.settled).then_some(self.cost - self.settled)
    }

    /// What the current turn has cost at most. Nothing if that is not known.
    pub(super) fn most(&self) -> Option<f64> {
        let since = self.observed().most(&self.since)?;
        Some((self.cost + since - self.settled).max(0.0))
    }

    /// The calls of the run whose cost is known.
    pub(super) fn observed(&self) -> Observed {
        Observed::new(self.covered.clone(), self.cost).plus(&self.earlier)
    }

    /// The turn is over, without a result so far.
    pub(super) fn settle(&mut self) {
        if let Some(turn) = self.most() {
            let cost = self.settled + turn;
            self.cover(cost, ByModel::new());
        }
        self.settled = self.cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Tokens = Tokens { input: 100, output: 10, cache_read: 0, cache_write: 0 };

    fn calls(count: u64) -> ByModel {
        let tokens = Tokens { input: 100 * count, output: 10 * count, ..Tokens::default() };
        ByModel::from([("opus".to_owned(), tokens)])
    }

    #[test]
    fn calls_after_the_last_report_are_estimated() {
        let mut cost = RunningCost::default();
        cost.on_report(0.0, ByModel::new());
        assert_eq!((cost.reported(), cost.most()), (None, Some(0.0)), "no call was made");
        cost.add("opus", CALL);
        assert_eq!((cost.reported(), cost.most()), (None, None), "nothing is known of the first call");
        cost.on_report(0.25, ByModel::new());
        assert_eq!((cost.reported(), cost.most()), (Some(0.25), Some(0.25)));
        cost.add("opus", CALL);
        assert_eq!((cost.reported(), cost.most()), (Some(0.25), Some(0.5)));
        cost.add("haiku", CALL);
        assert_eq!(cost.most(), None, "a model of which no cost is known");
    }

    #[test]
    fn a_call_that_is_not_written_down_is_not_in_the_report() {
        let mut cost = RunningCost::default();
        cost.add("opus", CALL);
        cost.add("opus", CALL);
        cost.on_report(0.25, calls(1));
        assert_eq!(cost.most(), Some(0.5));
        assert_eq!(cost.observed(), Observed::new(calls(1), 0.25));
    }

    #[test]
    fn a_turn_begins_where_the_last_one_ended() {
        let mut cost = RunningCost::default();
        cost.add("opus", CALL);
        cost.settle();
        cost.on_result(0.25);
        assert_eq!(cost.most(), Some(0.0));
        cost.add("opus", CALL);
        assert_eq!(
            (cost.reported(), cost.most()),
            (None, Some(0.25)),
            "what an earlier turn cost says nothing"
        );
        cost.on_report(0.75, ByModel::new());
        assert_eq!(cost.most(), Some(0.5));
        // It ended without a result.
        cost.settle();
        assert_eq!(cost.most(), Some(0.0));
    }

    #[test]
    fn a_later_process_knows_what_calls_of_the_run_cost() {
        let mut cost = RunningCost::default();
        cost.set_earlier(Observed::new(calls(10), 2.5));
        cost.add("opus", CALL);
        assert_eq!(cost.most(), Some(0.25));
        assert_eq!(cost.observed(), Observed::new(calls(10), 2.5), "an estimate is not an observation");
    }
}
