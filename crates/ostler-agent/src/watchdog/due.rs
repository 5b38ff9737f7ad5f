//! What the watchdog says by itself, and when: the one list that it judges by, wakes by and explains itself by.

use std::time::Duration;

use super::quiet::{Once, Tree};
use super::verdict::State;
use super::{Action, Life, Warning, Watchdog};
use crate::outcome::Rule;

/// Something that will be said by itself, and when, since the run began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) at: Duration,
    pub(super) then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Stop(Rule),
    Spare(Rule),
    NoticeCeiling,
    NoticeQuiet(Rule),
    Sample,
}

/// Samples in the time of a rule: a stuck agent is found at most a tenth late, and a working one is rarely looked at.
const SAMPLES_PER_LIMIT: u32 = 10;

/// Processor time is counted in hundredths of a second: over less than this, the share is noise.
const SHORTEST_SAMPLE: Duration = Duration::from_secs(1);

impl Watchdog {
    /// Says the first thing that is due.
    pub(super) fn judge(&mut self) -> Action {
        let now = self.now;
        let Some(due) = self.dues().into_iter().flatten().find(|due| due.at <= now) else {
            return Action::Nothing;
        };
        let agent_time = self.agent.read(now);
        let quiet = agent_time.saturating_sub(self.quiet.since);
        if self.is_due_unseen(due.then) {
            self.quiet.asked(agent_time);
            return Action::Sample;
        }
        match due.then {
            Then::Stop(rule) => self.stop(rule),
            Then::Spare(rule) => {
                self.quiet.spare = Once::Done;
                Action::Warn(Warning::Spared { rule, quiet })
            }
            Then::NoticeCeiling => {
                self.ceiling_notice = Once::Done;
                Action::Warn(Warning::Ceiling { left: self.limits.ceiling.saturating_sub(agent_time) })
            }
            Then::NoticeQuiet(rule) => {
                self.quiet.notice = Once::Done;
                Action::Warn(Warning::Quiet { rule, quiet })
            }
            Then::Sample => {
                self.quiet.asked(agent_time);
                Action::Sample
            }
        }
    }

    /// All that will be said by itself if nothing more is heard, the most important first.
    pub(super) fn dues(&self) -> [Option<Due>; 6] {
        if self.ruling.is_some() {
            return [None; 6];
        }
        let due = |at: Option<Duration>, then| at.map(|at| Due { at, then });
        let limits = &self.limits;
        [
            due(self.agent.reaches(limits.ceiling), Then::Stop(Rule::Ceiling)),
            due(self.parked.reaches(limits.max_wait), Then::Stop(Rule::MaxWait)),
            self.end_due(),
            match self.ceiling_notice {
                Once::Due => due(self.agent.reaches(limits.ceiling / 10 * 9), Then::NoticeCeiling),
                Once::Done => None,
            },
            self.notice_due(),
            self.sample_due(),
        ]
    }

    /// The rule about quiet that holds at the moment, its limit, and from when on that is counted.
    fn quiet_rule(&self) -> Option<(Rule, Duration, Duration)> {
        let (limits, since) = (&self.limits, self.quiet.since);
        match self.state() {
            State::Starting => Some((Rule::Start, limits.start, since)),
            State::Working => {
                let since = self.quiet.silent_since(limits.silence, limits.open_call);
                Some((Rule::Silence, limits.silence, since))
            }
            State::Waiting => Some((Rule::OpenCall, limits.open_call, self.quiet.counted_from())),
            State::Ending => Some((Rule::AfterResult, limits.after_result, since)),
            State::Absent | State::Held | State::Parked | State::Exited | State::Stopped => None,
        }
    }

    fn end_due(&self) -> Option<Due> {
        if let Life::Exited { at } = self.life {
            let at = at.saturating_add(self.limits.after_exit);
            return Some(Due { at, then: Then::Stop(Rule::AfterExit) });
        }
        let (total, then) = self.end_of_quiet()?;
        self.agent.reaches(total).map(|at| Due { at, then })
    }

    /// When the rule about quiet that holds at the moment ends it, in time of the agent, and how.
    fn end_of_quiet(&self) -> Option<(Duration, Then)> {
        let (rule, limit, since) = self.quiet_rule()?;
        let first = since.saturating_add(limit);
        Some(match (rule, self.quiet.spare, self.quiet.tree) {
            (Rule::Silence, Once::Due, Tree::Busy) => (first, Then::Spare(rule)),
            (Rule::Silence, Once::Done, _) => (first.saturating_add(limit), Then::Stop(rule)),
            (_, _, _) => (first, Then::Stop(rule)),
        })
    }

    /// Whether this would end a stretch of quiet whose last part no sample has covered: what happened in it, the
    /// beginning of an answer say, would be missed.
    fn is_due_unseen(&self, then: Then) -> bool {
        match then {
            Then::Stop(Rule::Silence | Rule::OpenCall) | Then::Spare(_) => {
                self.end_of_quiet().is_some_and(|(total, _)| self.quiet.asked < total)
            }
            Then::Stop(_) | Then::NoticeCeiling | Then::NoticeQuiet(_) | Then::Sample => false,
        }
    }

    fn notice_due(&self) -> Option<Due> {
        let (rule, limit, since) = self.quiet_rule()?;
        match (self.quiet.notice, rule) {
            (Once::Done, _) | (_, Rule::AfterResult) => None,
            (Once::Due, _) => {
                let at = self.agent.reaches(since.saturating_add(limit / 2))?;
                Some(Due { at, then: Then::NoticeQuiet(rule) })
            }
        }
    }

    fn sample_due(&self) -> Option<Due> {
        let period = match self.state() {
            State::Working => self.limits.silence / SAMPLES_PER_LIMIT,
            State::Waiting => self.limits.open_call / SAMPLES_PER_LIMIT,
            State::Absent
            | State::Starting
            | State::Ending
            | State::Held
            | State::Parked
            | State::Exited
            | State::Stopped => {
                return None;
            }
        };
        let at = self.agent.reaches(self.quiet.sample_at(period.max(SHORTEST_SAMPLE)))?;
        Some(Due { at, then: Then::Sample })
    }
}
