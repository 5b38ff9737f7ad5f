//! A run's events as they come, for as long as it lasts.

use std::fs::File;
use std::io::{self, Write as _};
use std::time::Duration;

use ostler_process::journal::{JournalError, Kept};
use ostler_process::tail::{Place, Tail};

use crate::failure::Failure;

/// Between two looks at whether the run is still under way: that its owner was killed changes no file.
const LOOK: Duration = Duration::from_secs(1);

/// Prints what is there, then what comes, until the run has ended or is abandoned.
pub(super) async fn follow(kept: &Kept) -> Result<(), Failure> {
    let path = kept.folder.join("events.ndjson");
    let opened = File::open(&path);
    let mut events = opened.map_err(|source| JournalError::Read { path: path.clone(), source })?;
    let mut tail = Tail::new([Place::File(path)]);
    loop {
        // Asked before it is read: what was written while it was under way is then printed.
        let is_live = kept.is_live();
        let mut out = io::stdout().lock();
        io::copy(&mut events, &mut out).and_then(|_| out.flush()).map_err(Failure::Output)?;
        drop(out);
        if !is_live {
            return Ok(());
        }
        // Either way it is looked at.
        let _ = tokio::time::timeout(LOOK, tail.grew()).await;
    }
}
