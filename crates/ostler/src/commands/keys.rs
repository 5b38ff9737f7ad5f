//! `ostler keys`: who may talk to `ostler serve`, and what each may do. A running server notices at once.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use ostler_agent::access::{KeyKind, Policy, Scope};
use ostler_agent::agent::Permissions;
use ostler_agent::offering::Own;
use serde_json::{Value, json};

use crate::display;
use crate::failure::Failure;
use crate::kept_keys::{Kept, KeptKeys, KeyLimits, KeysError};
use crate::surroundings::Surroundings;
use crate::words::one_line;

/// Arguments of `ostler keys`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  ostler keys                    the same as `ostler keys list`
  ostler keys new --name ci --scope chat --requests-per-minute 60
  ostler keys revoke 5f0c1d2e

Keys are for `ostler serve`. What is kept of them is a hash: the key itself is
printed once. A running server notices at once what is made and revoked.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<KeysCommand>,

    #[command(flatten)]
    list: Listing,
}

// Also flattened into `ostler keys`, so that neither a group nor a help text of its own may be attached.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
struct Listing {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// List keys, and what they may do.
    #[command(after_help = "Examples:
  ostler keys list
  ostler keys list --json | jq -r '.[].id'")]
    List(Listing),
    /// Make a key, and print it once.
    #[command(after_help = "Examples:
  ostler keys new --name notebook
  ostler keys new --scope chat --scope sessions:read --turns-at-once 2
  ostler keys new --folder ~/src/site --permissions edits

Without --scope a key is for `chat`: asking the agent through the APIs of
providers. `admin` may do everything, with the sessions of all keys.")]
    New(New),
    /// Take a key away. What is under way on it comes to its end.
    #[command(after_help = "Examples:\n  ostler keys revoke 5f0c1d2e")]
    Revoke(Revoked),
}

#[derive(Debug, clap::Args)]
struct New {
    /// What it is for, to tell it from others.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    name: String,

    /// Let its agent use your home and sign-in, as `ostler run` does; keys with `admin` do. Without, the agent has a home
    /// of its own and sees nothing of yours.
    #[arg(long)]
    owner: bool,

    /// What it may do; may be given more than once.
    #[arg(long, value_name = "SCOPE", value_parser = PossibleValuesParser::new(Scope::ALL.map(Scope::name)))]
    scope: Vec<String>,

    /// How many requests it may make a minute [default: 600; any number for an owner's].
    #[arg(long, value_name = "N")]
    requests_per_minute: Option<u32>,

    /// How many turns it may have under way at once [default: 32; any number for an owner's].
    #[arg(long, value_name = "N")]
    turns_at_once: Option<u32>,

    /// A model that it may ask, as requests name it; may be given more than once. Without, all.
    #[arg(long, value_name = "MODEL")]
    model: Vec<String>,

    /// A folder below which its requests may name one to work in; may be given more than once.
    #[arg(long, value_name = "DIR")]
    folder: Vec<PathBuf>,

    /// What the agent may do for it without asking.
    #[arg(long, value_name = "LEVEL", default_value = "deny", value_parser = ["deny", "edits", "all"])]
    permissions: String,

