//! What only a person knows: from a variable, or asked for on the terminal.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, IsTerminal as _, Read as _, Write as _};

use ostler_memory::key::Passphrase;
use ostler_memory::place::Place;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use super::{MemoryError, key};
use crate::failure::Failure;
use crate::interrupt::Interrupted;
use crate::surroundings::Surroundings;

const VARIABLE: &str = "OSTLER_MEMORY_PASSPHRASE";
const NEW_VARIABLE: &str = "OSTLER_MEMORY_NEW_PASSPHRASE";

/// The place, with what opens it: a variable, else whoever sits at the terminal is asked, if it needs a passphrase.
pub(super) fn opened(place: Place, here: &Surroundings, is_asked: bool) -> Result<Place, Failure> {
    if let Some(said) = variable(here, VARIABLE)? {
        return Ok(place.with_passphrase(Some(said)));
    }
    if !is_asked || !can_be_asked() || !key::is_passphrase(&place) {
        return Ok(place);
    }
    let said = ask("Passphrase of the memory: ")?;
    Ok(place.with_passphrase(Some(said)))
}

/// A new one: from its variable, else asked for twice.
pub(super) fn new(here: &Surroundings) -> Result<Passphrase, Failure> {
    if let Some(said) = variable(here, NEW_VARIABLE)? {
        return Ok(said);
    }
    if !can_be_asked() {
        return Err(MemoryError::NoPassphrase.into());
    }
    let said = ask("New passphrase of the memory: ")?;
    if ask("The same again: ")? != said {
        return Err(MemoryError::DifferentPassphrases.into());
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

fn ask(question: &str) -> Result<Passphrase, Failure> {
    match unseen(question).map_err(MemoryError::Terminal)? {
        Typed::Line(line) => Ok(Passphrase::new(&line).ok_or(MemoryError::ShortPassphrase)?),
        Typed::CtrlC => Err(Interrupted::CtrlC.into()),
    }
}

/// A line that is typed unseen. The terminal is as it was when this returns.
fn unseen(question: &str) -> io::Result<Typed> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    // Before the question is there: whoever answers it at once is not seen either, and not overheard.
    let quiet = Quiet::make(terminal.try_clone()?)?;
    terminal.write_all(question.as_bytes())?;
    let typed = typed(BufReader::new(&terminal).bytes());
    drop(quiet);
    terminal.write_all(b"\n")?;
    typed
}

/// What somebody did who was asked for a line.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    Line(String),
    CtrlC,
}

/// Keys until the end of the line, with those taken away that were taken back.
fn typed(keys: impl Iterator<Item = io::Result<u8>>) -> io::Result<Typed> {
    const CTRL_C: u8 = 0x03;
    const CTRL_D: u8 = 0x04;
    const CTRL_U: u8 = 0x15;
    const BACKSPACE: [u8; 2] = [0x08, 0x7f];
    let mut line = Vec::new();
    for key in keys {
        match key? {
            b'\n' | b'\r' | CTRL_D => return Ok(Typed::Line(String::from_utf8_lossy(&line).into_owned())),
            CTRL_C => return Ok(Typed::CtrlC),
            CTRL_U => line.clear(),
            key if BACKSPACE.contains(&key) => {
                // A letter may have several bytes; all but the first look like this.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            key => line.push(key),
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// The terminal shows nothing and sends no signal for Ctrl-C, which would end us before it shows again what is typed.
struct Quiet {
    terminal: File,
    found: Termios,
}

impl Quiet {
    fn make(terminal: File) -> io::Result<Self> {
        let found = tcgetattr(&terminal)?;
        let mut quiet = found.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Flush, &quiet)?;
        Ok(Self { terminal, found })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_a_line() {
        let line = |text: &str| Some(Typed::Line(text.to_owned()));
        let table = [
            ("correct horse\n", line("correct horse")),
            ("correct\rhorse", line("correct")),
            ("hoarse\x7f\x7f\x7f\x7frse\n", line("horse")),
            ("\u{e9}\u{1f40e}\x08\x08\x08x\n", line("x")),
            ("wrong\x15right\x04", line("right")),
            ("half\x03", Some(Typed::CtrlC)),
            // The terminal is gone.
            ("half", None),
        ];
        for (keys, want) in table {
            assert_eq!(typed(keys.bytes().map(Ok)).ok(), want, "{keys:?}");
        }
    }
}
