//! What an ACP agent sends during a prompt, and what it makes of messages that come meanwhile.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::updates;
use crate::dialect::{Answer, Call, Ending, Outcome, Speech, Voice};
use crate::play::pause;
use crate::script::Tokens;
use crate::script::tables::Kind;
use crate::stage::{Input, Played, Stage, Stop};

/// What one turn is said to use unless the script says otherwise.
const TURN: Tokens = Tokens { input: 1200, output: 50 };
/// Stands in for a limit that no ACP agent was recorded with.
const LIMIT_WORDS: &str = "usage limit reached";

/// One connection; at most one prompt is under way.
pub(super) struct Connection {
    pub(super) session: String,
    /// Messages that wait until the prompt under way has ended.
    pub(super) waiting: VecDeque<Value>,
    prompt: Option<Value>,
    open_call: Option<Call>,
    message: String,
    questions: u64,
}

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            session: String::new(),
            waiting: VecDeque::new(),
            prompt: None,
            open_call: None,
            message: String::new(),
            questions: 0,
        }
    }

    /// The request that the next turn answers.
    pub(super) fn take_on(&mut self, session: &str, request: Value) {
        self.session = session.to_owned();
        self.prompt = Some(request);
    }

    async fn update(&self, stage: &mut Stage, update: Value) -> Played {
        stage.record(&updates::update(&self.session, update)).await
    }

    async fn stop(&mut self, stage: &mut Stage, reason: &str, used: Tokens) -> Played {
        self.update(stage, updates::usage(used.input)).await?;
        let Some(id) = self.prompt.take() else { return Ok(()) };
        let total = used.input + used.output;
        let usage = json!({"totalTokens": total, "inputTokens": used.input, "outputTokens": used.output});
        stage.record(&updates::result(&id, json!({"stopReason": reason, "usage": usage, "_meta": {}}))).await
    }

    async fn fail(&mut self, stage: &mut Stage, message: &str) -> Played {
        match self.prompt.take() {
            Some(id) => stage.record(&updates::error(&id, updates::FAILED, message)).await,
            None => Ok(()),
        }
    }
}

/// What a host said to question `id`, if this message is its answer.
fn answer_to(id: u64, message: &Value) -> Option<Played<Answer>> {
    if message["id"] != id || message.get("method").is_some() {
        return None;
    }
    let outcome = &message["result"]["outcome"];
    Some(match (outcome["outcome"].as_str(), outcome["optionId"].as_str()) {
        (Some("selected"), Some("once" | "always")) => Ok(Answer::Allowed),
        (Some("cancelled"), _) => Err(Stop::Interrupted),
        _ => {
            let reason = "The user rejected permission to use this specific tool call.".to_owned();
            Ok(Answer::Denied { reason })
        }
    })
}

impl Voice for Connection {
    async fn begin(&mut self, stage: &mut Stage, _prompt: &str) -> Played {
        self.message = format!("msg_{}", Uuid::new_v4().simple());
        self.update(stage, updates::commands()).await
    }

    async fn say(&mut self, stage: &mut Stage, speech: &Speech) -> Played {
        for (nth, piece) in speech.pieces().into_iter().enumerate() {
            if nth > 0 && !speech.gap.is_zero() {
                pause(self, stage, Some(speech.gap)).await?;
            }
            self.update(stage, updates::message_chunk(&self.message, &piece)).await?;
        }
        Ok(())
    }

    async fn think(&mut self, stage: &mut Stage, text: &str) -> Played {
        self.update(stage, updates::thought_chunk(&self.message, text)).await
    }

    async fn open_call(&mut self, stage: &mut Stage, call: &Call) -> Played {
        self.open_call = Some(call.clone());
        self.update(stage, updates::call_opened(call)).await?;
        self.update(stage, updates::call_running(call)).await
    }

    async fn ask(&mut self, stage: &mut Stage, call: &Call) -> Played<Answer> {
        let id = self.questions;
        self.questions += 1;
        stage.record(&updates::permission_request(id, &self.session, call)).await?;
        loop {
            let input = stage.listen(None).await?;
            if let Input::Heard(line) = &input
                && let Ok(message) = serde_json::from_slice::<Value>(line)
                && let Some(answer) = answer_to(id, &message)
            {
                if matches!(answer, Ok(Answer::Allowed)) {
                    self.update(stage, updates::call_running(call)).await?;
                }
                return answer;
            }
            self.hear(stage, input).await?;
        }
    }

    async fn close_call(&mut self, stage: &mut Stage, call: &Call, outcome: &Outcome) -> Played {
        self.open_call = None;
        self.update(stage, updates::call_closed(call, outcome)).await
    }

    async fn end(&mut self, stage: &mut Stage, ending: &Ending) -> Played {
        match ending {
            Ending::Normal { usage } => self.stop(stage, "end_turn", usage.unwrap_or(TURN)).await,
            Ending::Failure { kind: Kind::MaxTurns, .. } => self.stop(stage, "max_turn_requests", TURN).await,
            Ending::Failure { message, .. } => {
                self.fail(stage, message.as_deref().unwrap_or("Internal error")).await
            }
            Ending::Limit { words } => self.fail(stage, words.as_deref().unwrap_or(LIMIT_WORDS)).await,
        }
    }

    async fn interrupted(&mut self, stage: &mut Stage) -> Played {
        if let Some(call) = self.open_call.take() {
            let output = "User aborted the command".to_owned();
            self.update(stage, updates::call_closed(&call, &Outcome::Done { output })).await?;
        }
        self.stop(stage, "cancelled", Tokens { input: 0, output: 0 }).await
    }

    async fn unknown(&mut self, stage: &mut Stage, kind: &str, body: &Map<String, Value>) -> Played {
        let mut update = Value::Object(body.clone());
        update["sessionUpdate"] = kind.into();
        self.update(stage, update).await
    }

    fn line(&mut self, text: &str) -> Vec<u8> {
        let record = updates::update(&self.session, updates::message_chunk(&self.message, text));
        format!("{record}\n").into_bytes()
    }

    async fn hear(&mut self, _stage: &mut Stage, input: Input) -> Played {
        match input {
            // Every ACP agent that was recorded ends at once, and well, when its host is gone.
            Input::Closed => Err(Stop::Exit(0)),
            Input::Interrupt => Err(Stop::Interrupted),
            Input::Elapsed => Ok(()),
            Input::Heard(line) => {
                let Ok(message) = serde_json::from_slice::<Value>(&line) else { return Ok(()) };
                if message["method"] == "session/cancel" {
                    let ours = message["params"]["sessionId"] == self.session.as_str();
                    return if ours && self.prompt.is_some() { Err(Stop::Interrupted) } else { Ok(()) };
                }
                self.waiting.push_back(message);
                Ok(())
            }
        }
    }

    async fn trust(&mut self, _stage: &mut Stage) -> Played {
        // No ACP agent that was recorded asks this over the protocol.
        Ok(())
    }
}
