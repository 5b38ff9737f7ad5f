//! TLS: the certificate of the server, and the handshake of a connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::verify_server_name;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{InconsistentKeys, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::stalling::Stalling;

/// The first byte of a handshake.
const HANDSHAKE: u8 = 22;

/// What a client gets that speaks plain HTTP.
const PLAIN_HTTP: &str = "this server speaks HTTPS only: use https:// in its address\n";

/// How much of a plain request is read so that its client can read the answer.
const LONGEST_PLAIN: u64 = 64 * 1024;

/// The certificate of the server, and what connections need for their handshakes. Clones are the same.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: CertificateDer<'static>,
}

/// Why a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate.
    #[error("the file has no certificate")]
    NoCertificate,
    /// It is not PEM.
    #[error("its certificates cannot be read")]
    Certificates(#[source] pem::Error),
    /// There is no key.
    #[error("the file has no private key of a known kind")]
    NoKey,
    /// It is not PEM.
    #[error("its private key cannot be read")]
    Key(#[source] pem::Error),
    /// They do not belong together.
    #[error("the private key is not that of the certificate")]
    Mismatch,
    /// The certificate is malformed.
    #[error("its first certificate cannot be used")]
    Unusable(#[source] rustls::Error),
    /// The key is malformed, or of a kind that is not supported.
    #[error("its private key cannot be used")]
    UnusableKey(#[source] rustls::Error),
}

impl TlsError {
    /// Whether the file of the key is at fault, rather than that of the certificate.
    pub fn is_about_key(&self) -> bool {
        matches!(self, Self::NoKey | Self::Key(_) | Self::Mismatch | Self::UnusableKey(_))
    }
}

impl Tls {
    /// With a chain of certificates, the server's own first, and its private key.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_slice_iter(certificates).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(TlsError::Certificates)?;
        let certificate = chain.first().cloned().ok_or(TlsError::NoCertificate)?;
        ParsedCertificate::try_from(&certificate).map_err(TlsError::Unusable)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => TlsError::NoKey,
            error => TlsError::Key(error),
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsError::Mismatch,
            error => TlsError::UnusableKey(error),
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// Whether the certificate is for that name.
    pub(super) fn is_for(&self, name: &str) -> bool {
        let certificate = ParsedCertificate::try_from(&self.certificate);
        let name = ServerName::try_from(name);
        matches!((certificate, name), (Ok(certificate), Ok(name)) if verify_server_name(&certificate, &name).is_ok())
    }

    /// The handshake. A client that speaks plain HTTP gets an answer that says so. The caller limits the time.
    pub(super) async fn accept(
        &self,
        mut stream: TcpStream,
        taking: Duration,
    ) -> io::Result<TlsStream<Stalling<TcpStream>>> {
        let mut first = [0];
        if stream.peek(&mut first).await? > 0 && first[0] != HANDSHAKE {
            refuse_plain(&mut stream).await?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the client does not speak TLS"));
        }
        self.acceptor.accept(Stalling::new(stream, taking)).await
    }
}

async fn refuse_plain(stream: &mut TcpStream) -> io::Result<()> {
    let length = PLAIN_HTTP.len();
    let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close";
    stream.write_all(format!("{head}\r\ncontent-length: {length}\r\n\r\n{PLAIN_HTTP}").as_bytes()).await?;
    stream.shutdown().await?;
    // A connection that is closed with unread bytes is reset, and the client may lose the answer.
    tokio::io::copy(&mut stream.take(LONGEST_PLAIN), &mut tokio::io::sink()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn make(names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn a_certificate_is_for_its_names() {
        let (certificate, key) = make(&["agents.example", "*.wild.example", "192.0.2.1"]);
        let tls = Tls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let table = [
            ("agents.example", true),
            ("a.wild.example", true),
            ("192.0.2.1", true),
            ("evil.example", false),
            ("192.0.2.2", false),
            ("", false),
            ("no name", false),
        ];
        for (name, want) in table {
            assert_eq!(tls.is_for(name), want, "{name}");
        }
    }

    #[test]
    fn a_key_of_another_certificate_and_files_without_one_are_refused() {
        let ((certificate, key), (_, other)) = (make(&["localhost"]), make(&["localhost"]));
        let fails = |certificate: &str, key: &str| {
            let Err(error) = Tls::from_pem(certificate.as_bytes(), key.as_bytes()) else {
                panic!("it is used")
            };
            error
        };
        let torn = certificate.replace("-----END", "");
        assert!(matches!(fails(&certificate, &other), TlsError::Mismatch));
        assert!(matches!(fails(&key, &key), TlsError::NoCertificate));
        assert!(matches!(fails("", &key), TlsError::NoCertificate));
        assert!(matches!(fails(&torn, &key), TlsError::Certificates(_)));
        assert!(matches!(fails(&certificate, &certificate), TlsError::NoKey));
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert!(matches!(fails(&certificate, broken), TlsError::UnusableKey(_)));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(fails(broken, &key), TlsError::Unusable(_)));
    }
}
