//! All is well, and that is what is told.

use serde_json::Value;

use super::ground::Ground;
use crate::player::Player;
use crate::yard::ended;

const ALL: [Player; 4] = [Player::ClaudeTerminal, Player::ClaudeStream, Player::Codex, Player::OpenCode];

#[test]
fn every_agent_passes_and_what_must_be_seen_on_the_wire_was() {
    let Some(ground) = Ground::of(&ALL) else { return };
    let told = ground.smoke();
    let results = told.json["results"].as_array().unwrap();
    assert_eq!(told.code, Some(0), "{:#}\n{}", told.json, told.stderr);
    for (result, player) in results.iter().zip(ALL) {
        assert_eq!(result["agent"], player.agent().name());
        assert_eq!(result["version"], player.agent().package().verified);
        assert_eq!((&result["verdict"], &result["outcome"]), (&"PASS".into(), &"completed".into()));
        assert_eq!((&result["survivors"], &result["breaks"]), (&0.into(), &Value::Array(Vec::new())));
        let facts = result["facts"].as_array().unwrap();
        assert!(facts.iter().all(|fact| fact["ok"] == true), "{facts:#?}");
        for name in ["completion", "artifact", "tools"] {
            let fact = facts.iter().find(|fact| fact["fact"] == name).unwrap();
            assert_eq!(fact["grade"], "wire", "{fact}");
        }
        let lines = result["quoted"].as_array().unwrap().len();
        assert!((3..=8).contains(&lines), "{result:#}");
        assert!(told.stderr.contains(&format!(
            "{} {}: PASS",
            player.agent().name(),
            player.agent().package().verified
        )));
    }
    assert_eq!(results.len(), ALL.len());
    assert_eq!(std::fs::read_dir(ground.at("tmp")).unwrap().count(), 0, "what passed is cleared away");
    // And it is kept, to compare the next version with.
    let matrix = std::fs::read_to_string(ground.at("ostler/smoke-matrix.json")).unwrap();
    let matrix: Value = serde_json::from_str(&matrix).unwrap();
    assert_eq!(matrix["green"].as_array().unwrap().len(), ALL.len());
}

#[test]
fn the_table_fits_and_the_report_has_it_all() {
    let Some(ground) = Ground::of(&[Player::Codex]) else { return };
    std::fs::write(ground.at("ostler/smoke-matrix.json"), "{torn").unwrap();
    let output = ended(ground.start(&["--report", "smoke.md"]));
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stderr.contains("smoke-matrix.json cannot be read"), "said, and not fatal: {stderr}");
    assert!(stdout.lines().all(|line| line.chars().count() <= 100), "{stdout}");
    let version = Player::Codex.agent().package().verified;
    let mut lines = stdout.lines();
    let headings: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(
        headings.join(" "),
        "AGENT VERSION ENGINE FILE SESSION EVENTS TOOLS ARTIFACT COMPLETION TURNS TIME BREAKS"
    );
    let cells: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(cells[..5], ["codex", version, "stream", "parsed", "ok"]);
    assert_eq!((&cells[6..10], cells[11]), (&["3/3", "wire", "wire", "1"][..], "none"));
    assert!(stdout.contains(&format!("✓ codex {version}: PASS\n  worked   all 12 facts: ")), "{stdout}");
    assert!(stdout.contains("  said     │ I will write the todo list first.\n"), "{stdout}");
    assert!(stdout.contains("1 of 1 agent passes, in "), "{stdout}");
    let report = std::fs::read_to_string(ground.at("here/smoke.md")).unwrap();
    assert!(report.contains(&format!("## codex {version}: PASS\n")), "{report}");
    assert!(report.contains("| explicit completion | ✓ | wire | receipt 3-"), "{report}");
    assert!(report.contains("\n> I will write the todo list first.  \n"), "{report}");
}
