//! Entries of `[jail] read` and `[jail] hide` that are mistaken.

use std::fs;
use std::os::unix::fs::symlink;

use super::{assert_refused, ground, outcome, printed, script, warnings};
use crate::ground::Ground;

fn configure(ground: &Ground, key: &str, path: &str) {
    ground.put("ostler/config.toml", &format!("[jail]\n{key} = [{path:?}]\n"));
}

fn with_data() -> Ground {
    let ground = ground();
    ground.put("data/file", "data\n");
    ground.put("project/private/file", "private\n");
    symlink(ground.at("data"), ground.at("link")).unwrap();
    symlink(ground.at("project/private"), ground.at("project/link")).unwrap();
    symlink("/usr", ground.at("project/system")).unwrap();
    ground
}

#[test]
fn mistaken_entries_are_refused_with_what_to_write_instead() {
    let ground = with_data();
    let path = |name: &str| ground.at(name).display().to_string();
    let in_full = "write the whole path";
    let without = "name a directory that the agent can do without";
    let fewer = "name only the directories that the agent needs, or use --no-jail";
    let table = [
        (
            "read",
            path("none"),
            "does not exist",
            "correct the path, or remove it from [jail] read".to_owned(),
        ),
        ("read", "~/none".to_owned(), "does not exist", "correct the path".to_owned()),
        ("read", "data".to_owned(), "is not a path that begins with `/` or `~/`", in_full.to_owned()),
        ("read", "~".to_owned(), "is not an absolute path", "beginning with `/` or `~/`".to_owned()),
        ("read", path("link"), "leads to", format!("write {} instead", path("data"))),
        ("read", path("link/file"), "leads to", format!("write {} instead", path("data/file"))),
        ("read", path("data/../data"), "leads to", format!("write {} instead", path("data"))),
        ("read", path("home"), "would show", fewer.to_owned()),
        ("read", "~/.ssh/id".to_owned(), "would show", fewer.to_owned()),
        ("hide", "private".to_owned(), "is not a path that begins with `/` or `~/`", in_full.to_owned()),
        ("hide", path("project/system"), "would hide /usr, which every run needs", without.to_owned()),
        ("hide", "/bin".to_owned(), "would hide /bin, which every run needs", without.to_owned()),
        ("hide", path("ostler"), "which every run needs", without.to_owned()),
        ("hide", "/proc".to_owned(), "is not a directory of files", without.to_owned()),
        ("hide", path("project"), "which [jail] hide hides", "remove it from [jail] hide".to_owned()),
    ];
    for (key, entry, message, hint) in &table {
        configure(&ground, key, entry);
        assert_refused(&ground, &ground.run(&["run", "-a", "command:true", "x"]), message, &[hint]);
    }
}

#[test]
fn what_is_hidden_by_a_link_is_hidden_and_what_is_misspelled_is_named() {
    let ground = with_data();
    let agent = script(&ground, "cat private/file link/file; echo end");
    let (link, file) = (ground.at("project/link"), ground.at("project/private/file"));
    let misspelled = ground.at("project/privat");
    let table = [
        (link, "end\n", None),
        (file, "end\n", None),
        (misspelled.clone(), "private\nprivate\nend\n", Some(misspelled)),
    ];
    for (entry, want, warning) in table {
        configure(&ground, "hide", &entry.display().to_string());
        let ended = ground.run(&["run", "-a", &agent, "--json", "x"]);
        let last = outcome(&ended);
        assert_eq!(printed(&ground, &last), want, "{}: {last}", entry.display());
        let warned = warning.map(|path| {
            let path = path.display();
            format!(
                "[jail] hide: {path} does not exist, so nothing is hidden; correct the path, or remove it"
            )
        });
        assert_eq!(warnings(&ended), Vec::from_iter(warned));
    }
    assert_eq!(fs::read_to_string(ground.at("project/private/file")).unwrap(), "private\n");
}
