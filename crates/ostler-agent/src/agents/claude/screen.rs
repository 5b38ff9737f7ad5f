//! What Claude Code's screen says: the input box, and dialogs. Seen on 2.1.197 and 2.1.325 at 40x12 to 200x60.
//!
//! The box lies between two rules across the screen; where there is none, a menu with a pointer is a dialog. What a
//! dialog is about is told by its heading, its question and its options alone: what stands between them may be anybody's
//! text. Words that name a dialog are data, in `WORDS` and `ROLES`.

use crate::dialogs::{Choice, Dialog, DialogKind, Role, Wish};
use crate::look::Look;
use crate::typing::Sight;

/// Before what is typed, and before the option that Enter would choose.
const POINTER: char = '❯';

/// The pointer is never further right. Where words of an option may be a command's they are never that far left.
const POINTER_COLUMN: usize = 4;

/// In place of the pointer in a menu that goes on above or below.
const MORE: [char; 2] = ['↑', '↓'];

/// What an input box begins with: for a prompt, for a command.
const TYPED: [char; 2] = [POINTER, '!'];

/// What an empty box may suggest, in grey.
const SUGGESTION: &str = "Try \"";

/// Where words are looked for.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// At the beginning of an option.
    Option,
    /// At the beginning of the question.
    Question,
    /// In the heading.
    Title,
    /// Below the options.
    Footer,
}

/// Which words make which dialog. The first that fits counts; of a question of the model the options are anybody's text,
/// so it comes first, by options that are always there.
const WORDS: &[(DialogKind, Place, &str)] = &[
    (DialogKind::Review, Place::Option, "Submit answers"),
    (DialogKind::Question, Place::Option, "Chat about this"),
    (DialogKind::Question, Place::Option, "Type something"),
    (DialogKind::Trust, Place::Option, "Yes, I trust this folder"),
    (DialogKind::Bypass, Place::Option, "Yes, I accept"),
    (DialogKind::ApiKey, Place::Question, "Do you want to use this API key?"),
    (DialogKind::ProjectServers, Place::Option, "Use this MCP server"),
    (DialogKind::ProjectServers, Place::Option, "Continue without using this MCP server"),
    (DialogKind::ProjectServers, Place::Title, "new MCP servers found in this project"),
    (DialogKind::ProjectServers, Place::Footer, "Esc to reject all"),
    (DialogKind::Plan, Place::Title, "Exit plan mode?"),
    (DialogKind::Plan, Place::Option, "Yes, manually approve edits"),
    (DialogKind::Plan, Place::Question, "Claude wants to exit plan mode"),
    (DialogKind::Plan, Place::Question, "Claude has written up a plan"),
    (DialogKind::Login, Place::Question, "Select login method"),
    (DialogKind::UsageLimit, Place::Option, "Stop and wait for limit to reset"),
    (DialogKind::UsageLimit, Place::Title, "What do you want to do?"),
    (DialogKind::Update, Place::Title, "Update available"),
    (DialogKind::Permission(Wish::Mcp), Place::Title, "Tool use"),
    (DialogKind::Permission(Wish::Command), Place::Title, "Bash command"),
    (DialogKind::Permission(Wish::Write), Place::Question, "Do you want to create"),
    (DialogKind::Permission(Wish::Write), Place::Question, "Do you want to make this edit"),
    (DialogKind::Permission(Wish::Write), Place::Question, "Do you want to overwrite"),
    (DialogKind::Permission(Wish::Other), Place::Question, "Do you want to"),
];

/// Questions that are known without their options, which do not fit on the smallest screen.
const ALONE: &[(DialogKind, &str)] = &[(DialogKind::Login, "Select login method:")];

/// What the beginning of an option means. The first that fits counts.
const ROLES: &[(&str, Role)] = &[
    ("Yes, I trust", Role::Yes),
    ("Yes, I accept", Role::Yes),
    ("Yes, manually approve", Role::Yes),
    ("Yes, and switch to default", Role::Yes),
    ("Yes, allow", Role::Always),
    ("Yes, and", Role::Always),
    ("Yes", Role::Yes),
    ("Use this MCP server", Role::Yes),
    ("Use this and all", Role::Always),
    ("Submit answers", Role::Yes),
    ("Submit", Role::Submit),
    ("No, and tell Claude what to do differently (esc)", Role::No),
    ("No, and tell Claude", Role::Words),
    ("No, tell Claude", Role::Words),
    ("No", Role::No),
    ("Continue without", Role::No),
    ("Cancel", Role::No),
    ("Type something", Role::Words),
    ("Tell Claude what to change", Role::Words),
];

/// Below a menu: which keys it takes.
const KEYS: [&str; 2] = ["Esc to", "Enter to"];

/// Below a menu in which a no can be given words.
const AMENDABLE: &str = "Tab to amend";

/// What the screen says about the input box.
pub(super) fn sight(look: &Look) -> Sight {
    match input_box(look) {
        Some(text) if text.is_empty() => Sight::Empty,
        Some(text) => Sight::Holds(text),
        None if dialog(look).is_some() => Sight::Dialog,
        None => Sight::NoBox,
    }
}

