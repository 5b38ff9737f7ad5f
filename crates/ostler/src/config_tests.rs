use std::ffi::OsString;
use std::fs;

use ostler_agent::agents::{Claude, ClaudeTerminal, Codex};

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
            "OSTLER_CFG__: unknown key `` | valid here: agents, install, rehearse, serve, run, prices, network, notify, mcp, display, log".to_owned(),
        ),
    ];
    for (told, want) in table {
        assert_eq!(told, want);
    }
}

#[test]
fn what_could_start_programs_or_let_others_in_needs_trust() {
    let programs = "choose which programs are started";
    let script = "choose a script of its own, whose commands an agent would run";
    let address = "choose an address that other machines may reach";
    for (project, key, line, what) in [
        ("[agents.codex]\nprogram = \"/x\"\n", "agents.codex.program", 2, programs),
        ("install.npm = \"/x\"\n", "install.npm", 1, programs),
        ("[rehearse]\nscript = \"evil.toml\"\n", "rehearse.script", 2, script),
        ("rehearse.script = \"/x\"\n", "rehearse.script", 1, script),
        ("rehearse.listen = \"0.0.0.0:0\"\n", "rehearse.listen", 1, address),
        ("rehearse.listen = \"[::]:80\"\n", "rehearse.listen", 1, address),
        ("network.probe = \"x:1\"\n", "network.probe", 1, "choose which address is connected to"),
    ] {
        let told = mistake("", project, &[]);
        assert_eq!(
            told,
            format!(
                "/project/.ostler/config.toml, line {line}, `{key}`: a project may not {what}, and this one is not \
                 trusted | `ostler config trust /project` if you trust all that is in it, or set this in \
                 /place/config.toml instead"
            )
        );
        let ground = ground("", project, &[]);
        let root = ground.folder.path().join("project").canonicalize().unwrap();
        let list = ground.here.home.trusted();
        Trust::change(&list, |trust| trust.add(root.clone())).unwrap();
        assert!(ground.here.settings().is_ok());
        Trust::change(&list, |trust| trust.remove(&root)).unwrap();
        assert!(ground.here.settings().is_err());
    }
    for harmless in
        ["rehearse.script = \"tools\"", "rehearse.listen = \"localhost:0\"", "rehearse.listen = \"[::1]:0\""]
    {
        assert!(ground("", harmless, &[]).here.settings().is_ok(), "{harmless}");
    }
}

#[test]
fn a_relative_script_is_below_the_file_that_names_it() {
    let script = |user: &str, project: &str| {
        let ground = ground(user, project, &[]);
        let root = ground.folder.path().canonicalize().unwrap();
        Trust::change(&ground.here.home.trusted(), |trust| trust.add(root.join("project"))).unwrap();
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
fn many_who_trust_at_once_are_all_kept() {
    let ground = ground("", "", &[]);
    let list = ground.here.home.trusted();
    let projects: Vec<_> = (0..30).map(|number| PathBuf::from(format!("/project/{number:02}"))).collect();
    std::thread::scope(|scope| {
        for project in &projects {
            scope.spawn(|| Trust::change(&list, |trust| trust.add(project.clone())).unwrap());
        }
    });
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(&list).unwrap()).unwrap();
    assert_eq!(kept, serde_json::json!({"v": 1, "projects": projects}));
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
