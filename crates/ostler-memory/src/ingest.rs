//! A whole transcript into the store, in this process: for people, for backfill, for a daemon. Reads from the beginning;
//! what is known is counted, not repeated.

use std::io;

use ostler_agent::remembering::Origin;

use crate::capture::{self, Wanted};
use crate::cursor;
use crate::kill_point::reached;
use crate::opencode;
use crate::place::Place;
use crate::private::PrivateFolder;
use crate::store::{Inserted, Store, StoreError};
use crate::transcript;

/// How much is read at once.
const STRIDE: u64 = 32 * 1024 * 1024;

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ingested {
    /// New and known messages.
    pub rows: Inserted,
    /// Lines that could not be read, and a file that could not.
    pub errors: u64,
    /// Why not.
    pub reason: Option<String>,
}

/// From where a transcript is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// From its beginning.
    Beginning,
    /// From where it was last read to.
    Cursor,
}

/// Reads a transcript into the store. That it cannot be read is told in the answer, not a failure.
pub fn ingest(place: &Place, store: &mut Store, wanted: &Wanted, from: From) -> Result<Ingested, StoreError> {
    let policy = capture::policy(place);
    let mut sum = Ingested::default();
    let origin = wanted.origin();
    if origin == Origin::OpenCode {
        match opencode::read(&wanted.path, wanted.session.as_deref(), policy) {
            Ok(found) => {
                for (session, events) in found {
                    sum.rows = sum.rows.and(store.insert(&session, &events)?);
                }
            }
            Err(reason) => sum.fail(reason),
        }
        return Ok(sum);
    }
    let cursors = PrivateFolder::create(&place.cursors()).ok();
    let session = wanted.session();
    let name = cursor::name(&session.source, &session.id);
    let mut cursor = match from {
        From::Beginning => None,
        From::Cursor => cursors.as_ref().and_then(|cursors| cursor::load(cursors, &name)),
    };
    loop {
        let found = match transcript::read(wanted.request(place, STRIDE), cursor.clone()) {
            Ok(found) => found,
            Err(error) => {
                sum.fail(match error.kind() {
                    io::ErrorKind::NotFound => format!("there is no transcript `{}`", wanted.path.display()),
                    _ => format!("`{}` cannot be read: {error}", wanted.path.display()),
                });
                return Ok(sum);
            }
        };
        sum.rows = sum.rows.and(store.insert(&found.session, &found.events)?);
        reached("ingest.committed");
        sum.errors += found.errors;
        let is_news = cursor.as_ref() != Some(&found.cursor);
        if let Some(cursors) = cursors.as_ref().filter(|_| is_news) {
            let _ = cursor::save(cursors, &found.cursor);
            reached("ingest.kept");
        }
        if !found.more {
            return Ok(sum);
        }
        cursor = Some(found.cursor);
    }
}

impl Ingested {
    fn fail(&mut self, reason: String) {
        self.errors += 1;
        self.reason = Some(reason);
    }
}
