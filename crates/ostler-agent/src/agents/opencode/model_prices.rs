//! Whether OpenCode has a price for a model: it prints its settings with `debug config`, and what it knows of models
//! with `models --verbose`, a name and a JSON object each. A price that it does not know is 0.

use serde::Deserialize as _;
use serde_json::Value;

use crate::agent::{ModelPrices, words};
use crate::agents::reading::named;

pub(super) struct OwnPrices;

impl ModelPrices for OwnPrices {
    fn settings_args(&self) -> Vec<String> {
        words(["debug", "config"])
    }

    fn default_model(&self, settings: &str) -> Option<String> {
        let settings: Value = serde_json::from_str(settings).ok()?;
        named(&settings["model"])
    }

    /// Those of its provider: all that it knows are megabytes.
    fn models_args(&self, model: &str) -> Vec<String> {
        let provider = model.split_once('/').map_or(model, |(provider, _)| provider);
        words(["models", provider, "--verbose"])
    }

    fn is_priced(&self, models: &str, model: &str) -> Option<bool> {
        let name = format!("{model}\n");
        let start = models.match_indices(&name).find(|(at, _)| *at == 0 || models[..*at].ends_with('\n'))?.0;
        let rest = &models[start + name.len()..];
        let about = Value::deserialize(&mut serde_json::Deserializer::from_str(rest)).ok()?;
        let cost = &about["cost"];
        Some(["input", "output"].iter().any(|kind| cost[*kind].as_f64().is_some_and(|price| price > 0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_prints_tells_whether_a_model_has_a_price() {
        let models = "mock/own\n{\n  \"id\": \"own\",\n  \"cost\": {\"input\": 0, \"output\": 0}\n}\n\
                      mock/priced\n{\"id\": \"priced\", \"cost\": {\"input\": 5, \"output\": 25}}\n";
        for (model, want) in
            [("mock/own", Some(false)), ("mock/priced", Some(true)), ("own", None), ("mock/other", None)]
        {
            assert_eq!(OwnPrices.is_priced(models, model), want, "{model}");
        }
        assert_eq!(OwnPrices.default_model("{\"model\": \"mock/own\"}").as_deref(), Some("mock/own"));
        assert_eq!(OwnPrices.default_model("{}"), None);
        assert_eq!(OwnPrices.default_model("no JSON"), None);
    }
}
