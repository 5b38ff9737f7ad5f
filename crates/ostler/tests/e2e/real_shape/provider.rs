//! A provider on loopback that follows a script, in a thread of its own: tests that wait for a process need no runtime.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

use ostler_agent::document::Format;
use ostler_rehearsal::{Rehearsal, Server, script};
use tokio_util::sync::CancellationToken;

/// Ends when it is dropped.
pub(crate) struct Provider {
    /// Its address, without a path.
    pub(crate) url: String,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Provider {
    /// Starts one for a script in TOML, without its version, or in JSON.
    pub(crate) fn start(script: &str) -> Self {
        let play = match script.starts_with('{') {
            true => script::parse("test", script, Format::Json),
            false => script::parse("test", &format!("v = 1\n{script}"), Format::Toml),
        };
        let (play, stop) = (play.unwrap(), CancellationToken::new());
        let (send_url, url) = mpsc::sync_channel(1);
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let address = SocketAddr::from(([127, 0, 0, 1], 0));
                let server = Server::listen(address, Rehearsal::of(play)).await.unwrap();
                send_url.send(server.url()).unwrap();
                server.serve(stopped).await;
            });
        });
        Self { url: url.recv().unwrap(), stop, thread: Some(thread) }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
