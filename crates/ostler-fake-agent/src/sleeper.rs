//! Children that outlive a fake agent: the program itself, started again to sleep in a session of its own.
//!
//! A sleeper never lives longer than it was told, so a broken test leaves nothing for ever. It says `PID` on its stderr
//! when it is what it should be; whoever started it waits for that, and only then are there really that many.

use std::env;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};

use super::script::tables::Children;

/// The first argument that makes the program a sleeper. No agent has a command of this name.
pub(super) const COMMAND: &str = "__sleeper";

/// Work between two looks at the clock while burning CPU.
const BURST: u32 = 1_000_000;

/// Starts all children and returns once each of them is in its final place.
pub(super) fn start(children: &Children) -> anyhow::Result<()> {
    let mut pids = Vec::new();
    for _ in 0..children.count {
        pids.push(start_one(children)?);
    }
    if let Some(path) = &children.pids {
        let mut file =
            OpenOptions::new().create(true).append(true).open(path).context("could not write pids")?;
        for pid in pids {
            writeln!(file, "{pid}")?;
        }
    }
    Ok(())
}

fn start_one(children: &Children) -> anyhow::Result<u32> {
    let mut command = Command::new(env::current_exe()?);
    command
        .arg0("ostler-fake-agent")
        .arg(COMMAND)
        .arg(format!("--life={}", humantime::format_duration(children.life.0)));
    let switches = [
        (children.daemon, "--daemon"),
        (!children.daemon, "--setsid"),
        (children.ignore_sigterm, "--ignore-signals"),
        (children.busy, "--busy"),
    ];
    command.args(switches.iter().filter(|(on, _)| *on).map(|(_, switch)| switch));
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command.stdout(if children.holds_stdout { Stdio::inherit() } else { Stdio::null() });
    let mut child = command.spawn().context("could not start a sleeper")?;
    let mut line = String::new();
    if let Some(stderr) = child.stderr.take() {
        BufReader::new(stderr).read_line(&mut line)?;
    }
    if children.daemon {
        // Only the first fork is ours; it ends at once.
        child.wait()?;
    }
    line.trim().parse().with_context(|| format!("a sleeper did not start: {}", line.trim()))
}

#[derive(Debug, Default)]
struct Orders {
    life: Duration,
    daemon: bool,
    setsid: bool,
    ignore_signals: bool,
    busy: bool,
}

impl Orders {
    fn read(arguments: &[String]) -> anyhow::Result<Self> {
        let mut orders = Self::default();
        for argument in arguments {
            match argument.as_str() {
                "--daemon" => orders.daemon = true,
                "--setsid" => orders.setsid = true,
                "--ignore-signals" => orders.ignore_signals = true,
                "--busy" => orders.busy = true,
                other => match other.strip_prefix("--life=") {
                    Some(life) => orders.life = humantime::parse_duration(life)?,
                    None => bail!("unknown order {other}"),
                },
            }
        }
        Ok(orders)
    }
}

/// The life of a sleeper.
pub(super) fn run(arguments: &[String]) -> anyhow::Result<u8> {
    let orders = Orders::read(arguments)?;
    if orders.daemon {
        return become_daemon(arguments);
    }
    if orders.setsid {
        rustix::process::setsid().context("setsid")?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if orders.ignore_signals {
            for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
                // tokio's handler stays, so a dropped stream swallows the signal.
                drop(signal(kind)?);
            }
        }
        let ready = format!("{}\n", std::process::id());
        rustix::io::write(rustix::stdio::stderr(), ready.as_bytes())?;
        if orders.busy {
            burn(orders.life);
        } else {
            tokio::time::sleep(orders.life).await;
        }
        Ok(0)
    })
}

/// The second fork: the sleeper proper becomes an orphan in the session made here, and leads none.
fn become_daemon(arguments: &[String]) -> anyhow::Result<u8> {
    rustix::process::setsid().context("setsid")?;
    let mut command = Command::new(env::current_exe()?);
    command.arg0("ostler-fake-agent").arg(COMMAND);
    command.args(arguments.iter().filter(|argument| *argument != "--daemon")).current_dir("/");
    command.spawn().context("could not start a daemon")?;
    Ok(0)
}

fn burn(life: Duration) {
    let started = Instant::now();
    let mut sum = 0_u32;
    while started.elapsed() < life {
        for step in 0..BURST {
            sum = std::hint::black_box(sum.wrapping_add(step));
        }
    }
}