/// What the input box holds. None, if there is none.
fn input_box(look: &Look) -> Option<String> {
    let rules = rules(look);
    match box_rows(look, &rules) {
        Some((top, bottom)) => Some(held(look, top, bottom)),
        None => higher_than_the_screen(look, *rules.first()?),
    }
}

fn rules(look: &Look) -> Vec<usize> {
    let is_rule = |row: &usize| look.rows[*row].starts_with('─') && is_rule(&look.rows[*row], look.columns);
    (0..look.rows.len()).filter(is_rule).collect()
}

/// The first row of the box, and the rule below it.
fn box_rows(look: &Look, rules: &[usize]) -> Option<(usize, usize)> {
    let mut between = rules.windows(2).rev().map(|pair| (pair[0] + 1, pair[1]));
    between.find(|(top, _)| look.rows[*top].starts_with(TYPED))
}

/// The rows above the input box; all of them where there is none.
pub(super) fn above_box(look: &Look) -> &[String] {
    let rules = rules(look);
    let end = match (box_rows(look, &rules), rules.first()) {
        (Some((top, _)), _) => top - 1,
        (None, Some(rule)) if higher_than_the_screen(look, *rule).is_some() => 0,
        (None, _) => look.rows.len(),
    };
    &look.rows[..end]
}

/// What stands in the box between two rows.
fn held(look: &Look, top: usize, bottom: usize) -> String {
    let rows = &look.rows;
    // A box for a command is never empty, whatever it holds.
    let skipped = if rows[top].starts_with(POINTER) { 2 } else { 0 };
    let first = rows[top].chars().skip(skipped).collect::<String>();
    let more = rows[top + 1..bottom].iter().map(|row| row.chars().skip(2).collect());
    let text = std::iter::once(first).chain(more).collect::<Vec<String>>().join("\n");
    let is_untouched = look.cursor.is_none_or(|(row, column)| usize::from(row) == top && column <= 2);
    if text.starts_with(SUGGESTION) && is_untouched {
        return String::new();
    }
    text.trim_end().to_owned()
}

/// What is left of a box whose upper end does not fit: rows that begin with blanks, above the one rule.
fn higher_than_the_screen(look: &Look, rule: usize) -> Option<String> {
    let inside = &look.rows[..rule];
    let fits = inside.iter().all(|row| row.is_empty() || row.starts_with("  ") && !row.contains(POINTER));
    let is_within = look.cursor.is_some_and(|(row, _)| usize::from(row) < rule);
    (fits && is_within && rule > 2).then(|| inside.join("\n").trim().to_owned())
}

/// A line across the screen. It may carry a word, and is not always drawn from end to end.
fn is_rule(row: &str, columns: u16) -> bool {
    let drawn = row.chars().filter(|char| *char == '─').count();
    let row = row.trim();
    row.starts_with('─') && row.ends_with('─') && drawn * 2 > usize::from(columns)
}

/// A line within a dialog.
fn is_dashed(row: &str) -> bool {
    row.trim_start().starts_with('╌')
}

/// The dialog that is up. None while there is an input box.
pub(super) fn dialog(look: &Look) -> Option<Dialog> {
    if input_box(look).is_some() {
        return None;
    }
    let Some(menu) = (0..look.rows.len()).rev().find_map(|row| Menu::around(look, row)) else {
        return without_menu(look);
    };
    let title = menu.title(look);
    let question = menu.question(look);
    let footer = menu.footer(look);
    let kind = kind(&title, &question, &footer, &menu.options);
    // A prompt that was sent begins with the pointer too, and its lines stand like options.
    let has_keys = KEYS.iter().any(|keys| footer.contains(keys));
    if kind == DialogKind::UnknownMenu && !(has_keys && menu.options.len() > 1) {
        return None;
    }
    Some(Dialog { kind, title, question, options: menu.options, at: menu.at })
}

fn without_menu(look: &Look) -> Option<Dialog> {
    let is_shown = |words: &str| look.rows.iter().any(|row| row.trim() == words);
    let (kind, question) = ALONE.iter().find(|(_, words)| is_shown(words))?;
    let (title, question) = (String::new(), (*question).to_owned());
    Some(Dialog { kind: *kind, title, question, options: Vec::new(), at: 0 })
}

fn kind(title: &str, question: &str, footer: &str, options: &[Choice]) -> DialogKind {
    let fits = |(_, place, words): &&(DialogKind, Place, &str)| match place {
        Place::Option => options.iter().any(|option| option.label.starts_with(words)),
        Place::Question => question.starts_with(words),
        Place::Title => title.contains(words),
        Place::Footer => footer.contains(words),
    };
    WORDS.iter().find(fits).map_or(DialogKind::UnknownMenu, |(kind, ..)| *kind)
}

/// Options that stand together, one of them pointed at.
struct Menu {
    first: usize,
    end: usize,
    options: Vec<Choice>,
    at: usize,
}

