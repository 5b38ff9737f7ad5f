//! How a conversation is addressed: by an answer, by a name, by what was said; and what is kept of it.

use std::sync::Arc;
use std::time::Duration;

use ostler_agent::leasing::Limits;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::house::{DEADLINE, Got, House, asked, head, messages};

const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";

fn text(got: &Got) -> String {
    got.json()["output"][0]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

async fn respond(house: &House, input: &str, follows: Option<&str>) -> Got {
    let body = json!({"model": "claude", "input": input, "previous_response_id": follows});
    let got = house.post(RESPONSES, "ostler_1", &body).await;
    assert_eq!(got.status, 200, "{}", got.body);
    got
}

fn id(got: &Got) -> String {
    got.json()["id"].as_str().unwrap().to_owned()
}

fn conversation(got: &Got) -> String {
    got.header("x-ostler-conversation").unwrap().to_owned()
}

#[tokio::test]
async fn an_answer_is_followed_in_its_session_and_twice_in_two() {
    let house = House::open(Limits::default()).await;
    let first = respond(&house, "say one", None).await;
    let second = respond(&house, "say two", Some(&id(&first))).await;
    assert_eq!((text(&second).as_str(), conversation(&second)), ("two", conversation(&first)));
    let third = respond(&house, "say three", Some(&id(&second))).await;
    assert_eq!(conversation(&third), conversation(&first));
    assert_eq!(house.stage.log(|log| log.started.len()), 1, "it is one session");
    // Whoever follows an older answer begins another conversation with the same beginning.
    let branch = respond(&house, "say other", Some(&id(&first))).await;
    assert_ne!(conversation(&branch), conversation(&first));
    let told = house.stage.log(|log| log.started[1].clone());
    assert_eq!(
        told,
        [
            json!({"role": "user", "content": "say one"}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "one"}]})
        ]
    );
    let on = respond(&house, "say more", Some(&id(&branch))).await;
    assert_eq!(conversation(&on), conversation(&branch));
    assert_eq!(house.stage.log(|log| log.asked.last().unwrap().clone()), (2, "say more".to_owned()));
    house.close().await;
}

#[tokio::test]
async fn an_answer_is_followed_after_a_restart_and_only_by_its_key() {
    let house = House::open(Limits::default()).await;
    let first = respond(&house, "say one", None).await;
    let kept = Arc::clone(&house.kept);
    house.close().await;
    let house = House::at(kept, Limits::default(), Duration::ZERO).await;
    let foreign = json!({"model": "claude", "input": "say two", "previous_response_id": id(&first)});
    let got = house.post(RESPONSES, "ostler_2", &foreign).await;
    assert_eq!((got.status, &got.json()["error"]["param"]), (400, &json!("previous_response_id")));
    assert_eq!(house.bare("GET", &format!("{RESPONSES}/{}", id(&first)), "ostler_2").await.status, 404);
    let second = respond(&house, "say two", Some(&id(&first))).await;
    assert_eq!((text(&second).as_str(), conversation(&second)), ("two", conversation(&first)));
    assert_eq!(house.stage.log(|log| log.started[0].len()), 2, "the new process is told what was said");
    house.close().await;
}

#[tokio::test]
async fn an_answer_is_told_again_and_forgotten() {
    let house = House::open(Limits::default()).await;
    let first = respond(&house, "say one", None).await;
    let path = format!("{RESPONSES}/{}", id(&first));
    let again = house.bare("GET", &path, "ostler_1").await;
    let same = |got: &Got| {
        let mut told = got.json();
        told["created_at"] = Value::Null;
        told
    };
    assert_eq!(same(&again), same(&first));
    let got = house.bare("GET", &format!("{path}/input_items"), "ostler_1").await.json();
    assert_eq!(got["data"][0]["content"][0]["text"], json!("say one"));
    let got = house.get(&head(&format!("{path}/cancel"), "ostler_1"), "").await;
    assert_eq!((got.status, &got.json()["status"]), (200, &json!("completed")), "it is over already");
    assert_eq!(house.bare("DELETE", &path, "ostler_1").await.json()["deleted"], json!(true));
    for method in ["GET", "DELETE"] {
        let got = house.bare(method, &path, "ostler_1").await;
        assert_eq!((got.status, &got.json()["error"]["type"]), (404, &json!("invalid_request_error")));
    }
    assert_eq!(house.bare("GET", &format!("{RESPONSES}/resp_1"), "ostler_1").await.status, 404);
    house.close().await;
}

