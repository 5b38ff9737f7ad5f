//! Files that whoever starts Ostler has open.

use std::process::{Command, Stdio};

use super::{ground, script};
use crate::ground::ended;

#[test]
fn an_agent_inherits_no_open_file_of_whoever_started_ostler() {
    let ground = ground();
    let agent = script(&ground, "ls /proc/$$/fd > descriptors.txt");
    let ostler = ground.command(&["run", "-a", &agent, "--permissions", "all", "--quiet", "x"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 7</dev/null 9</dev/zero; exec \"$0\" \"$@\""]).arg(ostler.get_program());
    shell.args(ostler.get_args()).env_clear().stdin(Stdio::null());
    shell.envs(ostler.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(ostler.get_current_dir().unwrap());
    let output = ended(shell.spawn().unwrap());
    assert_eq!(output.status.code(), Some(0));
    let open = std::fs::read_to_string(ground.at("project/descriptors.txt")).unwrap();
    let open: Vec<u32> = open.lines().map(|line| line.parse().unwrap()).collect();
    assert!(open.iter().all(|number| *number != 7 && *number != 9), "{open:?}");
}
