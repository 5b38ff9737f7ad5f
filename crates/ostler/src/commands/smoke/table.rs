//! The results for people: a table that fits a hundred columns, and below it what there is to say of each agent.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use ostler_agent::completion::Grade;
use ostler_agent::smoke::Fact;

use super::told::{DriftTold, Model, Smoked, VerdictName};
use crate::account::Rows;
use crate::commands::run::show::short;
use crate::words::{cut, one_line, time};

const GOOD: Style = AnsiColor::Green.on_default().bold();
const WEAK: Style = AnsiColor::Yellow.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const HEADING: Style = Style::new().bold();

/// A column: its heading, and how wide it may be. With a space between them they fit into a hundred.
const COLUMNS: [(&str, usize, Side); 12] = [
    ("AGENT", 15, Side::Left),
    ("VERSION", 8, Side::Left),
    ("ENGINE", 8, Side::Left),
    ("FILE", 6, Side::Left),
    ("SESSION", 7, Side::Left),
    ("EVENTS", 6, Side::Right),
    ("TOOLS", 5, Side::Right),
    ("ARTIFACT", 8, Side::Left),
    ("COMPLETION", 10, Side::Left),
    ("TURNS", 5, Side::Right),
    ("TIME", 5, Side::Right),
    ("BREAKS", 6, Side::Left),
];

/// Where a cell stands in its column.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// All of it.
pub(super) fn text(results: &[Smoked], model: &Model, took: Duration, columns: usize) -> String {
    let mut text = table(results);
    for smoked in results {
        let _ = write!(text, "\n{}{}", headline(smoked), details(smoked, columns));
    }
    let _ = writeln!(text, "\n{}", sum(results, model, took));
    text
}

/// The last line.
pub(super) fn sum(results: &[Smoked], model: &Model, took: Duration) -> String {
    let green = results.iter().filter(|smoked| smoked.is_green()).count();
    let all = results.len();
    let spent = match model {
        Model::Script(_) => "The model was a script: nothing was spent.",
        Model::Live => "The model was the provider's, with your own account.",
    };
    let agents = if all == 1 { "agent passes" } else { "agents pass" };
    format!("{green} of {all} {agents}, in {}. {spent}", time(took))
}

fn table(results: &[Smoked]) -> String {
    let rows: Vec<[String; 12]> = results.iter().map(cells).collect();
    let widths: Vec<usize> = COLUMNS
        .iter()
        .enumerate()
        .map(|(index, (heading, most, _))| {
            let widest = rows.iter().map(|row| row[index].chars().count()).max().unwrap_or_default();
            widest.min(*most).max(heading.len())
        })
        .collect();
    let line = |cells: Vec<String>| {
        let cells = cells.iter().zip(&widths).zip(COLUMNS).map(|((cell, &width), (_, _, side))| {
            let cell = cut(cell, width);
            match side {
                Side::Left => format!("{cell:width$}"),
                Side::Right => format!("{cell:>width$}"),
            }
        });
        cells.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    };
    let headings = COLUMNS.iter().map(|(heading, ..)| (*heading).to_owned()).collect();
    let mut text = format!("{HEADING}{}{HEADING:#}\n", line(headings));
    for row in rows {
        let _ = writeln!(text, "{}", line(row.to_vec()));
    }
    text
}

/// One row. The same for Markdown.
pub(super) fn cells(smoked: &Smoked) -> [String; 12] {
    let of = |fact: Fact, held: &dyn Fn(Grade) -> &'static str| match smoked.fact(fact) {
        Some(told) if told.ok => held(told.grade).to_owned(),
        // The agent's word is something, though not enough.
        Some(told) if told.grade == Grade::Reported => "reported".to_owned(),
        Some(_) | None => "✗".to_owned(),
    };
    let file = |grade| if grade == Grade::Checked { "parsed" } else { "there" };
    let events = of(Fact::Events, &|_| "");
    [
        smoked.agent.clone(),
        smoked.version.clone().unwrap_or_else(|| "-".to_owned()),
        smoked.engine.clone(),
        of(Fact::File, &file),
        of(Fact::Session, &|_| "ok"),
        format!("{events}{}", smoked.events),
        format!("{}/{}", smoked.tools.closed, smoked.tools.opened),
        of(Fact::Artifact, &word),
        of(Fact::Completion, &word),
        smoked.turns.to_string(),
        seconds(Duration::from_millis(smoked.ms)),
        match smoked.breaks.len() {
            0 => "none".to_owned(),
            count => count.to_string(),
        },
    ]
}

