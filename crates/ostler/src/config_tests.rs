use std::ffi::OsString;
use std::fs;

use ostler_agent::agents::{Claude, ClaudeTerminal, Codex};
use ostler_process::trust::store::Store;

use super::*;
use crate::home::Home;

/// A user's home and a project, both in one temporary folder.
struct Ground {
    folder: tempfile::TempDir,
    here: Surroundings,
}

fn ground(user: &str, project: &str, variables: &[(&str, &str)]) -> Ground {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let home = Home::resolve(Some(root.join("place").as_os_str()), &root).unwrap();
    home.create().unwrap();
    let cwd = root.join("project/src/deep");
    fs::create_dir_all(&cwd).unwrap();
    if !user.is_empty() {
        fs::write(home.user_config(), user).unwrap();
    }
    if !project.is_empty() {
        fs::create_dir_all(root.join("project/.ostler")).unwrap();
        fs::write(project_file(&root.join("project")), project).unwrap();
    }
    let variables =
        variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    Ground { folder, here: Surroundings { variables, cwd, home, color: None } }
}

/// The message and the hint, with the temporary folder left out.
fn mistake(user: &str, project: &str, variables: &[(&str, &str)]) -> String {
    let ground = ground(user, project, variables);
    let error = ground.here.settings().unwrap_err();
    let root = ground.folder.path().canonicalize().unwrap().display().to_string();
    format!("{error} | {}", error.hint().unwrap_or_default()).replace(&root, "")
}

#[test]
fn the_defaults_are_the_types_own() {
    let settings = ground("", "", &[]).here.settings().unwrap();
    assert_eq!(settings.config, Config::default());
    assert_eq!(settings.origin("display.color"), Origin::Default);
}

#[test]
fn each_layer_outranks_those_below_it() {
    let user =
        "[display]\ncolor = \"never\"\n[agents]\ndefault = \"codex\"\n[rehearse]\nscript = \"hello\"\n";
    let project = "[agents]\ndefault = \"opencode\"\n";
    let mut ground =
        ground(user, project, &[("OSTLER_CFG__REHEARSE__SCRIPT", "echo"), ("OSTLER_LOG", "warn")]);
    ground.here.color = Some(ColorWhen::Always);
    let settings = ground.here.settings().unwrap();
    assert_eq!(settings.config.display.color, ColorWhen::Always);
    assert_eq!(settings.config.agents.default.as_deref(), Some("opencode"));
    assert_eq!(settings.config.rehearse.script.as_deref(), Some("echo"));
    assert_eq!(settings.config.log.filter, "warn");
    let project = ground.folder.path().canonicalize().unwrap().join("project/.ostler/config.toml");
    assert_eq!(settings.origin("agents.default"), Origin::File { path: project, line: Some(2) });
    assert_eq!(settings.origin("display.color"), Origin::Flag("--color"));
    assert_eq!(
        settings.origin("rehearse.script"),
        Origin::Variable("OSTLER_CFG__REHEARSE__SCRIPT".to_owned())
    );
    assert_eq!(settings.files.len(), 2);
}

