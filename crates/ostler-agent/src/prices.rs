//! What models cost, where the user says so: for agents that report tokens and no cost.

use std::collections::BTreeMap;

use crate::event::Usage;

/// Tokens that a price is given for.
const PER: f64 = 1_000_000.0;

/// The price of one model, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Tokens read that neither came from a cache nor went into one.
    pub input: f64,
    /// Tokens written.
    pub output: f64,
    /// Tokens read from a cache.
    pub cache_read: f64,
    /// Tokens read and put into a cache.
    pub cache_write: f64,
}

/// The tokens of model calls, split the way providers price them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read, neither from a cache nor into one.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Read and put into a cache.
    pub cache_write: u64,
}

impl Tokens {
    /// The same as a [`Usage`].
    pub fn usage(self, cost_usd: Option<f64>) -> Usage {
        let read = self.input.saturating_add(self.cache_read).saturating_add(self.cache_write);
        Usage {
            input_tokens: Some(read),
            output_tokens: Some(self.output),
            cached_tokens: Some(self.cache_read),
            cost_usd,
        }
    }

    /// The larger number of each kind: a message is reported several times, the last time in full.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write: self.cache_write.max(other.cache_write),
        }
    }

    /// These without those.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
            cache_read: self.cache_read.saturating_sub(other.cache_read),
            cache_write: self.cache_write.saturating_sub(other.cache_write),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

impl Price {
    /// What these tokens cost.
    pub fn cost(&self, tokens: Tokens) -> f64 {
        // Exact up to 2^53 tokens.
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 tokens")]
        let part = |tokens: u64, price: f64| tokens as f64 * price / PER;
        part(tokens.input, self.input)
            + part(tokens.output, self.output)
            + part(tokens.cache_read, self.cache_read)
            + part(tokens.cache_write, self.cache_write)
    }
}

/// The prices of models, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices {
    by_model: BTreeMap<String, Price>,
    requested: Option<String>,
}

impl Prices {
    /// These prices, in a run that was asked to use this model.
    pub fn new(by_model: BTreeMap<String, Price>, requested: Option<String>) -> Self {
        Self { by_model, requested }
    }

    /// Whether no model has a price.
    pub fn is_empty(&self) -> bool {
        self.by_model.is_empty()
    }

    /// The price of the model that the agent reports; else of the one it was asked to use, which may be an alias.
    pub fn of(&self, reported: Option<&str>) -> Option<Price> {
        let names = [reported, self.requested.as_deref()];
        names.into_iter().flatten().find_map(|model| self.find_price(model))
    }

    /// The model that a report without a name is about.
    pub fn model<'a>(&'a self, reported: Option<&'a str>) -> &'a str {
        reported.or(self.requested.as_deref()).unwrap_or("unknown")
    }

    /// The price under exactly this name; else without what an agent appends (`[1m]`) or puts before it (`provider/`).
    fn find_price(&self, model: &str) -> Option<Price> {
        let plain = model.split_once('[').map_or(model, |(name, _)| name);
        let bare = plain.rsplit('/').next().unwrap_or(plain);
        [model, plain, bare].into_iter().find_map(|name| self.by_model.get(name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price { input: 5.0, output: 25.0, cache_read: 0.5, cache_write: 6.25 };

    #[test]
    fn each_kind_of_token_has_its_price() {
        let million = 1_000_000;
        let table = [
            (Tokens { input: million, ..Tokens::default() }, 5.0),
            (Tokens { output: million, ..Tokens::default() }, 25.0),
            (Tokens { cache_read: million, ..Tokens::default() }, 0.5),
            (Tokens { cache_write: million, ..Tokens::default() }, 6.25),
            (Tokens { input: 50_000, output: 500, ..Tokens::default() }, 0.2625),
        ];
        for (tokens, want) in table {
            assert!((PRICE.cost(tokens) - want).abs() < 1e-9, "{tokens:?}");
        }
    }

    #[test]
    fn a_model_is_found_by_the_names_that_agents_use() {
        let by_model = BTreeMap::from([("opus".to_owned(), PRICE), ("mock/own".to_owned(), PRICE)]);
        let prices = |requested: Option<&str>| Prices::new(by_model.clone(), requested.map(str::to_owned));
        for (requested, reported, is_priced) in [
            (None, Some("opus"), true),
            (None, Some("opus[1m]"), true),
            (None, Some("anthropic/opus"), true),
            (None, Some("mock/own"), true),
            (None, Some("own"), false),
            (None, None, false),
            (Some("opus"), Some("claude-opus-5"), true),
            (Some("opus"), None, true),
            (Some("other"), Some("another"), false),
        ] {
            let found = prices(requested).of(reported).is_some();
            assert_eq!(found, is_priced, "{requested:?}, {reported:?}");
        }
    }
}
