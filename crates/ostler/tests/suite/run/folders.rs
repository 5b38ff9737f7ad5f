//! Where the programs of a run work, and what they are told of it.

use std::fs;

use super::{ground, script};

/// A shell at work sets `PWD` itself: what it was started with is in its file in `/proc`.
#[test]
fn every_program_is_told_the_directory_it_works_in() {
    let ground = ground().with("PWD", "/elsewhere").with("OLDPWD", "/before");
    fs::create_dir(ground.at("ws")).unwrap();
    let tell = |name: &str| format!("tr '\\0' '\\n' </proc/$$/environ >{}", ground.at(name).display());
    let notify = format!("sh {}", ground.put("notify.sh", &tell("notify")).display());
    ground.put("ostler/config.toml", &format!("[notify]\ncommand = {notify:?}\n"));
    let (agent, check) = (script(&ground, &tell("agent")), tell("check"));
    let args = ["--permissions", "all", "--cwd", "../ws", "--check", &check, "x"];
    let ended = ground.run(&[&["run", "-a", &agent], &args[..]].concat());
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    // Only the notify command works where Ostler was started.
    for (name, folder) in [("agent", "ws"), ("check", "ws"), ("notify", "project")] {
        let told = fs::read_to_string(ground.at(name)).unwrap();
        let told: Vec<&str> = told.lines().filter(|line| line.contains("PWD=")).collect();
        assert_eq!(told, [format!("PWD={}", ground.at(folder).display())], "{name}");
    }
}
