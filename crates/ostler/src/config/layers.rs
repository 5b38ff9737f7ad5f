//! One layer of the configuration, and how layers are laid over each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ostler_agent::document::{Document, Format, Mistake, Segment};
use toml::{Table, Value};

use super::sections::{ColorWhen, Config, DEFAULTS};
use super::tightening::{is_builtin, may_set};
use super::trust::Trust;
use super::values::below_home;
use super::{ConfigError, Effective, Ignored, IgnoredBecause, Origin, PROJECT_CONFIG, file, project_file};
use crate::surroundings::Surroundings;

/// What one source says, already found to be valid.
#[derive(Debug)]
pub(super) struct Layer {
    table: Table,
    document: Document,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Default,
    File(PathBuf),
    Variable(String),
    Flag(&'static str),
}

impl Layer {
    /// What holds when nothing is set.
    pub(super) fn defaults() -> Result<Self, ConfigError> {
        Ok(Self::read("default", DEFAULTS, Source::Default)?)
    }

    /// The user's file, if there is one.
    pub(super) fn user(path: &Path) -> Result<Option<Self>, ConfigError> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        text_of(path)?.map(|text| Ok(Self::file(path, &text)?.below(folder))).transpose()
    }

    /// The project's file, and what of it is ignored: what does not tighten, unless the project is trusted.
    pub(super) fn project(
        project: &Path,
        here: &Surroundings,
        below: &Config,
    ) -> Result<(Self, Option<Ignored>), ConfigError> {
        let path = project_file(project);
        let text = text_of(&path)?.unwrap_or_default();
        let mut layer = Self::file(&path, &text)?;
        let config: Config = layer.document.read()?;
        let leaves = layer.leaves().into_iter().map(|(key, _)| key);
        let mut refused: Vec<Vec<String>> = leaves.filter(|key| !may_set(key, &config, below)).collect();
        let mut reason = IgnoredBecause::Untrusted;
        if !refused.is_empty() && is_trusted(project, &text, here)? {
            refused.retain(|key| is_users_own(key));
            reason = IgnoredBecause::UsersOwn;
        }
        if refused.is_empty() {
            return Ok((layer.below(project), None));
        }
        for key in &refused {
            remove(&mut layer.table, key);
        }
        let keys = refused.iter().map(|key| dotted(key)).collect();
        let ignored = Ignored { file: path, project: project.to_owned(), keys, reason };
        Ok((layer.below(project), Some(ignored)))
    }

    /// What one variable says.
    pub(super) fn variable(name: &str, key: &[String], value: &str) -> Result<Self, ConfigError> {
        let keys: Vec<_> = key.iter().map(|part| Value::from(part.as_str()).to_string()).collect();
        let text = format!("{} = {}", keys.join("."), Value::from(value));
        let read = Self::read(name, &text, Source::Variable(name.to_owned()));
        // There is but one line, and the person has not seen it.
        Ok(read.map_err(|mistake| Mistake { line: None, ..mistake })?)
    }

    /// What `--color` says.
    pub(super) fn color_flag(when: ColorWhen) -> Result<Self, ConfigError> {
        let text = format!("display.color = \"{}\"", when.name());
        Ok(Self::read("--color", &text, Source::Flag("--color"))?)
    }

    /// The file, if the layer is one.
    pub(super) fn file_path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Default | Source::Variable(_) | Source::Flag(_) => None,
        }
    }

    fn file(path: &Path, text: &str) -> Result<Self, Mistake> {
        Self::read(&path.display().to_string(), text, Source::File(path.to_owned()))
    }

    fn read(name: &str, text: &str, source: Source) -> Result<Self, Mistake> {
        let document = Document::new(name, text, Format::Toml);
        document.read::<Config>()?;
        Ok(Self { table: document.read()?, document, source })
    }

    /// With a script's relative path taken from `folder`, not from wherever Ostler happens to be started.
    fn below(mut self, folder: &Path) -> Self {
        let rehearse = self.table.get_mut("rehearse").and_then(Value::as_table_mut);
        if let Some(Value::String(script)) = rehearse.and_then(|rehearse| rehearse.get_mut("script"))
            && !is_builtin(script)
        {
            *script = folder.join(below_home(script)).display().to_string();
        }
        self
    }

    fn leaves(&self) -> Vec<(Vec<String>, Value)> {
        let mut found = Vec::new();
        collect(&self.table, &mut Vec::new(), &mut found);
        found
    }

    fn origin(&self, key: &[String]) -> Origin {
        match &self.source {
            Source::Default => Origin::Default,
            Source::File(path) => {
                Origin::File { path: path.clone(), line: self.document.line_of(&segments(key)) }
            }
            Source::Variable(name) => Origin::Variable(name.clone()),
            Source::Flag(name) => Origin::Flag(name),
        }
    }
}

/// A key as TOML writes it: names with dots or other signs in them, such as those of models, are quoted.
fn dotted(key: &[String]) -> String {
    let is_bare = |part: &str| {
        !part.is_empty() && part.chars().all(|sign| sign.is_ascii_alphanumeric() || "-_".contains(sign))
    };
    let parts = key.iter().map(|part| match is_bare(part) {
        true => part.clone(),
        false => Value::from(part.as_str()).to_string(),
    });
    parts.collect::<Vec<_>>().join(".")
}

/// Lays each layer over those before it, value by value.
pub(super) fn merge(layers: &[Layer]) -> Result<(Config, BTreeMap<String, Effective>), ConfigError> {
    let mut values = BTreeMap::new();
    let mut table = Table::new();
    for layer in layers {
        for (key, value) in layer.leaves() {
            let origin = layer.origin(&key);
            let shown = if is_secret(&key) { Value::from("…") } else { value.clone() };
            values.insert(dotted(&key), Effective { value: shown, origin });
            put(&mut table, &key, value);
        }
    }
    // Each layer was valid, and so is what they amount to; were it not, the text is there to say where.
    let config = Document::new("the configuration as a whole", table.to_string(), Format::Toml).read()?;
    Ok((config, values))
}

/// Whether only the user's own file may set a key, however trusted a project is.
fn is_users_own(key: &[String]) -> bool {
    matches!(key, [section, _, jail] if section == "mcp" && jail == "jail")
}

/// Whether a value may be a key, which is shown to nobody.
fn is_secret(key: &[String]) -> bool {
    matches!(key, [section, _, headers, ..] if section == "mcp" && headers == "headers")
}

fn put(table: &mut Table, key: &[String], value: Value) {
    match key {
        [] => {}
        [last] => {
            table.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            let inner = table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

fn collect(table: &Table, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Value)>) {
    for (key, value) in table {
        path.push(key.clone());
        match value {
            Value::Table(inner) => collect(inner, path, found),
            value => found.push((path.clone(), value.clone())),
        }
        path.pop();
    }
}

fn segments(key: &[String]) -> Vec<Segment> {
    key.iter().cloned().map(Segment::Key).collect()
}

/// Whether the user trusts a project's file with this content, or trusted every content of it with an Ostler that stored
/// paths.
fn is_trusted(project: &Path, text: &str, here: &Surroundings) -> Result<bool, ConfigError> {
    if Trust::read(&here.home.trusted())?.covers(project) {
        return Ok(true);
    }
    Ok(here.gate().trusts_config(project, PROJECT_CONFIG, text.as_bytes())?)
}

fn remove(table: &mut Table, key: &[String]) {
    match key {
        [] => {}
        [last] => drop(table.remove(last)),
        [first, rest @ ..] => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                remove(inner, rest);
            }
        }
    }
}

fn text_of(path: &Path) -> Result<Option<String>, ConfigError> {
    file::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })
}
