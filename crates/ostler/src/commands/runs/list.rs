//! `ostler runs` and `ostler runs since`: one row a run, fitted to the terminal.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use jiff::{Timestamp, Zoned};
use ostler_process::journal::{Kept, State};
use ostler_process::run::local_zone;
use serde_json::{Value, json};

use super::{ago, json_of, now, since, state};
use crate::commands::run::show::short;
use crate::display;
use crate::failure::Failure;
use crate::words::{counted, cut, cut_front, one_line, time, whole, width};

/// How many runs are listed unless `--limit` or `--all` says otherwise.
const DEFAULT_LIMIT: usize = 20;

/// How much of a prompt fits into a list that is not on a terminal.
const LONGEST_PROMPT: usize = 60;

/// How much of an agent's name does: a command may be of any length.
const WIDEST_AGENT: usize = 24;

/// With less room than this for folder and prompt together, there is no folder; with less for the prompt, neither.
const ROOM_FOR_BOTH: usize = 20;
const ROOM_FOR_PROMPT: usize = 8;

/// Between two columns.
const GAP: usize = 2;

/// The format of the JSON.
const VERSION: u32 = 1;

// Also flattened into `ostler runs`, so that neither a group nor a help text of its own may be attached.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
pub(super) struct ListArgs {
    /// List at most N runs, the newest [default: 20; all with --json].
    #[arg(long, value_name = "N", conflicts_with = "all")]
    limit: Option<usize>,

    /// List all runs.
    #[arg(long)]
    all: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct SinceArgs {
    /// List runs that began or ended after this local time: 18:00, yesterday, 2h, 2026-11-16T18:00.
    #[arg(value_name = "TIME", value_parser = moment)]
    since: Timestamp,

    /// Print JSON: the runs, and the totals.
    #[arg(long)]
    json: bool,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    since::parse(text, &local_now())
}

fn local_now() -> Zoned {
    Timestamp::now().to_zoned(local_zone())
}

/// What a list shows of a run besides its facts.
pub(super) struct RunSummary<'a> {
    kept: &'a Kept,
    /// How long it took, or takes so far. Not known of a run whose journal has no event.
    took: Option<Duration>,
    /// What was paid, as the agent reports it. A rehearsal costs nothing.
    cost_usd: Option<f64>,
    /// Seconds since 1970; `None` while it is live.
    ended_at: Option<i64>,
}

