//! A small text file, read without trusting what stands at its path: a pipe would never end, a device never be empty.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// A larger file is not one that a person wrote as configuration.
const LARGEST_FILE_BYTES: u64 = 1024 * 1024;

/// The file's text, or `None` if there is no file. Never waits for anyone.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    match read_regular(path) {
        Ok(text) => Ok(Some(text)),
        // `NotADirectory`: a parent is a file, so that there is nothing at this path either.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn read_regular(path: &Path) -> io::Result<String> {
    // Without the flag, to open a pipe is to wait for its writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_FILE_BYTES {
        return Err(io::Error::other(format!("it is longer than {LARGEST_FILE_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn only_a_regular_file_of_bounded_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("fine"), "x = 1").unwrap();
        fs::write(at("long"), vec![b' '; 1024 * 1024 + 1]).unwrap();
        fs::write(at("binary"), [0xff]).unwrap();
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let told = |path: &Path| read(path).map_err(|error| error.to_string());
        assert_eq!(told(&at("fine")), Ok(Some("x = 1".to_owned())));
        assert_eq!(told(&at("none")), Ok(None));
        assert_eq!(told(&at("fine/below")), Ok(None));
        for path in [at("pipe"), folder.path().to_owned(), "/dev/zero".into()] {
            assert_eq!(told(&path), Err("it is not a regular file".to_owned()), "{}", path.display());
        }
        assert_eq!(told(&at("long")), Err("it is longer than 1048576 bytes".to_owned()));
        assert_eq!(told(&at("binary")), Err("it is not UTF-8 text".to_owned()));
    }
}
