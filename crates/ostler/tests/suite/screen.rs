//! A terminal of our own: `ostler` on one side, an emulator that shows what a person would see on the other.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// Only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the screen is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// So high that nothing is ever scrolled out of it.
const TALL: u16 = 2_000;

/// Rows and columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size(pub(crate) u16, pub(crate) u16);

impl Size {
    fn parser(self) -> vt100::Parser {
        vt100::Parser::new(NonZero::new(self.0).unwrap(), NonZero::new(self.1).unwrap(), 0)
    }

    fn winsize(self) -> Winsize {
        Winsize { ws_row: self.0, ws_col: self.1, ws_xpixel: 0, ws_ypixel: 0 }
    }
}

type Drawn = Arc<Mutex<(Vec<u8>, vt100::Parser)>>;

/// A command on a terminal; killed when dropped.
pub(crate) struct Screen {
    child: Child,
    master: File,
    size: Size,
    drawn: Drawn,
    reading: Option<JoinHandle<()>>,
    /// Its modes when it began.
    found: Termios,
}

impl Screen {
    /// Starts it as the leader of a session whose terminal this is, so that Ctrl-C reaches it.
    pub(crate) fn start(command: &Command, size: Size) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, size.winsize()).unwrap();
        let found = tcgetattr(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let tty = File::options().read(true).write(true).open(name).unwrap();
        let side = || Stdio::from(OwnedFd::from(tty.try_clone().unwrap()));
        let path = std::env::var_os("PATH").unwrap();
        let setsid =
            std::env::split_paths(&path).map(|folder| folder.join("setsid")).find(|path| path.is_file());
        let mut leader = Command::new(setsid.unwrap());
        leader.arg("--ctty").arg(command.get_program()).args(command.get_args());
        leader.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        leader.current_dir(command.get_current_dir().unwrap());
        let child = leader.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        // They hold the other side of the terminal, whose end is waited for.
        drop((leader, tty));
        let master = File::from(master);
        let drawn: Drawn = Arc::new(Mutex::new((Vec::new(), size.parser())));
        let (ours, mut source) = (Arc::clone(&drawn), master.try_clone().unwrap());
        let reading = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = source.read(&mut piece) {
                let mut inner = ours.lock().unwrap_or_else(PoisonError::into_inner);
                inner.0.extend_from_slice(&piece[..read]);
                inner.1.process(&piece[..read]);
            }
        });
        Self { child, master, size, drawn, reading: Some(reading), found }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&mut self, size: Size) {
        let mut inner = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let (rows, columns) = (NonZero::new(size.0).unwrap(), NonZero::new(size.1).unwrap());
        inner.1.set_size(rows, columns);
        tcsetwinsize(&self.master, size.winsize()).unwrap();
        self.size = size;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The rows as they are, without what is blank at their end and at the end of all.
    pub(crate) fn rows(&self) -> Vec<String> {
        let inner = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        rows(&inner.1, self.size.1)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Waits until the screen is as wished.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&[String]) -> bool) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rows = self.rows();
            if holds(&rows) {
                return rows;
            }
            assert!(Instant::now() < deadline, "waited for {what}:\n{}", rows.join("\n"));
            std::thread::sleep(LOOK);
        }
    }

    /// Waits for the end, and answers the exit code and all that ever stood, as if nothing had been scrolled away.
    pub(crate) fn end(&mut self) -> (Option<i32>, Vec<String>) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it did not end:\n{}", self.rows().join("\n"));
            std::thread::sleep(LOOK);
        };
        assert_eq!(status.signal(), None);
        let (modes, found) = (tcgetattr(&self.master).unwrap(), &self.found);
        assert_eq!(format!("{modes:?}"), format!("{found:?}"), "the terminal's modes are as they were");
        // With the last holder of the terminal gone, its reader ends.
        self.reading.take().unwrap().join().unwrap();
        let mut tall = Size(TALL, self.size.1).parser();
        tall.process(&self.bytes());
        let inner = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!inner.1.screen().hide_cursor(), "the cursor is visible");
        assert_eq!(inner.1.screen().cursor_position().1, 0, "the cursor is where a shell's prompt begins");
        assert!(!inner.1.screen().alternate_screen());
        (status.code(), rows(&tall, self.size.1))
    }
}

fn rows(parser: &vt100::Parser, columns: u16) -> Vec<String> {
    let mut rows: Vec<String> =
        parser.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It has ended already in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