#[test]
fn mistakes_say_where_and_what_was_meant() {
    let user = |text: &str| mistake(text, "", &[]);
    let variable = |name: &str, value: &str| mistake("", "", &[(name, value)]);
    let file = "/place/config.toml";
    let table = [
        (user("[displya]\n"), format!("{file}, line 1: unknown key `displya` | did you mean `display`?")),
        (
            user("\n[display]\ncolour = \"auto\"\n"),
            format!("{file}, line 3, `display`: unknown key `colour` | did you mean `color`?"),
        ),
        (
            user("[display]\ncolor = \"alwyas\"\n"),
            format!("{file}, line 2, `display.color`: unknown value `alwyas` | did you mean `always`?"),
        ),
        (
            user("\n[agents.codx]\nprogram = \"/x\"\n"),
            format!("{file}, line 2, `agents`: unknown key `codx` | did you mean `codex`?"),
        ),
        (
            user("[agents]\ndefault = \"claud\"\n"),
            format!("{file}, line 2, `agents.default`: unknown value `claud` | did you mean `claude`?"),
        ),
        (
            user("[agents.codex]\nprogram = \"codex\"\n"),
            format!(
                "{file}, line 2, `agents.codex.program`: `codex` is not a path that begins with `/` or `~/` | \
                 write where the program is, as in \"/usr/local/bin/codex\""
            ),
        ),
        (
            user("[network]\nprobe = \"example.com\"\n"),
            format!(
                "{file}, line 2, `network.probe`: `example.com` is not a host and a port | write it as in \
                 \"api.example.com:443\", or \"off\""
            ),
        ),
        (
            user("log = 3\n"),
            format!("{file}, line 1, `log`: expected a table, found the number 3 | write `log = {{ … }}`"),
        ),
        (
            variable("OSTLER_CFG__DISPLAY__COLR", "never"),
            "OSTLER_CFG__DISPLAY__COLR, `display`: unknown key `colr` | did you mean `color`?".to_owned(),
        ),
        (
            variable("OSTLER_CFG__DISPLAY__COLOR", "no"),
            "OSTLER_CFG__DISPLAY__COLOR, `display.color`: unknown value `no` | valid here: auto, always, never"
                .to_owned(),
        ),
        (
            variable("OSTLER_CFG__", "x"),
            "OSTLER_CFG__: unknown key `` | valid here: agents, install, rehearse, serve, run, jail, prices, network, notify, mcp, display, log".to_owned(),
        ),
    ];
    for (told, want) in table {
        assert_eq!(told, want);
    }
}

/// The list of an Ostler 0.1 that trusts these projects.
fn trust_by_path(ground: &Ground, projects: &[&Path]) {
    let list = serde_json::json!({"v": 1, "projects": projects});
    fs::write(ground.here.home.trusted(), list.to_string()).unwrap();
}

/// What `ostler trust` stores.
fn trust_by_content(ground: &Ground, project: &Path) {
    let inspection = ground.here.gate().inspect(project);
    Store::change(&ground.here.home.trusted_repositories(), |store| store.add(inspection.snapshots()))
        .unwrap();
}

#[test]
fn what_does_not_tighten_is_ignored_until_the_project_is_trusted() {
    let text = "[agents.codex]\nprogram = \"/x\"\n[run]\nmax_turns = 3\nceiling = \"20h\"\n";
    let ground = ground("", text, &[]);
    let project = ground.folder.path().join("project").canonicalize().unwrap();
    let held = || {
        let settings = ground.here.settings().unwrap();
        let run = &settings.config.run;
        (
            settings.program(&Codex),
            run.max_turns.map(|count| count.0),
            run.ceiling.is_some(),
            settings.ignored.is_some(),
        )
    };
    let program = Some(PathBuf::from("/x"));
    assert_eq!(held(), (None, Some(3), false, true));
    let warning = ground.here.settings().unwrap().ignored.unwrap().warning();
    assert_eq!(
        warning.replace(project.to_str().unwrap(), "/project"),
        "`agents.codex.program`, `run.ceiling` in /project/.ostler/config.toml are ignored: a project that is not trusted \
         may only tighten limits and permissions; `ostler trust /project` shows and trusts it"
    );
    trust_by_path(&ground, &[&project]);
    assert_eq!(held(), (program.clone(), Some(3), true, false), "as in 0.1");
    trust_by_path(&ground, &[]);
    assert_eq!(held().0, None);
    trust_by_content(&ground, &project);
    assert_eq!(held(), (program, Some(3), true, false));
    fs::write(project_file(&project), format!("{text}max_cost = 1\n")).unwrap();
    assert_eq!(held(), (None, Some(3), false, true), "another content");
}