#[tokio::test]
async fn what_is_not_to_be_kept_is_not() {
    let house = House::open(Limits::default()).await;
    let body = json!({"model": "claude", "input": "say one", "store": false});
    let got = house.post(RESPONSES, "ostler_1", &body).await;
    assert_eq!(text(&got), "one");
    assert_eq!(house.bare("GET", &format!("{RESPONSES}/{}", id(&got)), "ostler_1").await.status, 404);
    let follow = json!({"model": "claude", "input": "say two", "previous_response_id": id(&got)});
    assert_eq!(house.post(RESPONSES, "ostler_1", &follow).await.status, 400);
    let mut files = Vec::new();
    for tenant in std::fs::read_dir(house.kept.path().join("conversations")).unwrap() {
        files.extend(std::fs::read_dir(tenant.unwrap().path()).unwrap());
    }
    assert!(files.is_empty(), "{files:?}");
    house.close().await;
}

/// What is not to be kept takes nothing with it that is, and what is asked after it is kept again.
#[tokio::test]
async fn a_turn_that_is_not_kept_leaves_those_that_are() {
    let house = House::open(Limits::default()).await;
    let first = respond(&house, "say one", None).await;
    let body =
        json!({"model": "claude", "input": "say two", "previous_response_id": id(&first), "store": false});
    let second = house.post(RESPONSES, "ostler_1", &body).await;
    assert_eq!((text(&second), conversation(&second) == conversation(&first)), ("two".to_owned(), false));
    assert_eq!(house.bare("GET", &format!("{RESPONSES}/{}", id(&first)), "ostler_1").await.status, 200);
    assert_eq!(text(&respond(&house, "say three", Some(&id(&first))).await), "three");
    // The other way round: what was said is sent.
    let unkept = json!({"model": "claude", "input": "say four", "store": false});
    let unkept = house.post(RESPONSES, "ostler_1", &unkept).await;
    let echo = json!([{"role": "user", "content": "say four"}, unkept.json()["output"][0],
        {"role": "user", "content": "say five"}]);
    let kept = house.post(RESPONSES, "ostler_1", &json!({"model": "claude", "input": echo})).await;
    assert_eq!(text(&kept), "five", "{}", kept.body);
    assert_eq!(house.bare("GET", &format!("{RESPONSES}/{}", id(&kept)), "ostler_1").await.status, 200);
    house.close().await;
}

#[tokio::test]
async fn who_names_anothers_conversation_gets_one_of_his_own() {
    let house = House::open(Limits::default()).await;
    let (words, more) = (asked(&[("user", "say one")]), asked(&[("user", "say two")]));
    let theirs = conversation(&house.post("/v1/messages", "ostler_writer", &words).await);
    let named = |key: &str| format!("{}\r\nx-ostler-conversation: {theirs}", head("/v1/messages", key));
    let mine = house.get(&named("ostler_2"), &more.to_string()).await;
    assert_eq!((mine.status, conversation(&mine) == theirs), (200, false));
    let again = house.get(&named("ostler_2"), &more.to_string()).await;
    assert_eq!(conversation(&again), conversation(&mine), "it is a name like any other");
    // Theirs is where it was, and its session too.
    let session = format!("/api/v1/sessions/{theirs}");
    let shown = house.bare("GET", &session, "ostler_writer").await;
    assert_eq!((shown.status, &shown.json()["process"]["turns"]), (200, &json!(1)), "{}", shown.body);
    let on = house.get(&named("ostler_writer"), &more.to_string()).await;
    assert_eq!((on.status, conversation(&on)), (200, theirs));
    assert_eq!(house.stage.log(|log| log.started.len()), 2);
    house.close().await;
}

