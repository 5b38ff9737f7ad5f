//! Plays one turn: finds the step for a prompt and does its items in order, in whatever dialect.
//!
//! What lives here: the meaning of every verb, once. What does not: how anything looks on the wire (`Voice`). A wait
//! of any kind goes through [`pause`], so an agent that waits still hears.

use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use tokio::time::Instant;

use super::dialect::{Answer, Call, Ending, Outcome, Speech, Voice};
use super::script::item::Item;
use super::script::tables::{Kind, PermissionAsk, Tool, WaitForFile};
use super::script::{Occasion, Script, Words};
use super::sessions::{Exchange, Session, Sessions};
use super::settings::Settings;
use super::sleeper;
use super::stage::ears::Framing;
use super::stage::signals::Signal;
use super::stage::{Input, Played, Stage, Stop};

/// How often a file is looked for.
const LOOK: Duration = Duration::from_millis(10);
/// A long line is written in pieces of this size, so that it is never whole in our memory.
const PIECE_BYTES: usize = 1024 * 1024;
/// Stands for the text of a long line while its record is made.
const PLACE: &str = "@long@";

/// What stays the same for all turns of one process.
pub(super) struct Playbill<'a> {
    script: &'a Script,
    script_name: &'a str,
    sessions: &'a Sessions,
    /// Whether the process was started to continue a session.
    pub(super) resumed: bool,
}

/// How far a turn has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    UnderWay,
    Ended,
}

struct Turn<'a, V> {
    voice: &'a mut V,
    stage: &'a mut Stage,
    session: String,
    number: u64,
    prompt: &'a str,
    /// Everything said so far.
    said: Vec<String>,
    answer: &'static str,
    calls: u32,
    progress: Progress,
}

impl<'a> Playbill<'a> {
    /// The script and memory of these settings.
    pub(super) fn new(settings: &'a Settings) -> Self {
        Self {
            script: &settings.script,
            script_name: &settings.script_name,
            sessions: &settings.sessions,
            resumed: false,
        }
    }

    /// Does what the script has for the start of the process.
    pub(super) async fn start(&self, voice: &mut impl Voice, stage: &mut Stage) -> Played {
        let mut turn = Turn::new(voice, stage, "", 0, "");
        for item in &self.script.start {
            turn.perform(item).await?;
        }
        Ok(())
    }

    /// Plays the turn that `prompt` asks for, and remembers it. An interrupted turn has ended, and that is no failure.
    pub(super) async fn turn(
        &self,
        voice: &mut impl Voice,
        stage: &mut Stage,
        session: &mut Session,
        prompt: &str,
    ) -> Played {
        let number = session.turns.len() as u64 + 1;
        let occasion = Occasion { prompt, turn: number, resumed: self.resumed };
        let Some(step) = self.script.step_for(occasion) else {
            let name = self.script_name;
            let excerpt: String = prompt.chars().take(80).collect();
            return Err(Stop::Failed(anyhow!(
                "no step of {name} is for turn {number} with the prompt `{excerpt}`"
            )));
        };
        session.turns.push(Exchange { prompt: prompt.to_owned(), answer: None });
        self.sessions.keep(session)?;
        let mut turn = Turn::new(voice, stage, &session.id, number, prompt);
        let played = turn.play(&step.items).await;
        if let Some(last) = session.turns.last_mut() {
            last.answer = Some(turn.said.join("\n"));
        }
        self.sessions.keep(session)?;
        played
    }
}

impl<'a, V: Voice> Turn<'a, V> {
    fn new(voice: &'a mut V, stage: &'a mut Stage, session: &str, number: u64, prompt: &'a str) -> Self {
        let session = session.to_owned();
        let progress = Progress::UnderWay;
        Self { voice, stage, session, number, prompt, said: Vec::new(), answer: "", calls: 0, progress }
    }

    async fn play(&mut self, items: &[Item]) -> Played {
        match self.play_through(items).await {
            Err(Stop::Interrupted) if self.progress == Progress::UnderWay => {
                self.voice.interrupted(self.stage).await
            }
            Err(Stop::Interrupted) => Ok(()),
            other => other,
        }
    }

