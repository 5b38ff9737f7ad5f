//! Claude Code's stream: what it prints at each point of a turn.

use std::collections::VecDeque;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::arguments::{Arguments, Format};
use super::control::{self, Order};
use super::message::{self, Message};
use super::records::{self, Facts, Tally};
use super::transcript::{Interrupted, Transcript};
use crate::dialect::{Answer, Call, Ending, Outcome, Speech, Voice};
use crate::play::pause;
use crate::script::tables::Kind;
use crate::stage::{Input, Played, Stage, Stop};

/// The words of the recorded usage limit.
pub(crate) const LIMIT_WORDS: &str = "API Error: Request rejected (429) · usage limit reached";

/// How far the turn is, for what an interrupt or a message meanwhile means.
#[derive(Debug)]
enum Doing {
    Idle,
    Talking,
    /// A tool call is open.
    Calling(Call),
}

/// One stream session.
pub(super) struct Stream {
    pub(super) arguments: Arguments,
    pub(super) facts: Facts,
    pub(super) cwd: PathBuf,
    pub(super) transcript: Transcript,
    /// Whether each change of state is printed.
    pub(super) states_printed: bool,
    /// Prompts that came while a turn was under way.
    pub(super) queued: VecDeque<String>,
    pub(super) stdin: Stdin,
    /// What decides the exit code: whether the last result was an error.
    pub(super) last_failed: bool,
    doing: Doing,
    message: Option<Message>,
    half_said: String,
    tally: Tally,
    began: Instant,
}

/// Whether more can come from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stdin {
    Open,
    Ended,
}

impl Stream {
    pub(super) fn new(arguments: Arguments, facts: Facts, cwd: PathBuf, transcript: Transcript) -> Self {
        Self {
            arguments,
            facts,
            cwd,
            transcript,
            states_printed: std::env::var_os("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS")
                .is_some_and(|value| value == "1"),
            queued: VecDeque::new(),
            stdin: Stdin::Open,
            last_failed: false,
            doing: Doing::Idle,
            message: None,
            half_said: String::new(),
            tally: Tally::new(),
            began: Instant::now(),
        }
    }

    async fn emit(&self, stage: &mut Stage, record: &Value) -> Played {
        match self.arguments.output {
            Format::StreamJson => stage.record(record).await,
            Format::Json | Format::Text => Ok(()),
        }
    }

    async fn emit_state(&self, stage: &mut Stage, state: &str) -> Played {
        if !self.states_printed {
            return Ok(());
        }
        let record = self.facts.system("session_state_changed", json!({"state": state}));
        self.emit(stage, &record).await
    }

    async fn emit_event(&self, stage: &mut Stage, event: Value) -> Played {
        if !self.arguments.partial_messages {
            return Ok(());
        }
        self.emit(stage, &self.facts.stream_event(event)).await
    }

    /// The message under way, begun if there is none.
    async fn open_message(&mut self, stage: &mut Stage) -> Played<Message> {
        if let Some(message) = &self.message {
            return Ok(message.clone());
        }
        self.tally.add_round();
        let message = Message::new(&self.facts.model);
        if self.arguments.partial_messages {
            let status = self.facts.system("status", json!({"status": "requesting"}));
            self.emit(stage, &status).await?;
            let mut record =
                self.facts.stream_event(json!({"type": "message_start", "message": message.opening()}));
            record["ttft_ms"] = 1.into();
            self.emit(stage, &record).await?;
        }
        self.message = Some(message.clone());
        Ok(message)
    }

    /// Prints a block of the message under way; its deltas came before.
    async fn emit_block(&mut self, stage: &mut Stage, block: Value) -> Played {
        let index = self.message.as_ref().map_or(0, |message| message.blocks.len());
        self.emit_assistant(stage, block).await?;
        self.emit_event(stage, json!({"type": "content_block_stop", "index": index})).await
    }

    async fn emit_assistant(&mut self, stage: &mut Stage, block: Value) -> Played {
        let Some(message) = &mut self.message else { return Ok(()) };
        let record = self.facts.assistant(message.streamed(&block), &message.request);
        message.blocks.push(block);
        message.printed.push(id_of(&record));
        self.emit(stage, &record).await
    }

    async fn start_block(&mut self, stage: &mut Stage, empty: Value) -> Played<usize> {
        let index = self.open_message(stage).await?.blocks.len();
        self.emit_event(
            stage,
            json!({"type": "content_block_start", "index": index, "content_block": empty}),
        )
        .await?;
        Ok(index)
    }

    async fn delta(&self, stage: &mut Stage, index: usize, delta: Value) -> Played {
        self.emit_event(stage, json!({"type": "content_block_delta", "index": index, "delta": delta})).await
    }

    async fn close_message(&mut self, stage: &mut Stage, stop_reason: &str) -> Played {
        let Some(message) = self.message.take() else { return Ok(()) };
        let usage = json!({"output_tokens": 1});
        let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
        self.emit_event(stage, json!({"type": "message_delta", "delta": delta, "usage": usage})).await?;
        self.emit_event(stage, json!({"type": "message_stop"})).await?;
        Ok(self.transcript.message(&message, stop_reason)?)
    }

