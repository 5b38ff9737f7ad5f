//! The agents of tenants. A tenant's agent has a home of its own and a jail that shows nothing of the owner or of other
//! tenants; what makes it so is prepared by the program that serves.

use std::borrow::Cow;
use std::sync::Arc;

use ostler_agent::access::{KeyKind, KeyMemory};
use ostler_agent::leasing::Terms;

use crate::ground::Ground;
use crate::live::SessionFailure;
use crate::session_memory::SessionMemory;

/// Prepares the agents of tenants.
pub trait Tenants: Send + Sync {
    /// What sessions of a tenant need, made from what those of the owner need; or why the tenant cannot have any. Writes
    /// files the first time.
    fn prepare(&self, owners: &Ground, tenant: &str) -> Result<Ground, SessionFailure>;

    /// The memory of a key that has one.
    fn memory(&self, _terms: &Terms) -> Option<Arc<dyn SessionMemory>> {
        None
    }
}

/// There are no tenants: all sessions are the owner's.
pub struct NoTenants;

impl Tenants for NoTenants {
    fn prepare(&self, owners: &Ground, _tenant: &str) -> Result<Ground, SessionFailure> {
        Ok(owners.clone())
    }
}

impl Ground {
    /// What sessions on these terms need.
    pub(crate) fn for_terms(&self, terms: &Terms) -> Result<Cow<'_, Self>, SessionFailure> {
        let mut ground = match terms.kind {
            KeyKind::Owner => Cow::Borrowed(self),
            KeyKind::Tenant => Cow::Owned(self.tenants.prepare(self, &terms.tenant)?),
        };
        if terms.memory == KeyMemory::On {
            ground.to_mut().memory = self.tenants.memory(terms);
        }
        Ok(ground)
    }
}
