use super::*;

const PATH: &str = "/v1/messages";

fn look(repeats: &Repeats, tenant: &str, key: &str, asked: &str) -> Result<Turned, Problem> {
    repeats.look(tenant, (PATH, key), digest(&HeaderMap::new(), asked.as_bytes()))
}

fn first(repeats: &Repeats, key: &str, asked: &str) -> Option<Slot> {
    match look(repeats, "one", key, asked) {
        Ok(Turned::First(slot)) => Some(slot),
        Ok(Turned::Again(_)) | Err(_) => None,
    }
}

fn kind(turned: Result<Turned, Problem>) -> Option<Kind> {
    turned.err().map(|problem| problem.kind)
}

#[tokio::test]
async fn what_was_answered_is_answered_again() {
    let repeats = Repeats::default();
    let mut slot = first(&repeats, "k", "a").unwrap();
    assert_eq!(kind(look(&repeats, "one", "k", "a")), Some(Kind::Held), "it is under way");
    assert!(first(&repeats, "other", "a").is_some());
    assert!(matches!(look(&repeats, "two", "k", "a"), Ok(Turned::First(_))), "another tenant");
    slot.head(StatusCode::OK, &HeaderMap::new());
    slot.piece(b"wor");
    slot.piece(b"ds");
    slot.end();
    drop(slot);
    let Ok(Turned::Again(given)) = look(&repeats, "one", "k", "a") else { panic!("forgotten") };
    assert_eq!((given.status, &given.body[..]), (StatusCode::OK, &b"words"[..]));
    assert_eq!(kind(look(&repeats, "one", "k", "b")), Some(Kind::Invalid));
}

#[tokio::test]
async fn other_headers_of_ours_are_another_question() {
    let repeats = Repeats::default();
    let with = |name: &'static str, value: &str| {
        let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
        repeats.look("one", (PATH, "k"), digest(&headers, b"a"))
    };
    let Ok(Turned::First(mut slot)) = with("x-ostler-conversation", "alpha") else { panic!("not the first") };
    slot.end();
    assert!(matches!(with("x-ostler-conversation", "alpha"), Ok(Turned::Again(_))));
    assert_eq!(kind(with("x-ostler-conversation", "beta")), Some(Kind::Invalid));
    assert_eq!(kind(with("x-ostler-engine", "terminal")), Some(Kind::Invalid));
    assert_eq!(kind(with("user-agent", "x")), Some(Kind::Invalid), "none at all");
}

#[tokio::test]
async fn what_broke_off_or_may_be_over_the_next_time_is_not_kept() {
    let repeats = Repeats::default();
    drop(first(&repeats, "k", "a"));
    for status in [408, 409, 429, 499, 500, 502, 503, 504] {
        let mut slot = first(&repeats, "k", "a").unwrap();
        slot.head(StatusCode::from_u16(status).unwrap(), &HeaderMap::new());
        slot.end();
    }
    let mut slot = first(&repeats, "k", "a").unwrap();
    slot.piece(&vec![0; LONGEST_KEPT + 1]);
    slot.end();
    assert_eq!(kind(look(&repeats, "one", "k", "a")), Some(Kind::Held), "too long");
    let mut slot = first(&repeats, "wrong", "a").unwrap();
    slot.head(StatusCode::BAD_REQUEST, &HeaderMap::new());
    slot.end();
    assert!(matches!(look(&repeats, "one", "wrong", "a"), Ok(Turned::Again(_))), "it would be wrong again");
}

#[tokio::test]
async fn only_so_many_are_kept_and_none_of_another_tenant_goes_for_them() {
    let repeats = Repeats::default();
    let Ok(Turned::First(mut others)) = look(&repeats, "two", "k", "a") else { panic!("not the first") };
    others.end();
    let under_way = first(&repeats, "under way", "a").unwrap();
    for number in 0..2 * MOST_KEPT {
        first(&repeats, &number.to_string(), "a").unwrap().end();
    }
    assert_eq!(repeats.kept()["one"].len(), MOST_KEPT);
    assert_eq!(kind(look(&repeats, "one", "under way", "a")), Some(Kind::Held), "it is not forgotten");
    assert!(matches!(look(&repeats, "two", "k", "a"), Ok(Turned::Again(_))));
    drop(under_way);
}

#[tokio::test]
async fn too_many_under_way_are_refused_and_none_is_forgotten() {
    let repeats = Repeats::default();
    let under_way: Vec<Slot> =
        (0..MOST_KEPT).map(|number| first(&repeats, &number.to_string(), "a").unwrap()).collect();
    let refused = look(&repeats, "one", "one more", "a").err().unwrap();
    assert_eq!((refused.kind, refused.again_at.is_some()), (Kind::TooMany, true));
    assert!(matches!(look(&repeats, "two", "one more", "a"), Ok(Turned::First(_))), "another tenant");
    assert_eq!(kind(look(&repeats, "one", "0", "a")), Some(Kind::Held));
    drop(under_way);
    assert!(first(&repeats, "one more", "a").is_some());
}

#[tokio::test]
async fn answers_take_only_so_much_room() {
    let repeats = Repeats::default();
    for number in 0..2 * MOST_BYTES / LONGEST_KEPT {
        let mut slot = first(&repeats, &number.to_string(), "a").unwrap();
        slot.piece(&vec![0; LONGEST_KEPT]);
        slot.end();
    }
    assert_eq!(repeats.kept()["one"].len(), MOST_BYTES / LONGEST_KEPT);
    assert!(first(&repeats, "0", "a").is_some(), "the oldest went first");
}

#[tokio::test(start_paused = true)]
async fn ten_minutes_count_from_the_answer() {
    let repeats = Repeats::default();
    let mut slot = first(&repeats, "k", "a").unwrap();
    tokio::time::advance(2 * KEPT_FOR).await;
    assert_eq!(kind(look(&repeats, "one", "k", "a")), Some(Kind::Held), "a turn may take longer");
    slot.end();
    tokio::time::advance(KEPT_FOR - Duration::from_secs(1)).await;
    assert!(matches!(look(&repeats, "one", "k", "a"), Ok(Turned::Again(_))));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(first(&repeats, "k", "a").is_some());
}
