//! The terminal program's screen during a turn, and what it makes of keys at any time.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::dialogs::{Dialog, Reaction};
use super::keys::{Key, Keys};
use super::prompt_box::{PromptBox, Typed};
use super::screen::{Screen, wrapped};
use crate::claude::LIMIT_WORDS;
use crate::claude::home::{StateFile, Status};
use crate::claude::message::{self, Message};
use crate::claude::transcript::{Interrupted, Transcript, new_id};
use crate::dialect::{Answer, Call, Ending, Outcome, Speech, Voice};
use crate::play::pause;
use crate::stage::{Input, Played, Stage, Stop};

/// A second Ctrl-C or Ctrl-D after this long is a first one again.
const TWICE_WITHIN: Duration = Duration::from_millis(800);

/// What the terminal is doing.
#[derive(Debug)]
enum Mode {
    Idle,
    Busy,
    Asking(Dialog),
}

/// One terminal session.
pub(super) struct Terminal {
    pub(super) screen: Screen,
    pub(super) cwd: PathBuf,
    pub(super) model: String,
    pub(super) permission_mode: String,
    pub(super) transcript: Transcript,
    pub(super) state: StateFile,
    /// Prompts that were sent and not yet played.
    pub(super) sent: VecDeque<String>,
    /// Whether stdin has ended: nothing more can be typed.
    pub(super) is_deserted: bool,
    prompt_box: PromptBox,
    keys: Keys,
    mode: Mode,
    /// The part of an answer that is still being said.
    half_said: String,
    message: Option<Message>,
    open_call: Option<Call>,
    has_output: bool,
    prompt: String,
    began: Instant,
    leaving_since: Option<Instant>,
}

impl Terminal {
    pub(super) fn new(
        screen: Screen,
        cwd: PathBuf,
        model: String,
        transcript: Transcript,
        state: StateFile,
    ) -> Self {
        Self {
            screen,
            cwd,
            model,
            permission_mode: "default".to_owned(),
            transcript,
            state,
            sent: VecDeque::new(),
            is_deserted: false,
            prompt_box: PromptBox::default(),
            keys: Keys::default(),
            mode: Mode::Idle,
            half_said: String::new(),
            message: None,
            open_call: None,
            has_output: false,
            prompt: String::new(),
            began: Instant::now(),
            leaving_since: None,
        }
    }

    /// Adds finished lines and draws the rest anew.
    pub(super) async fn show(&mut self, stage: &mut Stage, finished: &[String]) -> Played {
        let live = self.live();
        let bytes = self.screen.show(finished, &live);
        stage.write(bytes).await
    }

    /// Shows that a prompt can be typed.
    pub(super) async fn rest(&mut self, stage: &mut Stage, finished: &[String]) -> Played {
        self.mode = Mode::Idle;
        stage.write(Screen::title('✳', "Claude Code")).await?;
        self.show(stage, finished).await?;
        Ok(self.state.write(Some(Status::Idle))?)
    }

    fn live(&self) -> Vec<String> {
        let footer = match &self.mode {
            Mode::Asking(dialog) => return dialog.lines(),
            Mode::Idle => "  ? for shortcuts · ← for agents",
            Mode::Busy => "  esc to interrupt",
        };
        let columns = self.screen.columns();
        let mut lines = Vec::new();
        if !self.half_said.is_empty() {
            lines.extend(wrapped(&self.half_said, "● ", columns));
            lines.push(String::new());
        }
        if matches!(self.mode, Mode::Busy) {
            lines.extend(["✻ Faking…".to_owned(), String::new()]);
        }
        lines.push(self.screen.rule('─'));
        lines.extend(self.prompt_box.lines(columns));
        lines.push(self.screen.rule('─'));
        lines.push(footer.to_owned());
        lines
    }

    /// Waits until the dialog is answered; `None` is Escape.
    async fn ask_person(&mut self, stage: &mut Stage, dialog: Dialog) -> Played<Option<usize>> {
        self.mode = Mode::Asking(dialog);
        self.show(stage, &[]).await?;
        loop {
            match stage.listen(None).await? {
                Input::Closed => return Err(Stop::Exit(0)),
                Input::Interrupt => return Err(Stop::Exit(0)),
                Input::Elapsed => {}
                Input::Heard(bytes) => {
                    for key in self.keys.feed(&bytes) {
                        let Mode::Asking(dialog) = &mut self.mode else { continue };
                        match dialog.press(&key) {
                            Reaction::Chosen(option) => return Ok(Some(option)),
                            Reaction::Cancelled => return Ok(None),
                            Reaction::Open => self.show(stage, &[]).await?,
                        }
                    }
                }
            }
        }
    }