impl<'a> RunSummary<'a> {
    pub(super) fn new(kept: &'a Kept, now: i64) -> Self {
        let began = kept.facts.began_at;
        let since_begin =
            |at: i64| Duration::from_secs(u64::try_from(at.saturating_sub(began)).unwrap_or_default());
        let (took, ended_at) = match &kept.state {
            State::Live => (Some(since_begin(now)), None),
            State::Ended(outcome) => {
                let took = outcome["ms"].as_u64().map(Duration::from_millis);
                let seconds = i64::try_from(took.unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
                (took, Some(began.saturating_add(seconds)))
            }
            // Its last event is the last that is known of it.
            State::Abandoned => {
                let last = last_written(kept);
                (last.map(since_begin), Some(last.unwrap_or(began)))
            }
        };
        let cost_usd = match &kept.state {
            State::Ended(outcome) if kept.facts.rehearse.is_none() => outcome["cost_usd"].as_f64(),
            State::Ended(_) | State::Live | State::Abandoned => None,
        };
        Self { kept, took, cost_usd, ended_at }
    }

    /// Seconds since 1970; `None` while it is live.
    pub(super) fn ended_at(&self) -> Option<i64> {
        self.ended_at
    }

    /// How long it took, or takes so far, in milliseconds.
    pub(super) fn ms(&self) -> Option<u64> {
        self.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
    }

    /// What was paid, as the agent reports it.
    pub(super) fn cost_usd(&self) -> Option<f64> {
        self.cost_usd
    }

    fn is_since(&self, at: i64) -> bool {
        self.kept.facts.began_at >= at || self.ended_at.is_none_or(|ended| ended >= at)
    }
}

fn last_written(kept: &Kept) -> Option<i64> {
    let written = std::fs::metadata(kept.folder.join("events.ndjson")).ok()?.modified().ok()?;
    i64::try_from(written.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// Prints the list, the newest run first.
pub(super) fn print(runs: &[Kept], args: &ListArgs) -> Result<(), Failure> {
    let limit = match (args.limit, args.all || args.json) {
        (Some(limit), _) => limit,
        (None, true) => usize::MAX,
        (None, false) => DEFAULT_LIMIT,
    };
    let shown = &runs[..runs.len().min(limit)];
    if args.json {
        return display::json(&shown.iter().map(json_of).collect::<Vec<_>>());
    }
    if runs.is_empty() {
        return display::text("No runs yet: `ostler run \"what to do\"` makes one.\n");
    }
    let now = now();
    let summaries: Vec<_> = shown.iter().map(|kept| RunSummary::new(kept, now)).collect();
    let began = |kept: &Kept| ago(now.saturating_sub(kept.facts.began_at));
    let mut text = table(&summaries, began, display::columns());
    let older = runs.len() - shown.len();
    if older > 0 {
        text.push_str(&format!("… and {}: `ostler runs --all`\n", counted(older as u64, "older run")));
    }
    display::text(&text)
}

/// Prints the runs since then, the newest first, and what they amount to.
pub(super) fn print_since(runs: &[Kept], args: &SinceArgs) -> Result<(), Failure> {
    let (now, local) = (now(), local_now());
    let at = args.since.as_second();
    let all = runs.iter().map(|kept| RunSummary::new(kept, now));
    let summaries: Vec<_> = all.filter(|summary| summary.is_since(at)).collect();
    let totals = Totals::of(&summaries);
    if args.json {
        let runs: Vec<Value> = summaries.iter().map(|summary| json_of(summary.kept)).collect();
        return display::json(&json!({ "v": VERSION, "since": at, "runs": runs, "totals": totals.json() }));
    }
    let when = since::format_time(at, &local);
    if summaries.is_empty() {
        return display::text(&format!("No runs since {when}.\n"));
    }
    let began = |kept: &Kept| since::format_time(kept.facts.began_at, &local);
    let table = table(&summaries, began, display::columns());
    display::text(&format!("{table}\n{}\n", totals.sentence(&when)))
}

/// What several runs amount to.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    runs: u64,
    /// How many ended how; also `live` and `abandoned`.
    outcomes: BTreeMap<String, u64>,
    cost_usd: f64,
    /// How many of them reported no cost, although they are not rehearsals.
    without_cost: u64,
    took: Duration,
}

impl Totals {
    fn of(summaries: &[RunSummary<'_>]) -> Self {
        let mut totals = Self::default();
        for summary in summaries {
            totals.runs += 1;
            *totals.outcomes.entry(state(summary.kept).to_owned()).or_default() += 1;
            totals.cost_usd += summary.cost_usd.unwrap_or_default();
            totals.without_cost +=
                u64::from(summary.cost_usd.is_none() && summary.kept.facts.rehearse.is_none());
            totals.took = totals.took.saturating_add(summary.took.unwrap_or_default());
        }
        totals
    }

    fn json(&self) -> Value {
        json!({
            "runs": self.runs,
            "outcomes": self.outcomes,
            "cost_usd": self.cost_usd,
            "without_cost": self.without_cost,
            "ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// `3 runs since 18:00: 2 completed, 1 stalled; $1.20; 2h05m`.
    fn sentence(&self, when: &str) -> String {
        let mut counts: Vec<_> = self.outcomes.iter().collect();
        // The most frequent first, and of equals by name.
        counts.sort_by(|left, right| right.1.cmp(left.1).then(left.0.cmp(right.0)));
        let counts: Vec<String> =
            counts.into_iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
        let runs = counted(self.runs, "run");
        let cost = match self.without_cost {
            unknown if unknown == self.runs => "cost unknown".to_owned(),
            0 => dollars(self.cost_usd),
            unknown => format!("{}, without the cost of {}", dollars(self.cost_usd), counted(unknown, "run")),
        };
        format!("{runs} since {when}: {}; {cost}; {}", counts.join(", "), whole(self.took))
    }
}

/// An amount for people: cents, and more than nothing if it is more.
fn dollars(usd: f64) -> String {
    if usd > 0.0 && usd < 0.005 { "<$0.01".to_owned() } else { format!("${usd:.2}") }
}

/// The table. On a terminal ids are short, and folder and prompt are cut to fit.
fn table(summaries: &[RunSummary<'_>], began: impl Fn(&Kept) -> String, columns: usize) -> String {
    let is_endless = columns == usize::MAX;
    let ids = ids(summaries, is_endless);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (summary, id) in summaries.iter().zip(ids) {
        let facts = &summary.kept.facts;
        rows.push(vec![
            id,
            cut(&one_line(&facts.agent), WIDEST_AGENT),
            state(summary.kept).to_owned(),
            began(summary.kept),
            summary.took.map_or_else(|| "-".to_owned(), time),
            summary.cost_usd.map_or_else(|| "-".to_owned(), dollars),
        ]);
    }
    let mut headings = vec!["RUN", "AGENT", "OUTCOME", "BEGAN", "TOOK", "COST"];
    let widest = |index: usize, heading: &str| {
        rows.iter().map(|row| width(&row[index])).max().unwrap_or(0).max(heading.len())
    };
    let fixed: usize = headings.iter().enumerate().map(|(index, heading)| widest(index, heading) + GAP).sum();
    let folders: Vec<String> =
        summaries.iter().map(|summary| one_line(&display::short(&summary.kept.facts.cwd))).collect();
    let prompts: Vec<String> = summaries.iter().map(|summary| one_line(&summary.kept.facts.prompt)).collect();
    let longest = folders.iter().map(|folder| width(folder)).max().unwrap_or(0).max("FOLDER".len());
    let (folder_room, prompt_room) = rooms(columns.saturating_sub(fixed), longest, is_endless);
    if let Some(room) = folder_room {
        headings.push("FOLDER");
        rows.iter_mut().zip(&folders).for_each(|(row, folder)| row.push(cut_front(folder, room)));
    }
    if let Some(room) = prompt_room {
        headings.push("PROMPT");
        rows.iter_mut().zip(&prompts).for_each(|(row, prompt)| row.push(cut(prompt, room)));
    }
    display::table(&headings, &rows, usize::MAX)
}

/// The columns for folder and prompt, of those that are left.
fn rooms(left: usize, longest_folder: usize, is_endless: bool) -> (Option<usize>, Option<usize>) {
    if is_endless {
        return (Some(usize::MAX), Some(LONGEST_PROMPT));
    }
    match left {
        0..ROOM_FOR_PROMPT => (None, None),
        ROOM_FOR_PROMPT..ROOM_FOR_BOTH => (None, Some(left)),
        _ => {
            let folder = longest_folder.min((left - GAP) / 2);
            (Some(folder), Some(left - GAP - folder))
        }
    }
}

/// The shortest unique beginning of each id; the whole id for programs.
fn ids(summaries: &[RunSummary<'_>], is_whole: bool) -> Vec<String> {
    let all: Vec<&str> = summaries.iter().map(|summary| summary.kept.facts.run.as_str()).collect();
    let is_only = |start: &str| all.iter().filter(|id| id.starts_with(start)).count() == 1;
    let shortest = |id: &str| {
        let mut lengths = short(id).len()..id.len();
        lengths.find_map(|length| id.get(..length).filter(|start| is_only(start))).unwrap_or(id).to_owned()
    };
    all.iter().map(|id| if is_whole { (*id).to_owned() } else { shortest(id) }).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn stored_run(run: &str, agent: &str, state: State, rehearse: Option<&str>) -> Kept {
        let facts = json!({
            "v": 1, "run": run, "agent": agent, "engine": "stream", "program": "/p", "agent_version": null,
            "cwd": "/srv/projects/payments-service/backend", "began_at": 1_000_000,
            "prompt": "mend the parser\nand 世界 everything else that is broken in it, please",
            "rehearse": rehearse, "permissions": "deny", "limits": {},
        });
        Kept { folder: PathBuf::from("/none"), facts: serde_json::from_value(facts).unwrap(), state }
    }

    fn ended(outcome: &str, ms: u64, cost: Option<f64>) -> State {
        State::Ended(json!({"outcome": outcome, "ms": ms, "cost_usd": cost}))
    }

    fn night() -> Vec<Kept> {
        vec![
            stored_run("0198c0de-1234-7000-8000-000000000001", "codex", State::Live, None),
            stored_run(
                "0198c0de-1111-7000-8000-000000000001",
                "claude-headless",
                ended("completed", 754_000, Some(1.21)),
                None,
            ),
            stored_run(
                "0198c0de-1111-7abc-8000-000000000001",
                "codex",
                ended("completed", 2_500, Some(0.001)),
                None,
            ),
            stored_run(
                "0198c0de-0000-7000-8000-000000000001",
                "opencode",
                ended("stalled", 3_600_000, Some(9.0)),
                Some("todo"),
            ),
        ]
    }

    #[test]
    fn a_list_fits_into_every_terminal() {
        let runs = night();
        let summaries: Vec<_> = runs.iter().map(|kept| RunSummary::new(kept, 1_000_090)).collect();
        for columns in [80, 90, 100, 120, 200] {
            let drawn = table(&summaries, |_| "3h ago".to_owned(), columns);
            let drawn = anstream::adapter::strip_str(&drawn).to_string();
            assert!(drawn.lines().all(|line| width(line) <= columns), "{columns}:\n{drawn}");
            assert_eq!(drawn.lines().count(), 5, "{drawn}");
            // Ids of one millisecond need more letters.
            assert!(drawn.contains("0198c0de-1234  ") && drawn.contains("0198c0de-1111-7a  "), "{drawn}");
        }
        let whole = table(&summaries, |_| "3h ago".to_owned(), usize::MAX);
        assert!(whole.contains("0198c0de-1234-7000-8000-000000000001"), "{whole}");
        assert!(
            whole.contains("/srv/projects/payments-service/backend  mend the parser and 世界"),
            "{whole}"
        );
        let squeezed = whole.split_whitespace().collect::<Vec<_>>().join(" ");
        for cells in ["1m30s - /srv", "12m34s $1.21 /srv", "2.5s <$0.01 /srv", "1h - /srv"] {
            assert!(squeezed.contains(cells), "{cells:?} in {squeezed}");
        }
    }

    #[test]
    fn a_night_amounts_to_one_sentence() {
        let runs = night();
        let summaries: Vec<_> = runs.iter().map(|kept| RunSummary::new(kept, 1_000_090)).collect();
        let totals = Totals::of(&summaries);
        assert_eq!(
            totals.sentence("18:00"),
            "4 runs since 18:00: 2 completed, 1 live, 1 stalled; $1.21, without the cost of 1 run; 1h14m"
        );
        assert_eq!(totals.json()["outcomes"], json!({"completed": 2, "live": 1, "stalled": 1}));
        assert_eq!(Totals::of(&summaries[..1]).sentence("x"), "1 run since x: 1 live; cost unknown; 1m30s");
        assert_eq!(Totals::of(&summaries[3..]).sentence("x"), "1 run since x: 1 stalled; $0.00; 1h");
    }

    #[test]
    fn a_run_counts_if_it_began_or_ended_since() {
        let runs = night();
        let is_since = |index: usize, at: i64| RunSummary::new(&runs[index], 1_000_090).is_since(at);
        assert!(is_since(0, 1_000_050), "it is live");
        assert!(is_since(1, 1_000_000) && is_since(1, 1_000_754) && !is_since(1, 1_000_755));
    }
}
