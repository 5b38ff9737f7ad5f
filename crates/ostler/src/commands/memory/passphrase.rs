//! What only a person knows: from a variable, or asked for on the terminal.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};

use ostler_memory::key::{Kind, Passphrase};
use ostler_memory::place::Place;
use ostler_memory::store::Store;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::MemoryError;
use crate::surroundings::Surroundings;

const VARIABLE: &str = "OSTLER_MEMORY_PASSPHRASE";
const NEW_VARIABLE: &str = "OSTLER_MEMORY_NEW_PASSPHRASE";

/// The place, with what opens it: a variable, else whoever sits at the terminal is asked, if it needs a passphrase.
pub(super) fn opened(place: Place, here: &Surroundings, is_asked: bool) -> Result<Place, MemoryError> {
    if let Some(said) = variable(here, VARIABLE)? {
        return Ok(place.with_passphrase(Some(said)));
    }
    let needs_one = || {
        let found = Store::protection(&place).ok().and_then(|found| found.key);
        found.is_some_and(|(kind, _)| kind == Kind::Passphrase)
    };
    if !is_asked || !can_be_asked() || !needs_one() {
        return Ok(place);
    }
    let said = ask("Passphrase of the memory: ")?;
    Ok(place.with_passphrase(Some(said)))
}

/// A new one: from its variable, else asked for twice.
pub(super) fn new(here: &Surroundings) -> Result<Passphrase, MemoryError> {
    if let Some(said) = variable(here, NEW_VARIABLE)? {
        return Ok(said);
    }
    if !can_be_asked() {
        return Err(MemoryError::NoPassphrase);
    }
    let said = ask("New passphrase of the memory: ")?;
    if ask("The same again: ")? != said {
        return Err(MemoryError::DifferentPassphrases);
    }
    Ok(said)
}

fn variable(here: &Surroundings, name: &str) -> Result<Option<Passphrase>, MemoryError> {
    let said = here.variable(name).filter(|value| !value.is_empty());
    said.map(|value| Passphrase::new(&value.to_string_lossy()).ok_or(MemoryError::ShortPassphrase))
        .transpose()
}

fn can_be_asked() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn ask(question: &str) -> Result<Passphrase, MemoryError> {
    let mut line = unseen(question).map_err(MemoryError::Terminal)?;
    while line.ends_with(['\n', '\r']) {
        line.pop();
    }
    Passphrase::new(&line).ok_or(MemoryError::ShortPassphrase)
}

/// A line that is typed unseen. The terminal is as it was when this returns.
fn unseen(question: &str) -> io::Result<String> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    terminal.write_all(question.as_bytes())?;
    let _quiet = Quiet::make(terminal.try_clone()?)?;
    let mut line = String::new();
    BufReader::new(&terminal).read_line(&mut line)?;
    terminal.write_all(b"\n")?;
    Ok(line)
}

struct Quiet {
    terminal: File,
    found: Termios,
}

impl Quiet {
    fn make(terminal: File) -> io::Result<Self> {
        let found = tcgetattr(&terminal)?;
        let mut quiet = found.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &quiet)?;
        Ok(Self { terminal, found })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.found);
    }
}