    async fn press(&mut self, stage: &mut Stage, key: &Key) -> Played {
        match (key, &self.mode) {
            (Key::Escape | Key::CtrlC, Mode::Busy) => return Err(Stop::Interrupted),
            (Key::CtrlC, _) if !self.prompt_box.is_empty() => self.prompt_box.clear(),
            (Key::CtrlC | Key::CtrlD, _) => return self.leave_if_twice(),
            _ => match self.prompt_box.press(key) {
                Typed::Nothing => return Ok(()),
                Typed::Changed => {}
                Typed::Sent(text) if matches!(text.as_str(), "/exit" | "/quit" | "exit") => {
                    return Err(Stop::Exit(0));
                }
                Typed::Sent(text) => self.sent.push_back(text),
            },
        }
        self.show(stage, &[]).await
    }

    fn leave_if_twice(&mut self) -> Played {
        let before = self.leaving_since.replace(Instant::now());
        match before {
            Some(since) if since.elapsed() < TWICE_WITHIN => Err(Stop::Exit(0)),
            _ => Ok(()),
        }
    }

    fn add_block(&mut self, block: Value) {
        self.has_output = true;
        let model = &self.model;
        self.message.get_or_insert_with(|| Message::new(model)).blocks.push(block);
    }

    fn close_message(&mut self, stop_reason: &str) -> anyhow::Result<()> {
        match self.message.take() {
            Some(message) => self.transcript.message(&message, stop_reason),
            None => Ok(()),
        }
    }

    async fn over(&mut self, stage: &mut Stage, mut finished: Vec<String>) -> Played {
        self.transcript.turn_over(self.began.elapsed())?;
        finished.extend([format!("✻ Faked for {}s", self.began.elapsed().as_secs()), String::new()]);
        self.rest(stage, &finished).await
    }

    async fn fail(&mut self, stage: &mut Stage, words: &str, status: Option<u16>) -> Played {
        self.close_message("end_turn")?;
        let error = if status == Some(429) { "rate_limit" } else { "unknown" };
        self.transcript.failure(&new_id(), message::synthetic(words), error, status)?;
        let mut finished = wrapped(words, "● ", self.screen.columns());
        finished.push(String::new());
        self.over(stage, finished).await
    }
}

impl Voice for Terminal {
    async fn begin(&mut self, stage: &mut Stage, prompt: &str) -> Played {
        self.began = Instant::now();
        self.has_output = false;
        self.prompt = prompt.to_owned();
        self.mode = Mode::Busy;
        self.state.write(Some(Status::Busy))?;
        stage.write(Screen::title('⠂', "Claude Code")).await?;
        let mut finished = wrapped(prompt, "❯ ", self.screen.columns());
        finished.push(String::new());
        self.show(stage, &finished).await?;
        Ok(self.transcript.prompt(&new_id(), prompt, &self.permission_mode)?)
    }

    async fn say(&mut self, stage: &mut Stage, speech: &Speech) -> Played {
        self.has_output = true;
        for (nth, piece) in speech.pieces().into_iter().enumerate() {
            if nth > 0 {
                pause(self, stage, Some(speech.gap)).await?;
            }
            self.half_said.push_str(&piece);
            self.show(stage, &[]).await?;
        }
        self.half_said.clear();
        self.add_block(message::text_block(&speech.text));
        let mut finished = wrapped(&speech.text, "● ", self.screen.columns());
        finished.push(String::new());
        self.show(stage, &finished).await
    }

    async fn think(&mut self, stage: &mut Stage, text: &str) -> Played {
        self.add_block(message::thinking_block(text));
        self.show(stage, &["  Thought for 1s (ctrl+o to expand)".to_owned(), String::new()]).await
    }

    async fn open_call(&mut self, stage: &mut Stage, call: &Call) -> Played {
        self.add_block(message::tool_use_block(call));
        self.open_call = Some(call.clone());
        self.close_message("tool_use")?;
        let about =
            call.written_file().and_then(|path| path.rsplit('/').next()).unwrap_or_else(|| call.title());
        let about = format!("{}({about})", call.tool);
        let finished = wrapped(&about, "● ", self.screen.columns());
        self.show(stage, &finished).await
    }