    async fn play_through(&mut self, items: &[Item]) -> Played {
        self.voice.begin(self.stage, self.prompt).await?;
        for item in items {
            // What takes no notice of anything takes none of what came just before it either.
            let is_deaf =
                matches!(item, Item::NeverExit(_)) || matches!(item, Item::Stall(stall) if stall.deaf);
            if !is_deaf {
                self.pause(Some(Duration::ZERO)).await?;
            }
            self.perform(item).await?;
        }
        self.end(Ending::Normal { usage: None }).await
    }

    async fn perform(&mut self, item: &Item) -> Played {
        match item {
            Item::Say(say) => {
                let gap = say.gap.map_or(Duration::ZERO, |gap| gap.0);
                self.say(&say.say, say.chunk, gap).await
            }
            Item::SplitUtf8(split) => {
                self.stage.split_next(split.gap.0);
                self.say(&split.split_utf8, None, Duration::ZERO).await
            }
            Item::Think(think) => {
                let text = self.filled(&think.think);
                self.voice.think(self.stage, &text).await
            }
            Item::Tool(tool) => self.call(tool).await,
            Item::PermissionAsk(ask) => self.ask(ask).await,
            Item::Result(ending) => {
                let ending = match ending.result {
                    Kind::Success => Ending::Normal { usage: ending.usage },
                    kind => Ending::Failure { kind, message: ending.message.clone(), status: ending.status },
                };
                self.end(ending).await
            }
            Item::LimitBanner(limit) => {
                let words = match &limit.limit_banner {
                    Words::Usual(_) => None,
                    Words::Own(text) => Some(self.filled(text)),
                };
                self.end(Ending::Limit { words }).await
            }
            Item::UnknownFrame(frame) => {
                self.voice.unknown(self.stage, &frame.unknown_frame, &frame.body).await
            }
            Item::Garbage(garbage) => self.stage.write(format!("{}\n", garbage.garbage).into_bytes()).await,
            Item::Stderr(line) => self.stage.complain(&line.stderr).await,
            Item::LongLine(line) => self.long_line(line.long_line.bytes).await,
            Item::Flood(flood) => self.flood(flood.flood.records, flood.flood.bytes).await,
            Item::TrustScreen(_) => self.voice.trust(self.stage).await,
            Item::LoseEnter(lose) => {
                self.voice.lose_enter(lose.lose_enter);
                Ok(())
            }
            Item::WriteFile(file) => {
                Ok(std::fs::write(self.filled(&file.write_file), self.filled(&file.content))?)
            }
            Item::WaitForFile(file) => self.wait_for_file(file).await,
            Item::Stall(stall) if stall.deaf => self.ignore_all(stall.stall.0).await,
            Item::Stall(stall) => self.pause(stall.stall.0).await,
            Item::NeverExit(_) => self.ignore_all(None).await,
            Item::ExitWithoutResult(exit) => Err(Stop::Exit(exit.exit_without_result)),
            Item::Exit(exit) => self.exit(exit.exit).await,
            Item::DropStdout(_) => {
                self.stage.drop_stdout();
                Ok(())
            }
            Item::SetsidChild(child) => Ok(sleeper::start(&child.setsid_child)?),
            Item::IgnoreSigterm(ignore) => {
                let signals = [Signal::Terminate, Signal::Interrupt];
                let taken = if ignore.sigint { &signals[..] } else { &signals[..1] };
                taken.iter().try_for_each(|signal| self.stage.ignore(*signal)).map_err(Stop::Failed)
            }
            Item::ReadStdinForever(_) => self.read_stdin_to_its_end().await,
        }
    }

    async fn exit(&mut self, code: u8) -> Played {
        // At the start there is no turn to end.
        if self.number > 0 {
            self.end(Ending::Normal { usage: None }).await?;
        }
        Err(Stop::Exit(code))
    }

    async fn say(&mut self, text: &str, chunk: Option<u32>, gap: Duration) -> Played {
        let text = self.filled(text);
        self.said.push(text.clone());
        self.voice.say(self.stage, &Speech { text, chunk, gap }).await
    }

    async fn call(&mut self, tool: &Tool) -> Played {
        let call = self.next_call(&tool.tool, &tool.arguments);
        self.voice.open_call(self.stage, &call).await?;
        if let Some(lasts) = tool.lasts {
            self.pause(Some(lasts.0)).await?;
        }
        let output = self.filled(&tool.output);
        let outcome = match tool.exit_code {
            Some(code) if code != 0 => Outcome::Failed { output, exit_code: Some(code) },
            _ if tool.is_error => Outcome::Failed { output, exit_code: tool.exit_code },
            _ => Outcome::Done { output },
        };
        self.voice.close_call(self.stage, &call, &outcome).await
    }