/// What a row is to a menu.
enum Part<'a> {
    /// An option begins.
    Option(&'a str),
    /// More words of the option above.
    More(&'a str),
    /// Not of the menu.
    Outside,
}

impl Menu {
    /// The menu with its pointer in this row.
    fn around(look: &Look, row: usize) -> Option<Self> {
        let rows = &look.rows;
        let column = rows[row].chars().position(|char| !char.is_whitespace())?;
        let pointed = rows[row].trim_start().strip_prefix(POINTER)?.trim();
        if column > POINTER_COLUMN || pointed.is_empty() {
            return None;
        }
        let is_option =
            |index: &usize| option_at(&rows[*index], column).is_some_and(|words| digit(words).is_some());
        let numbered = digit(pointed).is_some() || (row + 1..rows.len()).any(|index| is_option(&index));
        let part = |index: usize| match part(&rows[index], column, numbered) {
            _ if index == row => Part::Option(pointed),
            part => part,
        };
        let mut first = row;
        while first > 0 && !matches!(part(first - 1), Part::Outside) {
            first -= 1;
        }
        let mut menu = Self { first, end: rows.len(), options: Vec::new(), at: 0 };
        for (index, line) in rows.iter().enumerate().skip(first) {
            match part(index) {
                Part::Option(words) => {
                    if index == row {
                        menu.at = menu.options.len();
                    }
                    menu.options.push(choice(words));
                }
                Part::More(words) => {
                    if let Some(option) = menu.options.last_mut() {
                        option.label = format!("{} {words}", option.label);
                    }
                }
                // One option of a question stands below a rule.
                Part::Outside if numbered && is_rule(line, look.columns) => {}
                Part::Outside => {
                    menu.end = index;
                    break;
                }
            }
        }
        menu.give_roles(&menu.footer(look));
        Some(menu)
    }

    fn give_roles(&mut self, footer: &str) {
        for option in &mut self.options {
            // Where there is little room blanks are left out.
            let label = without_blanks(&option.label);
            let found = ROLES.iter().find(|(words, _)| label.starts_with(&without_blanks(words)));
            option.role = match found {
                Some((_, Role::No)) if footer.contains(AMENDABLE) => Role::Amend,
                Some((_, role)) => *role,
                None => Role::Other,
            };
        }
    }

    /// The first words below the last rule above.
    fn title(&self, look: &Look) -> String {
        let above = &look.rows[..self.first];
        let Some(rule) = above.iter().rposition(|row| is_rule(row, look.columns)) else {
            return String::new();
        };
        let words = above[rule + 1..].iter().map(|row| row.trim()).find(|row| !row.is_empty());
        words.unwrap_or_default().to_owned()
    }

    /// All words below.
    fn footer(&self, look: &Look) -> String {
        look.rows[self.end..].iter().map(|row| row.trim()).collect::<Vec<_>>().join(" ")
    }

    /// The last words above that stand together.
    fn question(&self, look: &Look) -> String {
        let above = look.rows[..self.first].iter().rev().map(|row| row.trim());
        let mut words: Vec<&str> = above
            .skip_while(|row| row.is_empty())
            .take_while(|row| !row.is_empty() && !row.starts_with('─') && !is_dashed(row))
            .collect();
        words.reverse();
        words.join(" ")
    }
}

fn without_blanks(words: &str) -> String {
    words.chars().filter(|char| !char.is_whitespace()).collect()
}

/// What stands behind the column of the pointer, if nothing stands before it.
fn option_at(row: &str, column: usize) -> Option<&str> {
    let mut chars = row.char_indices().skip(column);
    let (at, mark) = chars.next()?;
    let (_, gap) = chars.next()?;
    let (begin, first) = chars.next()?;
    let is_mark = mark == ' ' || MORE.contains(&mark);
    let fits = row[..at].trim().is_empty() && is_mark && gap == ' ' && first != ' ';
    fits.then(|| row[begin..].trim_end())
}

fn part(row: &str, column: usize, numbered: bool) -> Part<'_> {
    match option_at(row, column) {
        Some(words) if !numbered || digit(words).is_some() => return Part::Option(words),
        Some(words) => return Part::More(words),
        None => {}
    }
    let indent = row.chars().take_while(|char| *char == ' ').count();
    if row.trim().is_empty() || indent <= column + 2 { Part::Outside } else { Part::More(row.trim()) }
}

/// The digit at the beginning of an option. Where there is little room no blank follows it.
fn digit(words: &str) -> Option<u8> {
    let (digit, _) = words.split_once('.')?;
    digit.parse().ok().filter(|digit| (1..=9).contains(digit))
}

fn choice(words: &str) -> Choice {
    let digit = digit(words);
    let words = match digit {
        Some(_) => words.split_once('.').map_or(words, |(_, label)| label.trim_start()),
        None => words,
    };
    let marked = words.strip_prefix("[✔]").map(|label| (label, true));
    let marked = marked.or_else(|| words.strip_prefix("[ ]").map(|label| (label, false)));
    let (label, mark) = marked.map_or((words, None), |(label, mark)| (label, Some(mark)));
    Choice { digit, label: label.trim().to_owned(), mark, role: Role::Other }
}