#[tokio::test]
async fn an_answer_under_way_is_broken_off_from_elsewhere() {
    let house = House::open(Limits::default()).await;
    for (path, prefix) in DOORS {
        let mut stream = house.ask(&head(path, "ostler_1"), &hang(path, true).to_string()).await;
        let heard = until_half(&mut stream).await;
        let from = heard.find(prefix).unwrap();
        let end = heard[from..].find('"').unwrap();
        let id = heard[from..from + end].to_owned();
        if path == RESPONSES {
            let got = house.bare("GET", &format!("{path}/{id}"), "ostler_1").await;
            assert_eq!(got.json()["status"], json!("in_progress"));
        }
        let foreign = house.get(&head(&format!("{path}/{id}/cancel"), "ostler_2"), "").await;
        assert_eq!(foreign.status, 404);
        let got = house.get(&head(&format!("{path}/{id}/cancel"), "ostler_1"), "").await;
        assert_eq!((got.status, &got.json()["status"]), (200, &json!("cancelled")), "{}", got.body);
        // Whoever reads it is told that it is not whole.
        let mut rest = String::new();
        tokio::time::timeout(DEADLINE, stream.read_to_string(&mut rest)).await.unwrap().unwrap();
        let last = last_of(&rest);
        match path {
            RESPONSES => assert_eq!(
                (&last["type"], &last["response"]["incomplete_details"]["reason"]),
                (&json!("response.incomplete"), &json!("interrupted"))
            ),
            MESSAGES => assert_eq!(
                (&last["type"], &last["error"]["type"]),
                (&json!("error"), &json!("invalid_request_error"))
            ),
            _ => assert_eq!(last["error"]["code"], json!("cancelled")),
        }
        assert!(!rest.contains("[DONE]") && !rest.contains("message_stop"), "{rest}");
    }
    house.close().await;
}

#[tokio::test]
async fn a_whole_answer_that_is_broken_off_from_elsewhere_is_none() {
    let house = House::open(Limits::default()).await;
    for (count, (path, _)) in (1..).zip(DOORS) {
        let body = hang(path, false).to_string();
        let head = head(path, "ostler_owner");
        let answered = house.get(&head, &body);
        let broken_off = async {
            while house.stage.log(|log| log.asked.len()) < count {
                tokio::task::yield_now().await;
            }
            let sessions = house.bare("GET", "/api/v1/sessions", "ostler_owner").await.json();
            let sessions = sessions["sessions"].as_array().unwrap();
            let busy = sessions.iter().find(|session| !session["turn"].is_null()).unwrap();
            let path = format!("/api/v1/sessions/{}/interrupt", busy["id"].as_str().unwrap());
            assert_eq!(house.bare("POST", &path, "ostler_owner").await.status, 200);
        };
        let (got, ()) =
            tokio::time::timeout(DEADLINE, async { tokio::join!(answered, broken_off) }).await.unwrap();
        match path {
            RESPONSES => {
                assert_eq!((got.status, &got.json()["status"]), (200, &json!("cancelled")));
                assert_eq!(got.json()["usage"], Value::Null, "the agent told none");
            }
            // Libraries try 408, 409, 429 and 5xx again by themselves: somebody did not want it.
            _ => assert_eq!(got.status, 499, "{}", got.body),
        }
    }
    house.close().await;
}

/// The three APIs, and how the ids of their answers begin.
const DOORS: [(&str, &str); 3] =
    [(RESPONSES, "resp_"), ("/v1/chat/completions", "chatcmpl-"), (MESSAGES, "msg_")];

