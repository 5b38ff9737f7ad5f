//! Many runs at once, with the fake agent, against as many fake agents alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ostler_agent::agent::{Agent as _, Permissions, Stdin, Task};
use ostler_agent::agents::Claude;

use crate::process;

/// An answer in fifty pieces, a tool for a second, an answer: what a second or two of an agent is like.
const SCRIPT: &str = r#"
v = 1
[[step]]
do = [
    { say = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789", chunk = 2, gap = "20ms" },
    { tool = "Bash", arguments = { command = "sleep 1" }, for = "1s", output = "done" },
    { say = "that was all" },
]
"#;

const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

pub(crate) fn measure(ostler: &Path, count: usize) {
    let folder = tempfile::Builder::new().prefix("ostler-many-").tempdir().unwrap();
    let yard = Yard::new(folder.path().canonicalize().unwrap(), ostler);
    // Once, so that neither side reads from the disk.
    yard.through(0, 1).finish();
    yard.bare(0, 1).finish();
    let (bare, through) = (yard.bare(0, count).finish(), yard.through(0, count).finish());
    println!("{count} runs of the fake agent at once");
    for (name, sum) in [("bare", &bare), ("through Ostler", &through)] {
        println!(
            "  {name}: {} of {count} completed, {:.2} s wall, {:.0} ms of processor time a run",
            sum.well,
            sum.wall.as_secs_f64(),
            sum.cpu.as_secs_f64() * 1_000.0 / count as f64
        );
    }
    let own = (through.cpu.as_secs_f64() - bare.cpu.as_secs_f64()) * 1_000.0 / count as f64;
    println!("  Ostler's own: {own:.0} ms of processor time a run, guardian and shim included");
    println!("  wall: {:.2} times bare", through.wall.as_secs_f64() / bare.wall.as_secs_f64());
    println!(
        "  peak memory of all Ostlers and guardians: {:.0} MB, {:.1} MB a run; {:.0} MB with what they share counted once",
        through.peak as f64 / 1024.0,
        through.peak as f64 / 1024.0 / count as f64,
        through.shared as f64 / 1024.0
    );
    println!("  processes left over: {}", process::marked(&yard.root.display().to_string()));
}

struct Yard {
    root: PathBuf,
    ostler: PathBuf,
    fake: PathBuf,
}

/// What a crowd came to.
struct Sum {
    well: usize,
    wall: Duration,
    cpu: Duration,
    peak: u64,
    shared: u64,
}

impl Yard {
    fn new(root: PathBuf, ostler: &Path) -> Self {
        // Asked for its version it is told nothing, and plays whom its name says.
        let fake = root.join("claude");
        fs::copy(ostler.with_file_name("ostler-fake-agent"), &fake).unwrap();
        fs::create_dir(root.join("ostler")).unwrap();
        let config = format!("[agents.claude-headless]\nprogram = {:?}\n", fake.display().to_string());
        fs::write(root.join("ostler/config.toml"), config).unwrap();
        fs::write(root.join("script.toml"), SCRIPT).unwrap();
        Self { root, ostler: ostler.to_owned(), fake }
    }

    fn command(&self, program: &Path, number: usize) -> Command {
        let workspace = self.root.join(format!("workspace-{number}"));
        fs::create_dir_all(&workspace).unwrap();
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &self.root).current_dir(workspace);
        command.env("OSTLER_FAKE_DIALECT", "claude");
        command.env("OSTLER_FAKE_SCRIPT", self.root.join("script.toml"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn bare(&self, from: usize, count: usize) -> Crowd {
        let private = self.root.join("private");
        let task = Task { permissions: Permissions::All, ..Task::new("go", &self.root, &private) };
        let launch = Claude.launch(&task).unwrap();
        let Stdin::Spoken(lines) = &launch.stdin else { return Crowd::start(Vec::new()) };
        let input = self.root.join("input");
        fs::write(&input, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        let start = |number| {
            let mut command = self.command(&self.fake, number);
            command.args(&launch.args).envs(launch.env.iter().cloned());
            command.stdin(fs::File::open(&input).unwrap());
            command
        };
        Crowd::start((from..from + count).map(start).collect())
    }

    fn through(&self, from: usize, count: usize) -> Crowd {
        let start = |number| {
            let mut command = self.command(&self.ostler, number);
            command.args([
                "run",
                "-a",
                "claude-headless",
                "--permissions",
                "all",
                "--no-bridge",
                "--json",
                "go",
            ]);
            command.env("OSTLER_HOME", self.root.join("ostler")).stdin(Stdio::null());
            command
        };
        Crowd::start((from..from + count).map(start).collect())
    }
}

struct Crowd {
    children: Vec<Child>,
    began: Instant,
    cpu: Duration,
}

impl Crowd {
    fn start(commands: Vec<Command>) -> Self {
        let (cpu, began) = (process::of_children(), Instant::now());
        let children = commands.into_iter().map(|mut command| command.spawn().unwrap()).collect();
        Self { children, began, cpu }
    }

    /// Waits for all of them, and looks at their memory meanwhile.
    fn finish(self) -> Sum {
        let pids: Vec<u32> = self.children.iter().map(Child::id).collect();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let looks = std::thread::spawn(move || {
            let (mut peak, mut looked, mut shared) = (0, 0, 0);
            while !is_over.load(Ordering::Relaxed) {
                let all =
                    || pids.iter().copied().chain(pids.iter().filter_map(|pid| process::guardian(*pid)));
                let now: u64 = all().map(|pid| process::status(pid, "VmRSS")).sum();
                peak = now.max(peak);
                // This look is costly, so not with every little growth.
                if now > looked + looked / 10 {
                    (looked, shared) = (now, all().map(process::proportional).sum());
                }
                std::thread::sleep(BETWEEN_LOOKS);
            }
            (peak, shared)
        });
        let ended = self.children.into_iter().map(|mut child| child.wait().unwrap());
        let well = ended.filter(std::process::ExitStatus::success).count();
        let wall = self.began.elapsed();
        over.store(true, Ordering::Relaxed);
        let (peak, shared) = looks.join().unwrap();
        Sum { well, wall, cpu: process::of_children().saturating_sub(self.cpu), peak, shared }
    }
}
