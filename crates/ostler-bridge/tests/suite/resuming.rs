//! A run that goes on in another process: what counts of what was handed over before.

use ostler_bridge::receipts::Past;
use ostler_bridge::route::Terms;
use serde_json::json;

use super::ground::{Ground, Guest, PLAN, RUN};

#[tokio::test]
async fn artifacts_of_an_attempt_with_an_outcome_count_and_its_claim_does_not() {
    let ground = Ground::new().await;
    let (route, _events, guest) = ground.run();
    guest.says("submit_artifact", json!({ "type": "plan", "content": PLAN })).await;
    guest.says("declare_complete", json!({ "summary": "Done." })).await;
    let head = route.head();
    drop(route);
    let again = |head| {
        let terms = Terms { attempt: 2, head, required: vec!["plan".to_owned()], ..ground.terms(RUN) };
        ground.keeper.admit(terms).unwrap().0
    };
    let route = again(Some(head.clone()));
    assert!(matches!(route.past(), Past::Confirmed(receipts) if receipts.len() == 3));
    assert_eq!(route.standing().missing_to_complete(), ["the call of `declare_complete`"]);
    drop(route);
    // A file that grew after the outcome was not written by the run.
    let route = again(Some(head));
    assert!(matches!(route.past(), Past::Broken { .. }));
    assert_eq!(route.standing().missing_to_complete().len(), 2);
    drop(route);
    let route = again(None);
    assert!(matches!(route.past(), Past::Unconfirmed(receipts) if receipts.len() == 1));
    assert_eq!(route.standing().missing_to_complete().len(), 2);
}

#[tokio::test]
async fn an_edit_of_the_receipts_by_the_agent_changes_nothing_and_is_told() {
    let ground = Ground::new().await;
    let (route, _events, guest) = ground.run();
    guest.says("submit_artifact", json!({ "type": "plan", "content": PLAN })).await;
    let path = ground.folder.path().join(RUN).join("receipts.ndjson");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"plan\"", "\"clan\"")).unwrap();
    assert_eq!(
        route.audit().unwrap().unwrap_err().to_string(),
        "the chain of receipts is broken at line 2: its seal is not that of the run's own process"
    );
    assert_eq!(route.standing().missing_to_complete(), ["the call of `declare_complete`"]);
    assert!(
        Guest::of(&route).says("declare_complete", json!({ "summary": "Done." })).await.starts_with("ok")
    );
}
