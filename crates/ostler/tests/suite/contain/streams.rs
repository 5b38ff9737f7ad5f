//! What passes between Ostler and a contained agent: streams, signals, exits, samples.

use std::path::PathBuf;
use std::process::Command;

use ostler_process::contain::{Contained, Exit, Stdin, StopSignal, Survivors, Tier};
use ostler_process::terminal::pty::Size;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::watched::{DEADLINE, Watched};
use super::yard::{guardian, line, lines, run_name, shell, started, tiers};

#[tokio::test]
async fn the_end_of_the_leader_counts_not_the_end_of_its_output() {
    for tier in tiers().await {
        let run = run_name();
        let script = "setsid sh -c 'echo $$; exec sleep 600' & exit 0";
        let (mut contained, held) = started(&run, script, 1, tier).await;
        let mut says = lines(&mut contained);
        assert_eq!(timeout(DEADLINE, contained.leader_exit()).await.unwrap(), Exit::Code(0));
        // The pipe is open: there is neither a line nor an end.
        assert!(timeout(std::time::Duration::from_millis(20), says.next_line()).await.is_err());
        assert_eq!(contained.kill_all().await, Survivors(0));
        assert!(held[0].is_dead());
        assert_eq!(timeout(DEADLINE, says.next_line()).await.unwrap().unwrap(), None);
    }
}

#[tokio::test]
async fn nobody_but_the_agent_holds_its_pipes() {
    for tier in tiers().await {
        let run = run_name();
        let script = "echo out; echo err >&2; exec sleep 600 >&- 2>&-";
        let mut contained = Contained::start(shell(&run, script, tier)).await.unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        let mut stdout = contained.stdout.take().unwrap();
        let mut stderr = contained.stderr.take().unwrap();
        let both = async { tokio::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err)) };
        let (out_count, err_count) = timeout(DEADLINE, both).await.unwrap();
        assert_eq!(
            (out_count.unwrap(), err_count.unwrap(), out.as_str(), err.as_str()),
            (4, 4, "out\n", "err\n")
        );
        assert_eq!(contained.kill_all().await, Survivors(0));
    }
}

#[tokio::test]
async fn input_is_given_and_its_end_too() {
    for tier in tiers().await {
        let run = run_name();
        let mut spawn = shell(&run, "cat; echo end", tier);
        spawn.stdin = Stdin::Piped;
        let mut contained = Contained::start(spawn).await.unwrap();
        let mut says = lines(&mut contained);
        let mut stdin = contained.stdin.take().unwrap();
        stdin.write_all(b"hello\n").await.unwrap();
        assert_eq!(line(&mut says).await, "hello");
        drop(stdin);
        assert_eq!(line(&mut says).await, "end");
        assert_eq!(contained.leader_exit().await, Exit::Code(0));
        timeout(DEADLINE, contained.gone()).await.unwrap();
        assert_eq!(contained.kill_all().await, Survivors(0));
    }
}

#[tokio::test]
async fn a_terminal_is_the_agents_own_in_every_tier() {
    for tier in tiers().await {
        let run = run_name();
        let script =
            "stty size; echo own $$; : >/dev/tty && echo controlling; read line; echo got $line; exit 7";
        let mut spawn = shell(&run, script, tier);
        spawn.stdin = Stdin::Terminal(Size { columns: 81, rows: 25 });
        let mut contained = Contained::start(spawn).await.unwrap();
        let own = contained.own_pid().unwrap();
        let terminal = contained.terminal.take().unwrap();
        assert!(contained.stdout.is_none() && contained.stderr.is_none());
        assert_eq!(terminal.write(b"hello\n").await.unwrap(), 6);
        let (mut seen, mut buffer) = (Vec::new(), [0; 256]);
        loop {
            let count = timeout(DEADLINE, terminal.read(&mut buffer)).await.unwrap().unwrap();
            if count == 0 {
                break;
            }
            seen.extend_from_slice(&buffer[..count]);
        }
        let seen = String::from_utf8(seen).unwrap();
        let mut lines: Vec<&str> = seen.lines().filter(|line| *line != "hello").collect();
        lines.sort_unstable();
        let own = format!("own {own}");
        let mut want = ["25 81", own.as_str(), "controlling", "got hello"];
        want.sort_unstable();
        assert_eq!(lines, want, "{}", tier.name());
        assert_eq!(contained.leader_exit().await, Exit::Code(7));
        assert_eq!(contained.kill_all().await, Survivors(0));
    }
}

