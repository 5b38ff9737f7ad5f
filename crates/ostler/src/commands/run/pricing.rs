//! What models cost, and whether limits on costs and tokens can be enforced: what cannot is refused before it starts.

use std::collections::BTreeMap;

use ostler_agent::agent::{Agent, CostReports};
use ostler_agent::prices::{Price, Prices};
use ostler_process::pricing::Program;
use ostler_process::run::inherited;
use ostler_process::trust::Decision;

use super::args::Args;
use super::choice::Choice;
use super::prepare::{Found, RunUsage};
use super::terms::Terms;
use crate::config::{PriceSection, Settings};
use crate::display;
use crate::surroundings::Surroundings;

/// The prices of a run. Refuses limits that could not be enforced; in a rehearsal, where nothing is paid, one that is
/// only configured is dropped instead.
pub(super) async fn prices(
    args: &Args,
    choice: &Choice,
    found: &Found,
    terms: &mut Terms,
    (settings, here): (&Settings, &Surroundings),
) -> Result<Prices, RunUsage> {
    let agent = choice.agent.agent();
    if args.max_tokens.is_some() && !agent.reports_tokens() {
        return Err(RunUsage::NoTokens { agent: agent.name() });
    }
    let table = table(&settings.config.prices);
    let requested = Prices::new(table.clone(), choice.model.clone());
    if terms.budget.max_cost.is_none() {
        return Ok(requested);
    }
    let priced = match agent.cost_reports() {
        CostReports::Always => Ok(requested),
        CostReports::Never => by_table(agent, &choice.model, requested),
        CostReports::ByModel(_) if choice.script.is_some() => by_table(agent, &choice.model, requested),
        CostReports::ByModel(own) => {
            let mut env = inherited(here.variables.clone());
            env.extend(args.env.iter().map(|(name, value)| (name.into(), value.into())));
            let guard = std::env::current_exe().map_err(RunUsage::Guard)?;
            // What the repository brings is not loaded only to ask for a price.
            let decision = here.gate().decide(agent, &choice.workspace).ok();
            let is_loaded = matches!(decision, Some(Decision::Nothing | Decision::Trusted(_)));
            let elsewhere = tempfile::tempdir().map_err(RunUsage::Temporary)?;
            let cwd = if is_loaded { choice.workspace.clone() } else { elsewhere.path().to_owned() };
            let program = Program { path: found.program.clone(), env, cwd, guard };
            let model = match &choice.model {
                Some(model) => Some(model.clone()),
                None => program.default_model(own).await,
            };
            let prices = Prices::new(table, model.clone());
            let is_priced = match &model {
                Some(_) if prices.of(None).is_some() => Some(true),
                Some(model) => program.has_price(own, model).await,
                None => None,
            };
            match is_priced {
                Some(false) => Err(RunUsage::NoCost { agent: agent.name(), model }),
                // If it prints no price, the first call shows it, and the run ends after that.
                Some(true) | None => Ok(prices),
            }
        }
    };
    match priced {
        Err(refused) if choice.script.is_some() && args.max_cost.is_none() => {
            display::tell(&format!("warning: max_cost is ignored in this rehearsal: {refused}"));
            terms.budget.max_cost = None;
            Ok(Prices::new(BTreeMap::new(), choice.model.clone()))
        }
        priced => priced,
    }
}

/// For an agent that reports no cost: a price for the model that it is to use, or some price if it is to choose one.
fn by_table(agent: &dyn Agent, model: &Option<String>, prices: Prices) -> Result<Prices, RunUsage> {
    let is_priced = match model {
        Some(_) => prices.of(None).is_some(),
        None => !prices.is_empty(),
    };
    if is_priced && agent.reports_tokens() {
        Ok(prices)
    } else {
        Err(RunUsage::NoCost { agent: agent.name(), model: model.clone() })
    }
}

/// The prices that are complete. What a cache costs is what input costs, unless it is set.
fn table(sections: &BTreeMap<String, PriceSection>) -> BTreeMap<String, Price> {
    let price = |section: &PriceSection| {
        let (input, output) = (section.input?.0, section.output?.0);
        let or_input = |money: Option<crate::config::Money>| money.map_or(input, |money| money.0);
        Some(Price {
            input,
            output,
            cache_read: or_input(section.cache_read),
            cache_write: or_input(section.cache_write),
        })
    };
    sections.iter().filter_map(|(model, section)| Some((model.clone(), price(section)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_price_needs_input_and_output() {
        let set: Config = toml::from_str(
            "[prices.\"gpt-5.5\"]\ninput = 2\noutput = 10\ncache_read = 0.2\n[prices.half]\ninput = 1",
        )
        .unwrap();
        let table = table(&set.prices);
        let want = Price { input: 2.0, output: 10.0, cache_read: 0.2, cache_write: 2.0 };
        assert_eq!((table.len(), table.get("gpt-5.5")), (1, Some(&want)));
    }
}