/// A question whose answer has no end.
fn hang(path: &str, stream: bool) -> Value {
    match path {
        RESPONSES => json!({"model": "claude", "stream": stream, "input": "hang"}),
        _ => {
            let mut body = asked(&[("user", "hang")]);
            body["stream"] = json!(stream);
            body
        }
    }
}

async fn until_half(stream: &mut TcpStream) -> String {
    let mut heard = String::new();
    let read = async {
        let mut buffer = [0; 4096];
        while !heard.contains("half") {
            let count = stream.read(&mut buffer).await.unwrap();
            heard.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    };
    tokio::time::timeout(DEADLINE, read).await.unwrap();
    heard
}

/// The last thing that a stream told.
fn last_of(told: &str) -> Value {
    let last = told.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {told}"))
}

#[tokio::test]
async fn an_answer_that_the_end_of_the_server_breaks_off_is_an_error() {
    for (path, _) in DOORS {
        let mut house = House::open(Limits::default()).await;
        let mut streamed = house.ask(&head(path, "ostler_1"), &hang(path, true).to_string()).await;
        let mut whole = house.ask(&head(path, "ostler_2"), &hang(path, false).to_string()).await;
        until_half(&mut streamed).await;
        let both = async {
            while house.stage.log(|log| log.asked.len()) < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, both).await.unwrap();
        drop(house.stop.take());
        let (mut rest, mut answer) = (String::new(), String::new());
        let read = async {
            streamed.read_to_string(&mut rest).await.unwrap();
            whole.read_to_string(&mut answer).await.unwrap();
        };
        tokio::time::timeout(DEADLINE, read).await.unwrap();
        let last = last_of(&rest);
        match path {
            RESPONSES => assert_eq!(last["type"], json!("response.failed")),
            MESSAGES => assert_eq!(last["error"]["type"], json!("overloaded_error")),
            _ => assert_eq!(last["error"]["code"], json!("closing")),
        }
        assert!(!rest.contains("[DONE]") && !rest.contains("message_stop"), "{rest}");
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after"), "{answer}");
        house.close().await;
    }
}

#[tokio::test]
async fn a_conversation_has_a_name() {
    let house = House::open(Limits::default()).await;
    let ask =
        |name: &str, key: &str| format!("{}\r\nx-ostler-conversation: {name}", head("/v1/messages", key));
    let one = house.get(&ask("mine", "ostler_1"), &asked(&[("user", "say one")]).to_string()).await;
    let two = house.get(&ask("mine", "ostler_1"), &asked(&[("user", "say two")]).to_string()).await;
    assert_eq!((two.status, conversation(&one)), (200, conversation(&two)));
    // By its id, and with all that was said, it is the same.
    let all = [("user", "say one"), ("assistant", "one"), ("user", "say two"), ("assistant", "two")];
    let on = [&all[..], &[("user", "say three")]].concat();
    let three = house.get(&ask(&conversation(&one), "ostler_1"), &asked(&on).to_string()).await;
    assert_eq!((three.status, conversation(&three)), (200, conversation(&one)));
    assert_eq!(house.stage.log(|log| log.started.len()), 1);
    // An edited history is another conversation; another key's is another's.
    let edited = [("user", "say 1"), ("assistant", "one"), ("user", "say two")];
    let got = house.get(&ask("mine", "ostler_1"), &asked(&edited).to_string()).await;
    assert_ne!(conversation(&got), conversation(&one));
    let other = house.get(&ask("mine", "ostler_2"), &asked(&[("user", "say one")]).to_string()).await;
    assert_ne!(conversation(&other), conversation(&one));
    // The conversation of a user.
    let body = |words: &str, user: Value| {
        json!({"model": "claude", "user": user, "messages": messages(&[("user", words)])}).to_string()
    };
    let of_user = format!("{}\r\nx-ostler-conversation: user", head("/v1/chat/completions", "ostler_1"));
    let anna = house.get(&of_user, &body("say one", json!("anna"))).await;
    let again = house.get(&of_user, &body("say two", json!("anna"))).await;
    let bert = house.get(&of_user, &body("say one", json!("bert"))).await;
    assert_eq!(conversation(&anna), conversation(&again));
    assert_ne!(conversation(&anna), conversation(&bert));
    assert_eq!(house.get(&of_user, &body("say one", Value::Null)).await.status, 400);
    assert_eq!(
        house
            .get(&ask(&"x".repeat(200), "ostler_1"), &asked(&[("user", "say one")]).to_string())
            .await
            .status,
        400
    );
    house.close().await;
}

#[tokio::test]
async fn two_do_not_write_in_one_conversation_at_once() {
    let house = House::open(Limits::default()).await;
    let ask = format!("{}\r\nx-ostler-conversation: mine", head("/v1/messages", "ostler_1"));
    let busy = house.ask(&ask, &asked(&[("user", "wait")]).to_string()).await;
    let asked_once = async {
        while house.stage.log(|log| log.asked.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, asked_once).await.unwrap();
    let got = house.get(&ask, &asked(&[("user", "say one")]).to_string()).await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (409, &json!("invalid_request_error")));
    house.stage.gate.notify_one();
    drop(busy);
    house.close().await;
}

#[tokio::test]
async fn a_conversation_that_is_sent_back_keeps_its_id() {
    let house = House::open(Limits::default()).await;
    let talk = [("user", "say one"), ("assistant", "one"), ("user", "say two")];
    let one = house.post("/v1/messages", "ostler_1", &asked(&talk[..1])).await;
    let two = house.post("/v1/messages", "ostler_1", &asked(&talk)).await;
    assert_eq!(conversation(&one), conversation(&two));
    // The same history once more is another conversation: the first went on.
    let other = house.post("/v1/messages", "ostler_1", &asked(&talk)).await;
    assert_ne!(conversation(&other), conversation(&one));
    house.close().await;
}

#[tokio::test]
async fn what_is_asked_twice_under_one_key_is_done_once() {
    let house = House::open(Limits::default()).await;
    let once = |key: &str| format!("{}\r\nidempotency-key: {key}", head("/v1/messages", "ostler_1"));
    for stream in [false, true] {
        let mut body = asked(&[("user", "say one")]);
        body["stream"] = json!(stream);
        let key = format!("key-{stream}");
        let first = house.get(&once(&key), &body.to_string()).await;
        let again = house.get(&once(&key), &body.to_string()).await;
        assert_eq!((again.status, &again.body), (first.status, &first.body), "stream {stream}");
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.header("x-ostler-conversation"), first.header("x-ostler-conversation"));
        assert_eq!(first.header("idempotent-replayed"), None);
        let other = house.get(&once(&key), &asked(&[("user", "say two")]).to_string()).await;
        assert_eq!((other.status, &other.json()["error"]["type"]), (400, &json!("invalid_request_error")));
    }
    assert_eq!(house.stage.log(|log| log.asked.len()), 2, "each was asked once");
    // What failed for a reason that may be gone is tried again.
    for _ in 0..2 {
        let got = house.get(&once("fails"), &asked(&[("user", "fail")]).to_string()).await;
        assert_eq!(got.status, 503);
    }
    assert_eq!(house.stage.log(|log| log.asked.len()), 4);
    // While the first is under way the second is told so.
    let busy = house.ask(&once("busy"), &asked(&[("user", "wait")]).to_string()).await;
    let asked_once = async {
        while house.stage.log(|log| log.asked.len()) < 5 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, asked_once).await.unwrap();
    assert_eq!(house.get(&once("busy"), &asked(&[("user", "wait")]).to_string()).await.status, 409);
    house.stage.gate.notify_one();
    drop(busy);
    house.close().await;
}

