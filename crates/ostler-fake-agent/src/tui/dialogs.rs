//! The dialogs of the terminal program: what they show, and what each answer means.

use super::keys::Key;
use super::screen::{Screen, wrapped};
use crate::dialect::Call;

/// An open dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dialog {
    above: Vec<String>,
    options: Vec<String>,
    below: &'static str,
    chosen: usize,
}

/// What a key did to a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// This option was taken, from 0.
    Chosen(usize),
    Cancelled,
    /// The dialog is still open.
    Open,
}

impl Dialog {
    /// The question of a first start.
    pub(super) fn trust(screen: &Screen, cwd: &str) -> Self {
        let question = "Quick safety check: Is this a project you created or one you trust? (Like your own code, a \
                        well-known open source project, or work from your team). If not, take a moment to review \
                        what's in this folder first.";
        let mut above =
            vec![screen.rule('─'), " Accessing workspace:".to_owned(), String::new(), format!(" {cwd}")];
        above.push(String::new());
        above.extend(wrapped(question, " ", screen.columns()));
        above.push(String::new());
        above.extend(wrapped(
            "Claude Code'll be able to read, edit, and execute files here.",
            " ",
            screen.columns(),
        ));
        above.extend([String::new(), " Security guide".to_owned(), String::new()]);
        Self::new(above, &["Yes, I trust this folder", "No, exit"], "Enter to confirm · Esc to cancel")
    }

    /// The question whether a tool may be used.
    pub(super) fn permission(screen: &Screen, call: &Call, cwd: &str) -> Self {
        let mut above = vec![screen.rule('─')];
        let below = "Esc to cancel · Tab to amend";
        if let Some(path) = call.written_file() {
            let name = path.rsplit('/').next().unwrap_or(path);
            above.extend([" Create file".to_owned(), format!(" {name}"), screen.rule('╌')]);
            let content =
                call.arguments.get("content").and_then(|content| content.as_str()).unwrap_or_default();
            above.extend(content.lines().enumerate().map(|(nth, line)| format!("  {} {line}", nth + 1)));
            above.extend([screen.rule('╌'), format!(" Do you want to create {name}?")]);
            return Self::new(
                above,
                &["Yes", "Yes, allow all edits during this session (shift+tab)", "No"],
                below,
            );
        }
        match call.mcp() {
            Some((server, tool)) => {
                above.extend([
                    " Tool use".to_owned(),
                    format!("   {server} - {tool}({}) (MCP)", call.title()),
                ]);
            }
            None => above.extend([format!(" {} command", call.tool), format!("   {}", call.title())]),
        }
        above.extend([String::new(), " Do you want to proceed?".to_owned()]);
        let again = format!("Yes, and don't ask again for similar commands in {cwd}");
        Self::new(above, &["Yes", &again, "No"], below)
    }

    fn new(above: Vec<String>, options: &[&str], below: &'static str) -> Self {
        Self { above, options: options.iter().map(|option| (*option).to_owned()).collect(), below, chosen: 0 }
    }

    /// How many answers there are; the last one is always the refusal.
    pub(super) fn refusal(&self) -> usize {
        self.options.len() - 1
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = self.above.clone();
        for (nth, option) in self.options.iter().enumerate() {
            let mark = if nth == self.chosen { '❯' } else { ' ' };
            lines.push(format!(" {mark} {}. {option}", nth + 1));
        }
        lines.extend([String::new(), format!(" {}", self.below)]);
        lines
    }

    /// Menus wrap around; a digit acts at once.
    pub(super) fn press(&mut self, key: &Key) -> Reaction {
        let count = self.options.len();
        match key {
            Key::Enter => Reaction::Chosen(self.chosen),
            Key::Escape | Key::CtrlC => Reaction::Cancelled,
            Key::Up => self.move_to(self.chosen + count - 1),
            Key::Down => self.move_to(self.chosen + 1),
            Key::Text(text) => match text.chars().next().and_then(|digit| digit.to_digit(10)) {
                Some(digit) if (1..=count).contains(&(digit as usize)) => {
                    Reaction::Chosen(digit as usize - 1)
                }
                _ => Reaction::Open,
            },
            Key::Paste(_) | Key::Newline | Key::Backspace | Key::ClearLine | Key::CtrlD => Reaction::Open,
        }
    }

    fn move_to(&mut self, option: usize) -> Reaction {
        self.chosen = option % self.options.len();
        Reaction::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let text = |text: &str| Key::Text(text.to_owned());
        let table: &[(&[Key], Reaction)] = &[
            (&[Key::Enter], Reaction::Chosen(0)),
            (&[Key::Down, Key::Enter], Reaction::Chosen(1)),
            (&[Key::Up, Key::Enter], Reaction::Chosen(1)),
            (&[Key::Down, Key::Down, Key::Enter], Reaction::Chosen(0)),
            (&[text("2")], Reaction::Chosen(1)),
            (&[text("3")], Reaction::Open),
            (&[text("x")], Reaction::Open),
            (&[Key::Escape], Reaction::Cancelled),
        ];
        for (keys, want) in table {
            let mut dialog = Dialog::trust(&Screen::new(None), "/w");
            let got = keys.iter().map(|key| dialog.press(key)).last();
            assert_eq!(got, Some(*want), "{keys:?}");
        }
    }
}
