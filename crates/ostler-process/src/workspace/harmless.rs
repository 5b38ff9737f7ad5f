//! What git is started with, so that it runs no program that a repository names.
//!
//! An agent can write a repository's configuration, and git runs programs that are named there: hooks, file monitors,
//! filters, drivers for diffs, checkers of signatures. None of them may run where only git was meant to. So each is
//! switched off, filters by name after asking which there are, and nothing is fetched or written. Drivers for diffs are
//! switched off by arguments of the commands that know them: `--no-ext-diff --no-textconv`.

/// How many filters are switched off. With more of them git is not asked; a repository has one or two.
const MOST_FILTERS: usize = 64;

/// Longest list of settings that is read: well below what is kept of a program's output, so that it is the whole list.
const LONGEST_LIST: usize = 64 * 1024;

/// Variables, beside an environment that has no others for git.
pub const VARIABLES: [(&str, &str); 4] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
];

/// Settings, each to be given with `-c`.
pub const SETTINGS: [&str; 3] =
    ["core.fsmonitor=false", "core.hooksPath=/dev/null", "log.showSignature=false"];

/// What lists the names of all settings for [`without_filters`].
pub const LIST_SETTINGS: [&str; 4] = ["config", "--list", "--name-only", "-z"];

/// Settings that switch off every filter among these names. None if there are too many, or one cannot be named.
pub fn without_filters(names: &str) -> Option<Vec<String>> {
    let mut filters: Vec<&str> = names
        .split('\0')
        .filter_map(|name| name.strip_prefix("filter.")?.rsplit_once('.').map(|(filter, _)| filter))
        .collect();
    filters.sort_unstable();
    filters.dedup();
    // `-c` ends a name at the first `=`.
    let is_whole = names.len() <= LONGEST_LIST && filters.len() <= MOST_FILTERS;
    if !is_whole || filters.iter().any(|filter| filter.contains(['=', '\n', '\u{fffd}'])) {
        return None;
    }
    let off = |filter: &&str| {
        ["clean=", "smudge=", "process=", "required=false"].map(|key| format!("filter.{filter}.{key}"))
    };
    Some(filters.iter().flat_map(off).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_switched_off_by_name_or_git_is_not_asked() {
        let off =
            without_filters("core.bare\0filter.lfs.clean\0filter.lfs.process\0filter.a.b.clean\0").unwrap();
        assert_eq!(off.len(), 8);
        assert_eq!(off[0], "filter.a.b.clean=");
        assert_eq!(without_filters("core.bare\0"), Some(vec![]));
        assert_eq!(without_filters("filter.a=b.clean\0"), None);
        assert_eq!(without_filters(&"x.y\0".repeat(LONGEST_LIST)), None);
        let many: String = (0..=MOST_FILTERS).map(|number| format!("filter.{number}.clean\0")).collect();
        assert_eq!(without_filters(&many), None);
    }
}
