//! What `ostler serve` prints about the jail of its sessions when it starts.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::ground::Ground;

/// The standard error of a server that is ended once it listens.
fn serve(ground: &Ground, args: &[&str]) -> String {
    ground.program("claude", "echo '2.1.197 (Claude Code)'");
    let mut command = ground.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    let mut server = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    let mut stderr = String::new();
    server.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0), "{stderr}");
    assert!(line.contains("listening"), "{line} {stderr}");
    stderr
}

#[test]
fn only_a_wall_that_is_weaker_than_namespaces_is_named() {
    let ground = Ground::new();
    assert_eq!(serve(&ground, &[]), "");
    assert!(ground.at("ostler/jail-works").exists(), "runs need not try it again");
    let told = "warning: sessions have no jail: agents enforce their permissions by their own means\n";
    assert_eq!(serve(&ground, &["--no-jail"]), told);
    // No wall can be tried without a directory for the attempt.
    let told = serve(&Ground::new().with("TMPDIR", "/there/is/none"), &[]);
    assert_eq!(told.lines().count(), 1, "{told}");
    let reasons = ["sessions are refused", "`deny` and `edits`", "Landlock (", "--no-jail"];
    assert!(reasons.iter().all(|reason| told.contains(reason)), "{told}");
}

#[test]
fn a_wall_that_does_not_exist_is_refused() {
    let ground = Ground::new().with("OSTLER_FORCE_JAIL", "brick");
    ground.program("claude", "echo '2.1.197 (Claude Code)'");
    let ended = ground.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("`brick` is not a wall"), "{}", ended.stderr);
}