#[test]
fn no_project_lets_an_mcp_server_out_of_the_jail_or_replaces_the_one_that_the_user_let_out() {
    let is_jailed = |user: &str, project: &str| {
        let ground = ground(user, project, &[]);
        let root = ground.folder.path().join("project").canonicalize().unwrap();
        trust_by_path(&ground, &[&root]);
        let settings = ground.here.settings().unwrap();
        let origin = settings.origin("mcp.docs.command");
        let ignored = settings.ignored.as_ref().map(|ignored| (ignored.keys.clone(), ignored.reason));
        (settings.is_mcp_jailed("docs", &origin, ground.here.home.user_config()), ignored)
    };
    let (program, let_out) = ("mcp.docs.command = \"docs\"\n", "mcp.docs.jail = false\n");
    let ignored = Some((vec!["mcp.docs.jail".to_owned()], IgnoredBecause::UsersOwn));
    let table = [
        (program.to_owned(), String::new(), (true, None)),
        (format!("{program}{let_out}"), String::new(), (false, None)),
        (program.to_owned(), let_out.to_owned(), (true, ignored.clone())),
        (String::new(), format!("{program}{let_out}"), (true, ignored)),
        (format!("{program}{let_out}"), "mcp.docs.command = \"evil\"\n".to_owned(), (true, None)),
        (format!("{program}mcp.docs.jail = true\n"), String::new(), (true, None)),
    ];
    for (user, project, want) in table {
        assert_eq!(is_jailed(&user, &project), want, "{user}{project}");
    }
}

#[test]
fn a_damaged_store_is_an_error_where_a_project_needs_trust() {
    for damaged in [Home::trusted, Home::trusted_repositories] {
        let needing = ground("", "install.npm = \"/x\"", &[]);
        fs::write(damaged(&needing.here.home), "{").unwrap();
        assert!(needing.here.settings().is_err());
        let harmless = ground("", "run.max_turns = 3", &[]);
        fs::write(damaged(&harmless.here.home), "{").unwrap();
        assert!(harmless.here.settings().is_ok());
    }
}

#[test]
fn a_relative_script_is_below_the_file_that_names_it() {
    let script = |user: &str, project: &str| {
        let ground = ground(user, project, &[]);
        let root = ground.folder.path().canonicalize().unwrap();
        trust_by_path(&ground, &[&root.join("project")]);
        let script = ground.here.settings().unwrap().config.rehearse.script.unwrap();
        script.replace(&root.display().to_string(), "")
    };
    let line = |script: &str| format!("rehearse.script = \"{script}\"\n");
    assert_eq!(script(&line("mine.toml"), ""), "/place/mine.toml");
    assert_eq!(script("", &line("plays/one.toml")), "/project/plays/one.toml");
    assert_eq!(script(&line("/x.toml"), ""), "/x.toml");
    let home = std::env::home_dir().unwrap();
    assert_eq!(script(&line("~/x.toml"), ""), home.join("x.toml").display().to_string());
    assert_eq!(script(&line("tools"), ""), "tools");
}

#[test]
fn agents_of_one_package_share_its_program() {
    let variables = [("OSTLER_CFG__AGENTS__CLAUDE__PROGRAM", "/opt/claude")];
    let settings = ground("", "", &variables).here.settings().unwrap();
    assert_eq!(settings.program(&Claude), Some(PathBuf::from("/opt/claude")));
    assert_eq!(settings.program(&Codex), None);
    let variables = [variables[0], ("OSTLER_CFG__AGENTS__CLAUDE_HEADLESS__PROGRAM", "/opt/headless")];
    let settings = ground("", "", &variables).here.settings().unwrap();
    assert_eq!(settings.program(&Claude), Some(PathBuf::from("/opt/headless")));
    assert_eq!(settings.program(&ClaudeTerminal), Some(PathBuf::from("/opt/claude")));
}

#[test]
fn the_users_own_file_is_not_a_projects() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().join(".ostler");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("config.toml"), "").unwrap();
    assert_eq!(project_of(root.path(), &home.join("config.toml")), None);
    assert_eq!(project_of(root.path(), Path::new("/elsewhere")), Some(root.path().to_owned()));
    let link = root.path().join("link");
    std::os::unix::fs::symlink(&home, &link).unwrap();
    for roundabout in [link, home.join("../.ostler")] {
        assert_eq!(
            project_of(root.path(), &roundabout.join("config.toml")),
            None,
            "{}",
            roundabout.display()
        );
    }
}

#[test]
fn what_is_not_a_file_is_refused_and_not_waited_for() {
    let ground = ground("", "x = 1", &[]);
    let file = project_file(&ground.folder.path().canonicalize().unwrap().join("project"));
    fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let error = ground.here.settings().unwrap_err();
    assert_eq!(error.to_string(), format!("could not read {}", file.display()));
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "it is not a regular file");
}
