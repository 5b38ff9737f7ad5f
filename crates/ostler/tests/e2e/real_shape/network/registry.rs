//! A registry of npm packages with one package, behind a proxy for plain HTTP that knows its name.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

const TARBALL: &str = "http://registry.example/tiny/-/tiny-1.0.0.tgz";

/// Ends with the process of the tests.
pub(super) struct Registry {
    /// The address of the proxy.
    pub(super) proxy: String,
    integrity: String,
}

impl Registry {
    /// Makes the package in an empty directory, with npm.
    pub(super) fn start(folder: &Path) -> Self {
        let package = folder.join("tiny");
        fs::create_dir(&package).unwrap();
        fs::write(package.join("package.json"), r#"{"name": "tiny", "version": "1.0.0"}"#).unwrap();
        fs::write(package.join("index.js"), "module.exports = 1;\n").unwrap();
        let mut npm = Command::new("npm");
        npm.args(["pack", "--offline", "--cache"]).arg(folder.join("cache")).current_dir(&package);
        assert!(npm.output().unwrap().status.success());
        let tarball = Arc::new(fs::read(package.join("tiny-1.0.0.tgz")).unwrap());
        let integrity = format!("sha512-{}", STANDARD.encode(Sha512::digest(tarball.as_slice())));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let tarball = tarball.clone();
                std::thread::spawn(move || serve(stream, &tarball));
            }
        });
        Self { proxy, integrity }
    }

    /// A lock file that names the package.
    pub(super) fn lock(&self) -> Value {
        let tiny = json!({"version": "1.0.0", "resolved": TARBALL, "integrity": self.integrity});
        let app = json!({"name": "app", "version": "1.0.0", "dependencies": {"tiny": "1.0.0"}});
        let packages = json!({"": app, "node_modules/tiny": tiny});
        json!({"name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": packages})
    }
}

/// One request of a client that takes this for a proxy: the whole address is in the first line.
fn serve(mut stream: TcpStream, tarball: &[u8]) {
    let lines: Vec<String> =
        BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let is_known = lines.first().is_some_and(|line| line.starts_with(&format!("GET {TARBALL} ")));
    let (status, body) = if is_known { ("200 OK", tarball) } else { ("404 Not Found", &b""[..]) };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}
