use super::*;

#[test]
fn a_run_lacks_what_has_no_receipt_or_an_open_draft() {
    let mut standing = Standing::new(["plan".to_owned(), "result".to_owned()]);
    let missing = |standing: &Standing| standing.missing_to_complete().join(" | ");
    assert_eq!(
        missing(&standing),
        "the artifact `plan`, which was not submitted | the artifact `result`, which was not submitted | \
         the call of `declare_complete`"
    );
    standing.accepted("plan", 1);
    standing.rejected("result", 1);
    assert_eq!(
        missing(&standing),
        "the artifact `result`, whose newest draft was rejected for 1 fault | the call of `declare_complete`"
    );
    standing.accepted("result", 2);
    assert_eq!(standing.missing(), Vec::<String>::new());
    standing.claimed(3);
    assert_eq!(missing(&standing), "");
    // A newer draft that was rejected undoes what was there, also of a kind that nobody required.
    standing.rejected("result", 2);
    standing.rejected("issues", 3);
    assert_eq!(
        missing(&standing),
        "the artifact `issues`, whose newest draft was rejected for 3 faults | \
         the artifact `result`, whose newest draft was rejected for 2 faults"
    );
    let states = [
        ("issues".to_owned(), State::Draft { faults: 3 }),
        ("plan".to_owned(), State::Accepted { receipt: 1 }),
        ("result".to_owned(), State::Draft { faults: 2 }),
    ];
    assert_eq!(standing.states(), states);
}

#[test]
fn what_was_seen_on_the_wire_is_evidence() {
    let mut standing = Standing::new([]);
    standing.accepted("plan", 1);
    standing.claimed(2);
    let facts: Vec<String> =
        standing.evidence().into_iter().map(|one| format!("{} ({:?})", one.fact, one.grade)).collect();
    assert_eq!(facts, ["the agent declared completion (Wire)", "artifact `plan` accepted (Wire)"]);
}
