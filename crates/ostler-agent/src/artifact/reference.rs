//! Files that a document names: which names are files at all, and which stay inside the workspace.

/// What a link or a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Not a file: an address, or a place in the document itself.
    Elsewhere,
    /// A file of the workspace, as a plain path from its top.
    File(String),
    /// A file that is not below the workspace.
    Outside,
}

/// What a link leads to.
pub(super) fn of_link(target: &str) -> Target {
    let has_scheme = target.split_once(':').is_some_and(|(scheme, _)| {
        scheme.len() > 1 && scheme.chars().all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char))
    });
    let path = target.split(['#', '?']).next().unwrap_or_default();
    if has_scheme || target.starts_with("//") || path.is_empty() { Target::Elsewhere } else { of_path(path) }
}

/// What a path leads to. Steps up are allowed as long as they stay inside.
pub(super) fn of_path(path: &str) -> Target {
    if path.starts_with(['/', '\\', '~']) || path.contains('\0') {
        return Target::Outside;
    }
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." if steps.pop().is_none() => return Target::Outside,
            ".." => {}
            step => steps.push(step),
        }
    }
    Target::File(if steps.is_empty() { ".".to_owned() } else { steps.join("/") })
}
