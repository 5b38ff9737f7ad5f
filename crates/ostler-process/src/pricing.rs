//! Whether an agent that reports costs by its own prices has one for a model: it is asked before it starts.

use std::ffi::OsString;
use std::path::PathBuf;

use ostler_agent::agent::ModelPrices;

use crate::capture::{Guarded, capture_guarded};
use crate::contain::{Exit, Spawn, Stdin};
use crate::probe::PROBE_LIMIT;

/// The program that is asked, and where.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The environment that it would be started in.
    pub env: Vec<(OsString, OsString)>,
    /// The directory that it would be started in.
    pub cwd: PathBuf,
    /// Our own binary, which guards it.
    pub guard: PathBuf,
}

impl Program {
    /// Its default model; `None` if it does not print one.
    pub async fn default_model(&self, prices: &dyn ModelPrices) -> Option<String> {
        let settings = self.output(prices.settings_args()).await?;
        prices.default_model(&settings)
    }

    /// Whether it has a price for the model; nothing if it does not say.
    pub async fn has_price(&self, prices: &dyn ModelPrices, model: &str) -> Option<bool> {
        let models = self.output(prices.models_args(model)).await?;
        prices.is_priced(&models, model)
    }

    /// What it prints, if it ends well and in time.
    async fn output(&self, args: Vec<String>) -> Option<String> {
        let spawn = Spawn {
            program: self.path.clone(),
            args: args.into_iter().map(OsString::from).collect(),
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            stdin: Stdin::Null,
            run: "pricing",
            tier: None,
            jail: None,
            guard: self.guard.clone(),
        };
        match capture_guarded(spawn, tokio::time::sleep(PROBE_LIMIT)).await {
            Ok(Guarded { exit: Some(Exit::Code(0)), stdout, .. }) => Some(stdout),
            Ok(Guarded { exit, stderr, .. }) => {
                tracing::debug!(target: "ostler::run", ?exit, stderr, "the agent does not tell its prices");
                None
            }
            Err(error) => {
                tracing::debug!(target: "ostler::run", %error, "the agent cannot be asked for its prices");
                None
            }
        }
    }
}
