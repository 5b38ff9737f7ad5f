//! Calls under way that a client may take back by a message: by its session and the number that it gave the call.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio_util::sync::CancellationToken;

use super::{Room, locked};

/// Whose numbers: two clients may use the same ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    /// The session id that the client was given.
    pub(crate) session: String,
    /// The call's own id, as JSON.
    pub(crate) id: String,
}

#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<HashMap<Scope, CancellationToken>>);

/// A call that can be taken back while this lives.
pub(crate) struct Cancellable<'a> {
    calls: &'a Calls,
    scope: Option<Scope>,
}

impl Drop for Cancellable<'_> {
    fn drop(&mut self) {
        if let Some(scope) = &self.scope {
            locked(&self.calls.0).remove(scope);
        }
    }
}

impl Room {
    /// From now on, the client may cancel `token` by a message. Without a session that is not possible.
    pub(crate) fn cancellable(&self, scope: Option<Scope>, token: &CancellationToken) -> Cancellable<'_> {
        if let Some(scope) = &scope {
            locked(&self.calls.0).insert(scope.clone(), token.clone());
        }
        Cancellable { calls: &self.calls, scope }
    }

    /// A client takes a call back. One that is over, or never was, is no news: some clients do so after every call.
    pub(crate) fn cancel(&self, scope: &Scope) {
        let found = locked(&self.calls.0).get(scope).cloned();
        if let Some(token) = found {
            token.cancel();
        }
    }
}
