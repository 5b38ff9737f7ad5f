//! One call of a tool, from its arguments to what the agent reads.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::wording::{self, Said};
use super::{Tool, arguments, workspace};
use crate::event::{BridgeEvent, Ended};
use crate::memory::MemoryServer;
use crate::route::{Asking, Room};

/// How long a question waits, unless the agent says otherwise.
const ASK_WITHIN: Duration = Duration::from_secs(600);

/// How long it may wait at most: nobody sits before a terminal longer than that without having looked.
const ASK_MOST: Duration = Duration::from_secs(3600);

/// A line of progress is for a status line. Longer ones are cut.
const MOST_PROGRESS_CHARS: usize = 500;

/// What a summary, a question or an option may have. The journal and the receipts hold them.
const MOST_TEXT_BYTES: usize = 64 * 1024;

/// A call.
pub(crate) struct Call<'a> {
    pub(crate) room: &'a Room,
    pub(crate) name: &'a str,
    pub(crate) arguments: Option<JsonObject>,
    /// Cancelled when the client takes the call back or goes away.
    pub(crate) cancelled: &'a CancellationToken,
}

/// Calls a tool. Every failure is a sentence.
pub(crate) async fn call(call: Call<'_>) -> (Said, Ended) {
    let cancelled = call.cancelled;
    let said = match Tool::named(call.name).filter(|tool| call.room.terms.offers(*tool)) {
        Some(tool) => perform(tool, call).await,
        None => match MemoryServer::tool(call.name).zip(call.room.terms.granted_memory()) {
            Some((tool, memory)) => remember(tool, Arc::clone(memory), call.arguments).await,
            None => {
                let listings = call.room.terms.listings();
                let offered: Vec<String> = listings.into_iter().map(|tool| tool.name.into_owned()).collect();
                wording::not_offered(call.name, &offered)
            }
        },
    };
    let ended = match &said {
        _ if cancelled.is_cancelled() => Ended::Cancelled,
        Said::Done(_) => Ended::Done,
        Said::Failed(_) => Ended::Failed,
    };
    (said, ended)
}

/// Searches memory, on a thread of its own: a search waits for the disk.
async fn remember(tool: &'static str, memory: Arc<MemoryServer>, arguments: Option<JsonObject>) -> Said {
    let searching = tokio::task::spawn_blocking(move || memory.perform(tool, arguments));
    searching.await.unwrap_or_else(|_| Said::Failed("Memory failed. Go on without it.".to_owned()))
}

async fn perform(tool: Tool, mut call: Call<'_>) -> Said {
    let room = call.room;
    let kinds = &room.terms.kinds;
    match tool {
        Tool::SubmitArtifact => match read::<arguments::Submit>(&mut call) {
            Ok(given) => wording::handed(&given.kind, room.submit(&given.kind, &given.content).await, kinds),
            Err(said) => said,
        },
        Tool::EditArtifact => match read::<arguments::Edit>(&mut call) {
            Ok(given) => {
                wording::handed(&given.kind, room.edit(&given.kind, &given.old, &given.new).await, kinds)
            }
            Err(said) => said,
        },
        Tool::DeclareComplete => {
            match read::<arguments::Declare>(&mut call)
                .and_then(bounded(|given: &arguments::Declare| &given.summary))
            {
                Ok(given) => wording::claimed(room.claim(&given.summary).await),
                Err(said) => said,
            }
        }
        Tool::ReportProgress => match read::<arguments::Report>(&mut call) {
            Ok(given) => report(room, given).await,
            Err(said) => said,
        },
        Tool::AskHuman => match read::<arguments::Ask>(&mut call)
            .and_then(bounded(|given: &arguments::Ask| &given.question))
        {
            Ok(given) => ask(room, given, call.cancelled).await,
            Err(said) => said,
        },
        Tool::ReadInstructions => match read::<arguments::Nothing>(&mut call) {
            Ok(arguments::Nothing {}) => {
                let (states, missing) = room.states();
                wording::instructions(&room.terms, &states, &missing)
            }
            Err(said) => said,
        },
        Tool::Workspace(tool) => workspace::perform(tool, call).await,
    }
}

/// Reads the arguments of a call, once.
pub(super) fn read<T: DeserializeOwned>(call: &mut Call<'_>) -> Result<T, Said> {
    arguments::read(call.name, call.arguments.take())
        .map_err(|mistake| wording::mistaken(call.name, &mistake))
}

/// Refuses a text that is longer than a journal should hold.
fn bounded<T>(text: impl Fn(&T) -> &String) -> impl Fn(T) -> Result<T, Said> {
    move |given| {
        let bytes = text(&given).len();
        if bytes <= MOST_TEXT_BYTES {
            return Ok(given);
        }
        let words =
            format!("The text has {bytes} bytes; at most {MOST_TEXT_BYTES} are taken. Say it shorter.");
        Err(Said::Failed(words))
    }
}

async fn report(room: &Room, given: arguments::Report) -> Said {
    let percent = match given.percent {
        Some(percent @ 0..=100) => Some(percent),
        Some(percent) => {
            return Said::Failed(format!("{percent} percent is too much. Give a number from 0 to 100."));
        }
        None => None,
    };
    let line = given.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = line.chars().filter(|char| !char.is_control()).take(MOST_PROGRESS_CHARS).collect();
    room.telling.tell(BridgeEvent::Progressed { text, percent }).await;
    Said::Done("Noted.".to_owned())
}

async fn ask(room: &Room, given: arguments::Ask, cancelled: &CancellationToken) -> Said {
    let arguments::Ask { question, options, default, timeout } = given;
    if let Some(default) = &default
        && !options.is_empty()
        && !options.contains(default)
    {
        return Said::Failed(format!(
            "The default `{default}` is not among the options. Add it, or leave one out."
        ));
    }
    let within = timeout.map_or(ASK_WITHIN, Duration::from_secs).min(ASK_MOST);
    let asking = Asking { text: question, options, default: default.clone(), within };
    match room.ask(asking, cancelled).await {
        Ok(how) => wording::settled(how, default, within),
        Err(_) => Said::Failed("Too many questions are open. Wait for an answer to one of them.".to_owned()),
    }
}
