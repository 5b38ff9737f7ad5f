//! Our own HTTP clients: one for this machine, one for the world.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

/// How long a connection to a provider may take: agents retry.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// A client that talks to loopback: no proxy of the environment may see a token, and no certificate is trusted, so that
/// none has to be read from the disk.
pub(crate) fn for_loopback() -> Result<reqwest::Client, reqwest::Error> {
    without_certificates().no_proxy().build()
}

/// A client for a server of others. Certificates are those that the machine trusts; who talks without TLS needs none.
pub fn for_server(url: &str) -> Result<reqwest::Client, reqwest::Error> {
    builder(url).build()
}

/// The same for a provider, with a key that no redirect may lead elsewhere.
pub fn for_provider(url: &str) -> Result<reqwest::Client, reqwest::Error> {
    let builder = builder(url).redirect(reqwest::redirect::Policy::none()).connect_timeout(CONNECT_LIMIT);
    // Requests to this machine go without the proxy of the user, as those of agents do.
    let is_local =
        ["http://127.0.0.1", "http://localhost", "http://[::1]"].iter().any(|here| url.starts_with(here));
    if is_local { builder.no_proxy().build() } else { builder.build() }
}

fn builder(url: &str) -> reqwest::ClientBuilder {
    if !url.starts_with("https://") {
        return without_certificates();
    }
    // There is one provider for the whole process. That it is there already is as good.
    let _ = ring::default_provider().install_default();
    reqwest::Client::builder()
}

fn without_certificates() -> reqwest::ClientBuilder {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    match builder {
        Ok(builder) => {
            let nobody = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
            reqwest::Client::builder().tls_backend_preconfigured(nobody)
        }
        // The provider has the versions that it comes with.
        Err(_) => reqwest::Client::builder(),
    }
}
