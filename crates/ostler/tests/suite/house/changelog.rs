//! CHANGELOG.md keeps the format of keepachangelog.com.

use super::{NOTHING, read};

const SECTIONS: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/// What is wrong, as `line: complaint`.
fn complaints(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut releases = 0;
    let mut sections: Vec<&str> = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let mut complain = |what: &str| found.push(format!("{}: {what}", index + 1));
        let next = lines.get(index + 1).copied().unwrap_or_default();
        if let Some(release) = line.strip_prefix("## ") {
            releases += 1;
            sections.clear();
            match releases {
                1 if release != "[Unreleased]" => complain("the first release is `[Unreleased]`"),
                2.. if !is_dated(release) => complain("a release is `[1.2.3] - 2026-01-31`"),
                _ => {}
            }
        } else if let Some(section) = line.strip_prefix("### ") {
            if !SECTIONS.contains(&section) {
                complain("unknown section");
            } else if sections.contains(&section) {
                complain("the section is there twice");
            }
            sections.push(section);
        } else if line.starts_with("- ") || line.starts_with("  ") {
            if sections.is_empty() {
                complain("an entry stands in a section");
            }
            // An entry goes on in indented lines; its last one ends the sentence.
            if !next.starts_with("  ") && !line.ends_with('.') {
                complain("an entry ends with a period");
            }
        } else if releases > 0 && !line.is_empty() {
            complain("neither a heading nor an entry");
        }
    }
    if lines.first() != Some(&"# Changelog") {
        found.push("1: the title is `# Changelog`".to_owned());
    }
    if releases == 0 {
        found.push("there is no `## [Unreleased]`".to_owned());
    }
    found
}

/// Whether this is `[1.2.3] - 2026-01-31`.
fn is_dated(release: &str) -> bool {
    let are_numbers = |text: &str, sizes: [usize; 3], separator: char| {
        let parts: Vec<&str> = text.split(separator).collect();
        let fits = |(part, size): (&&str, usize)| {
            !part.is_empty()
                && part.chars().all(|char| char.is_ascii_digit())
                && (size == 0 || part.len() == size)
        };
        parts.len() == 3 && parts.iter().zip(sizes).all(fits)
    };
    release.strip_prefix('[').and_then(|rest| rest.split_once("] - ")).is_some_and(|(version, date)| {
        are_numbers(version, [0, 0, 0], '.') && are_numbers(date, [4, 2, 2], '-')
    })
}

#[test]
fn the_changelog_keeps_its_format() {
    assert_eq!(complaints(&read("CHANGELOG.md")), NOTHING);
}

#[test]
fn a_badly_kept_changelog_is_noticed() {
    let good = "# Changelog\n\nWords.\n\n## [Unreleased]\n\n### Added\n- One thing,\n  told in full.\n\n\
                ## [0.1.0] - 2026-01-31\n\n### Fixed\n- Another.\n";
    assert_eq!(complaints(good), NOTHING);
    let table = [
        (good.replace("# Changelog", "# Changes"), "1: the title is `# Changelog`"),
        (good.replace("[Unreleased]", "[0.2.0] - 2026-02-01"), "5: the first release is `[Unreleased]`"),
        (good.replace("2026-01-31", "yesterday"), "11: a release is `[1.2.3] - 2026-01-31`"),
        (good.replace("Added", "New"), "7: unknown section"),
        (good.replace("in full.", "in full"), "9: an entry ends with a period"),
        (good.replace("### Fixed\n", ""), "13: an entry stands in a section"),
        (good.replace("- Another.", "- Another.\n\n### Fixed"), "16: the section is there twice"),
        (good.replace("- Another.", "Another."), "14: neither a heading nor an entry"),
        ("# Changelog\n".to_owned(), "there is no `## [Unreleased]`"),
    ];
    for (text, want) in table {
        assert_eq!(complaints(&text), [want], "{text}");
    }
}
