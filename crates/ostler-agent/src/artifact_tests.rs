use proptest::prelude::*;

use super::*;

const PROJECT: &str = r###"
headings = ["# Report", "## Risks"]
most_bytes = 400
references = "exist"

[front_matter.level]
type = "text"
one_of = ["low", "high"]

[front_matter.count]
type = "integer"

[front_matter.sources]
type = "paths"
need = "optional"
"###;

const GOOD: &str = "+++\nlevel = \"low\"\ncount = 2\nsources = [\"src/lib.rs\"]\n+++\n# Report\nSee [it](src/lib.rs#L3).\n\n## Risks\nNone.\n";

fn kind() -> Kind {
    Kind::parse("report", "report.toml", PROJECT).unwrap()
}

fn exists(path: &str) -> bool {
    path == "src/lib.rs"
}

fn told(kind: &Kind, text: &str) -> String {
    let faults = kind.check(text.as_bytes(), &exists);
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}

#[test]
fn a_document_that_keeps_all_rules_passes() {
    assert_eq!(told(&kind(), GOOD), "");
}

#[test]
fn every_rule_tells_its_line_and_what_was_found() {
    let long = format!("{GOOD}{}", "x".repeat(400));
    let table = [
        (String::new(), "1 too_short"),
        (long, "1 too_long"),
        (GOOD.replace("+++\n# Report", "# Report"), "1 bad_front_matter"),
        (GOOD.replace("count = 2", "count = "), "3 bad_front_matter"),
        (GOOD.replace("+++", "---"), "1 bad_front_matter"),
        (GOOD.replace("count = 2\n", ""), "1 missing_key"),
        (GOOD.replace("count = 2", "count = \"2\""), "3 wrong_type"),
        (GOOD.replace("\"low\"", "\"mild\""), "2 not_allowed"),
        (GOOD.replace("## Risks", "# Risks"), "9 missing_heading"),
        (GOOD.replace("## Risks", "## Dangers"), "10 missing_heading"),
        (GOOD.replace("## Risks", "```\n## Risks\n```"), "12 missing_heading"),
        (GOOD.replace("None.\n", "\n"), "9 empty_section"),
        (GOOD.replace("[\"src/lib.rs\"]", "[\"src/main.rs\"]"), "4 no_such_file"),
        (GOOD.replace("[\"src/lib.rs\"]", "[\"../secret\"]"), "4 outside_workspace"),
        (GOOD.replace("(src/lib.rs#L3)", "(/etc/passwd)"), "7 outside_workspace"),
        (GOOD.replace("(src/lib.rs#L3)", "(gone.rs)"), "7 no_such_file"),
        (GOOD.replace("(src/lib.rs#L3)", "(https://example.com/x) `[a](b)` [top](#report)"), ""),
        (GOOD.replace("(src/lib.rs#L3)", "(src/../src/./lib.rs)"), ""),
        (GOOD.replace("## Risks", "## RISKS ##"), ""),
        (GOOD.replace('\n', "\r\n"), ""),
    ];
    for (text, want) in table {
        let faults = kind().check(text.as_bytes(), &exists);
        let found: Vec<String> =
            faults.iter().map(|fault| format!("{} {}", fault.line, fault.rule.name())).collect();
        assert_eq!(found.join(", "), want, "{text}");
    }
}

#[test]
fn bytes_that_are_no_text_are_told_with_their_line() {
    let faults = kind().check(b"# Report\n\xff\xfe\n", &exists);
    assert_eq!((faults[0].line, faults[0].rule, faults.len()), (2, Fault::NotText, 1));
}

#[test]
fn diagnostics_read_as_help() {
    let text = "# Report\nSee [it](gone.rs).\n\n## Risk\n";
    insta::assert_snapshot!("diagnostics", told(&kind(), text));
    let kinds = Kinds::built_in().unwrap();
    let message = "A first line that goes on and on and on, until nobody wants to read it in a log\nWhy.\n";
    let told = told(kinds.find("commit_message").unwrap(), message);
    insta::assert_snapshot!("commit_message", told);
}

#[test]
fn every_built_in_kind_passes_its_own_example() {
    let kinds = Kinds::built_in().unwrap();
    let names: Vec<&str> = kinds.names().collect();
    assert_eq!(names, ["commit_message", "issues", "plan", "result", "smoke_test_result"]);
    for name in names {
        let kind = kinds.find(name).unwrap();
        let example = kind.example.as_deref().unwrap();
        assert_eq!(kind.check(example.as_bytes(), &|_| true), [], "{name}");
        assert_ne!(
            kind.check(b"Done.", &|_| true).len() + usize::from(name == "commit_message"),
            0,
            "{name}"
        );
    }
    assert_eq!(kinds.nearest("plans"), Some("plan"));
}

#[test]
fn a_badly_written_kind_is_told_with_file_and_line() {
    let table = [
        ("a b", "", "report.toml: `a b` is no name for a kind"),
        ("../x", "", "report.toml: `../x` is no name for a kind"),
        ("x", "heading = []", "report.toml, line 1: unknown key `heading`"),
        ("x", "headings = ['# A', 'Steps']", "report.toml, line 1, `headings[1]`: `Steps` is no heading"),
        ("x", "most_bytes = 9000000", "report.toml, line 1, `most_bytes`: 9000000 bytes are not possible"),
        (
            "x",
            "least_bytes = 9\nmost_bytes = 3",
            "report.toml, line 2, `most_bytes`: 3 bytes are not possible",
        ),
        (
            "x",
            "[front_matter.n]\ntype = 'integer'\none_of = ['1']",
            "report.toml, line 3, `front_matter.n.one_of`: only texts can be chosen from",
        ),
    ];
    for (name, text, want) in table {
        let mistake = Kind::parse(name, "report.toml", text).unwrap_err();
        assert_eq!(mistake.to_string(), want);
        assert!(mistake.hint().is_some(), "{want}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_check_panic(content in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = kind().check(&content, &exists);
    }

    #[test]
    fn no_lines_make_a_check_panic(lines in proptest::collection::vec("(\\+\\+\\+|---|```|~~~~|#{0,7} ?[ä-ü]{0,3}|[a-z] = .{0,6}|.{0,9}\\]\\(.{0,9}\\)?|.{0,9})", 0..20)) {
        let text = lines.join("\n");
        let count = text.lines().count().max(1);
        for name in ["plan", "result", "commit_message"] {
            let kinds = Kinds::built_in().unwrap();
            for fault in kinds.find(name).unwrap().check(text.as_bytes(), &exists) {
                prop_assert!(fault.line >= 1 && fault.line <= count + 1, "{fault}");
            }
        }
    }

    #[test]
    fn no_text_makes_a_kind_panic(text in ".{0,200}") {
        let _ = Kind::parse("x", "x.toml", &text);
    }
}
