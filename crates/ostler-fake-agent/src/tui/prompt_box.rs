//! The box a prompt is typed into.

use super::keys::Key;
use super::screen::wrapped;

/// A paste that is longer, or has more lines, is shown as a mark; the text itself is kept.
const SHOWN_CHARACTERS: usize = 1000;
const SHOWN_LINES: usize = 3;

/// What is in the box.
#[derive(Debug, Default)]
pub(super) struct PromptBox {
    text: String,
    lost_enters: u32,
}

/// What a key made of the box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// This prompt was sent.
    Sent(String),
    Changed,
    Nothing,
}

impl PromptBox {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
    }

    /// Puts a prompt back that was not used.
    pub(super) fn put_back(&mut self, text: &str) {
        self.text = text.to_owned();
    }

    /// The next presses of Enter are lost.
    pub(super) fn lose_enter(&mut self, times: u32) {
        self.lost_enters += times;
    }

    pub(super) fn press(&mut self, key: &Key) -> Typed {
        match key {
            Key::Text(text) | Key::Paste(text) => self.text.push_str(text),
            Key::Newline => self.text.push('\n'),
            Key::Backspace => {
                self.text.pop();
            }
            Key::ClearLine => {
                let line = self.text.rfind('\n').map_or(0, |at| at + 1);
                self.text.truncate(line);
            }
            Key::Enter => return self.enter(),
            Key::Escape | Key::Up | Key::Down | Key::CtrlC | Key::CtrlD => return Typed::Nothing,
        }
        Typed::Changed
    }

    fn enter(&mut self) -> Typed {
        if self.lost_enters > 0 {
            self.lost_enters -= 1;
            return Typed::Nothing;
        }
        if self.text.ends_with('\\') {
            self.text.pop();
            self.text.push('\n');
            return Typed::Changed;
        }
        let sent = std::mem::take(&mut self.text);
        let sent = sent.trim_end();
        if sent.is_empty() { Typed::Nothing } else { Typed::Sent(sent.to_owned()) }
    }

    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        let count = self.text.lines().count();
        if count > SHOWN_LINES || self.text.chars().count() > SHOWN_CHARACTERS {
            return vec![format!("❯ [Pasted text #1 +{} lines]", count.saturating_sub(1))];
        }
        match self.text.is_empty() {
            true => vec!["❯".to_owned()],
            false => wrapped(&self.text, "❯ ", columns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing() {
        let text = |text: &str| Key::Text(text.to_owned());
        let sent = |text: &str| Typed::Sent(text.to_owned());
        let table: &[(&str, u32, &[Key], Typed)] = &[
            ("a word", 0, &[text("hi"), Key::Enter], sent("hi")),
            ("nothing", 0, &[Key::Enter], Typed::Nothing),
            ("a backslash", 0, &[text("a\\"), Key::Enter], Typed::Changed),
            ("a second line", 0, &[text("a\\"), Key::Enter, text("b"), Key::Enter], sent("a\nb")),
            ("a lost Enter", 1, &[text("a"), Key::Enter], Typed::Nothing),
            ("a second Enter", 1, &[text("a"), Key::Enter, Key::Enter], sent("a")),
            ("cleared", 0, &[text("a"), Key::ClearLine, text("b"), Key::Enter], sent("b")),
        ];
        for (name, lost, keys, want) in table {
            let mut prompt = PromptBox::default();
            prompt.lose_enter(*lost);
            let got = keys.iter().map(|key| prompt.press(key)).last();
            assert_eq!(got.as_ref(), Some(want), "{name}");
        }
    }

    #[test]
    fn a_long_paste_is_shown_as_a_mark() {
        let mut prompt = PromptBox::default();
        prompt.press(&Key::Paste("a\nb\nc\nd".to_owned()));
        assert_eq!(prompt.lines(80), ["❯ [Pasted text #1 +3 lines]"]);
        assert_eq!(prompt.press(&Key::Enter), Typed::Sent("a\nb\nc\nd".to_owned()));
    }
}
