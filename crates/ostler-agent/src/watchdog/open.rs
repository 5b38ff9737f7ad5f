//! What the agent waits for: calls of the turn, and work beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::input::Signature;
use super::verdict::OpenCall;

/// Most calls, and most tasks, that are remembered at a time. No agent runs nearly as many at once, so more are a leak;
/// the end of one that was not remembered is harmless.
const MOST: usize = 1024;

#[derive(Debug)]
struct Call {
    tool: String,
    signature: Signature,
    since: Duration,
}

/// Calls and tasks that were opened and not closed.
#[derive(Debug)]
pub(super) struct OpenWork {
    calls: BTreeMap<String, Call>,
    tasks: BTreeSet<String>,
}

impl OpenWork {
    pub(super) const NONE: Self = Self { calls: BTreeMap::new(), tasks: BTreeSet::new() };

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.tasks.is_empty()
    }

    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    pub(super) fn open_call(&mut self, call: String, tool: String, signature: Signature, since: Duration) {
        if self.calls.len() < MOST {
            self.calls.insert(call, Call { tool, signature, since });
        }
    }

    /// Closes a call and says what it was, if it was open.
    pub(super) fn close_call(&mut self, call: &str) -> Option<Signature> {
        self.calls.remove(call).map(|call| call.signature)
    }

    /// The turn is over, and with it its calls, whether their ends were told or not.
    pub(super) fn end_turn(&mut self) {
        self.calls.clear();
    }

    pub(super) fn open_task(&mut self, task: String) {
        if self.tasks.len() < MOST {
            self.tasks.insert(task);
        }
    }

    pub(super) fn close_task(&mut self, task: &str) {
        self.tasks.remove(task);
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = OpenCall> {
        self.calls.iter().map(|(id, call)| OpenCall {
            call: id.clone(),
            tool: call.tool.clone(),
            since: call.since,
        })
    }

    pub(super) fn tasks(&self) -> impl Iterator<Item = &String> {
        self.tasks.iter()
    }
}
