//! Runs: read from their journals, nothing else. They are no key's: whoever owns the machine began them, outside of any
//! session. So only a key for all sees them, whatever else others may look at.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Request as Incoming, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use ostler_agent::access::Scope;
use ostler_process::journal::{self, JournalError, Kept, State as Standing};
use ostler_process::tail::{Place, Tail};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::followers::{Follower, farewell};
use super::super::following::{ALIVE, ALIVE_EVERY, Lines, last_seen};
use super::super::reading::query;
use super::super::visits::Visitor;
use super::super::{Gateway, unfolding};
use super::shapes::{Run, Runs};
use super::{Told, answer};
use crate::live::Start;
use crate::wire::{Kind, Problem};

/// Runs in one list when nobody says how many, and at most.
const USUAL: usize = 100;
const MOST: usize = 1_000;

/// Between two looks at whether the run is still under way: that its owner was killed changes no file.
const LOOK: Duration = Duration::from_secs(1);

/// The newest.
pub(in super::super) async fn list<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    incoming: Incoming,
) -> Told {
    gateway.admit(incoming.headers(), Scope::Admin)?;
    let limit = match query(incoming.uri(), "limit").map(|text| text.parse::<usize>()) {
        None => USUAL,
        Some(Ok(limit @ 1..=MOST)) => limit,
        Some(_) => {
            return Err(Problem::invalid("this must be a number from 1 to 1000").about("limit").into());
        }
    };
    let kept = read(gateway.offer.runs.clone(), |runs| Ok(journal::list(&runs))).await?;
    Ok(answer(StatusCode::OK, &Runs { runs: kept.iter().take(limit).map(run).collect() }))
}

/// One of them.
pub(in super::super) async fn show<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Told {
    let (_, kept) = gateway.run(&headers, &id).await?;
    Ok(answer(StatusCode::OK, &run(&kept)))
}

/// Reads where reading may take a while.
async fn read<T: Send + 'static>(
    runs: PathBuf,
    read: impl FnOnce(PathBuf) -> Result<T, JournalError> + Send + 'static,
) -> Result<T, Problem> {
    let broken = || Problem::new(Kind::Absent, "the runs could not be read");
    let read = tokio::task::spawn_blocking(move || read(runs)).await.map_err(|_| broken())?;
    read.map_err(|error| match error {
        JournalError::Unknown { .. } => Problem::new(Kind::Absent, "there is no such run").about("run"),
        _ => broken(),
    })
}

impl<S: Start> Gateway<S> {
    /// Who it is, and a run, for whoever may see them.
    pub(in super::super) async fn run(
        &self,
        headers: &HeaderMap,
        id: &str,
    ) -> Result<(Visitor, Kept), Problem> {
        let visitor = self.admit(headers, Scope::Admin)?;
        let id = id.to_owned();
        let kept = read(self.offer.runs.clone(), move |runs| journal::find(&runs, &id)).await?;
        Ok((visitor, kept))
    }
}

fn run(kept: &Kept) -> Run {
    let facts = &kept.facts;
    let (state, outcome) = match &kept.state {
        Standing::Live => ("live".to_owned(), None),
        Standing::Abandoned => ("abandoned".to_owned(), None),
        Standing::Ended(outcome) => {
            (outcome["outcome"].as_str().unwrap_or("ended").to_owned(), Some(outcome.clone()))
        }
    };
    Run {
        run: facts.run.clone(),
        state,
        agent: facts.agent.clone(),
        engine: facts.engine.clone(),
        agent_version: facts.agent_version.clone(),
        cwd: facts.cwd.display().to_string(),
        began_at: facts.began_at,
        prompt: facts.prompt.clone(),
        permissions: facts.permissions.clone(),
        outcome,
    }
}

struct Following {
    kept: Kept,
    lines: Lines,
    tail: Tail,
    alive_at: Instant,
    ending: CancellationToken,
    /// Nobody, once he was told to go.
    follower: Option<Follower>,
}

/// Its events: those that were missed, then what comes, until the run is over.
pub(in super::super) async fn follow<S: Start>(
    State(gateway): State<Arc<Gateway<S>>>,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Told {
    let seen = last_seen(&headers, &uri)?;
    let (visitor, kept) = gateway.run(&headers, &id).await?;
    let path = kept.folder.join("events.ndjson");
    let (lines, tail) = (Lines::of(&path, "/kind", seen), Tail::new([Place::File(path)]));
    let alive_at = Instant::now() + ALIVE_EVERY;
    let (ending, follower) = (gateway.ending.clone(), Some(gateway.follower(&visitor)?));
    let following = Following { kept, lines, tail, alive_at, ending, follower };
    Ok(unfolding::events(following, step))
}

async fn step(mut following: Following) -> Option<(Bytes, Following)> {
    following.follower.as_ref()?;
    loop {
        if !following.follower.as_mut()?.is_still_welcome() {
            following.follower = None;
            return Some((farewell().into(), following));
        }
        // Asked before it is read: what was written while it was under way is then told.
        let is_live = following.kept.is_live();
        let news = following.lines.news().await.ok()?;
        if !news.text.is_empty() {
            following.alive_at = Instant::now() + ALIVE_EVERY;
            return Some((news.text.into(), following));
        }
        if news.is_more {
            continue;
        }
        if !is_live {
            return None;
        }
        if Instant::now() >= following.alive_at {
            following.alive_at = Instant::now() + ALIVE_EVERY;
            return Some((ALIVE.into(), following));
        }
        tokio::select! {
            () = following.ending.cancelled() => return None,
            // Either way it is looked at.
            _ = tokio::time::timeout(LOOK, following.tail.grew()) => {}
        }
    }
}