#[tokio::test]
async fn what_came_of_a_call_follows_the_answer_that_made_it() {
    let house = House::open(Limits::default()).await;
    let tools = json!([{"type": "function", "name": "weather", "parameters": {"type": "object"}}]);
    let body = json!({"model": "claude", "input": "call Rome", "tools": tools});
    let first = house.post(RESPONSES, "ostler_1", &body).await;
    let told = |got: &Got| got.json()["output"][1]["call_id"].clone();
    assert_eq!((first.status, told(&first)), (200, json!("call_Rome")), "{}", first.body);
    let again = house.bare("GET", &format!("{RESPONSES}/{}", id(&first)), "ostler_1").await;
    assert_eq!(told(&again), json!("call_Rome"), "it is told again with its call");
    let outcome = json!([{"type": "function_call_output", "call_id": "call_Rome", "output": "sun"}]);
    let body =
        json!({"model": "claude", "input": outcome, "tools": tools, "previous_response_id": id(&first)});
    let second = house.post(RESPONSES, "ostler_1", &body).await;
    assert_eq!((second.status, text(&second).as_str()), (200, "call_Rome=sun"), "{}", second.body);
    assert_eq!(conversation(&second), conversation(&first));
    assert_eq!(house.stage.log(|log| log.started.len()), 1, "in the session that waits for it");
    house.close().await;
}

