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

/// Tokens by model.
pub type ByModel = BTreeMap<String, Tokens>;

/// Calls whose cost is known in all: enough to say what others of the same models cost at most.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    tokens: ByModel,
    cost: f64,
}

impl Observed {
    /// These calls, and what they cost together.
    pub fn new(tokens: ByModel, cost: f64) -> Self {
        Self { tokens, cost }
    }

    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (model, tokens) in &other.tokens {
            let sum = self.tokens.entry(model.clone()).or_default();
            *sum = sum.plus(*tokens);
        }
        self.cost += other.cost;
        self
    }

    /// The most that these tokens can cost, whatever the prices are with which the observed calls cost what they did:
    /// no price is negative, reading from a cache costs at most as much as reading, and that as writing into one. Nothing
    /// if there is no such bound: a model or a kind of token was not observed.
    pub fn most(&self, tokens: &ByModel) -> Option<f64> {
        let mut most = 0.0_f64;
        for (model, tokens) in tokens {
            let observed = self.tokens.get(model).map(price_steps).unwrap_or_default();
            for (wanted, observed) in price_steps(tokens).into_iter().zip(observed) {
                match (wanted, observed) {
                    (0, _) => {}
                    (_, 0) => return None,
                    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 tokens")]
                    (wanted, observed) => most = most.max(wanted as f64 / observed as f64),
                }
            }
        }
        // A cost of zero is one that is not known.
        (most == 0.0 || self.cost > 0.0).then_some(most * self.cost)
    }
}

/// Tokens by the steps from one price to the next higher one: all that were read pay the price of a cache, what was not
/// in it pays more, and what is put into it more again. Any prices in this order are a sum of steps, none negative, so
/// that the most expensive ones put the whole cost into one step.
fn price_steps(tokens: &Tokens) -> [u64; 4] {
    let uncached = tokens.input.saturating_add(tokens.cache_write);
    [tokens.cache_read.saturating_add(uncached), uncached, tokens.cache_write, tokens.output]
}

/// The prices of models, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices {
    by_model: BTreeMap<String, Price>,
    requested: Option<String>,
    /// The name under which the agent reports the requested model, once it is known.
    reported: Option<String>,
    /// What earlier calls of the run cost, for models without a price.
    observed: Observed,
}

impl Prices {
    /// These prices, in a run that was asked to use this model.
    pub fn new(by_model: BTreeMap<String, Price>, requested: Option<String>) -> Self {
        Self { by_model, requested, ..Self::default() }
    }

    /// The same, with what was observed earlier in the run.
    #[must_use]
    pub fn with_observed(self, observed: Observed) -> Self {
        Self { observed, ..self }
    }

    /// What was observed earlier in the run.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Whether no model has a price.
    pub fn is_empty(&self) -> bool {
        self.by_model.is_empty()
    }

    /// Notes a model that the agent reports: the first that can be the requested one is that one, and no other is.
    pub fn on_model(&mut self, reported: &str) {
        let is_requested = self.requested.as_deref().is_some_and(|requested| can_be(requested, reported));
        if is_requested && self.reported.is_none() {
            self.reported = Some(plain_name(reported).to_owned());
        }
    }

    /// The price of the model that the agent reports. The price of the requested model only where that can be the one:
    /// an alias, or a dated version. Another model may be cheaper or dearer.
    pub fn of(&self, reported: Option<&str>) -> Option<Price> {
        let requested = self.requested.as_deref();
        let Some(reported) = reported else { return self.find_price(requested?) };
        let is_requested = match &self.reported {
            Some(known) => known == plain_name(reported),
            None => requested.is_some_and(|requested| can_be(requested, reported)),
        };
        self.find_price(reported).or_else(|| self.find_price(requested.filter(|_| is_requested)?))
    }

    /// The model that a report without a name is about.
    pub fn model<'a>(&'a self, reported: Option<&'a str>) -> &'a str {
        reported.or(self.requested.as_deref()).unwrap_or("unknown")
    }

    /// The price under exactly this name; else without what an agent appends (`[1m]`) or puts before it (`provider/`).
    fn find_price(&self, model: &str) -> Option<Price> {
        let plain = model.split_once('[').map_or(model, |(name, _)| name);
        [model, plain, plain_name(model)].into_iter().find_map(|name| self.by_model.get(name).copied())
    }
}

/// A model's name without what an agent appends (`[1m]`) or puts before it (`provider/`).
fn plain_name(model: &str) -> &str {
    let plain = model.split_once('[').map_or(model, |(name, _)| name);
    plain.rsplit('/').next().unwrap_or(plain)
}

/// Whether a model that was requested by one name can be reported by the other: the same name, with or without the date
/// of its version, or a family that the reported name has as its last word, before its version (`opus` in
/// `claude-opus-5`). Other words and numbers name other models: `gpt-5-mini` is not `gpt-5`, `claude-opus-4-1` is not
/// `claude-opus-4`.
fn can_be(requested: &str, reported: &str) -> bool {
    let (requested, reported) = (plain_name(requested), plain_name(reported));
    undated(requested) == undated(reported) || is_family(requested, reported)
}

