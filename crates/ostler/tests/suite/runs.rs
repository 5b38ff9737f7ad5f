//! `ostler runs` and `ostler runs since`: what is listed, and what it amounts to.

use std::fs;

use serde_json::{Value, json};

use crate::ground::Ground;

/// A ground with three runs: the first two completed, the last failed.
fn three() -> Ground {
    let ground = Ground::new().with("PATH", "/usr/bin:/bin").with("TZ", "UTC");
    for (agent, code) in [("command:true", 0), ("command:true", 0), ("command:false", 10)] {
        let ended = ground.run(&["run", "-a", agent, "--permissions", "all", "--quiet", "mend the parser"]);
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    }
    ground
}

fn json(ground: &Ground, args: &[&str]) -> Value {
    let ended = ground.run(args);
    assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Changes a file of a run.
fn edit(run: &Value, file: &str, change: impl FnOnce(&mut Value)) {
    let path = format!("{}/{file}", run["journal"].as_str().unwrap());
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn runs_has_a_limit_duration_cost_and_folder() {
    let ground = three();
    let all = json(&ground, &["runs", "--json"]);
    edit(&all[0], "outcome.json", |outcome| outcome["cost_usd"] = json!(1.234));
    let listed = ground.run(&["runs", "--limit", "2"]).stdout;
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 4, "{listed}");
    for heading in ["RUN", "AGENT", "OUTCOME", "BEGAN", "TOOK", "COST", "FOLDER", "PROMPT"] {
        assert!(lines[0].contains(heading), "{heading}: {listed}");
    }
    let folder = ground.at("project").display().to_string();
    for cell in ["command:false", "agent_failed", "s  $1.23  ", &folder, "mend the parser"] {
        assert!(lines[1].contains(cell), "{cell}: {listed}");
    }
    assert!(lines[2].contains("s  -  "), "{listed}");
    assert_eq!(lines[3], "… and 1 older run: `ostler runs --all`");
    assert_eq!(ground.run(&["runs", "--all"]).stdout.lines().count(), 4);
    assert_eq!(ground.run(&["runs"]).stdout.lines().count(), 4);
    // Programs get all, unless they want less.
    assert_eq!(all.as_array().unwrap().len(), 3);
    let one = json(&ground, &["runs", "--limit", "1", "--json"]);
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!((&one[0]["cost_usd"], &one[0]["engine"]), (&json!(1.234), &"stream".into()));
    assert!(one[0]["ms"].is_u64() && one[0]["ended_at"].as_i64() >= one[0]["began_at"].as_i64(), "{one}");
    assert_eq!(ground.run(&["runs", "--limit", "1", "--all"]).code, Some(2));
}

#[test]
fn runs_since_is_a_morning_table() {
    let ground = three();
    let all = json(&ground, &["runs", "--json"]);
    let day = 86_400;
    // The oldest began and ended two days ago; the next began then, and ended a moment ago.
    for run in [&all[2], &all[1]] {
        edit(run, "run.json", |facts| {
            facts["began_at"] = json!(facts["began_at"].as_i64().unwrap() - 2 * day);
        });
    }
    edit(&all[1], "outcome.json", |outcome| outcome["ms"] = json!(2 * day * 1_000));
    let since = ground.run(&["runs", "since", "24h"]);
    assert_eq!(since.code, Some(0), "{}", since.stderr);
    let lines: Vec<&str> = since.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{}", since.stdout);
    assert!(lines[1].contains("agent_failed") && lines[2].contains("completed"), "{}", since.stdout);
    assert!(lines[2].contains("  48h  "), "{}", since.stdout);
    assert_eq!(lines[3], "");
    assert!(lines[4].starts_with("2 runs since "), "{}", since.stdout);
    assert!(lines[4].ends_with(": 1 agent_failed, 1 completed; cost unknown; 48h"), "{}", since.stdout);
    let listed = json(&ground, &["runs", "since", "3d", "--json"]);
    assert_eq!(listed["totals"]["outcomes"], json!({"agent_failed": 1, "completed": 2}));
    assert_eq!((&listed["v"], &listed["totals"]["runs"]), (&1.into(), &3.into()));
    assert_eq!(listed["runs"].as_array().unwrap().len(), 3);
    for time in ["yesterday", "00:00", "2020-01-01", "2020-01-01T18:00"] {
        assert_eq!(ground.run(&["runs", "since", time]).code, Some(0), "{time}");
    }
    for time in ["soon", "25:00", "2999-01-01"] {
        let ended = ground.run(&["runs", "since", time]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{time}");
        assert!(ended.stderr.contains("error: invalid value"), "{}", ended.stderr);
    }
    let none = Ground::new().run(&["runs", "since", "1h"]);
    assert!(none.stdout.starts_with("No runs since "), "{}", none.stdout);
}
