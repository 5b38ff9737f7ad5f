//! Where terminal agents are started: a terminal of their own or plain pipes, and an emulator that sees their screen.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::recordings;
use super::stand::{Stand, until};

const ROWS: NonZero<u16> = NonZero::new(45).unwrap();
const COLUMNS: NonZero<u16> = NonZero::new(120).unwrap();

/// What has been drawn, byte by byte and as a screen.
#[derive(Clone)]
pub(crate) struct Drawn(Arc<Mutex<(Vec<u8>, vt100::Parser)>>);

impl Drawn {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((Vec::new(), vt100::Parser::new(ROWS, COLUMNS, 0)))))
    }

    /// Draws everything that comes from `source` until it ends.
    fn follow(&self, mut source: impl Read + Send + 'static) {
        let drawn = self.clone();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = source.read(&mut piece) {
                let mut inner = drawn.0.lock().unwrap_or_else(PoisonError::into_inner);
                inner.0.extend_from_slice(&piece[..read]);
                inner.1.process(&piece[..read]);
            }
        });
    }

    pub(crate) fn screen(&self) -> String {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.1.screen().contents().replace('\u{a0}', " ")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

pub(crate) fn recorded(name: &str) -> Result<String> {
    let mut parser = vt100::Parser::new(ROWS, COLUMNS, 0);
    parser.process(&fs::read(recordings::path(name))?);
    Ok(parser.screen().contents().replace('\u{a0}', " "))
}

/// A fake terminal agent; killed when dropped.
pub(crate) struct Tui {
    child: Child,
    pub(crate) keyboard: Box<dyn Write>,
    pub(crate) drawn: Drawn,
    /// The agent's side of the terminal, to look at its settings.
    pub(crate) tty: Option<File>,
}

impl Tui {
    pub(crate) fn on_terminal(mut command: Command) -> Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        tcsetwinsize(
            &master,
            Winsize { ws_row: ROWS.get(), ws_col: COLUMNS.get(), ws_xpixel: 0, ws_ypixel: 0 },
        )?;
        let name = ptsname(&master, Vec::new())?.into_string()?;
        let tty = File::options().read(true).write(true).open(&name)?;
        let side = || -> Result<Stdio> { Ok(Stdio::from(OwnedFd::from(tty.try_clone()?))) };
        let child = command.stdin(side()?).stdout(side()?).stderr(side()?).spawn()?;
        let master = File::from(master);
        let drawn = Drawn::new();
        drawn.follow(master.try_clone()?);
        Ok(Self { child, keyboard: Box::new(master), drawn, tty: Some(tty) })
    }

    pub(crate) fn on_pipes(mut command: Command) -> Result<Self> {
        let mut child = command.spawn()?;
        let drawn = Drawn::new();
        drawn.follow(child.stdout.take().context("stdout")?);
        let keyboard = Box::new(child.stdin.take().context("stdin")?);
        Ok(Self { child, keyboard, drawn, tty: None })
    }

    pub(crate) fn start(stand: &Stand, arguments: &[&str]) -> Result<Self> {
        Self::on_terminal(stand.command("tui", arguments))
    }

    pub(crate) fn press(&mut self, keys: &str) -> Result<()> {
        self.keyboard.write_all(keys.as_bytes())?;
        Ok(self.keyboard.flush()?)
    }

    /// Waits until the screen shows all of these, and returns it.
    pub(crate) fn sees(&self, landmarks: &[&str]) -> Result<String> {
        let seen = until(&format!("{landmarks:?} on the screen"), || {
            let screen = self.drawn.screen();
            landmarks.iter().all(|landmark| screen.contains(landmark))
        });
        seen.with_context(|| self.drawn.screen())?;
        Ok(self.drawn.screen())
    }

    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        let child = Mutex::new(&mut self.child);
        let ended = || child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
        until("the end of the process", || matches!(ended(), Ok(Some(_))))?;
        ended()?.context("ended")
    }
}

impl Drop for Tui {
    fn drop(&mut self) {
        // It has ended already in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