    async fn emit_tool_result(&mut self, stage: &mut Stage, (block, result): (Value, Value)) -> Played {
        let mut record = self.facts.user(block.clone());
        record["tool_use_result"] = result.clone();
        self.emit(stage, &record).await?;
        Ok(self.transcript.tool_result(&id_of(&record), &block, &result)?)
    }

    async fn emit_result(&mut self, stage: &mut Stage, record: Value, text: &str) -> Played {
        self.last_failed = record["is_error"] == true;
        match self.arguments.output {
            Format::StreamJson | Format::Json => stage.record(&record).await?,
            Format::Text => stage.write(format!("{text}\n").into_bytes()).await?,
        }
        self.doing = Doing::Idle;
        self.emit_state(stage, "idle").await
    }

    fn counted(&mut self) -> Tally {
        self.tally.lasted = self.began.elapsed();
        self.tally.clone()
    }

    async fn fail(&mut self, stage: &mut Stage, text: &str, status: Option<u16>) -> Played {
        let error = match status {
            Some(429) => "rate_limit",
            Some(401) => "authentication_failed",
            Some(400) => "invalid_request",
            Some(500..) => "server_error",
            _ => "unknown",
        };
        self.close_message(stage, "end_turn").await?;
        let message = message::synthetic(text);
        let mut record = self.facts.assistant(message.clone(), &message::request_id());
        record["error"] = error.into();
        self.emit(stage, &record).await?;
        self.transcript.failure(&id_of(&record), message, error, status)?;
        self.tally.rounds = self.tally.rounds.max(1);
        let tally = self.counted();
        self.emit_result(stage, self.facts.failed_request(&tally, text, status), text).await
    }
}

/// The id of a printed record.
fn id_of(record: &Value) -> String {
    record["uuid"].as_str().unwrap_or_default().to_owned()
}

impl Voice for Stream {
    async fn begin(&mut self, stage: &mut Stage, prompt: &str) -> Played {
        self.began = Instant::now();
        self.tally = Tally::new();
        self.doing = Doing::Talking;
        self.emit_state(stage, "running").await?;
        self.emit(stage, &self.facts.init(&self.cwd)).await?;
        let replay = self.facts.replay(prompt);
        if self.arguments.replays_prompts {
            self.emit(stage, &replay).await?;
        }
        Ok(self.transcript.prompt(&id_of(&replay), prompt, &self.facts.permission_mode)?)
    }

    async fn say(&mut self, stage: &mut Stage, speech: &Speech) -> Played {
        let index = self.start_block(stage, message::text_block("")).await?;
        self.half_said.clear();
        for (nth, piece) in speech.pieces().into_iter().enumerate() {
            if nth > 0 && !speech.gap.is_zero() {
                pause(self, stage, Some(speech.gap)).await?;
            }
            self.half_said.push_str(&piece);
            self.delta(stage, index, json!({"type": "text_delta", "text": piece})).await?;
        }
        self.half_said.clear();
        self.tally.text = speech.text.clone();
        self.emit_block(stage, message::text_block(&speech.text)).await
    }

    async fn think(&mut self, stage: &mut Stage, text: &str) -> Played {
        let empty = json!({"type": "thinking", "thinking": "", "signature": ""});
        let index = self.start_block(stage, empty).await?;
        let estimate = text.len() / 4 + 1;
        let tokens = json!({"estimated_tokens": estimate, "estimated_tokens_delta": estimate});
        self.emit(stage, &self.facts.system("thinking_tokens", tokens)).await?;
        self.delta(stage, index, json!({"type": "thinking_delta", "thinking": text})).await?;
        self.delta(stage, index, json!({"type": "signature_delta", "signature": "bW9jaw=="})).await?;
        self.emit_block(stage, message::thinking_block(text)).await
    }

    async fn open_call(&mut self, stage: &mut Stage, call: &Call) -> Played {
        let empty = json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": {}});
        let index = self.start_block(stage, empty).await?;
        let whole = serde_json::to_string(&call.arguments)?;
        self.delta(stage, index, json!({"type": "input_json_delta", "partial_json": whole})).await?;
        self.emit_block(stage, message::tool_use_block(call)).await?;
        self.doing = Doing::Calling(call.clone());
        self.close_message(stage, "tool_use").await
    }

    async fn ask(&mut self, stage: &mut Stage, call: &Call) -> Played<Answer> {
        if !self.arguments.asks_host {
            self.tally.deny(call);
            let reason =
                format!("Claude requested permissions to use {}, but you haven't granted it yet.", call.tool);
            return Ok(Answer::Denied { reason });
        }
        let request = Uuid::new_v4().to_string();
        self.emit_state(stage, "requires_action").await?;
        self.emit(stage, &records::can_use_tool(&request, call)).await?;
        let answer = control::await_answer(self, stage, &request).await;
        match &answer {
            Ok(Answer::Allowed) => {}
            Ok(Answer::Denied { .. }) | Err(Stop::Interrupted) => self.tally.deny(call),
            Err(_) => return answer,
        }
        self.emit_state(stage, "running").await?;
        answer
    }