/// As the AI SDK sends a conversation back.
#[tokio::test]
async fn parts_of_answers_are_sent_back_by_their_ids() {
    let house = House::open(Limits::default()).await;
    let tools = json!([{"type": "function", "name": "weather", "parameters": {"type": "object"}}]);
    let ask = |input: Value| json!({"model": "claude", "input": input, "tools": tools});
    let user = |text: &str| json!({"role": "user", "content": [{"type": "input_text", "text": text}]});
    let part = |got: &Got, at: usize| json!({"type": "item_reference", "id": got.json()["output"][at]["id"]});
    let mut input = vec![user("say one")];
    let one = house.post(RESPONSES, "ostler_1", &ask(json!(input))).await;
    input.extend([part(&one, 0), user("call Rome")]);
    let two = house.post(RESPONSES, "ostler_1", &ask(json!(input))).await;
    assert_eq!(two.status, 200, "{}", two.body);
    let outcome = json!({"type": "function_call_output", "call_id": "call_Rome", "output": "sun"});
    input.extend([part(&two, 0), part(&two, 1), outcome]);
    let three = house.post(RESPONSES, "ostler_1", &ask(json!(input))).await;
    assert_eq!((three.status, text(&three).as_str()), (200, "call_Rome=sun"), "{}", three.body);
    assert_eq!(house.stage.log(|log| log.started.len()), 1, "it is one session");
    // Nobody else has them, and what is not there is told.
    let other = house.post(RESPONSES, "ostler_2", &ask(json!(input))).await;
    assert_eq!((other.status, &other.json()["error"]["param"]), (400, &json!("input[1]")), "{}", other.body);
    let none = ask(json!([{"type": "item_reference", "id": "msg_1"}, user("say one")]));
    assert_eq!(house.post(RESPONSES, "ostler_1", &none).await.status, 400);
    house.close().await;
}

/// Instructions are each request's own; what stands among what is asked is part of it.
#[tokio::test]
async fn what_is_said_to_the_model_holds_for_what_follows() {
    let house = House::open(Limits::default()).await;
    let said = json!([{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "say one"}]);
    let first = json!({"model": "claude", "input": said});
    let mut last = id(&house.post(RESPONSES, "ostler_1", &first).await);
    for words in ["say two", "say three"] {
        last = id(&respond(&house, words, Some(&last)).await);
    }
    assert_eq!(house.stage.log(|log| log.systems.clone()), [Some("Be kind.".to_owned())], "one session");
    let instructed = json!({"model": "claude", "input": "say four", "instructions": "Be short."});
    let last = id(&house.post(RESPONSES, "ostler_1", &instructed).await);
    respond(&house, "say five", Some(&last)).await;
    let systems = house.stage.log(|log| log.systems[1..].to_vec());
    assert_eq!(systems, [Some("Be short.".to_owned()), None]);
    house.close().await;
}
