//! `ostler config`: what is in force and why, what could be, and whom to trust.

mod effective;

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;

use crate::commands::trust;
use crate::config::{Config, Ignored, Settings};
use crate::display;
use crate::failure::Failure;
use crate::log;
use crate::surroundings::Surroundings;
use effective::{InForce, every_value};

/// Arguments of `ostler config`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler config show --origin     each value, and where it is set
  ostler config schema            what can be set, as JSON Schema
  OSTLER_CFG__DISPLAY__COLOR=never ostler doctor

Layers, each outranking those before: the user's config.toml, the project's
.ostler/config.toml, OSTLER_CFG__SECTION__KEY variables, flags.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every value in force, defaults included, as TOML.
    #[command(
        after_help = "Examples:\n  ostler config show\n  ostler config show --origin\n  ostler config show --json"
    )]
    Show(ShowArgs),
    /// Print what can be configured, as JSON Schema.
    #[command(after_help = "Examples:\n  ostler config schema > ostler.schema.json")]
    Schema,
    /// Check every layer, and tell which files were read.
    #[command(after_help = "Examples:\n  ostler config check && echo fine\n  ostler config check --json")]
    Check(CheckArgs),
    /// The same as `ostler trust`.
    Trust(trust::Args),
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Say where each value is set.
    #[arg(long)]
    origin: bool,
    /// Print JSON: key, value and origin of each.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// Print JSON: the files, or what is wrong.
    #[arg(long)]
    json: bool,
}

/// One effective value, for programs.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    key: &'a str,
    /// `null` if none is set.
    value: Option<&'a toml::Value>,
    origin: String,
    /// What happens without a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    unset: Option<&'a str>,
}

/// What a check found, for programs.
#[derive(Debug, Serialize)]
struct Checked {
    v: u32,
    ok: bool,
    /// The files that were read, lowest first.
    files: Vec<String>,
    /// What a project's file sets in vain.
    warnings: Vec<String>,
    error: Option<String>,
    /// What to do about it.
    #[serde(rename = "try")]
    remedy: Option<String>,
}

/// The format of the JSON.
const VERSION: u32 = 1;

/// Runs one of them.
pub(crate) fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    match args.command {
        ConfigCommand::Show(args) => show(&args, &here.settings()?)?,
        ConfigCommand::Schema => display::json(&schemars::schema_for!(Config))?,
        ConfigCommand::Check(args) => return check(&args, here),
        ConfigCommand::Trust(args) => return trust::run(&args, trust::CalledAs::ConfigTrust, here),
    }
    Ok(ExitCode::SUCCESS)
}

fn show(args: &ShowArgs, settings: &Settings) -> Result<(), Failure> {
    let values = every_value(settings);
    if args.json {
        let entries: Vec<_> = values
            .iter()
            .map(|(key, (value, origin))| {
                let (value, unset) = match value {
                    InForce::Value(value) => (Some(value), None),
                    InForce::Unset(instead) => (None, Some(instead.as_str())),
                };
                Entry { key, value, origin: origin.to_string(), unset }
            })
            .collect();
        return display::json(&entries);
    }
    let lines: Vec<_> = values
        .iter()
        .map(|(key, (value, origin))| match value {
            InForce::Value(value) => (format!("{key} = {value}"), Some(origin)),
            // A comment: without a value there is nothing that TOML could say.
            InForce::Unset(instead) => (format!("# {key} is not set: {instead}"), None),
        })
        .collect();
    let with_origin = lines.iter().filter(|(_, origin)| origin.is_some());
    let width = with_origin.map(|(line, _)| line.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for (line, origin) in lines {
        let _ = match origin.filter(|_| args.origin) {
            Some(origin) => writeln!(text, "{line:width$}  # {origin}"),
            None => writeln!(text, "{line}"),
        };
    }
    display::text(&text)
}

fn check(args: &CheckArgs, here: &Surroundings) -> Result<ExitCode, Failure> {
    let checked = checked(here);
    if args.json {
        let warnings = |settings: &Settings| settings.ignored.iter().map(Ignored::warning).collect();
        let files =
            |settings: &Settings| settings.files.iter().map(|file| file.display().to_string()).collect();
        display::json(&Checked {
            v: VERSION,
            ok: checked.is_ok(),
            files: checked.as_ref().map(files).unwrap_or_default(),
            warnings: checked.as_ref().map(warnings).unwrap_or_default(),
            error: checked.as_ref().err().map(|failure| display::with_causes(failure)),
            remedy: checked.as_ref().err().and_then(Failure::hint),
        })?;
        let code = checked.err().map_or(0, |failure| failure.exit_code());
        return Ok(ExitCode::from(code));
    }
    let settings = checked?;
    let mut text = String::new();
    for file in &settings.files {
        let _ = writeln!(text, "ok  {}", file.display());
    }
    if settings.files.is_empty() {
        let _ = writeln!(text, "ok  no file: {} does not exist", here.home.user_config().display());
    }
    display::text(&text)?;
    if let Some(ignored) = &settings.ignored {
        display::tell(&format!("warning: {}", ignored.warning()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings, if they are fit for use.
fn checked(here: &Surroundings) -> Result<Settings, Failure> {
    let settings = here.settings()?;
    log::check(&settings)?;
    Ok(settings)
}
