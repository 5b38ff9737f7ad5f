//! The small values that items are made of: spans of time, words, and a plain yes.

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// A span of time as people write it: `"5s"`, `"200ms"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct Span(#[schemars(with = "String")] pub(crate) Duration);

/// A span of time, or no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct HowLong(
    /// `None` is for ever.
    #[schemars(with = "String")]
    pub(crate) Option<Duration>,
);

/// `true`, for verbs that need nothing more said. `false` is refused: leave the item out instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct Yes(#[schemars(with = "bool")] ());

/// The script's own words, or `true` for those that the real agent was recorded with.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum Words {
    /// What the real one says.
    Usual(Yes),
    /// What the script says.
    Own(String),
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        span(&text).map(Self).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for HowLong {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "forever" {
            return Ok(Self(None));
        }
        span(&text).map(|span| Self(Some(span))).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Yes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match bool::deserialize(deserializer)? {
            true => Ok(Self(())),
            false => Err(de::Error::custom("only `true` makes sense here: leave the item out instead")),
        }
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordsVisitor;
        impl Visitor<'_> for WordsVisitor {
            type Value = Words;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a text, or `true` for the usual one")
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Words, E> {
                if value {
                    Ok(Words::Usual(Yes(())))
                } else {
                    Err(E::invalid_value(de::Unexpected::Bool(false), &self))
                }
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Words, E> {
                Ok(Words::Own(value.to_owned()))
            }
        }
        deserializer.deserialize_any(WordsVisitor)
    }
}

fn span(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("`{text}` is not a span of time like \"5s\": {error}"))
}

/// Tokens that one turn is said to have used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tokens {
    /// Tokens read.
    pub(crate) input: u64,
    /// Tokens written.
    pub(crate) output: u64,
}
