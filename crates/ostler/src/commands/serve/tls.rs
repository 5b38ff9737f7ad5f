//! How connections of `ostler serve` are encrypted: the certificate and the key, and what is refused without them.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ostler_gateway::http::{Tls, TlsError};

use crate::config::{FilePath, ServeSection};
use crate::display;
use crate::surroundings::Surroundings;

/// Longest file of a certificate or a key: chains have a few kilobytes.
const LONGEST_FILE: u64 = 1 << 20;

/// Permissions of the group and of others to read.
const READABLE_BY_OTHERS: u32 = 0o044;

/// Options of `ostler serve` about TLS.
#[derive(Debug, clap::Args)]
pub(super) struct TlsArgs {
    /// Encrypt connections with this certificate, its chain included (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate, not encrypted (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Allow other machines to connect without TLS.
    #[arg(long)]
    insecure_http: bool,
}

/// Why no connection can be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    #[error(
        "refused to listen on {address} without TLS: others on the network could read keys and conversations"
    )]
    PlainHttp { address: SocketAddr },
    #[error("`serve.{set}` is set in the configuration without `serve.{missing}`")]
    Half { set: &'static str, missing: &'static str },
    #[error("could not read {} for TLS", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not use {} for TLS", .path.display())]
    Use {
        path: PathBuf,
        #[source]
        source: TlsError,
    },
}

impl TransportError {
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::PlainHttp { .. } => {
                "encrypt connections with --tls-cert FILE --tls-key FILE, or allow plain HTTP with --insecure-http".to_owned()
            }
            Self::Half { missing, .. } => format!("set `serve.{missing}` too, or use --tls-cert and --tls-key"),
            Self::Read { .. } => "name a PEM file that exists and that you can read".to_owned(),
            Self::Use { source: TlsError::Mismatch, .. } => {
                "name the key that the certificate was made for; in a chain the server's own certificate is the first one".to_owned()
            }
            Self::Use { source, .. } if source.is_about_key() => {
                "name a PEM file with a private key that has no passphrase: PKCS#8, PKCS#1 or SEC1".to_owned()
            }
            Self::Use { .. } => {
                "name a PEM file with certificates of X.509 version 3, the server's own first".to_owned()
            }
        }
    }
}

/// What encrypts connections to this address; nothing for plain HTTP. Without TLS only loopback is served, unless the
/// arguments allow more.
pub(super) fn load(
    args: &TlsArgs,
    address: SocketAddr,
    section: &ServeSection,
    here: &Surroundings,
) -> Result<Option<Tls>, TransportError> {
    let Some((certificate, key)) = files(args, section, here)? else {
        if address.ip().to_canonical().is_loopback() {
            return Ok(None);
        }
        if !args.insecure_http {
            return Err(TransportError::PlainHttp { address });
        }
        display::tell(&format!(
            "warning: others on the network can read keys and conversations: {address} is served without TLS \
             (--insecure-http)"
        ));
        return Ok(None);
    };
    let (chain, _) = read(&certificate)?;
    let (secret, mode) = read(&key)?;
    if mode & READABLE_BY_OTHERS != 0 {
        display::tell(&format!(
            "warning: other users of this machine can read the private key {0} (try `chmod 600 {0}`)",
            key.display()
        ));
    }
    let tls = Tls::from_pem(&chain, &secret).map_err(|source| {
        let path = if source.is_about_key() { key } else { certificate };
        TransportError::Use { path, source }
    })?;
    Ok(Some(tls))
}

/// The files of the certificate and of the key. The arguments outrank the configuration.
fn files(
    args: &TlsArgs,
    section: &ServeSection,
    here: &Surroundings,
) -> Result<Option<(PathBuf, PathBuf)>, TransportError> {
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        return Ok(Some((here.cwd.join(certificate), here.cwd.join(key))));
    }
    let path = |file: &Option<FilePath>| file.as_ref().map(FilePath::resolve);
    match (path(&section.tls_cert), path(&section.tls_key)) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(TransportError::Half { set: "tls_cert", missing: "tls_key" }),
        (None, Some(_)) => Err(TransportError::Half { set: "tls_key", missing: "tls_cert" }),
    }
}

/// The content of a file, and its mode.
fn read(path: &Path) -> Result<(Vec<u8>, u32), TransportError> {
    let read = || {
        let file = File::open(path)?;
        let mode = file.metadata()?.mode();
        let mut content = Vec::new();
        file.take(LONGEST_FILE).read_to_end(&mut content)?;
        Ok((content, mode))
    };
    read().map_err(|source| TransportError::Read { path: path.to_owned(), source })
}
