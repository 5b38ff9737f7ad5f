//! A call of a tool in one line, so that "what did we run" can be found.

use serde_json::Value;

/// Longest line: a command is told by its beginning.
const LONGEST: usize = 300;

/// Fields that tell what a call was about, the most telling first.
const TELLING: [&str; 12] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "notebook_path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "name",
];

/// The tool, and what it was called with.
pub(super) fn called(tool: &str, input: &Value) -> String {
    let about = TELLING.iter().find_map(|field| input[field].as_str()).map(str::to_owned);
    let about = about.or_else(|| files_of_patch(input.as_str()?)).unwrap_or_default();
    short(&format!("{tool}: {}", about.trim()))
}

/// How a call ended that did not go well.
pub(super) fn failed(exit_code: Option<i64>, text: &str) -> String {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match exit_code {
        Some(code) => short(&format!("exit {code}: {first}")),
        None => short(&format!("failed: {first}")),
    }
}

/// The files that a patch names.
fn files_of_patch(patch: &str) -> Option<String> {
    let files: Vec<&str> = patch
        .lines()
        .filter_map(|line| line.strip_prefix("*** ")?.split_once(" File: ").map(|(_, file)| file.trim()))
        .collect();
    (!files.is_empty()).then(|| files.join(" "))
}

fn short(text: &str) -> String {
    let line = text.replace('\n', " ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