#[tokio::test]
async fn the_agent_gets_its_environment_and_folder_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let run = run_name();
    let mut spawn = shell(&run, "pwd; exec env", Tier::Sweep);
    spawn.cwd = folder.path().canonicalize().unwrap();
    let cwd = spawn.cwd.display().to_string();
    let mut contained = Contained::start(spawn).await.unwrap();
    let mut said = String::new();
    contained.stdout.take().unwrap().read_to_string(&mut said).await.unwrap();
    // The shell adds two variables of its own.
    let is_ours = |line: &&str| !line.starts_with("PWD=") && !line.starts_with("_=");
    let mut said: Vec<&str> = said.lines().filter(is_ours).collect();
    said.sort_unstable();
    let mark = said.iter().find(|line| line.starts_with("OSTLER_RUN_MARK=")).copied().unwrap_or_default();
    assert!(mark.starts_with(&format!("OSTLER_RUN_MARK={run}.")), "{said:?}");
    assert_eq!(said, [cwd.as_str(), mark, "PATH=/usr/bin:/bin"]);
    assert_eq!(contained.leader_exit().await, Exit::Code(0));
}

/// OpenCode works in `PWD`, wherever it is started.
#[tokio::test]
async fn pwd_is_the_working_directory_in_every_tier() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    std::os::unix::fs::symlink(&real, real.join("link")).unwrap();
    for tier in tiers().await {
        let run = run_name();
        // No shell, which would set it itself.
        let mut spawn = shell(&run, "", tier);
        (spawn.program, spawn.args, spawn.cwd) = ("env".into(), Vec::new(), real.join("link"));
        spawn.env.extend([("PWD".into(), "/elsewhere".into()), ("OLDPWD".into(), "/before".into())]);
        let mut contained = Contained::start(spawn).await.unwrap();
        let mut said = String::new();
        contained.stdout.take().unwrap().read_to_string(&mut said).await.unwrap();
        let told: Vec<&str> = said.lines().filter(|line| line.contains("PWD=")).collect();
        assert_eq!(told, [format!("PWD={}", real.display())], "{}", tier.name());
        assert_eq!(contained.leader_exit().await, Exit::Code(0));
    }
}

#[tokio::test]
async fn the_agent_gets_its_three_streams_and_no_descriptor_of_ours() {
    for tier in tiers().await {
        let run = run_name();
        // The shell stays: a program that takes its place opens libraries and locales of its own while it starts.
        let script = "sleep 600 & echo ready; wait";
        let mut contained = Contained::start(shell(&run, script, tier)).await.unwrap();
        assert_eq!(line(&mut lines(&mut contained)).await, "ready");
        let inherited = inheritable();
        let entries = std::fs::read_dir(format!("/proc/{}/fd", contained.pid())).unwrap().flatten();
        let numbers = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut unexpected: Vec<String> = numbers.filter(|number| !inherited.contains(number)).collect();
        unexpected.retain(|number| !["0", "1", "2"].contains(&number.as_str()));
        assert_eq!(unexpected, [""; 0], "{}", tier.name());
        assert_eq!(contained.kill_all().await, Survivors(0));
    }
}

