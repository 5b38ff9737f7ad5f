//! The bytes that conversations have on disk: of each tenant, and of all of them. They are counted before they are written,
//! so that no write goes beyond what there may be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::eviction::Bounds;

/// Counts the bytes.
#[derive(Debug)]
pub(super) struct Quota {
    of_tenant: u64,
    of_all: u64,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: u64,
    tenants: HashMap<String, u64>,
}

/// Why something cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaExceeded {
    /// The tenant has all that it may have.
    #[error(
        "the conversations of this key would take more than {} MB, and no idle one is left to remove: wait until other \
         turns have ended, or begin a new conversation", megabytes(*.0)
    )]
    OfTenant(u64),
    /// All tenants together have all that there is.
    #[error(
        "the conversations of all keys would take more than {} MB, and only those of live sessions are left: wait until \
         sessions have ended", megabytes(*.0)
    )]
    OfAll(u64),
}

fn megabytes(bytes: u64) -> u64 {
    bytes >> 20
}

/// Bytes that count until this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    quota: Arc<Quota>,
    tenant: String,
    bytes: u64,
}

impl Quota {
    pub(super) fn new(bounds: &Bounds) -> Arc<Self> {
        Arc::new(Self { of_tenant: bounds.bytes, of_all: bounds.total_bytes, used: Mutex::default() })
    }

    /// No room at all, which can grow.
    pub(super) fn room(self: &Arc<Self>, tenant: &str) -> Room {
        Room { quota: self.clone(), tenant: tenant.to_owned(), bytes: 0 }
    }

    /// Why a tenant cannot have so many more bytes.
    pub(super) fn check(&self, tenant: &str, more: u64) -> Result<(), QuotaExceeded> {
        self.check_without(0, tenant, more)
    }

    /// The same, once so many bytes are gone that count there.
    pub(super) fn check_without(&self, gone: u64, tenant: &str, more: u64) -> Result<(), QuotaExceeded> {
        self.used().check(self, gone, tenant, more)
    }

    /// The bytes of each tenant.
    pub(super) fn by_tenant(&self) -> HashMap<String, u64> {
        self.used().tenants.clone()
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        // Nothing under the lock can panic half-way.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    fn check(&self, quota: &Quota, gone: u64, tenant: &str, more: u64) -> Result<(), QuotaExceeded> {
        let of_tenant = self.tenants.get(tenant).copied().unwrap_or(0).saturating_sub(gone);
        if of_tenant.saturating_add(more) > quota.of_tenant {
            return Err(QuotaExceeded::OfTenant(quota.of_tenant));
        }
        if self.all.saturating_sub(gone).saturating_add(more) > quota.of_all {
            return Err(QuotaExceeded::OfAll(quota.of_all));
        }
        Ok(())
    }

    fn add(&mut self, tenant: &str, more: u64) {
        self.all = self.all.saturating_add(more);
        let of_tenant = self.tenants.entry(tenant.to_owned()).or_default();
        *of_tenant = of_tenant.saturating_add(more);
    }

    fn subtract(&mut self, tenant: &str, less: u64) {
        self.all = self.all.saturating_sub(less);
        if let Some(of_tenant) = self.tenants.get_mut(tenant) {
            *of_tenant = of_tenant.saturating_sub(less);
            if *of_tenant == 0 {
                self.tenants.remove(tenant);
            }
        }
    }
}

impl Room {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// More of it, if there is so much.
    pub(super) fn try_grow(&mut self, more: u64) -> Result<(), QuotaExceeded> {
        let mut used = self.quota.used();
        used.check(&self.quota, 0, &self.tenant, more)?;
        used.add(&self.tenant, more);
        self.bytes += more;
        Ok(())
    }

    /// More of it, in any case: it is on disk already, or is short and must be there.
    pub(super) fn grow(&mut self, more: u64) {
        self.quota.used().add(&self.tenant, more);
        self.bytes += more;
    }

    /// Gives back what is more than this.
    pub(super) fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.quota.used().subtract(&self.tenant, less);
        self.bytes -= less;
    }

    /// Takes over other room of the same tenant.
    pub(super) fn absorb(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_for_their_tenant_and_for_all_until_they_are_given_back() {
        let quota = Quota::new(&Bounds { bytes: 100, total_bytes: 150, ..Bounds::default() });
        let (mut one, mut two) = (quota.room("one"), quota.room("two"));
        one.try_grow(90).unwrap();
        assert_eq!(one.try_grow(11), Err(QuotaExceeded::OfTenant(100)));
        assert_eq!(two.try_grow(61), Err(QuotaExceeded::OfAll(150)));
        two.try_grow(60).unwrap();
        let mut more = quota.room("one");
        assert_eq!(more.try_grow(1), Err(QuotaExceeded::OfAll(150)));
        more.grow(20);
        one.absorb(more);
        assert_eq!((one.bytes(), quota.by_tenant()["one"]), (110, 110));
        one.shrink_to(30);
        two.try_grow(40).unwrap();
        drop((one, two));
        assert!(quota.by_tenant().is_empty() && quota.used().all == 0);
    }
}
