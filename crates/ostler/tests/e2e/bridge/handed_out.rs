//! What becomes of documents after they were accepted: copies, and changes by others.

use serde_json::json;

use super::{PLAN, after, call, declare, journal, says, submit};
use crate::player::Player;
use crate::yard::Yard;

/// The agent can write to the folder of its own run. That it changed what was accepted is in the outcome, and no copy of
/// that is handed out.
#[test]
fn a_document_that_the_agent_changes_later_is_told_and_not_exported() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    let forge = format!(
        "[[conversation.step]]\nreply = [{{ tool_by_role = \"shell\", command = \"echo mine > $(echo {}/runs/*/artifacts/plan.md)\" }}]\n",
        yard.at("ostler").display()
    );
    let script =
        yard.script(&format!("[[conversation]]\n{}{forge}{}{}", submit(PLAN), declare(), says("Done.")));
    let folder = yard.at("exported").display().to_string();
    let ended = yard.run(&[
        &script,
        "--permissions",
        "all",
        "--require-artifact",
        "plan",
        "--export-artifacts",
        &folder,
        "Plan it.",
    ]);
    ended.ends("completed", 0);
    let changed = ended.outcome()["bridge"]["changed"][0].as_str().unwrap();
    assert!(changed.ends_with("plan.md is not what was accepted: somebody changed it"), "{changed}");
    let exported = json!({"folder": folder, "copied": [], "failed": []});
    assert_eq!(ended.outcome()["bridge"]["exported"], exported);
    let warned = ended.with("kind", "warn").filter_map(|line| line["text"].as_str());
    assert_eq!(warned.filter(|text| text.contains("somebody changed it")).count(), 1);
    assert!(!yard.at("exported/plan.md").exists());
    assert!(yard.shown().contains("BROKEN: "), "{}", yard.shown());
    yard.is_empty();
}

/// Whoever reads the outcome must know that the copy is not there, not only whoever watched.
#[test]
fn a_copy_that_cannot_be_made_is_in_the_outcome() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    // The folder can be made when the run begins, and cannot when it ends.
    let bar =
        "[[conversation.step]]\nreply = [{ tool_by_role = \"shell\", command = \"touch ../exported\" }]\n";
    let script =
        yard.script(&format!("[[conversation]]\n{}{bar}{}{}", submit(PLAN), declare(), says("Done.")));
    let folder = yard.at("exported/below").display().to_string();
    let args = ["--permissions", "all", "--export-artifacts", &folder, "Plan it."];
    let ended = yard.run(&[&[script.as_str()], &args[..]].concat());
    ended.ends("completed", 0);
    let exported = &ended.outcome()["bridge"]["exported"];
    assert_eq!(exported["copied"], json!([]));
    let failed = exported["failed"][0].as_str().unwrap();
    assert!(failed.starts_with("`plan` to ") && failed.contains("Not a directory"), "{failed}");
    assert!(yard.shown().contains("not `plan` to "), "{}", yard.shown());
}

/// The rules of a project are those with which a run began, whatever its agent makes of them.
#[test]
fn an_agent_cannot_make_the_rules_easier_for_its_own_run() {
    let Some(yard) = Yard::bridged(Player::Codex) else { return };
    let rules = yard.workspace().join(".ostler/artifacts/review.toml");
    std::fs::create_dir_all(rules.parent().unwrap()).unwrap();
    std::fs::write(&rules, "headings = [\"## Findings\"]\n").unwrap();
    let ease = "[[conversation.step]]\nreply = [{ tool_by_role = \"shell\", command = \"echo 'headings = []' > .ostler/artifacts/review.toml\" }]\n";
    let review = call("submit_artifact", "type = \"review\", content = \"# Nothing\\n\"");
    let script = yard.script(&format!(
        "[[conversation]]\n{}{}{}[[conversation]]\n{ease}{}",
        review.replacen("reply", "expect = { contains = \"Now hand it over\" }\nreply", 1),
        after("missing_heading", &declare()),
        says("I tried."),
        says("Later."),
    ));
    let first = ["--permissions", "all", "--require-artifact", "review", "--max-resumes", "0", "Review it."];
    yard.run(&[&[script.as_str()], &first[..]].concat()).ends("incomplete", 11);
    assert_eq!(std::fs::read_to_string(&rules).unwrap(), "headings = []\n");
    let again = yard.ostler(&["run", "--resume", "last", "--json", "Now hand it over."]).output().unwrap();
    let ended = crate::yard::Ended::of(again);
    ended.ends("incomplete", 11);
    assert_eq!(ended.with("event", "rejected").count(), 1, "{:#?}", ended.lines);
    assert!(journal(&ended).join("kinds/review.toml").is_file());
}
