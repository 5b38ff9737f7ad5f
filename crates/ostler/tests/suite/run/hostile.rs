//! An agent that leaves behind whatever it can, and a run of it that is watched from outside.
//!
//! The agent is a shell script that starts every kind of child, waits to be looked at, and then becomes the fake agent.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::contain::watched::{Watched, leaves, marked};
use crate::ground::Ground;

/// How long anything may take that takes seconds: only a broken test reaches it.
pub(super) const DEADLINE: Duration = Duration::from_secs(100);

/// Between two looks at what cannot be waited for.
const LOOK: Duration = Duration::from_millis(10);

/// How many children the agent has, beside what passes.
const CHILDREN: usize = 55;

/// A plain child, which keeps the agent's output open; a grandchild in a session of its own; a double fork; a daemon;
/// one that ignores every signal it can; and fifty. Each tells when it is there.
const AGENT: &str = r#"case "$1" in --version) echo '2.1.197 (Claude Code)'; exit;; esac
sh -c 'echo plain >>born; exec sleep 600' &
sh -c 'setsid sh -c "echo setsid >>born; exec sleep 600" & wait' >/dev/null 2>&1 &
( ( sh -c 'echo fork >>born; exec sleep 600' >/dev/null 2>&1 & ) & )
( setsid sh -c '( sh -c "echo daemon >>born; exec sleep 600" </dev/null >/dev/null 2>&1 & )' & )
setsid sh -c 'trap "" TERM INT HUP QUIT; echo deaf >>born; while :; do sleep 600; done' >/dev/null 2>&1 &
i=0
while [ $i -lt 50 ]; do setsid sh -c 'echo one >>born; exec sleep 600' >/dev/null 2>&1 & i=$((i+1)); done
while [ ! -e born ] || [ "$(wc -l <born)" -lt 55 ]; do sleep 0.05; done
: >ready
while [ ! -e go ]; do sleep 0.05; done
exec "$FAKE_AGENT" "$@""#;

/// The fake agent as it is: only its version has to be told for it, as it is asked without a dialect.
pub(super) const PLAIN: &str = "case \"$1\" in --version) echo '2.1.197 (Claude Code)'; exit;; esac\n\
                                exec \"$FAKE_AGENT\" \"$@\"";

/// The fake agent, which the workspace's build puts beside Ostler.
pub(super) fn fake_agent() -> PathBuf {
    let agent = PathBuf::from(env!("CARGO_BIN_EXE_ostler")).with_file_name("ostler-fake-agent");
    assert!(agent.exists(), "{} is not built; `cargo build --workspace` does", agent.display());
    agent
}

/// A ground on which `-a claude-headless` is a program that plays the script, as the fake agent does.
pub(super) fn stage(program: &str, script: &str) -> Ground {
    let ground = Ground::new().with("PATH", "/usr/bin:/bin").with("OSTLER_FAKE_DIALECT", "claude");
    let agent = ground.script("agent", program);
    ground.put("ostler/config.toml", &format!("[agents.claude-headless]\nprogram = {agent:?}\n"));
    fs::create_dir(ground.at("tmp")).unwrap();
    let script = ground.put("script.toml", &format!("v = 1\n{script}\n"));
    let tmp = ground.at("tmp");
    let shown = format!("{}:{}", fake_agent().display(), script.display());
    ground
        .with("OSTLER_FAKE_SCRIPT", script)
        .with("FAKE_AGENT", fake_agent())
        .with("OSTLER_CFG__JAIL__READ", shown)
        .with("TMPDIR", tmp)
}

/// A run under way.
pub(super) struct Living {
    pub(super) ground: Ground,
    pub(super) process: Child,
    lines: Receiver<String>,
    told: Vec<Value>,
}

impl Living {
    /// Starts a run of the hostile agent.
    pub(super) fn hostile(script: &str, tier: &str, args: &[&str]) -> Self {
        Self::start(stage(AGENT, script).with("OSTLER_FORCE_TIER", tier), args)
    }

    /// Starts a run of what the ground has as an agent.
    pub(super) fn start(ground: Ground, args: &[&str]) -> Self {
        let mut all = vec!["run", "-a", "claude-headless", "--json", "--max-resumes", "0"];
        all.extend_from_slice(args);
        all.push("do it");
        let mut process =
            ground.command(&all).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        // Room for all that a test says: the reader must keep up.
        let (tell, lines) = sync_channel(10_000);
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { ground, process, lines, told: Vec::new() }
    }

    /// The run's id, once there is one.
    pub(super) fn run(&self) -> String {
        let mut found = None;
        wait_until("the run has a folder", || {
            found = fs::read_dir(self.ground.at("ostler/runs")).ok().and_then(|mut runs| runs.next());
            found.is_some()
        });
        found.unwrap().unwrap().file_name().into_string().unwrap()
    }

