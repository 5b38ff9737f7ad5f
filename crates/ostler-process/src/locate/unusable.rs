//! What stands at the path of a program that cannot be started: in words that say what to repair.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// How much of a file is read to identify it: an ELF header names its processor in the first 20 bytes.
const HEADER_BYTES: u64 = 64;

/// Why a path is no program that can be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// There is nothing.
    #[error("does not exist")]
    Missing,
    /// A symbolic link to nothing.
    #[error("is a symbolic link to {}, which does not exist", .target.display())]
    DanglingLink {
        /// As the link says it.
        target: PathBuf,
    },
    /// A folder.
    #[error("is a folder, not a program")]
    Folder,
    /// A device, a pipe or a socket.
    #[error("is not a regular file")]
    Special,
    /// A file that may not be executed.
    #[error("is {0} that may not be executed")]
    NotExecutable(FileKind),
    /// The system does not let us look.
    #[error("cannot be looked at: {0}")]
    Unreadable(io::ErrorKind),
}

/// What a file is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// No bytes.
    Empty,
    /// Begins with `#!`.
    Script,
    /// Words, without a `#!` line.
    Text,
    /// A program for Linux, for the processor with that number in its header.
    Elf {
        /// `e_machine`.
        machine: u16,
    },
    /// A program for macOS.
    MachO,
    /// A program for Windows.
    Windows,
    /// Any other bytes.
    Binary,
}

impl fmt::Display for FileKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => out.write_str("an empty file"),
            Self::Script => out.write_str("a script"),
            Self::Text => out.write_str("a text file without a `#!` line"),
            Self::Elf { machine } => match processor(*machine) {
                Some(name) => write!(out, "a Linux program for {name}"),
                None => write!(out, "a Linux program for processor type {machine}"),
            },
            Self::MachO => out.write_str("a macOS program"),
            Self::Windows => out.write_str("a Windows program"),
            Self::Binary => out.write_str("a file of an unknown format"),
        }
    }
}

/// The usual name of a processor, by its number in an ELF header.
fn processor(machine: u16) -> Option<&'static str> {
    Some(match machine {
        3 => "x86",
        40 => "arm",
        62 => "x86_64",
        183 => "aarch64",
        243 => "riscv64",
        _ => return None,
    })
}

/// Why the path cannot be started, or `None` if it is a file that may be executed.
pub(super) fn find_fault(path: &Path) -> Option<Unusable> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Some(match fs::read_link(path) {
                Ok(target) => Unusable::DanglingLink { target },
                Err(_) => Unusable::Missing,
            });
        }
        // A parent is a file, so there is nothing at this path.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Some(Unusable::Missing),
        Err(error) => return Some(Unusable::Unreadable(error.kind())),
    };
    if found.is_dir() {
        return Some(Unusable::Folder);
    }
    if !found.is_file() {
        return Some(Unusable::Special);
    }
    match access(path, Access::EXEC_OK) {
        Ok(()) => None,
        Err(_) => Some(Unusable::NotExecutable(file_kind(path))),
    }
}

/// What the file is. One that cannot be read has an unknown format.
pub(crate) fn file_kind(path: &Path) -> FileKind {
    let mut header = Vec::new();
    // Only a regular file: to open a pipe is to wait for its writer.
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    let read =
        is_file.then(|| File::open(path).and_then(|file| file.take(HEADER_BYTES).read_to_end(&mut header)));
    match read {
        Some(Ok(_)) => kind_of(&header),
        Some(Err(_)) | None => FileKind::Binary,
    }
}

fn kind_of(header: &[u8]) -> FileKind {
    match header {
        [] => FileKind::Empty,
        [b'#', b'!', ..] => FileKind::Script,
        [0x7f, b'E', b'L', b'F', rest @ ..] => {
            // The fifth byte after the magic number says the byte order; every processor above is little-endian.
            let machine = rest.get(14..16).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
            FileKind::Elf { machine }
        }
        [0xce | 0xcf, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => FileKind::MachO,
        [b'M', b'Z', ..] => FileKind::Windows,
        bytes if is_text(bytes) => FileKind::Text,
        _ => FileKind::Binary,
    }
}

/// Whether these bytes are UTF-8 without control characters; the last letter may be cut off.
fn is_text(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    text.chars().all(|letter| !letter.is_control() || letter.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_first_bytes() {
        let elf = |machine: u16| {
            let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
            header.extend(machine.to_le_bytes());
            header
        };
        let table: [(&[u8], &str); 10] = [
            (b"", "an empty file"),
            (b"#!/bin/sh\n", "a script"),
            (b"the install script did not run\n", "a text file without a `#!` line"),
            (&elf(62), "a Linux program for x86_64"),
            (&elf(183), "a Linux program for aarch64"),
            (&elf(9_999), "a Linux program for processor type 9999"),
            (b"\x7fELF", "a Linux program for processor type 0"),
            (b"\xcf\xfa\xed\xfe\x0c", "a macOS program"),
            (b"MZ\x90\0", "a Windows program"),
            (b"\0\x01\x02", "a file of an unknown format"),
        ];
        for (header, want) in table {
            assert_eq!(kind_of(header).to_string(), want, "{header:?}");
        }
        // A letter that is cut off at the end of what is read is still text.
        assert_eq!(kind_of(&"ä".as_bytes()[..1]), FileKind::Text);
    }
}
