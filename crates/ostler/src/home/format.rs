//! The format of Ostler's home, in `home.json`: a build refuses a home whose format is newer than the one it knows,
//! before it reads or writes anything else there.
//!
//! A home without the file has format 1, so nothing writes it yet. A change that an older build would misread or damage
//! raises [`FORMAT`]; the build that makes it writes the file before it touches anything else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The format that this build reads and writes.
const FORMAT: u32 = 1;

const FILE: &str = "home.json";

/// What is in the file. Fields that a newer build adds are ignored.
#[derive(Debug, Deserialize)]
struct Marker {
    format: u32,
    /// The version of Ostler that first needed this format.
    written_by: String,
}

/// Why a home cannot be used by this build.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormatError {
    #[error(
        "`{}` has format {format}, written by Ostler {written_by}; this is Ostler {}, which reads format {FORMAT}",
        .home.display(),
        env!("CARGO_PKG_VERSION")
    )]
    Newer { home: PathBuf, format: u32, written_by: String },
    #[error("could not read `{}`", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is not valid", .path.display())]
    Invalid {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
}

impl FormatError {
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Newer { .. } => {
                "nothing was changed: upgrade Ostler, or set OSTLER_HOME to another folder".to_owned()
            }
            Self::Read { .. } => "set OSTLER_HOME to a folder that you can read".to_owned(),
            Self::Invalid { .. } => {
                "restore the file from a backup, or remove it if you know that this version of \
                                     Ostler wrote the folder"
                    .to_owned()
            }
        })
    }
}

/// Refuses a home that a newer build wrote. Reads one small file and writes nothing.
pub(super) fn check(home: &Path) -> Result<(), FormatError> {
    let path = home.join(FILE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if is_absent(&error) => return Ok(()),
        Err(source) => return Err(FormatError::Read { path, source }),
    };
    let marker: Marker =
        serde_json::from_slice(&text).map_err(|source| FormatError::Invalid { path, source })?;
    if marker.format <= FORMAT {
        return Ok(());
    }
    Err(FormatError::Newer { home: home.to_owned(), format: marker.format, written_by: marker.written_by })
}

/// A home that does not exist, or is not a folder, is reported by the command that writes to it.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_file(text: Option<&str>) -> Result<(), String> {
        let home = tempfile::tempdir().unwrap();
        if let Some(text) = text {
            fs::write(home.path().join(FILE), text).unwrap();
        }
        check(home.path())
            .map_err(|error| error.to_string().replace(&home.path().display().to_string(), "HOME"))
    }

    #[test]
    fn a_home_of_this_format_or_an_older_one_is_used() {
        assert_eq!(check_file(None), Ok(()));
        assert_eq!(check_file(Some(r#"{"format":1,"written_by":"0.1.0"}"#)), Ok(()));
        assert_eq!(check(Path::new("/dev/null")).map_err(|error| error.to_string()), Ok(()));
    }

    #[test]
    fn a_newer_or_unreadable_home_is_refused() {
        let newer = check_file(Some(r#"{"format":2,"written_by":"0.9.0","since":"2027"}"#)).unwrap_err();
        assert!(
            newer.starts_with("`HOME` has format 2, written by Ostler 0.9.0; this is Ostler "),
            "{newer}"
        );
        assert_eq!(check_file(Some("{")), Err("`HOME/home.json` is not valid".to_owned()));
    }
}