fn is_family(requested: &str, reported: &str) -> bool {
    let is_version = |word: &&str| {
        let number = word.strip_prefix('v').unwrap_or(word);
        *word == "latest" || number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut words = reported.rsplit(|letter: char| !letter.is_ascii_alphanumeric()).skip_while(is_version);
    requested.bytes().all(|byte| byte.is_ascii_alphabetic())
        && words.next().is_some_and(|word| word.eq_ignore_ascii_case(requested))
}

/// A name without the date at its end: `-20251101`, `@20251101`, `-2025-11-01`, `-latest`.
fn undated(model: &str) -> &str {
    let cut = |length: usize| {
        let (name, date) = model.split_at_checked(model.len().checked_sub(length)?)?;
        let is_date = date.bytes().enumerate().all(|(at, byte)| match (length, at) {
            (_, 0) => byte == b'-' || byte == b'@',
            (11, 5 | 8) => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        (is_date && !name.is_empty()).then_some(name)
    };
    cut(9).or_else(|| cut(11)).or_else(|| model.strip_suffix("-latest")).unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            (Some("opus"), Some("us.anthropic.claude-opus-4-8-20251101-v1:0"), true),
            (Some("opus"), None, true),
            (Some("mock/own"), Some("own"), true),
            (Some("mock/own"), Some("own-20251101"), true),
            (Some("other"), Some("another"), false),
            // Another model than the one that was requested.
            (Some("opus"), Some("claude-haiku-5"), false),
            (Some("opus"), Some("opusculum-1"), false),
            (Some("mock/own"), Some("own-mini"), false),
        ] {
            let found = prices(requested).of(reported).is_some();
            assert_eq!(found, is_priced, "{requested:?}, {reported:?}");
        }
    }

    #[test]
    fn a_name_can_be_an_alias_or_a_version_and_not_another_model() {
        for (requested, reported, want) in [
            ("sonnet", "claude-sonnet-5", true),
            ("claude-sonnet-5[1m]", "claude-sonnet-5", true),
            ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", true),
            ("claude-sonnet-4-5", "claude-sonnet-4-5@20250929", true),
            ("gpt-5", "gpt-5-2025-08-07", true),
            ("claude-haiku-latest", "claude-haiku-20250929", true),
            ("anthropic/claude-sonnet-5", "claude-sonnet-5", true),
            ("gpt-5", "gpt-5-mini", false),
            ("gpt-5", "gpt-5-codex", false),
            ("claude-opus-4", "claude-opus-4-1", false),
            ("sonnet", "claude-haiku-5", false),
            ("opusplan", "claude-opus-5", false),
            ("gpt", "gpt-5-mini", false),
            ("sonnet", "claude-3-5-sonnet-latest", true),
            ("claude", "claude-opus-5", false),
            ("", "claude-opus-5", false),
            ("-20250929", "20250929", false),
        ] {
            assert_eq!(can_be(requested, reported), want, "{requested}, {reported}");
        }
    }

    #[test]
    fn an_alias_is_the_first_model_that_it_fits() {
        let mut prices = Prices::new(BTreeMap::from([("opus".to_owned(), PRICE)]), Some("opus".to_owned()));
        prices.on_model("claude-haiku-5");
        prices.on_model("claude-opus-5[1m]");
        assert!(prices.of(Some("claude-opus-5")).is_some());
        // A sub-agent's.
        prices.on_model("claude-opus-4-1");
        assert!(prices.of(Some("claude-opus-4-1")).is_none());
        assert!(prices.of(Some("claude-opus-5")).is_some());
    }

    fn by_model(model: &str, [input, output, cache_read, cache_write]: [u64; 4]) -> ByModel {
        BTreeMap::from([(model.to_owned(), Tokens { input, output, cache_read, cache_write })])
    }

    #[test]
    fn what_was_not_observed_has_no_bound() {
        let observed = Observed::new(by_model("opus", [10, 10, 0, 10]), 1.0);
        let most = |model: &str, tokens| observed.most(&by_model(model, tokens));
        assert_eq!(most("opus", [10, 10, 0, 10]), Some(1.0), "the same again");
        assert_eq!(most("opus", [5, 0, 0, 0]), Some(0.25));
        assert_eq!(most("opus", [0, 0, 20, 0]), Some(1.0), "at most as much as what was put into the cache");
        assert_eq!(most("haiku", [1, 0, 0, 0]), None);
        assert_eq!(most("haiku", [0; 4]), Some(0.0));
        let unwritten = Observed::new(by_model("opus", [10, 0, 0, 0]), 1.0);
        assert_eq!(unwritten.most(&by_model("opus", [1, 1, 0, 0])), None);
        assert_eq!(unwritten.most(&by_model("opus", [1, 0, 0, 1])), None);
        assert_eq!(Observed::default().most(&by_model("opus", [1, 0, 0, 0])), None);
        let free = Observed::new(by_model("opus", [10; 4]), 0.0);
        assert_eq!(free.most(&by_model("opus", [1; 4])), None);
    }

    proptest! {
        /// Whatever the prices are: what calls cost is not more than what is concluded from others.
        #[test]
        fn no_price_makes_calls_cost_more_than_the_bound(
            prices in prop::array::uniform4(0.0f64..100.0),
            observed in prop::array::uniform4(0u64..1_000_000),
            wanted in prop::array::uniform4(0u64..1_000_000),
        ) {
            let [cache_read, more, most, output] = prices;
            let input = cache_read + more;
            let price = Price { input, output, cache_read, cache_write: input + most };
            let cost = |tokens: &ByModel| tokens.values().map(|tokens| price.cost(*tokens)).sum::<f64>();
            let (observed, wanted) = (by_model("m", observed), by_model("m", wanted));
            let known = Observed::new(observed.clone(), cost(&observed));
            if let Some(most) = known.most(&wanted) {
                prop_assert!(cost(&wanted) <= most * (1.0 + 1e-9) + 1e-9, "{} > {most}", cost(&wanted));
            }
        }
    }
}
