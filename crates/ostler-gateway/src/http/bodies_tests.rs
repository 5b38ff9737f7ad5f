use axum::body::Body as Sent;
use tokio::time::Instant;

use super::*;
use crate::elsewhere::done_elsewhere;

fn request(text: String) -> Incoming {
    Incoming::builder()
        .header("content-type", "application/json")
        .header("content-length", text.len())
        .body(Sent::from(text))
        .unwrap()
}

fn chunked(text: String) -> Incoming {
    Incoming::builder().header("content-type", "application/json").body(Sent::from(text)).unwrap()
}

fn text(length: usize) -> String {
    format!("\"{}\"", "x".repeat(length - 2))
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn values_are_counted_outside_of_strings() {
    let table = [
        ("1", 1),
        ("[]", 2),
        ("[1,2,3]", 4),
        (r#"{"a":1}"#, 3),
        (r#"[{"":0},{"":0}]"#, 7),
        (r#"",,,[[[{{{""#, 1),
        (r#"["\",[\\",1]"#, 3),
        (r#""never closed,,,"#, 1),
        ("\"\\", 1),
    ];
    for (text, count) in table {
        assert!(!has_more_values(text.as_bytes(), count), "{text} has no more than {count}");
        assert!(has_more_values(text.as_bytes(), count - 1), "{text} has more than {}", count - 1);
    }
}

#[test]
fn a_large_body_is_parsed_off_the_runtimes_own_thread() {
    let bodies = Bodies::new(BodyLimits::default());
    let body = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(bodies.read("a", request(text(SMALL_BODY + 1)), MINUTE)).unwrap()
    };
    let tree = done_elsewhere(bodies.parse(body), || {}).ok().unwrap();
    assert_eq!(tree.value.as_str().map(str::len), Some(SMALL_BODY - 1));
}

#[tokio::test(start_paused = true)]
async fn one_key_takes_its_share_and_waits_and_others_do_not() {
    let limits = BodyLimits { total: 128 << 20, of_key: 64 << 20 };
    let bodies = Bodies::new(limits);
    let first = bodies.admit("a", LONGEST_BODY).await.unwrap();
    let second = bodies.admit("a", LONGEST_BODY).await.unwrap();
    let began = Instant::now();
    let refused = bodies.admit("a", LONGEST_BODY).await.unwrap_err();
    assert_eq!((refused.kind, began.elapsed()), (Kind::TooMany, WAIT));
    assert!(refused.again_at.is_some());
    // Small ones are not held up by it, and neither are other keys.
    assert!(bodies.admit("a", SMALL_BODY).await.unwrap().is_none());
    let other = bodies.admit("b", LONGEST_BODY).await.unwrap();
    let another = bodies.admit("c", LONGEST_BODY).await.unwrap();
    let refused = bodies.admit("d", LONGEST_BODY).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Overloaded, "all keys together have their bound too");
    drop((first, other));
    assert!(bodies.admit("a", LONGEST_BODY).await.unwrap().is_some());
    assert!(bodies.admit("d", LONGEST_BODY).await.unwrap().is_some());
    drop((second, another));
    assert_eq!(bodies.bytes.available_permits(), (128 << 20) / UNIT);
}

#[tokio::test(start_paused = true)]
async fn what_is_admitted_is_free_again_after_the_turn_and_no_earlier() {
    let bodies = Bodies::new(BodyLimits::default());
    let all = bodies.bytes.available_permits();
    let body = bodies.read("a", request(text(1 << 20)), MINUTE).await.unwrap();
    assert_eq!(bodies.bytes.available_permits(), all - 1024);
    let tree = bodies.parse(body).await.unwrap();
    assert_eq!(bodies.parsing.available_permits(), PARSED_AT_ONCE - 1, "while there is a tree");
    let (length, permit) = tree.convert(|value| Ok(value.as_str().map(str::len))).await.unwrap();
    assert_eq!(length, Some((1 << 20) - 2));
    assert_eq!(bodies.parsing.available_permits(), PARSED_AT_ONCE);
    assert_eq!(bodies.bytes.available_permits(), all - 1024, "while there is what was made of it");
    drop(permit);
    assert_eq!(bodies.bytes.available_permits(), all);
    // So it is when nothing comes of it.
    let broken = bodies.read("a", request("x".repeat(1 << 20)), MINUTE).await.unwrap();
    assert!(bodies.parse(broken).await.is_err());
    let values = bodies.read("a", request(format!("[{}0]", "0,".repeat(MOST_VALUES))), MINUTE).await.unwrap();
    assert_eq!(bodies.parse(values).await.map(|tree| tree.value).unwrap_err().kind, Kind::TooLarge);
    assert_eq!((bodies.bytes.available_permits(), bodies.parsing.available_permits()), (all, PARSED_AT_ONCE));
}

#[tokio::test(start_paused = true)]
async fn a_body_without_a_length_counts_as_the_longest_once_it_is_not_small() {
    let bodies = Bodies::new(BodyLimits::default());
    let all = bodies.bytes.available_permits();
    let small = bodies.read("a", chunked(text(1_000)), MINUTE).await.unwrap();
    assert_eq!(bodies.bytes.available_permits(), all);
    let large = bodies.read("a", chunked(text(SMALL_BODY + 1)), MINUTE).await.unwrap();
    assert_eq!(bodies.bytes.available_permits(), all - LONGEST_BODY / UNIT);
    drop((small, large));
    let endless = bodies.read("a", chunked(text(LONGEST_BODY + 1)), MINUTE).await;
    assert_eq!(endless.map(|body| body.bytes.len()).unwrap_err().kind, Kind::TooLarge);
}