/// Descriptors that whoever started the tests gave to every program below.
fn inheritable() -> Vec<String> {
    let flags = |about: &str| {
        u32::from_str_radix(about.lines().find_map(|line| line.strip_prefix("flags:"))?.trim(), 8).ok()
    };
    let entries = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    entries
        .filter(|entry| {
            let about = std::fs::read_to_string(entry.path()).unwrap_or_default();
            flags(&about).is_some_and(|flags| flags & 0o2_000_000 == 0)
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[tokio::test]
async fn signals_reach_the_leader_alone_and_its_end_is_told() {
    for tier in tiers().await {
        let run = run_name();
        let script = "sh -c 'echo $$; exec sleep 600' & trap 'echo interrupted' INT; echo $$; \
                      while :; do wait; done";
        let mut contained = Contained::start(shell(&run, script, tier)).await.unwrap();
        let mut says = lines(&mut contained);
        let told = [line(&mut says).await, line(&mut says).await];
        if tier != Tier::PidNs {
            assert!(told.contains(&contained.pid().to_string()));
        }
        contained.signal(StopSignal::Interrupt).unwrap();
        assert_eq!(line(&mut says).await, "interrupted");
        contained.signal(StopSignal::Terminate).unwrap();
        assert_eq!(contained.leader_exit().await, Exit::Signal(15));
        contained.signal(StopSignal::Terminate).unwrap();
        assert_eq!(contained.sample().processes, 1, "its child was not signalled");
        assert_eq!(contained.kill_all().await, Survivors(0));
    }
}

#[tokio::test]
async fn the_end_of_the_last_orphan_is_told() {
    for tier in tiers().await {
        let (run, folder) = (run_name(), tempfile::tempdir().unwrap());
        let fifo = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let script = format!("setsid cat <{} >/dev/null & exit 0", fifo.display());
        let mut contained = Contained::start(shell(&run, &script, tier)).await.unwrap();
        assert_eq!(contained.leader_exit().await, Exit::Code(0));
        assert!(timeout(std::time::Duration::from_millis(20), contained.gone()).await.is_err());
        // Opening it waits for the reader, and closing it is the end of its input.
        drop(std::fs::File::options().write(true).open(&fifo).unwrap());
        timeout(DEADLINE, contained.gone()).await.unwrap();
        assert_eq!(contained.kill_all().await, Survivors(0));
    }
}

#[tokio::test]
async fn a_sample_counts_everyone_but_the_leader() {
    for tier in tiers().await {
        let run = run_name();
        let script = "setsid sh -c 'while :; do echo x >/dev/null; done' & echo ready; while :; do :; done";
        let mut contained = Contained::start(shell(&run, script, tier)).await.unwrap();
        assert_eq!(line(&mut lines(&mut contained)).await, "ready");
        let first = contained.sample();
        let grows = async {
            loop {
                let now = contained.sample();
                if now.cpu > first.cpu && now.io_bytes > first.io_bytes && now.processes == 1 {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, grows).await.unwrap();
        assert_eq!(contained.kill_all().await, Survivors(0));
        assert_eq!(contained.sample(), ostler_process::contain::TreeSample::default());
    }
}

#[tokio::test]
async fn an_agent_that_signals_its_group_does_not_hit_its_guardian() {
    for tier in tiers().await {
        let run = run_name();
        let mut contained = Contained::start(shell(&run, "kill -KILL 0", tier)).await.unwrap();
        assert_eq!(contained.leader_exit().await, Exit::Signal(9));
        assert_eq!(contained.kill_all().await, Survivors(0));
    }
}

#[tokio::test]
async fn a_start_that_is_given_up_leaves_nothing() {
    let run = run_name();
    let mut spawn = shell(&run, "sleep 600", Tier::Sweep);
    spawn.tier = None;
    // Polled once: the guardian is on its way, and nobody waits for it any more.
    let given_up = timeout(std::time::Duration::ZERO, Contained::start(spawn)).await;
    assert!(given_up.is_err());
    let gone = async {
        while !super::watched::marked(&run).is_empty() || !super::watched::leaves(&run).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, gone).await.unwrap();
}

#[tokio::test]
async fn the_fake_agent_with_its_worst_children_is_ended() {
    let agent = PathBuf::from(env!("CARGO_BIN_EXE_ostler")).with_file_name("ostler-fake-agent");
    if !agent.exists() {
        eprintln!("left out: {} is not built; `cargo build --workspace` does", agent.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.toml");
    let children = "setsid_child = { count = 3, daemon = true, ignore_sigterm = true, holds_stdout = true, \
                    busy = true, pids = \"pids\" }";
    std::fs::write(&script, format!("v = 1\n[[step]]\ndo = [{{ {children} }}, {{ exit = 3 }}]\n")).unwrap();
    for tier in tiers().await {
        let run = run_name();
        let mut spawn = shell(&run, "", tier);
        spawn.program.clone_from(&agent);
        spawn.args = ["exec", "--json", "go"].map(Into::into).to_vec();
        spawn.cwd = folder.path().to_owned();
        spawn.env.push(("OSTLER_FAKE_DIALECT".into(), "codex".into()));
        spawn.env.push(("OSTLER_FAKE_SCRIPT".into(), script.clone().into()));
        let mut contained = Contained::start(spawn).await.unwrap();
        assert_eq!(timeout(DEADLINE, contained.leader_exit()).await.unwrap(), Exit::Code(3));
        let pids = std::fs::read_to_string(folder.path().join("pids")).unwrap();
        assert_eq!(pids.lines().count(), 3, "{pids}");
        let neighbour = guardian(&contained).pid;
        let held: Vec<Watched> =
            pids.lines().map(|pid| Watched::hold_beside(neighbour, pid.trim().parse().unwrap())).collect();
        assert_eq!(contained.sample().processes, 3);
        assert_eq!(contained.kill_all().await, Survivors(0));
        assert!(held.iter().all(Watched::is_dead));
        std::fs::remove_file(folder.path().join("pids")).unwrap();
    }
}
