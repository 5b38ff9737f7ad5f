//! The agents of tenants. A tenant's agent has a home of its own and a jail that shows nothing of the owner or of other
//! tenants; what makes it so is prepared by the program that serves.

use std::borrow::Cow;

use ostler_agent::access::KeyKind;
use ostler_agent::leasing::Terms;

use crate::ground::Ground;
use crate::live::SessionFailure;

/// Prepares the agents of tenants.
pub trait Tenants: Send + Sync {
    /// What sessions of a tenant need, made from what those of the owner need; or why the tenant cannot have any. Writes
    /// files the first time.
    fn prepare(&self, owners: &Ground, tenant: &str) -> Result<Ground, SessionFailure>;
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
        match terms.kind {
            KeyKind::Owner => Ok(Cow::Borrowed(self)),
            KeyKind::Tenant => self.tenants.prepare(self, &terms.tenant).map(Cow::Owned),
        }
    }
}
