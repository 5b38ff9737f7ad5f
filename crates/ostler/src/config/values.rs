//! Values that can be written in two ways: as TOML has them, and as text, since a variable is always text.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ostler_agent::network::NetAccess;
use schemars::JsonSchema;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// A time: `"90s"`, `"6m"`, `"1h 30m"`.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct Span(#[schemars(with = "String")] pub(crate) Duration);

/// A whole number.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct Count(pub(crate) u32);

/// US dollars.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct Money(pub(crate) f64);

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct Switch(pub(crate) bool);

/// A file: absolute, or below the home directory.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct FilePath(#[schemars(regex(pattern = "^(/|~/)."))] String);

impl FilePath {
    /// With `~` replaced.
    pub(crate) fn resolve(&self) -> PathBuf {
        below_home(&self.0)
    }
}

/// What a jailed agent may reach in the network: `"provider"`, `"hosts=a,b"` or `"all"`.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct NetSetting(#[schemars(with = "String")] pub(crate) NetAccess);

impl<'de> Deserialize<'de> for NetSetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map(Self).map_err(D::Error::custom)
    }
}

/// Columns and rows of a terminal: `"120x40"`.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema)]
#[schemars(with = "String")]
pub(crate) struct TerminalSize {
    pub(crate) columns: u16,
    pub(crate) rows: u16,
}

/// A path, with `~` replaced if it begins with `~/`.
pub(super) fn below_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text.starts_with('/') || text.starts_with("~/") {
            return Ok(Self(text));
        }
        // The part after `try:` becomes the hint.
        Err(D::Error::custom(format!(
            "`{text}` is not a path that begins with `/` or `~/`; try: write the whole path"
        )))
    }
}

impl<'de> Deserialize<'de> for TerminalSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = |text: &str| {
            let (columns, rows) = text.split_once('x')?;
            let columns = columns.parse().ok().filter(|columns| (FEWEST_COLUMNS..=MOST).contains(columns))?;
            let rows = rows.parse().ok().filter(|rows| (FEWEST_ROWS..=MOST).contains(rows))?;
            Some(Self { columns, rows })
        };
        let expected = "a size such as \"120x40\", from 40x12 on";
        from.deserialize_any(Either { expected, read })
    }
}

/// On a narrower terminal dialogs of agents were never seen.
const FEWEST_COLUMNS: u16 = 40;

/// The same, on a lower one.
const FEWEST_ROWS: u16 = 12;

/// More than any screen has, either way.
const MOST: u16 = 1_000;

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Either { expected: "a time such as \"5m\"", read: span })
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Either {
            expected: "a whole number",
            read: |text: &str| text.parse().ok().map(Self),
        })
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read =
            |text: &str| text.parse().ok().filter(|usd: &f64| usd.is_finite() && *usd >= 0.0).map(Self);
        from.deserialize_any(Either { expected: "a number of US dollars", read })
    }
}

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Either {
            expected: "true or false",
            read: |text: &str| text.parse().ok().map(Self),
        })
    }
}

/// A number of anything is no time: whether seconds or minutes are meant is not said.
fn span(text: &str) -> Option<Span> {
    humantime::parse_duration(text).ok().filter(|time| !time.is_zero()).map(Span)
}

/// Reads a value from its text, whatever TOML calls it.
struct Either<F> {
    expected: &'static str,
    read: F,
}

impl<T, F: Fn(&str) -> Option<T>> Either<F> {
    fn text<E: Error>(&self, text: &str) -> Result<T, E> {
        (self.read)(text).ok_or_else(|| E::custom(format!("`{text}` is not {}", self.expected)))
    }
}

impl<'de, T, F: Fn(&str) -> Option<T>> Visitor<'de> for Either<F> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.text(text)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.text(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.text(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.text(&number.to_string())
    }

    fn visit_bool<E: Error>(self, is: bool) -> Result<T, E> {
        self.text(&is.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Read<T> {
        x: T,
    }

    fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, String> {
        let read: Result<Read<T>, _> = toml::from_str(text);
        read.map(|read| read.x).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn values_are_read_from_toml_and_from_text() {
        assert_eq!(read("x = \"6m\""), Ok(Span(Duration::from_secs(360))));
        assert_eq!(read("x = \"80x24\""), Ok(TerminalSize { columns: 80, rows: 24 }));
        assert_eq!((read("x = 3"), read("x = \"3\"")), (Ok(Count(3)), Ok(Count(3))));
        assert_eq!((read("x = 1"), read("x = \"0.5\"")), (Ok(Money(1.0)), Ok(Money(0.5))));
        assert_eq!((read("x = true"), read("x = \"false\"")), (Ok(Switch(true)), Ok(Switch(false))));
    }

    #[test]
    fn what_is_meant_by_a_wrong_one_is_asked_for() {
        assert_eq!(read::<Span>("x = 6"), Err("`6` is not a time such as \"5m\"".to_owned()));
        assert_eq!(read::<Count>("x = -1"), Err("`-1` is not a whole number".to_owned()));
        assert_eq!(read::<Money>("x = -1.0"), Err("`-1` is not a number of US dollars".to_owned()));
        assert_eq!(read::<Switch>("x = \"yes\""), Err("`yes` is not true or false".to_owned()));
        assert!(read::<Count>("x = []").is_err());
        for wrong in ["x = \"20x5\"", "x = \"120\"", "x = \"120x40x2\"", "x = 120", "x = \"120x4000\""] {
            assert!(read::<TerminalSize>(wrong).is_err_and(|why| why.contains("120x40")), "{wrong}");
        }
    }
}
