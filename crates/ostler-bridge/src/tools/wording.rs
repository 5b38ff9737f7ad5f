//! What the agent reads: every answer says what is so, and what to do next.

use std::time::Duration;

use ostler_agent::artifact::{Diagnostic, Kinds};
use ostler_agent::document::Mistake;
use ostler_agent::standing::State;

use crate::event::Settled;
use crate::route::{Claimed, Draft, Handed, Terms};

/// What is said about a call, and whether it worked.
#[derive(Debug)]
pub(crate) enum Said {
    Done(String),
    Failed(String),
}

/// A list of items, one a line.
fn list(items: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    items.into_iter().map(|item| format!("\n- {item}")).collect()
}

pub(super) fn mistaken(tool: &str, mistake: &Mistake) -> Said {
    let place = if mistake.key.is_empty() { String::new() } else { format!(" in `{}`", mistake.key) };
    let hint = mistake.hint.as_deref().map(|hint| format!(" Try: {hint}.")).unwrap_or_default();
    Said::Failed(format!("`{tool}` was not called: {}{place}.{hint}", mistake.problem))
}

pub(super) fn handed(kind: &str, handed: Handed, kinds: &Kinds) -> Said {
    match handed {
        Handed::Accepted { receipt, bytes, missing } => {
            let rest = if missing.is_empty() {
                "Nothing else has to be submitted. Call `declare_complete` when the whole task is done."
                    .to_owned()
            } else {
                format!("Still missing:{}", list(missing))
            };
            Said::Done(format!("Accepted: `{kind}`, {bytes} bytes, receipt {receipt}. {rest}"))
        }
        Handed::Rejected { faults, draft } => Said::Failed(rejected(kind, &faults, draft, kinds)),
        Handed::NoKind { nearest } => {
            let hint = match nearest {
                Some(name) => format!("Did you mean `{name}`?"),
                None => format!("There are: {}.", kinds.names().collect::<Vec<_>>().join(", ")),
            };
            Said::Failed(format!("There is no kind of artifact called `{kind}`. {hint}"))
        }
        Handed::NoDraft => Said::Failed(format!(
            "There is no draft of `{kind}` to edit. Submit the whole document with `submit_artifact`."
        )),
        Handed::Found { times: 0 } => Said::Failed(format!(
            "`old` is not in the draft of `{kind}`, which is unchanged. Copy it exactly as you submitted it, with its \
             spaces and line ends."
        )),
        Handed::Found { times } => Said::Failed(format!(
            "`old` is {times} times in the draft of `{kind}`, which is unchanged. Take more of the text around it, so \
             that it is there once."
        )),
        Handed::Unkept { why } => Said::Failed(unkept(kind, &why)),
    }
}

fn rejected(kind: &str, faults: &[Diagnostic], draft: Draft, kinds: &Kinds) -> String {
    let count = if faults.len() == 1 { "1 fault".to_owned() } else { format!("{} faults", faults.len()) };
    let next = match draft {
        Draft::Kept => "Your text is kept as a draft: repair it with `edit_artifact`, or submit a new one.",
        Draft::TooLong => "Your text is too long to be kept as a draft: submit a shorter one.",
    };
    let example = kinds.find(kind).and_then(|kind| kind.example.as_deref());
    let example =
        example.map(|text| format!("\n\nA whole `{kind}` that passes:\n\n{text}")).unwrap_or_default();
    format!("Not accepted: `{kind}` has {count}. {next}{}{example}", list(faults))
}

fn unkept(what: &str, why: &str) -> String {
    format!("`{what}` could not be recorded ({why}). Nothing was changed. Try again in a moment.")
}

pub(super) fn claimed(claimed: Claimed) -> Said {
    match claimed {
        Claimed::Taken { receipt } => Said::Done(format!(
            "Recorded: the task is declared complete, receipt {receipt}. You are finished; end your turn now."
        )),
        Claimed::Refused { missing } => Said::Failed(format!(
            "Not complete. Still missing:{}\nSubmit what is missing, then call `declare_complete` again.",
            list(missing)
        )),
        Claimed::Unkept { why } => Said::Failed(unkept("declare_complete", &why)),
    }
}

pub(super) fn settled(how: Settled, default: Option<String>, within: Duration) -> Said {
    match (how, default) {
        (Settled::Answered(text), _) => Said::Done(text),
        (Settled::TimedOut, Some(default)) => Said::Done(default),
        (Settled::TimedOut, None) => Said::Done(format!(
            "Nobody answered within {} seconds. Decide yourself, and say in your result what you assumed.",
            within.as_secs()
        )),
        (Settled::Withdrawn, _) => Said::Failed("The question was withdrawn.".to_owned()),
    }
}

pub(super) fn instructions(terms: &Terms, states: &[(String, State)], missing: &[String]) -> Said {
    let mut text = format!("Your task:\n\n{}\n", terms.prompt);
    if !states.is_empty() {
        text.push_str("\nArtifacts:");
        text.push_str(&list(states.iter().map(|(kind, state)| {
            let need = if terms.required.contains(kind) { "required" } else { "not required" };
            match state {
                State::Absent => format!("`{kind}` ({need}): not submitted"),
                State::Draft { faults } => format!("`{kind}` ({need}): rejected, {faults} faults"),
                State::Accepted { receipt } => format!("`{kind}` ({need}): accepted, receipt {receipt}"),
            }
        })));
        text.push('\n');
        for (kind, state) in states {
            let kind = terms.kinds.find(kind);
            let example = kind.and_then(|kind| Some((&kind.name, kind.example.as_ref()?)));
            if let (State::Absent, Some((name, example))) = (state, example) {
                text.push_str(&format!("\nA whole `{name}` that passes:\n\n{example}"));
            }
        }
    }
    if missing.is_empty() {
        text.push_str("\nNothing is missing.");
    } else {
        text.push_str(&format!("\nStill missing:{}", list(missing)));
    }
    Said::Done(text)
}

pub(super) fn not_offered(name: &str, offered: &[String]) -> Said {
    let hint = match ostler_agent::document::nearest(name, offered.iter().map(String::as_str)) {
        Some(close) => format!("Did you mean `{close}`?"),
        None => format!("There are: {}.", offered.join(", ")),
    };
    Said::Failed(format!("There is no tool called `{name}` in this run. {hint}"))
}
