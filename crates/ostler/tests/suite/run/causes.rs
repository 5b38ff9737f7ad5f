//! What is reported of a run besides its rules: a workspace that was deleted.

use std::fs;

use serde_json::Value;

use super::{ground, outcome, script};

#[test]
fn a_workspace_deleted_under_the_agent_is_not_completed_without_a_word() {
    let ground = ground();
    let table = [
        ("cd /; rm -r \"$OLDPWD\"; echo done", "incomplete", 11, "gone", "was deleted while"),
        (
            "cd /; mv \"$OLDPWD\" \"$OLDPWD.old\"; mkdir \"$OLDPWD\"",
            "completed",
            0,
            "replaced",
            "was replaced by",
        ),
        ("echo done > done.txt", "completed", 0, "present", ""),
    ];
    for (text, word, code, workspace, warning) in table {
        let folder = ground.at("project/work");
        let _ = fs::create_dir(&folder);
        let (agent, folder) = (script(&ground, text), folder.display().to_string());
        let ended =
            ground.run(&["run", "-a", &agent, "--permissions", "all", "--cwd", &folder, "--json", "x"]);
        let last = outcome(&ended.stdout);
        assert_eq!((last["outcome"].as_str(), ended.code), (Some(word), Some(code)), "{text}: {last}");
        assert_eq!(last["workspace"], workspace, "{text}");
        let lines = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let warned: Vec<String> = lines
            .filter(|line| line["kind"] == "warn")
            .map(|line| line["text"].as_str().unwrap().to_owned())
            .collect();
        let is_warned = warned.iter().any(|text| text.contains("the workspace") && text.contains(warning));
        assert_eq!(is_warned, workspace != "present", "{text}: {warned:?}");
        if workspace == "gone" {
            let missing = format!("the workspace {folder}, which no longer exists");
            assert_eq!(last["missing"], serde_json::json!([missing]), "{text}");
        }
    }
}
