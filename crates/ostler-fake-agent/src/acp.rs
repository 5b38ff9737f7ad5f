//! Plays an agent of the Agent Client Protocol (version 1): JSON-RPC lines on stdio.
//!
//! What lives here: which request is answered how, outside of a prompt. Sessions that are loaded are told again, as
//! the protocol asks. Signals keep their default action.

use std::env;
use std::path::PathBuf;

use serde_json::{Value, json};
use uuid::Uuid;

mod updates;
mod voice;

use voice::Connection;

use super::dialect::{Dialect, Voice};
use super::play::Playbill;
use super::sessions::Session;
use super::settings::Settings;
use super::stage::ears::Framing;
use super::stage::{Played, Stage};

/// The version of the agent whose recordings the shapes are from.
const VERSION: &str = "1.18.33";

/// The sessions that this process has open.
struct Desk<'a> {
    settings: &'a Settings,
    bill: Playbill<'a>,
    version: String,
    open: Vec<Open>,
}

struct Open {
    session: Session,
    /// Whether it was loaded rather than made.
    resumed: bool,
}

/// Plays one process and returns its exit code.
pub(super) async fn run(settings: &Settings, words: &[String]) -> Played<u8> {
    let version = settings.script.version.clone().unwrap_or_else(|| VERSION.to_owned());
    let mut stage = Stage::new(&[])?;
    if words.iter().any(|word| word == "--version" || word == "-v") {
        stage.write(format!("{version}\n").into_bytes()).await?;
        return Ok(0);
    }
    let mut connection = Connection::new();
    let mut desk = Desk { settings, bill: Playbill::new(settings), version, open: Vec::new() };
    desk.bill.start(&mut connection, &mut stage).await?;
    stage.listen_by(Framing::Lines)?;
    loop {
        match connection.waiting.pop_front() {
            Some(message) => desk.serve(&mut connection, &mut stage, &message).await?,
            None => {
                let input = stage.listen(None).await?;
                connection.hear(&mut stage, input).await?;
            }
        }
    }
}

impl Desk<'_> {
    async fn serve(&mut self, connection: &mut Connection, stage: &mut Stage, message: &Value) -> Played {
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
            // A notification, or an answer that came too late.
            return Ok(());
        };
        let params = &message["params"];
        match method {
            "initialize" => stage.record(&updates::result(id, updates::initialized(&self.version))).await,
            "session/new" => self.new_session(stage, id, params).await,
            "session/load" => self.load(stage, id, params).await,
            "session/prompt" => self.prompt(connection, stage, id, params).await,
            "session/set_mode" | "session/set_config_option" => {
                stage.record(&updates::result(id, json!({}))).await
            }
            other => {
                let complaint = format!("Method not found: {other}");
                stage.record(&updates::error(id, updates::NO_SUCH_METHOD, &complaint)).await
            }
        }
    }

    async fn new_session(&mut self, stage: &mut Stage, id: &Value, params: &Value) -> Played {
        let cwd = match params["cwd"].as_str() {
            Some(cwd) => PathBuf::from(cwd),
            None => env::current_dir()?,
        };
        let mut session = Session::new(format!("ses_{}", Uuid::new_v4().simple()), Dialect::Acp, &cwd);
        self.settings.sessions.keep(&mut session)?;
        let result = json!({"sessionId": session.id, "configOptions": []});
        self.open.push(Open { session, resumed: false });
        stage.record(&updates::result(id, result)).await
    }

    async fn load(&mut self, stage: &mut Stage, id: &Value, params: &Value) -> Played {
        let name = params["sessionId"].as_str().unwrap_or_default();
        let Some(session) = self.settings.sessions.find(name)? else {
            let complaint = format!("Session not found: {name}");
            return stage.record(&updates::error(id, updates::BAD_PARAMETERS, &complaint)).await;
        };
        for exchange in &session.turns {
            let message = format!("msg_{}", Uuid::new_v4().simple());
            let asked = updates::prompt_chunk(&message, &exchange.prompt);
            stage.record(&updates::update(name, asked)).await?;
            if let Some(answer) = &exchange.answer {
                stage.record(&updates::update(name, updates::message_chunk(&message, answer))).await?;
            }
        }
        self.open.retain(|open| open.session.id != name);
        self.open.push(Open { session, resumed: true });
        stage.record(&updates::result(id, json!({"configOptions": []}))).await
    }

    async fn prompt(
        &mut self,
        connection: &mut Connection,
        stage: &mut Stage,
        id: &Value,
        params: &Value,
    ) -> Played {
        let name = params["sessionId"].as_str().unwrap_or_default();
        let Some(open) = self.open.iter_mut().find(|open| open.session.id == name) else {
            let complaint = format!("Session not found: {name}");
            return stage.record(&updates::error(id, updates::BAD_PARAMETERS, &complaint)).await;
        };
        let blocks = params["prompt"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        connection.take_on(name, id.clone());
        self.bill.resumed = open.resumed;
        self.bill.turn(connection, stage, &mut open.session, &texts.join("\n")).await
    }
}
