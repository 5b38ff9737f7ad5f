//! What is said to an agent on its standard input. One task writes, so that an agent that does not read holds up nobody.

use ostler_agent::agent::Stdin;
use ostler_agent::stopping::Ear;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::Sender;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How many lines may wait. An agent that leaves so many unread listens to none; what more is said is refused.
const UNREAD_LINES: usize = 64;

/// The agent did not take it: too much is unread, or it does not listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unheard;

/// Dropping it closes the agent's input at once.
pub(crate) struct Writer {
    lines: Option<mpsc::Sender<String>>,
    _writing: JoinSet<()>,
}

impl Writer {
    /// Begins with what the agent is to find. Answers also how it can be reached from then on.
    pub(crate) fn start(pipe: Option<Sender>, stdin: Stdin) -> (Self, Ear) {
        let (first, ear) = match stdin {
            Stdin::Null | Stdin::Terminal => (String::new(), Ear::Closed),
            Stdin::Text(text) => (text, Ear::Closed),
            Stdin::Spoken(lines) => (lines.iter().map(|line| format!("{line}\n")).collect(), Ear::Listens),
        };
        let (lines, queue) = mpsc::channel(UNREAD_LINES);
        let mut writing = JoinSet::new();
        if let Some(pipe) = pipe {
            writing.spawn(write(pipe, first, queue));
        }
        let lines = (ear == Ear::Listens).then_some(lines);
        (Self { lines, _writing: writing }, ear)
    }

    /// Says one line. Never blocks.
    pub(crate) fn say(&self, line: &str) -> Result<(), Unheard> {
        let lines = self.lines.as_ref().ok_or(Unheard)?;
        lines.try_send(format!("{line}\n")).map_err(|_| Unheard)
    }

    /// Closes the input once all that was said is written.
    pub(crate) fn close(&mut self) {
        self.lines = None;
    }
}

async fn write(mut pipe: Sender, first: String, mut queue: mpsc::Receiver<String>) {
    // An agent that is gone does not read: that it is gone is told elsewhere.
    if pipe.write_all(first.as_bytes()).await.is_err() {
        return;
    }
    while let Some(line) = queue.recv().await {
        if pipe.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}
