//! Paths that the user's settings for an agent name: a script for a hook, a file with instructions. If the jail does not show
//! one of them, the agent does without it, and mostly without a word.

use std::path::{Component, Path, PathBuf};

use super::RunJail;

/// Warnings for one start: enough to see what is wrong.
const MOST_WARNINGS: usize = 5;

/// What ends a path in a text. A path with one of these in it is not found, and that is all.
const ENDS: &[char] =
    &['"', '\'', '`', ',', ';', ':', '(', ')', '[', ']', '{', '}', '<', '>', '|', '&', '$', '=', '*'];

/// How Codex begins an entry about a project that the user trusts. It reads nothing there.
const PROJECT: &str = "[projects.";

impl RunJail {
    /// A warning for each path that `text`, the content of the settings at `file`, names and the jail does not show.
    /// `real_path` resolves the links of a path that exists.
    pub fn hidden_names(
        &self,
        file: &Path,
        text: &str,
        real_path: &dyn Fn(&Path) -> Option<PathBuf>,
    ) -> Vec<String> {
        let mut named: Vec<PathBuf> = named_paths(text, &self.home).collect();
        named.sort();
        named.dedup();
        let is_hidden = |path: &PathBuf| {
            let is_above = self.home.starts_with(path) || self.workspace.starts_with(path);
            let is_copied = self.copies.iter().any(|copy| copy.from == *path);
            !is_above
                && !is_copied
                && real_path(path).is_some_and(|real| self.is_hidden(path) && self.is_hidden(&real))
        };
        let hidden = named.into_iter().filter(is_hidden).take(MOST_WARNINGS);
        let warning = |path: PathBuf| {
            format!(
                "{} names {}, which the jail does not show; add that to [jail] read",
                file.display(),
                path.display()
            )
        };
        hidden.map(warning).collect()
    }

    /// Whether neither the host's file at `path` is visible nor another one that is meant to be in its place.
    fn is_hidden(&self, path: &Path) -> bool {
        let is_private = || self.policy.host_path(path) != path && !self.home_is_all_above(path);
        !self.shows(path) && !is_private()
    }

    /// Whether all that is in the place of `path` is the private home directory.
    fn home_is_all_above(&self, path: &Path) -> bool {
        self.policy.rule(path).is_some_and(|rule| self.home.starts_with(&rule.path) || rule.path == self.home)
    }
}

/// The absolute paths in a text, and those in the home directory.
fn named_paths<'t>(text: &'t str, home: &'t Path) -> impl Iterator<Item = PathBuf> + 't {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(PROJECT));
    let words = lines.flat_map(|line| line.split(|char: char| char.is_whitespace() || ENDS.contains(&char)));
    words.filter_map(move |word| {
        let word = word.trim_start_matches('@').trim_end_matches('.');
        let path = match word.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => PathBuf::from(word),
        };
        let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        (path.is_absolute() && path.parent().is_some() && path.components().all(is_plain)).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::super::world::World;
    use super::*;

    #[test]
    fn paths_are_found_in_settings_of_every_kind() {
        let home = Path::new("/h");
        let found = |text| named_paths(text, home).map(|path| path.display().to_string()).collect::<Vec<_>>();
        let table: [(&str, &[&str]); 7] = [
            (r#"{"command": "~/bin/hook.sh --all", "env": {"X": "/opt/x"}}"#, &["/h/bin/hook.sh", "/opt/x"]),
            ("notify = ['/usr/bin/notify', \"~/n.py\"]", &["/usr/bin/notify", "/h/n.py"]),
            ("See @~/notes/style.md.", &["/h/notes/style.md"]),
            ("https://example.com/a and a/b and ../c and / alone", &["//example.com/a"]),
            ("/a/../etc/passwd", &[]),
            ("[projects.\"/h/other\"]\ntrust_level = \"trusted\"", &[]),
            ("", &[]),
        ];
        for (text, want) in table {
            assert_eq!(found(text), want, "{text}");
        }
    }

    #[test]
    fn only_what_exists_and_is_not_shown_is_named() {
        let world = World::default().with(&["/home/me/bin/hook.sh", "/home/me/notes/style.md"]);
        let jail = world.jail();
        let text = r#"{"hooks": ["~/bin/hook.sh", "/home/me/.claude/settings.json", "~/.cargo/bin/cargo", "/usr/bin/git",
            "~/missing", "/home/me", "/home/me/work/src", "~/.claude.json"]}"#;
        let warnings = jail.hidden_names(Path::new("s.json"), text, &|path| world.real_path(path));
        let want = "s.json names /home/me/bin/hook.sh, which the jail does not show; add that to [jail] read";
        assert_eq!(warnings, [want]);
        let world = World { read: vec!["/home/me/bin".into()], ..world };
        assert_eq!(world.jail().hidden_names(Path::new("s"), text, &|path| world.real_path(path)), [""; 0]);
    }
}