/// A few letters are enough here.
fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0..=99 => format!("{:.1}s", time.as_secs_f64()),
        seconds => format!("{seconds}s"),
    }
}

/// The word for a grade.
pub(super) fn word(grade: Grade) -> &'static str {
    match grade {
        Grade::Checked => "checked",
        Grade::Wire => "wire",
        Grade::Transcript => "transcript",
        Grade::Workspace => "workspace",
        Grade::Reported => "reported",
        Grade::Absent => "absent",
    }
}

/// The verdict, with the least that shows it.
pub(super) fn verdict(smoked: &Smoked) -> String {
    match smoked.weakest {
        Some(weakest) => format!("{}({})", smoked.verdict.word(), word(weakest)),
        None => smoked.verdict.word().to_owned(),
    }
}

fn headline(smoked: &Smoked) -> String {
    let (style, mark) = match smoked.verdict {
        VerdictName::Pass => (GOOD, "✓"),
        VerdictName::Degraded => (WEAK, "!"),
        VerdictName::Fail => (BAD, "✗"),
    };
    let version = smoked.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    format!("{style}{mark} {}{version}: {}{style:#}{}\n", smoked.agent, verdict(smoked), ended(smoked))
}

/// How the run inside ended, where that is worth a word.
pub(super) fn ended(smoked: &Smoked) -> String {
    match (smoked.outcome.as_deref(), smoked.exit_code, smoked.resumes) {
        (None, _, _) | (Some("completed"), _, 0) => String::new(),
        (Some(outcome), code, resumes) => {
            let code = code.unwrap_or_default();
            let resumed = match resumes {
                0 => String::new(),
                1 => ", resumed once".to_owned(),
                times => format!(", resumed {times} times"),
            };
            format!(" (the run ended `{outcome}`, exit code {code}{resumed})")
        }
    }
}

fn details(smoked: &Smoked, columns: usize) -> String {
    let mut rows = Rows::new("  ", columns.min(100));
    let worked: Vec<&str> = Fact::ALL
        .into_iter()
        .filter(|fact| smoked.fact(*fact).is_some_and(|told| told.ok))
        .map(Fact::title)
        .collect();
    match worked.len() {
        all if all == Fact::ALL.len() => {
            rows.add("worked", &format!("all {all} facts: {}", worked.join(", ")));
        }
        1.. if smoked.run.is_some() => rows.add("worked", &worked.join(", ")),
        _ => {}
    }
    for (index, line) in smoked.quoted.iter().enumerate() {
        rows.add_whole(if index == 0 { "said" } else { "" }, &cut(&format!("│ {}", one_line(line)), 89));
    }
    for broken in &smoked.breaks {
        let title = Fact::named(broken.fact).map_or(broken.fact, Fact::title);
        rows.add("broke", &one_line(&format!("{title}: {}", broken.what)));
        rows.add("try", &one_line(&broken.r#try));
    }
    for drift in &smoked.drift {
        rows.add("drift", &drifted(drift));
    }
    if let (Some(version), false) = (&smoked.compared_with, smoked.drift.is_empty()) {
        rows.add("", &format!("compared with {version}, which was green"));
    }
    if let (Some(run), false) = (&smoked.run, smoked.is_green()) {
        rows.add_whole("look", &format!("ostler runs show {}", short(run)));
    }
    if let Some(kept) = &smoked.kept {
        rows.add_whole("kept", kept);
    }
    rows.into_text()
}

/// What is different, in words.
pub(super) fn drifted(drift: &DriftTold) -> String {
    match drift {
        DriftTold::Worse { fact, was, now, ok } => {
            let title = Fact::named(fact).map_or(*fact, Fact::title);
            match ok {
                true => format!("{title}: was known by `{}`, now by `{}`", word(*was), word(*now)),
                false => format!("{title}: held, and does no longer"),
            }
        }
        DriftTold::NewRecord { record, sample } => {
            one_line(&format!("records of the kind `{record}` are new: {sample}"))
        }
        DriftTold::FirstEvent { was_ms, now_ms } => {
            let time = |ms: u64| time(Duration::from_millis(ms));
            format!("the first event came after {}, and before after {}", time(*now_ms), time(*was_ms))
        }
    }
}
