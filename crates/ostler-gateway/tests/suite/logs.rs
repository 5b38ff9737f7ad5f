//! What is said of a request in the log: that it was, and how it ended; never what was asked or answered, nor by which
//! key.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use ostler_agent::leasing::Limits;
use serde_json::json;
use tracing_subscriber::EnvFilter;

use crate::house::{House, asked, head};

/// What must not be there.
const SECRET: &str = "the-swordfish-is-blue";

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is logged of requests of every kind. All of it happens on this thread.
async fn logged(filter: &str) -> String {
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let logging = tracing::subscriber::set_default(subscriber);
    let house = House::open(Limits::default()).await;
    let prompt = format!("say {SECRET}");
    let got = house.post("/v1/messages", "ostler_1", &asked(&[("user", &prompt)])).await;
    assert!(got.body.contains(SECRET), "it was answered: {}", got.body);
    let on = [("user", prompt.as_str()), ("assistant", SECRET), ("user", &prompt)];
    let mut streamed = asked(&on);
    streamed["stream"] = json!(true);
    streamed["system"] = json!(SECRET);
    assert_eq!(house.post("/v1/messages", "ostler_1", &streamed).await.status, 200);
    let responses = json!({"model": "claude", "input": prompt});
    assert_eq!(house.post("/v1/responses", "ostler_1", &responses).await.status, 200);
    // What fails is told to whoever asked.
    let fails = [("user", prompt.as_str()), ("assistant", SECRET), ("user", "die")];
    assert_eq!(house.post("/v1/messages", "ostler_1", &asked(&fails)).await.status, 502);
    let broken = format!("{{\"model\": \"{SECRET}");
    assert_eq!(house.get(&head("/v1/messages", "ostler_1"), &broken).await.status, 400);
    assert_eq!(house.bare("GET", &format!("/{SECRET}?{SECRET}"), "ostler_1").await.status, 404);
    assert_eq!(house.bare("GET", "/v1/models", SECRET).await.status, 401);
    // A session that died while it waited is looked at before it is asked.
    for _ in 0..2 {
        let dies = format!("{prompt} and die");
        house.post("/v1/messages", "ostler_1", &asked(&[("user", &dies)])).await;
        let on = [("user", dies.as_str()), ("assistant", &dies[4..]), ("user", &prompt)];
        assert_eq!(house.post("/v1/messages", "ostler_1", &asked(&on)).await.status, 200);
    }
    house.close().await;
    drop(logging);
    String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
}

#[tokio::test]
async fn it_has_no_word_of_what_was_asked_or_answered() {
    for filter in ["info", "debug"] {
        let log = logged(filter).await;
        assert!(!log.contains(SECRET) && !log.contains("ostler_1"), "{filter}: {log}");
        for said in ["answered", "route=\"/v1/messages\"", "status=502", "status=401", "asked", "session="] {
            assert!(log.contains(said), "{filter}: `{said}` in {log}");
        }
    }
}

/// As it is unless somebody asks for more.
#[tokio::test]
async fn it_is_empty_by_default() {
    assert_eq!(logged("off").await, "");
}
