//! The agents of tenants: each tenant has a home below `serve/tenants`, a placeholder instead of the owner's key, and a
//! jail that shows neither the owner's home nor another tenant's.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_agent::access::KeyKind;
use ostler_agent::agent::{Agent, Permissions, Stage};
use ostler_agent::endpoint::Endpoint;
use ostler_agent::jail::{ConfigWrites, JailKind, Resident};
use ostler_agent::leasing::Terms;
use ostler_agent::network::{AgentNetwork, NetAccess};
use ostler_agent::tenant::{AccessRefusal, TenantAccess};
use ostler_gateway::ground::{Ground, failure};
use ostler_gateway::jail::{Jailer, SessionProcess};
use ostler_gateway::live::{Phase, SessionFailure};
use ostler_gateway::provider_proxy::ProviderProxy;
use ostler_gateway::session_memory::SessionMemory;
use ostler_gateway::tenants::Tenants;
use ostler_memory::place::Place;
use ostler_process::file_scope::FileScope;
use ostler_process::run::{PlannedJail, for_tenant, tenant_access, write_private};

use super::NO_SECOND_BEGINNING;
use super::jail::{JailedFor, ServeJailer, ServedWall};
use super::memory::KeyMemory;
use crate::jailing::{limit_network, remedy};

/// Prepares the agents of tenants.
pub(super) struct ServeTenants {
    /// The directory with a directory of each tenant.
    pub(super) folder: PathBuf,
    /// The variables of this process.
    pub(super) variables: Vec<(OsString, OsString)>,
    /// The owner's home.
    pub(super) owners_home: PathBuf,
    /// The directory of the owner's memory.
    pub(super) owners_memory: PathBuf,
    /// The scripted model of a rehearsal.
    pub(super) scripted_model: Option<String>,
    pub(super) proxy: ProviderProxy,
    pub(super) jailer: Arc<ServeJailer>,
    /// By tenant and agent.
    pub(super) prepared: Mutex<HashMap<(String, &'static str), PreparedTenant>>,
}

/// What was prepared for an agent of a tenant.
#[derive(Clone)]
pub(super) struct PreparedTenant {
    env: Vec<(OsString, OsString)>,
    home: PathBuf,
    /// Which files the host opens for the agent.
    files: FileScope,
}

impl ServeTenants {
    /// Why no tenant can be served, and what to do about it.
    pub(super) fn find_obstacle(&self) -> Option<(String, String)> {
        let need = "keys of tenants need a jail by namespaces";
        match &self.jailer.wall {
            ServedWall::Set(JailKind::Namespace) => None,
            ServedWall::Set(JailKind::Landlock) => {
                let helps = remedy().unwrap_or_else(|| "`ostler doctor` shows which walls work".to_owned());
                Some((format!("{need}, and here only Landlock works"), helps))
            }
            ServedWall::Off => Some((need.to_owned(), "start `ostler serve` without --no-jail".to_owned())),
            ServedWall::Refused(no_wall) => Some((format!("{need}: {no_wall}"), no_wall.hint())),
        }
    }

    /// How an agent of a tenant reaches the provider, or why it cannot.
    pub(super) fn find_access(
        &self,
        agent: &dyn Agent,
        env: &[(OsString, OsString)],
    ) -> Result<TenantAccess, AccessRefusal> {
        match &self.scripted_model {
            Some(url) => Ok(TenantAccess::rehearsed(url)),
            None => tenant_access(agent, env, &self.folder),
        }
    }

    /// What a person should know if tenants cannot use an agent.
    pub(super) fn find_refusal(&self, agent: &dyn Agent, env: &[(OsString, OsString)]) -> Option<String> {
        let (reason, hint) = self.find_obstacle().or_else(|| {
            let refusal = self.find_access(agent, env).err()?;
            Some((refusal.to_string(), refusal.hint))
        })?;
        Some(format!("{reason}; {hint}"))
    }

    fn make(&self, owners: &Ground, tenant: &str) -> Result<PreparedTenant, SessionFailure> {
        let refuse = |reason: String, hint: String| SessionFailure {
            phase: Phase::Forbidden,
            detail: reason,
            hint: Some(hint),
        };
        if let Some((reason, hint)) = self.find_obstacle() {
            return Err(refuse(reason, hint));
        }
        let access = self
            .find_access(owners.agent, &owners.env)
            .map_err(|refusal| refuse(refusal.to_string(), refusal.hint))?;
        let admitted = self.proxy.admit(tenant, &access.routes).map_err(|error| failure(&error, None))?;
        let folder = self.folder_of(tenant);
        let folder =
            folder.ok_or_else(|| refuse(format!("`{tenant}` is not the id of a key"), String::new()))?;
        // The way to these directories is the owner's and may have links; below them none is followed.
        let home = make_directory(&folder.join("home"))?;
        let sessions = make_directory(&self.jailer.folder)?;
        let files = FileScope::Below(vec![home.clone(), sessions, self.jailer.folder.clone()]);
        let stage = Stage { url: admitted.url, key: admitted.placeholder, home: home.clone() };
        let mut setup = owners.agent.tenant_setup(&stage, &access);
        if owners.env.iter().any(|(name, _)| name == NO_SECOND_BEGINNING) {
            setup.env.push((NO_SECOND_BEGINNING.to_owned(), "1".to_owned()));
        }
        write_private(&home, &setup.folders, &setup.files).map_err(|error| failure(&error, error.hint()))?;
        let env = for_tenant(self.variables.iter().cloned(), &self.owners_home, &setup);
        Ok(PreparedTenant { env, home, files })
    }