    async fn close_call(&mut self, stage: &mut Stage, call: &Call, outcome: &Outcome) -> Played {
        let result = match outcome {
            Outcome::Done { output } => message::tool_result(call, output),
            Outcome::Failed { output, exit_code: Some(code) } => {
                message::tool_failure(call, format!("Exit code {code}\n{output}").trim_end())
            }
            Outcome::Failed { output, exit_code: None } => message::tool_failure(call, output),
            Outcome::Denied { reason } => message::tool_failure(call, reason),
        };
        self.doing = Doing::Talking;
        self.emit_tool_result(stage, result).await
    }

    async fn end(&mut self, stage: &mut Stage, ending: &Ending) -> Played {
        match ending {
            Ending::Normal { usage } => {
                self.close_message(stage, "end_turn").await?;
                self.tally.rounds = self.tally.rounds.max(1);
                if let Some(usage) = usage {
                    self.tally.used = *usage;
                }
                let tally = self.counted();
                self.emit_result(stage, self.facts.success(&tally), &tally.text).await
            }
            Ending::Failure { kind: Kind::MaxTurns, message, .. } => {
                self.close_message(stage, "tool_use").await?;
                let words = message.as_deref().unwrap_or("Reached maximum number of turns (2)");
                let tally = self.counted();
                self.emit_result(stage, self.facts.max_turns(&tally, words), words).await
            }
            Ending::Failure { message, status, .. } => {
                let text = message.as_deref().unwrap_or("API Error: 500 Internal server error");
                self.fail(stage, text, *status).await
            }
            Ending::Limit { words } => {
                self.fail(stage, words.as_deref().unwrap_or(LIMIT_WORDS), Some(429)).await
            }
        }
    }

    async fn interrupted(&mut self, stage: &mut Stage) -> Played {
        let half_said = std::mem::take(&mut self.half_said);
        if !half_said.is_empty() {
            // Its block never came to an end.
            self.emit_assistant(stage, message::text_block(&half_said)).await?;
        }
        let message = self.message.as_ref().map(|message| message.id.clone());
        if let Some(message) = self.message.take() {
            self.transcript.message(&message, "stop_sequence")?;
        }
        let how = match std::mem::replace(&mut self.doing, Doing::Idle) {
            Doing::Calling(call) => {
                self.emit_tool_result(stage, message::tool_rejection(&call)).await?;
                Interrupted::DuringToolUse
            }
            Doing::Idle | Doing::Talking => Interrupted::WhileTalking,
        };
        self.emit(stage, &self.facts.user(message::text_block(how.words()))).await?;
        self.transcript.interrupted(how, message.as_deref())?;
        // The person's act counts as a round, and so does a tool's rejection: as recorded.
        self.tally.rounds += if how == Interrupted::DuringToolUse { 2 } else { 1 };
        let tally = self.counted();
        let record = self.facts.aborted(&tally, how == Interrupted::DuringToolUse);
        self.emit_result(stage, record, how.words()).await
    }

    async fn unknown(&mut self, stage: &mut Stage, kind: &str, body: &Map<String, Value>) -> Played {
        let mut record = Value::Object(body.clone());
        record["type"] = kind.into();
        record["session_id"] = self.facts.session.clone().into();
        record["uuid"] = Uuid::new_v4().to_string().into();
        self.emit(stage, &record).await?;
        Ok(self.transcript.unknown(kind, body)?)
    }

    fn line(&mut self, text: &str) -> Vec<u8> {
        let message = Message::new(&self.facts.model);
        let record = self.facts.assistant(message.streamed(&message::text_block(text)), &message.request);
        let mut line = record.to_string().into_bytes();
        line.push(b'\n');
        line
    }

    async fn hear(&mut self, stage: &mut Stage, input: Input) -> Played {
        match input {
            Input::Closed => {
                self.stdin = Stdin::Ended;
                Ok(())
            }
            Input::Interrupt => Err(Stop::Interrupted),
            Input::Elapsed => Ok(()),
            Input::Heard(_) if !self.arguments.streams_input => Ok(()),
            Input::Heard(line) => match control::read(&line) {
                // A message that comes while a tool runs is put into the running turn and gets no result of its own.
                Ok(Order::Prompt(_)) if matches!(self.doing, Doing::Calling(_)) => Ok(()),
                Ok(Order::Prompt(text)) => {
                    self.queued.push_back(text);
                    Ok(())
                }
                Ok(Order::Control { id, request }) => {
                    let is_idle = matches!(self.doing, Doing::Idle);
                    control::obey(self, stage, &id, &request, is_idle).await
                }
                Ok(Order::Answer { .. } | Order::Other) => Ok(()),
                Err(error) => {
                    stage.complain(&format!("Error parsing streaming input line: {error}")).await?;
                    Err(Stop::Exit(1))
                }
            },
        }
    }

    async fn trust(&mut self, _stage: &mut Stage) -> Played {
        // `-p` skips the trust dialog.
        Ok(())
    }
}
