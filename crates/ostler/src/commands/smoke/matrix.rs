//! The last result that was green, for each agent, version and model: `smoke-matrix.json`.
//!
//! Losing it loses only what to compare with. A file that cannot be read is said, put aside, and begun anew.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ostler_agent::smoke::Green;
use serde::{Deserialize, Serialize};

/// Version of the file's shape.
const VERSION: u32 = 1;

/// Results that are kept; then the oldest goes.
const MOST: usize = 64;

/// What is read of the file at most: far above what so many results take.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// The file as it is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    v: u32,
    green: Vec<Green>,
}

/// The results, and where they are kept.
#[derive(Debug)]
pub(super) struct Matrix {
    file: PathBuf,
    green: Vec<Green>,
}

impl Matrix {
    /// What is in that file, which need not exist; and what is wrong with it.
    pub(super) fn open(file: &Path) -> (Self, Option<String>) {
        let (green, wrong) = match read(file) {
            Ok(green) => (green, None),
            Err(why) => (Vec::new(), Some(aside(file, &why))),
        };
        (Self { file: file.to_owned(), green }, wrong)
    }

    /// What to compare with: the same version if it was green, else the newest other version that was.
    pub(super) fn last_green(&self, agent: &str, engine: &str, version: &str, model: &str) -> Option<&Green> {
        let of_agent =
            |green: &&Green| (&*green.agent, &*green.engine, &*green.model) == (agent, engine, model);
        let same = self.green.iter().filter(of_agent).find(|green| green.version == version);
        same.or_else(|| self.green.iter().filter(of_agent).max_by_key(|green| green.at))
    }

    /// Keeps a result in the place of the one before it.
    pub(super) fn keep(&mut self, green: Green) -> io::Result<()> {
        // Another smoke test may have written meanwhile.
        if let Ok(others) = read(&self.file) {
            self.green = others;
        }
        let key = |green: &Green| {
            (green.agent.clone(), green.engine.clone(), green.version.clone(), green.model.clone())
        };
        self.green.retain(|old| key(old) != key(&green));
        self.green.push(green);
        self.green.sort_by_key(|green| green.at);
        let over = self.green.len().saturating_sub(MOST);
        self.green.drain(..over);
        self.write()
    }

    /// Whole or not at all.
    fn write(&self) -> io::Result<()> {
        let made = self.file.with_extension(format!("{}.new", std::process::id()));
        let mut text = serde_json::to_vec_pretty(&Written { v: VERSION, green: self.green.clone() })?;
        text.push(b'\n');
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&made)?;
        let written = file.write_all(&text).and_then(|()| fs::rename(&made, &self.file));
        written.inspect_err(|_| drop(fs::remove_file(&made)))
    }
}

fn read(file: &Path) -> Result<Vec<Green>, String> {
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
        Ok(about) if about.len() > MOST_BYTES => return Err(format!("it has {} bytes", about.len())),
        Ok(_) => {}
    }
    let text = fs::read(file).map_err(|error| error.to_string())?;
    let written: Written = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if written.v != VERSION {
        return Err(format!("version {} is not known", written.v));
    }
    Ok(written.green)
}

/// Puts a file that cannot be read out of the way, and says so.
fn aside(file: &Path, why: &str) -> String {
    let place = file.with_extension("broken.json");
    let (file, told) = (
        file.display(),
        match fs::rename(file, &place) {
            Ok(()) => format!("it is now {}", place.display()),
            Err(error) => format!("it could not be put aside either: {error}"),
        },
    );
    format!("{file} cannot be read, so there is nothing to compare with: {why}; {told}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn green(version: &str, at: i64) -> Green {
        Green {
            agent: "codex".to_owned(),
            engine: "stream".to_owned(),
            version: version.to_owned(),
            model: "smoke".to_owned(),
            at,
            facts: std::collections::BTreeMap::new(),
            unknown: Vec::new(),
            first_event_ms: None,
            ms: 1,
        }
    }

    fn version<'a>(matrix: &'a Matrix, version: &str) -> Option<&'a str> {
        matrix.last_green("codex", "stream", version, "smoke").map(|green| green.version.as_str())
    }

    #[test]
    fn the_same_version_is_compared_with_and_else_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("smoke-matrix.json");
        let (mut matrix, wrong) = Matrix::open(&file);
        assert_eq!((wrong, version(&matrix, "1")), (None, None));
        for (version, at) in [("1", 1), ("2", 2), ("1", 3)] {
            matrix.keep(green(version, at)).unwrap();
        }
        let (again, _) = Matrix::open(&file);
        assert_eq!(again.green, matrix.green);
        assert_eq!(again.green.len(), 2, "one for each version");
        assert_eq!(version(&again, "2"), Some("2"));
        assert_eq!(version(&again, "3"), Some("1"), "the newest");
        assert!(again.last_green("codex", "terminal", "1", "smoke").is_none());
        assert!(again.last_green("codex", "stream", "1", "live").is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn old_results_go_before_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let (mut matrix, _) = Matrix::open(&folder.path().join("m.json"));
        for at in 0..70 {
            matrix.keep(green(&at.to_string(), at)).unwrap();
        }
        assert_eq!((matrix.green.len(), matrix.green[0].at), (MOST, 6));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_said_and_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("smoke-matrix.json");
        for text in ["", "{broken", "[]", r#"{"v":2,"green":[]}"#, r#"{"v":1,"green":[],"more":1}"#] {
            fs::write(&file, text).unwrap();
            let (mut matrix, wrong) = Matrix::open(&file);
            let wrong = wrong.unwrap();
            assert!(wrong.contains("smoke-matrix.json cannot be read"), "{wrong}");
            assert_eq!(fs::read_to_string(folder.path().join("smoke-matrix.broken.json")).unwrap(), text);
            matrix.keep(green("1", 1)).unwrap();
            assert_eq!(Matrix::open(&file).1, None);
        }
    }
}