    /// Waits until the agent has all its children, sees that all are contained, and holds them.
    pub(super) fn look(&self, tier: &str) -> Vec<Watched> {
        wait_until("all children are there", || self.ground.at("project/ready").exists());
        let run = self.run();
        let pids = marked(&run).into_iter().map(|pid| pid.parse().unwrap());
        let held: Vec<Watched> = pids.filter_map(Watched::hold_if_alive).collect();
        let seen = held.iter().filter_map(|process| confirmed(process, &run)).collect::<Vec<_>>();
        assert!(seen.len() > CHILDREN, "{tier}: the agent and its children, not {}", seen.len());
        assert!(seen.iter().all(|seen| *seen == tier), "not all in {tier}: {seen:?}");
        held
    }

    /// Lets the agent begin.
    pub(super) fn go(&self) {
        self.ground.put("project/go", "");
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Waits for a line that the test is about.
    pub(super) fn until(&mut self, is_it: impl Fn(&Value) -> bool) {
        loop {
            let line = self.lines.recv_timeout(DEADLINE).unwrap();
            self.told.push(serde_json::from_str(&line).unwrap());
            if is_it(&self.told[self.told.len() - 1]) {
                return;
            }
        }
    }

    /// Waits for its end. Answers every line, and the exit code.
    pub(super) fn end(&mut self) -> (Vec<Value>, Option<i32>) {
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            self.told.push(serde_json::from_str(&line).unwrap());
        }
        let mut code = None;
        wait_until("it ends", || {
            code = self.process.try_wait().unwrap();
            code.is_some()
        });
        (std::mem::take(&mut self.told), code.unwrap().code())
    }

    /// A run that was killed cannot remove its socket, which the next one does. Nobody listens there.
    pub(super) fn clear_dead_sockets(&self) {
        for socket in fs::read_dir(self.ground.at("ostler/sockets")).into_iter().flatten().flatten() {
            assert!(UnixStream::connect(socket.path()).is_err(), "somebody listens");
            fs::remove_file(socket.path()).unwrap();
        }
    }

    /// Nobody lives, no group is left, nor any file but the run's own.
    pub(super) fn assert_nothing_is_left(&self, case: &str, held: &[Watched]) {
        let run = self.run();
        let alive: Vec<u32> =
            held.iter().filter(|process| !process.is_dead()).map(|process| process.pid).collect();
        assert_eq!(alive, [0_u32; 0], "alive after {case}");
        assert_eq!(marked(&run), [""; 0], "marked after {case}");
        assert_eq!(leaves(&run), [""; 0], "groups after {case}");
        assert_eq!(fs::read_dir(self.ground.at("tmp")).unwrap().count(), 0, "temporary files after {case}");
        let left = self.ground.left();
        let is_state = |path: &str| ["config.toml", "jail-works", "versions.json", "sockets"].contains(&path);
        let is_kept = |path: &str| path.starts_with("runs") || path.starts_with("layers");
        let strange = left.iter().filter(|path| !is_kept(path) && !is_state(path));
        assert_eq!(strange.collect::<Vec<_>>(), [""; 0], "files after {case}");
    }
}

impl Drop for Living {
    /// A test that failed leaves nothing either.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The tier that a process really is in, told by the kernel; `None` if it has ended meanwhile.
fn confirmed(process: &Watched, run: &str) -> Option<&'static str> {
    let own = Path::new("/proc").join(process.pid.to_string());
    let groups = fs::read_to_string(own.join("cgroup")).ok()?;
    let namespace = fs::read_link(own.join("ns/pid")).ok()?;
    if process.is_dead() {
        return None;
    }
    Some(if groups.contains(&format!("/ostler-{run}.")) {
        "cgroup"
    } else if namespace != fs::read_link("/proc/self/ns/pid").unwrap() {
        "pidns"
    } else {
        "sweep"
    })
}

/// Waits for a fact that nobody tells.
pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        thread::sleep(LOOK);
    }
}

/// The tiers that work here. One that does not is told, and left out.
pub(super) fn tiers() -> Vec<&'static str> {
    let works = |tier: &&str| {
        let ground = Ground::new().with("PATH", "/usr/bin:/bin").with("OSTLER_FORCE_TIER", tier);
        let ended = ground.run(&["run", "-a", "command:true", "--permissions", "all", "--quiet", "x"]);
        if ended.code != Some(0) {
            eprintln!("left out: {tier}: {}", ended.stdout);
            assert_eq!(ended.code, Some(14), "{}{}", ended.stdout, ended.stderr);
        }
        ended.code == Some(0)
    };
    let found: Vec<_> = ["cgroup", "pidns", "sweep"].into_iter().filter(works).collect();
    assert!(found.contains(&"sweep"), "the last tier works everywhere");
    found
}

/// Does it in every tier that works here, at the same time.
pub(super) fn in_every_tier(case: impl Fn(&'static str) + Sync) {
    thread::scope(|scope| {
        for tier in tiers() {
            let case = &case;
            scope.spawn(move || case(tier));
        }
    });
}