    /// Let the agent have its own tools beside those that a request offers.
    #[arg(long)]
    own_tools: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Revoked {
    /// The key, as `ostler keys` lists it.
    #[arg(value_name = "ID")]
    id: String,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs one of them.
pub(crate) fn run(args: Args, here: &Surroundings) -> Result<ExitCode, Failure> {
    let kept = |limits| KeptKeys::at(here.home.keys(), limits);
    let limits = || Ok::<_, Failure>(KeyLimits::from_config(&here.settings()?.config.serve));
    match args.command.unwrap_or(KeysCommand::List(args.list)) {
        KeysCommand::List(listing) => {
            let limits = limits()?;
            list(&kept(limits).list()?, &limits, &listing)?;
        }
        KeysCommand::New(new) => {
            let (policy, limits) = (policy(&new, here)?, limits()?);
            here.home.create()?;
            if let Some(warning) = find_contradiction(&policy) {
                display::tell(&format!("warning: {warning}"));
            }
            let (made, secret) = kept(limits).make(&new.name, policy)?;
            if new.json {
                let mut told = json_of(&made, &limits);
                told["key"] = json!(secret);
                display::json(&told)?;
            } else {
                let Kept { id, .. } = &made;
                display::text(&format!("The key {id}, which is not shown again: {secret}\n"))?;
            }
        }
        KeysCommand::Revoke(revoked) => {
            // A mistake in the configuration keeps no key from being revoked.
            let gone = kept(KeyLimits::default()).revoke(&revoked.id)?;
            if revoked.json {
                display::json(&json!({"id": gone.id, "revoked": true}))?;
            } else {
                display::text(&format!("The key {} opens nothing any more.\n", gone.id))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn policy(new: &New, here: &Surroundings) -> Result<Policy, KeysError> {
    let folders = new.folder.iter().map(|folder| {
        let path = here.cwd.join(folder);
        let real = path.canonicalize().map_err(|source| KeysError::Folder { path, source })?;
        // Keys are kept as JSON, which has no text for such a name.
        if real.to_str().is_some() { Ok(real) } else { Err(KeysError::NotUtf8 { path: real }) }
    });
    let mut scopes: Vec<Scope> = new.scope.iter().filter_map(|scope| Scope::named(scope)).collect();
    if scopes.is_empty() {
        scopes.push(Scope::Chat);
    }
    scopes.sort();
    scopes.dedup();
    let kind = if new.owner { KeyKind::Owner } else { KeyKind::of_scopes(&scopes) };
    Ok(Policy {
        kind,
        scopes,
        requests_per_minute: new.requests_per_minute,
        turns_at_once: new.turns_at_once,
        open_questions: None,
        models: new.model.clone(),
        folders: folders.collect::<Result<_, _>>()?,
        permissions: Permissions::named(&new.permissions).unwrap_or(Permissions::Deny),
        own_tools: if new.own_tools { Own::On } else { Own::Off },
    })
}

/// What a key could do by one of its scopes and cannot by its permissions.
fn find_contradiction(policy: &Policy) -> Option<&'static str> {
    let holds = policy.scopes.contains(&Scope::TerminalHold) && !policy.may_allow();
    holds.then_some(
        "this key can watch terminals and not type into them: `terminal:hold` needs `--permissions all`, because who \
         types can do everything that the agent can",
    )
}

fn scopes(policy: &Policy) -> Vec<&'static str> {
    policy.scopes.iter().map(|scope| scope.name()).collect()
}

fn json_of(kept: &Kept, limits: &KeyLimits) -> Value {
    let policy = kept.policy(limits);
    json!({
        "id": kept.id,
        "name": kept.name,
        "kind": policy.kind.name(),
        "made_at": kept.made_at,
        "scopes": scopes(&policy),
        "requests_per_minute": policy.requests_per_minute,
        "turns_at_once": policy.turns_at_once,
        "models": policy.models,
        "folders": policy.folders,
        "permissions": policy.permissions.name(),
        "own_tools": policy.own_tools == Own::On,
    })
}

fn list(keys: &[Kept], limits: &KeyLimits, listing: &Listing) -> Result<(), Failure> {
    if listing.json {
        return display::json(&keys.iter().map(|kept| json_of(kept, limits)).collect::<Vec<_>>());
    }
    if keys.is_empty() {
        return display::text("There is no key. `ostler serve` makes one, and so does `ostler keys new`.\n");
    }
    let number = |limit: Option<u32>| limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
    let rows: Vec<_> = keys
        .iter()
        .map(|kept| {
            let policy = kept.policy(limits);
            vec![
                kept.id.clone(),
                one_line(&kept.name),
                policy.kind.name().to_owned(),
                number(policy.requests_per_minute),
                number(policy.turns_at_once),
                policy.permissions.name().to_owned(),
                scopes(&policy).join(" "),
            ]
        })
        .collect();
    let headings = ["ID", "NAME", "KIND", "PER MINUTE", "AT ONCE", "AGENT MAY", "SCOPES"];
    display::text(&display::table(&headings, &rows, display::columns()))
}
