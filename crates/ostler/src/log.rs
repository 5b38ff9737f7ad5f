//! What Ostler says about its own work, for those who debug it: on stderr, off unless asked for.

use std::io::{self, IsTerminal as _};

use ostler_agent::document::nearest;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::{Origin, Settings};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Why a filter cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("`{filter}` is not a log filter ({origin})")]
    Filter {
        filter: String,
        origin: Origin,
        #[source]
        source: ParseError,
    },
    #[error("`{word}` is not a log level ({origin})")]
    Level { word: String, origin: Origin },
}

impl LogError {
    pub(crate) fn hint(&self) -> Option<String> {
        let close = match self {
            Self::Level { word, .. } => nearest(word, LEVELS),
            Self::Filter { .. } => None,
        };
        Some(match close {
            Some(level) => format!("did you mean `{level}`?"),
            None => {
                format!("one of {}; or a part and its level, as in `ostler_process=debug`", LEVELS.join(", "))
            }
        })
    }
}

/// Whether logging can start as configured.
pub(crate) fn check(settings: &Settings) -> Result<(), LogError> {
    filter(settings).map(drop)
}

/// Starts logging as configured. Call once.
pub(crate) fn start(settings: &Settings) -> Result<(), LogError> {
    let filter = filter(settings)?;
    // A second subscriber is refused; there is none but in tests.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && crate::display::may_color())
        .try_init();
    Ok(())
}

fn filter(settings: &Settings) -> Result<EnvFilter, LogError> {
    parse(&settings.config.log.filter, || settings.origin("log.filter"))
}

fn parse(filter: &str, origin: impl Fn() -> Origin) -> Result<EnvFilter, LogError> {
    // A word alone is a level, or the name of a part of ours; the filter would take any word for the latter.
    let alone =
        filter.split(',').map(str::trim).filter(|word| !word.is_empty() && !word.contains(['=', '[', ':']));
    for word in alone {
        let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
        if !is_level && !word.starts_with("ostler") {
            return Err(LogError::Level { word: word.to_owned(), origin: origin() });
        }
    }
    EnvFilter::try_new(filter).map_err(|source| LogError::Filter {
        filter: filter.to_owned(),
        origin: origin(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_levels_and_parts() {
        let told = |filter| parse(filter, || Origin::Variable("OSTLER_LOG".to_owned())).map(|_| ());
        for fine in ["off", "debug", "INFO", "ostler_process=trace,warn", "ostler_process", ""] {
            assert!(told(fine).is_ok(), "{fine}");
        }
        let error = told("debgu").unwrap_err();
        assert_eq!(error.to_string(), "`debgu` is not a log level (OSTLER_LOG)");
        assert_eq!(error.hint().as_deref(), Some("did you mean `debug`?"));
        assert!(matches!(told("ostler=loud"), Err(LogError::Filter { .. })));
    }
}