    async fn ask(&mut self, stage: &mut Stage, call: &Call) -> Played<Answer> {
        self.state.write(Some(Status::Waiting))?;
        stage.write(Screen::title('✳', "Claude Code")).await?;
        let dialog = Dialog::permission(&self.screen, call, &self.cwd.to_string_lossy());
        let refusal = dialog.refusal();
        let chosen = self.ask_person(stage, dialog).await?;
        self.mode = Mode::Busy;
        self.state.write(Some(Status::Busy))?;
        match chosen {
            Some(option) if option != refusal => {
                self.show(stage, &[]).await?;
                Ok(Answer::Allowed)
            }
            // A refusal ends the turn, as an interrupt does.
            Some(_) | None => Err(Stop::Interrupted),
        }
    }

    async fn close_call(&mut self, stage: &mut Stage, call: &Call, outcome: &Outcome) -> Played {
        self.open_call = None;
        let (text, (block, result)) = match outcome {
            Outcome::Done { output } => (output.clone(), message::tool_result(call, output)),
            Outcome::Failed { output, .. } => {
                (format!("Error: {output}"), message::tool_failure(call, output))
            }
            Outcome::Denied { reason } => (format!("Error: {reason}"), message::tool_failure(call, reason)),
        };
        self.transcript.tool_result(&new_id(), &block, &result)?;
        let text = if text.is_empty() { "(No output)" } else { text.as_str() };
        let mut finished = wrapped(text, "  ⎿  ", self.screen.columns());
        finished.push(String::new());
        self.show(stage, &finished).await
    }

    async fn end(&mut self, stage: &mut Stage, ending: &Ending) -> Played {
        match ending {
            Ending::Normal { .. } => {
                self.close_message("end_turn")?;
                self.over(stage, Vec::new()).await
            }
            Ending::Failure { message, status, .. } => {
                let words = message.as_deref().unwrap_or("API Error: 500 Internal server error");
                self.fail(stage, words, *status).await
            }
            Ending::Limit { words } => {
                self.fail(stage, words.as_deref().unwrap_or(LIMIT_WORDS), Some(429)).await
            }
        }
    }

    async fn interrupted(&mut self, stage: &mut Stage) -> Played {
        let half_said = std::mem::take(&mut self.half_said);
        let mut finished = wrapped(&half_said, "● ", self.screen.columns());
        if !half_said.is_empty() {
            self.add_block(message::text_block(&half_said));
        }
        if !self.has_output {
            // Nothing was said yet: the prompt goes back into the box, and nothing tells that it ever left.
            let prompt = std::mem::take(&mut self.prompt);
            self.prompt_box.put_back(&prompt);
            return self.rest(stage, &[]).await;
        }
        let message = self.message.as_ref().map(|message| message.id.clone());
        self.close_message("stop_sequence")?;
        let how = match self.open_call.take() {
            Some(call) => {
                let (block, result) = message::tool_rejection(&call);
                self.transcript.tool_result(&new_id(), &block, &result)?;
                Interrupted::DuringToolUse
            }
            None => Interrupted::WhileTalking,
        };
        self.transcript.interrupted(how, message.as_deref())?;
        finished.extend(["  ⎿  Interrupted · What should Claude do instead?".to_owned(), String::new()]);
        self.rest(stage, &finished).await
    }

    async fn unknown(&mut self, _stage: &mut Stage, kind: &str, body: &Map<String, Value>) -> Played {
        Ok(self.transcript.unknown(kind, body)?)
    }

    fn line(&mut self, text: &str) -> Vec<u8> {
        let live = self.live();
        self.screen.show(&[text.to_owned()], &live)
    }

    async fn hear(&mut self, stage: &mut Stage, input: Input) -> Played {
        match input {
            Input::Elapsed => Ok(()),
            // A turn under way is finished first.
            Input::Closed => {
                self.is_deserted = true;
                Ok(())
            }
            Input::Interrupt => Err(Stop::Exit(0)),
            Input::Heard(bytes) => {
                for key in self.keys.feed(&bytes) {
                    self.press(stage, &key).await?;
                }
                Ok(())
            }
        }
    }

    async fn trust(&mut self, stage: &mut Stage) -> Played {
        let dialog = Dialog::trust(&self.screen, &self.cwd.to_string_lossy());
        match self.ask_person(stage, dialog).await? {
            Some(0) => {
                self.mode = Mode::Idle;
                Ok(())
            }
            Some(_) | None => Err(Stop::Exit(1)),
        }
    }

    fn lose_enter(&mut self, times: u32) {
        self.prompt_box.lose_enter(times);
    }
}