    /// The directory of a tenant. Ids become part of paths.
    fn folder_of(&self, tenant: &str) -> Option<PathBuf> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_name = !tenant.is_empty() && tenant.len() <= 64 && tenant.bytes().all(is_plain);
        is_name.then(|| self.folder.join(tenant))
    }
}

/// A directory for its owner alone, with links resolved.
fn make_directory(path: &Path) -> Result<PathBuf, SessionFailure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.and_then(|()| path.canonicalize()).map_err(|error| failure(&error, None))
}

impl Tenants for ServeTenants {
    fn memory(&self, terms: &Terms) -> Option<Arc<dyn SessionMemory>> {
        let place = match terms.kind {
            KeyKind::Owner => Place::new(self.owners_memory.clone()),
            KeyKind::Tenant => {
                let folder = self.folder_of(&terms.tenant)?;
                let home = folder.join("home");
                // Before the first session there is none, and nothing to read.
                let home = home.canonicalize().unwrap_or(home);
                Place::new(folder.join("memory")).with_records_below(home)
            }
        };
        Some(Arc::new(KeyMemory(place)))
    }

    fn prepare(&self, owners: &Ground, tenant: &str) -> Result<Ground, SessionFailure> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (tenant.to_owned(), owners.agent.name());
        let found = match prepared.get(&key) {
            Some(found) => found.clone(),
            None => {
                let made = self.make(owners, tenant)?;
                prepared.insert(key, made.clone());
                made
            }
        };
        drop(prepared);
        let (shared, home, provider_port) = (self.jailer.clone(), found.home.clone(), self.proxy.port());
        let jailer = TenantJailer { shared, home, files: found.files, provider_port };
        let trust = owners.trust.for_tenants();
        Ok(Ground { env: found.env, home: found.home, jailer: Arc::new(jailer), trust, ..owners.clone() })
    }
}

/// The wall around the agent of a tenant: always namespaces, whatever the level.
struct TenantJailer {
    shared: Arc<ServeJailer>,
    home: PathBuf,
    files: FileScope,
    /// Where Ostler's proxy for the provider listens.
    provider_port: u16,
}

impl Jailer for TenantJailer {
    fn wall(&self, _permissions: Permissions) -> Result<Option<JailKind>, SessionFailure> {
        Ok(Some(JailKind::Namespace))
    }

    fn plan(&self, process: &SessionProcess) -> Result<Option<PlannedJail>, SessionFailure> {
        // All that a tenant may allow its agent is inside the jail.
        let (permissions, config_writes) = match process.permissions {
            Permissions::All => (Permissions::Edits, ConfigWrites::Allowed),
            level @ (Permissions::Deny | Permissions::Edits) => (level, ConfigWrites::Guarded),
        };
        let jailed =
            JailedFor { resident: Resident::Tenant, permissions, config_writes, home: Some(&self.home) };
        let Some(jail) = self.shared.plan_for(process, JailKind::Namespace, &jailed)? else {
            return Ok(None);
        };
        // The provider is behind Ostler's proxy on this machine: there is nothing else for a tenant.
        let provider = Endpoint { host: Ipv4Addr::LOCALHOST.to_string(), port: self.provider_port };
        let network = AgentNetwork { endpoints: vec![provider], ..AgentNetwork::default() };
        let jail = limit_network(jail, &NetAccess::Provider, &network, &[]);
        let jail = jail.map_err(|fault| failure(&fault, fault.hint()))?;
        Ok(Some(jail.with_files(self.files.clone())))
    }

    fn files(&self) -> FileScope {
        self.files.clone()
    }
}

/// Removes the homes of tenants whose keys are gone.
pub(super) fn remove_homes(folder: &Path, keys: &[&str]) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_known = entry.file_name().to_str().is_some_and(|name| keys.contains(&name));
        if is_known {
            continue;
        }
        if let Err(error) = std::fs::remove_dir_all(entry.path()) {
            tracing::warn!(target: "ostler::pool", %error, "the home of a tenant could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_of_revoked_keys_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        for id in ["kept", "revoked"] {
            std::fs::create_dir_all(folder.path().join(id).join("home/.claude")).unwrap();
        }
        remove_homes(folder.path(), &["kept", "new"]);
        remove_homes(&folder.path().join("missing"), &[]);
        assert!(folder.path().join("kept/home").exists() && !folder.path().join("revoked").exists());
    }
}
