//! MCP servers that speak TLS: trusted as far as the machine trusts them.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::{Served, after, call, declare, says};
use crate::player::Player;
use crate::yard::{Ended, Yard};

/// Writes the certificate and key of a server called `localhost`, and the authority that vouches for it.
fn certify(yard: &Yard) {
    let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key).unwrap();
    let server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let server = server.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
    std::fs::write(yard.at("authority.pem"), root.pem()).unwrap();
    std::fs::write(yard.at("server.pem"), server.pem()).unwrap();
    std::fs::write(yard.at("server.key"), key.serialize_pem()).unwrap();
}

#[test]
fn a_server_behind_tls_is_used_if_the_machine_trusts_it() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    certify(&yard);
    let served = Served::over(&yard, "https");
    let docs = format!("docs=https://localhost:{}/mcp", served.port);
    let script = yard.script(&format!(
        "[[conversation]]\n{}{}{}",
        call("upstream__docs__say", "text = \"page\""),
        after("https with undefined heard page", &declare()),
        says("Done."),
    ));
    let run = |trusted: bool| {
        let mut command = yard.ostler(&["run", "-a", "codex", "--json", &script, "--mcp", &docs, "Read it."]);
        // What the machine trusts is not asked for: it may trust a whole company.
        let trust = if trusted { "authority.pem" } else { "server.pem" };
        Ended::of(command.env("SSL_CERT_FILE", yard.at(trust)).env_remove("SSL_CERT_DIR").output().unwrap())
    };
    run(true).ends("completed", 0);
    let refused = run(false);
    refused.ends("never_started", 14);
    let detail = refused.outcome()["detail"].as_str().unwrap();
    assert!(detail.contains("MCP server `docs`") && detail.contains("certificate"), "{detail}");
    drop(served);
    yard.is_empty();
}