    async fn ask(&mut self, ask: &PermissionAsk) -> Played {
        let call = self.next_call(&ask.permission_ask, &ask.arguments);
        self.voice.open_call(self.stage, &call).await?;
        let outcome = match self.voice.ask(self.stage, &call).await? {
            Answer::Allowed => {
                self.answer = "allow";
                if let Some(lasts) = ask.lasts {
                    self.pause(Some(lasts.0)).await?;
                }
                Outcome::Done { output: self.filled(&ask.output) }
            }
            Answer::Denied { reason } => {
                self.answer = "deny";
                Outcome::Denied { reason }
            }
        };
        self.voice.close_call(self.stage, &call, &outcome).await
    }

    fn next_call(&mut self, tool: &str, arguments: &serde_json::Map<String, serde_json::Value>) -> Call {
        self.calls += 1;
        let arguments = arguments.clone();
        Call { id: format!("toolu_{}", uuid::Uuid::new_v4().simple()), tool: tool.to_owned(), arguments }
    }

    async fn end(&mut self, ending: Ending) -> Played {
        if self.progress == Progress::Ended {
            return Ok(());
        }
        self.progress = Progress::Ended;
        self.voice.end(self.stage, &ending).await
    }

    async fn flood(&mut self, records: u64, bytes: usize) -> Played {
        let text = "x".repeat(bytes);
        for _ in 0..records {
            self.pause(Some(Duration::ZERO)).await?;
            let line = self.voice.line(&text);
            self.stage.write(line).await?;
        }
        Ok(())
    }

    async fn long_line(&mut self, bytes: u64) -> Played {
        let line = self.voice.line(PLACE);
        let at =
            line.windows(PLACE.len()).position(|window| window == PLACE.as_bytes()).unwrap_or(line.len());
        self.stage.write(line[..at].to_vec()).await?;
        let mut left = bytes;
        while left > 0 {
            let piece = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            self.stage.write(vec![b'x'; piece]).await?;
            left -= piece as u64;
        }
        self.stage.write(line.get(at + PLACE.len()..).unwrap_or_default().to_vec()).await
    }

    async fn wait_for_file(&mut self, file: &WaitForFile) -> Played {
        let name = self.filled(&file.wait_for_file);
        let give_up = Instant::now() + file.within.0;
        while !Path::new(&name).exists() {
            if Instant::now() >= give_up {
                return Err(Stop::Failed(anyhow!("the file {name} did not come")));
            }
            self.pause(Some(LOOK)).await?;
        }
        Ok(())
    }

    async fn read_stdin_to_its_end(&mut self) -> Played {
        self.stage.listen_by(Framing::Pieces)?;
        loop {
            match self.stage.listen(None).await? {
                Input::Closed => return self.voice.hear(self.stage, Input::Closed).await,
                Input::Interrupt => return Err(Stop::Interrupted),
                Input::Heard(_) | Input::Elapsed => {}
            }
        }
    }

    /// Waits and hears meanwhile.
    async fn pause(&mut self, how_long: Option<Duration>) -> Played {
        pause(self.voice, self.stage, how_long).await
    }

    /// Waits and hears nothing but the signals that end us.
    async fn ignore_all(&mut self, how_long: Option<Duration>) -> Played {
        let until = how_long.map(|span| Instant::now() + span);
        while !matches!(self.stage.listen(until).await?, Input::Elapsed) {}
        Ok(())
    }

    fn filled(&self, text: &str) -> String {
        text.replace("{{prompt}}", self.prompt)
            .replace("{{turn}}", &self.number.to_string())
            .replace("{{session}}", &self.session)
            .replace("{{answer}}", self.answer)
    }
}

/// Waits for a while, or for ever, and hands the voice everything that happens meanwhile.
pub(super) async fn pause<V: Voice>(voice: &mut V, stage: &mut Stage, how_long: Option<Duration>) -> Played {
    let until = how_long.map(|span| Instant::now() + span);
    loop {
        match stage.listen(until).await? {
            Input::Elapsed => return Ok(()),
            input => voice.hear(stage, input).await?,
        }
    }
}
