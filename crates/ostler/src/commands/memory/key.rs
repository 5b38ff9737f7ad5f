//! What the store is encrypted with: told, and exchanged.

use std::os::unix::fs::PermissionsExt as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use ostler_memory::daemon;
use ostler_memory::key::{Kind, Passphrase};
use ostler_memory::place::Place;
use ostler_memory::store::{NewKey, Protection, Store, StoreError};
use serde_json::json;

use super::{MemoryError, passphrase};
use crate::display;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// How long others may take to let go of the store. An MCP server does so when nobody has asked it for a while.
const OTHERS_LET_GO_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ostler memory key status
  ostler memory key rotate                another random key, in the key file
  ostler memory key rotate --passphrase   a key that only you know

The store is always encrypted. Its key is in a file beside it, for its owner alone, so that
nobody has to be asked; or it is made of a passphrase, which you are asked for.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Tell where the key comes from.
    #[command(after_help = "Examples:\n  ostler memory key status --json")]
    Status(StatusArgs),
    /// Encrypt the store with another key. Cut off at any moment, nothing is lost.
    #[command(after_help = "Examples:
  ostler memory key rotate
  ostler memory key rotate --passphrase
  OSTLER_MEMORY_NEW_PASSPHRASE=… ostler memory key rotate --passphrase

All is written to a new file, which is compared and then takes the place of the old one. That
needs as much room again as the store has, and nobody else may have it open meanwhile.")]
    Rotate(RotateArgs),
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct RotateArgs {
    /// Make the new key of a passphrase. New sessions are then told nothing unasked.
    #[arg(long)]
    passphrase: bool,
}

impl Args {
    /// Whether the store is opened.
    pub(super) fn opens(&self) -> bool {
        matches!(self.command, KeyCommand::Rotate(_))
    }
}

pub(super) fn run(args: Args, here: &Surroundings, place: &Place) -> Result<ExitCode, Failure> {
    match args.command {
        KeyCommand::Status(args) => status(&args, place)?,
        KeyCommand::Rotate(args) => rotate(&args, here, place)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn status(args: &StatusArgs, place: &Place) -> Result<(), Failure> {
    let found = Store::protection(place).map_err(MemoryError::from)?;
    if args.json {
        let (kind, since) = match &found.key {
            Some((kind, since)) => (Some(word(*kind)), Some(since.clone())),
            None => (None, None),
        };
        return display::json(&json!({
            "encrypted": !found.is_plain && place.store().exists(), "key": kind, "since": since,
            "changing": found.is_changing, "file": place.key().to_string_lossy(),
        }));
    }
    display::text(&format!("{}\n", told(&found, place)))
}

/// One line on what protects the store.
pub(super) fn told(found: &Protection, place: &Place) -> String {
    let file = display::short(&place.key());
    let cut_off =
        if found.is_changing { "; a change was cut off and is settled with the next use" } else { "" };
    match (&found.key, found.is_plain) {
        (_, true) => "not encrypted yet: the next use does it".to_owned(),
        (None, false) => "no key yet: the first use makes one".to_owned(),
        (Some((Kind::File, since)), false) => {
            format!("encrypted; its key is in {file}, since {}{cut_off}", day(since))
        }
        (Some((Kind::Passphrase, since)), false) => {
            format!("encrypted with a passphrase, since {}{cut_off}", day(since))
        }
    }
}

/// What follows from a passphrase: a hook can ask nobody for it.
pub(super) const UNASKED: &str = "the store has a passphrase, which no hook knows: sessions are taken down, but a new one is told nothing unasked";

/// Whether the store opens only for somebody who knows its passphrase.
pub(super) fn is_passphrase(place: &Place) -> bool {
    let found = Store::protection(place).ok().and_then(|found| found.key);
    found.is_some_and(|(kind, _)| kind == Kind::Passphrase)
}

/// Whether others can read the key file.
pub(super) fn is_open_to_others(place: &Place) -> bool {
    std::fs::metadata(place.key()).is_ok_and(|about| about.permissions().mode() & 0o077 != 0)
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Passphrase => "passphrase",
    }
}

fn day(since: &str) -> &str {
    since.get(..10).unwrap_or(since)
}

fn rotate(args: &RotateArgs, here: &Surroundings, place: &Place) -> Result<(), Failure> {
    let new: Option<Passphrase> = if args.passphrase { Some(passphrase::new(here)?) } else { None };
    let new = new.as_ref().map_or(NewKey::File, NewKey::Passphrase);
    // It has the store open. The next hook that calls starts it again, where systemd does.
    daemon::stop(place);
    Store::rotate(place, new, OTHERS_LET_GO_WITHIN).map_err(|error| match error {
        StoreError::Busy => MemoryError::InUse,
        other => other.into(),
    })?;
    let found = Store::protection(place).map_err(MemoryError::from)?;
    display::text(&format!("{}\n", told(&found, place)))
}
