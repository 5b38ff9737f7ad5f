//! What is told about the doors, and that it is all of them.

use ostler_agent::leasing::Limits;
use serde_json::{Value, json};

use crate::house::House;

#[tokio::test]
async fn every_door_is_described_and_every_description_has_its_door() {
    let house = House::open(Limits::default()).await;
    let got = house.get("GET /openapi.json HTTP/1.1", "").await;
    assert_eq!((got.status, got.header("content-type")), (200, Some("application/json")));
    let document = got.json();
    assert_eq!(document["openapi"], json!("3.0.3"));
    let paths = document["paths"].as_object().unwrap();
    let mut count = 0;
    for (path, operations) in paths {
        let asked = path.replace(['{', '}'], "");
        for method in ["get", "post", "put", "delete", "patch"] {
            let got = house.bare(&method.to_ascii_uppercase(), &asked, "ostler_nobody").await;
            let is_described = operations.get(method).is_some();
            assert_eq!(got.status != 405, is_described, "{method} {path}: {}", got.status);
            if is_described {
                count += 1;
                let operation = &operations[method];
                assert!(operation["summary"].is_string() && operation["operationId"].is_string());
                // Whoever has no key gets nowhere that is said to need one.
                let needs_key = operation.get("security").is_some();
                assert_eq!(got.status == 401, needs_key, "{method} {path}: {}", got.status);
                let in_path = path.matches('{').count();
                let named = operation["parameters"].as_array().unwrap();
                assert_eq!(named.iter().filter(|one| one["in"] == "path").count(), in_path);
            }
        }
    }
    assert!(count > 30, "{count}");
    let ids: Vec<&Value> = paths
        .values()
        .flat_map(|operations| operations.as_object().unwrap().values())
        .map(|operation| &operation["operationId"])
        .collect();
    let unique: std::collections::HashSet<String> = ids.iter().map(|id| id.to_string()).collect();
    assert_eq!(unique.len(), ids.len());
    assert_references(&document, &document);
    house.close().await;
}

/// What is referred to is there.
fn assert_references(document: &Value, at: &Value) {
    match at {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
            map.values().for_each(|value| assert_references(document, value));
        }
        Value::Array(list) => list.iter().for_each(|value| assert_references(document, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn the_fields_that_are_described_are_those_that_are_read() {
    let house = House::open(Limits::default()).await;
    let document = house.get("GET /openapi.json HTTP/1.1", "").await.json();
    for path in ["/v1/messages", "/v1/chat/completions", "/v1/responses"] {
        let content = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"];
        let schema = &content["schema"];
        let no_effect = json!("Has no effect; named in `x-ostler-ignored`.");
        assert_eq!(schema["additionalProperties"]["description"], no_effect);
        for (name, about) in schema["properties"].as_object().unwrap() {
            let mut body = json!({"model": "claude", "messages": [{"role": "user", "content": "say one"}]});
            match path {
                "/v1/messages" => body["max_tokens"] = json!(9),
                "/v1/responses" => body = json!({"model": "claude", "input": "say one"}),
                _ => {}
            }
            let is_set = !body[name].is_null();
            if !is_set {
                body[name] = json!("something");
            }
            let got = house.post(path, "ostler_1", &body).await;
            let ignored = got.header("x-ostler-ignored").unwrap_or_default();
            let is_named = ignored.split(", ").any(|ignored| ignored == name);
            match about["description"] == no_effect {
                true => assert!(got.status == 200 && is_named, "{path} {name}: {}", got.body),
                // What is read is read: it is right, or it is told what is wrong.
                false => {
                    assert!(!is_named && (got.status == 200 || got.body.contains(name)), "{path} {name}");
                }
            }
        }
    }
    house.close().await;
}

#[tokio::test]
async fn pages_are_plain_and_ask_nobody_else() {
    let house = House::open(Limits::default()).await;
    for path in ["/", "/docs"] {
        let got = house.get(&format!("GET {path} HTTP/1.1"), "").await;
        assert_eq!(got.status, 200);
        let policy = got.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(!got.body.contains("http://") && !got.body.contains("https://"), "{}", got.body);
        assert!(!got.body.contains("<script") && !got.body.contains(" style="), "{}", got.body);
    }
    let docs = house.get("GET /docs HTTP/1.1", "").await.body;
    for words in ["POST /api/v1/sessions</code>", "GET /v1/models</code>", "terminal:view"] {
        assert!(docs.contains(words), "{words}");
    }
    assert!(house.get("GET / HTTP/1.1", "").await.body.contains("href=\"/docs\""));
    let got = house.get("GET /docs/style.css HTTP/1.1", "").await;
    assert_eq!(got.header("content-type"), Some("text/css; charset=utf-8"));
    house.close().await;
}
