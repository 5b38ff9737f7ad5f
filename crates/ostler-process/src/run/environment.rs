//! What an agent finds around itself: variables and private files.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ostler_agent::agent::{Agent, Launch, Setup};
use ostler_agent::remembering::{HOOKS_OFF, HOOKS_VARIABLE};

/// Variables with which an outer agent tells its children about itself. An agent that finds them behaves as its child.
const OF_AN_OUTER_AGENT: [&str; 4] = ["CLAUDECODE", "CLAUDE_PID", "CLAUDE_EFFORT", "AI_AGENT"];

/// That there is an outer agent whose variables begin as a person's own settings do.
const INSIDE: &str = "CLAUDECODE";

/// How those begin.
const OUTER_PREFIX: &str = "CLAUDE_CODE_";

/// What begins so and is never an outer agent's word about itself: who pays, and which provider answers.
const ALWAYS_A_PERSONS: [&str; 4] = [
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];

/// Variables that a rehearsed agent inherits as a real one does, besides locales: which programs there are, where it is
/// started, who it is, what it writes to. No secret is in them, and no address. All other variables are left out, because
/// secrets cannot be recognised by their names; an agent that finds a key, a proxy or an address there could talk to others
/// than the scripted provider.
const REHEARSED: [&str; 26] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "SHELL",
    "USER",
    "LOGNAME",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "CI",
    "EDITOR",
    "VISUAL",
    "PAGER",
];

/// Locales: `LC_ALL`, `LC_CTYPE`.
const LOCALE_PREFIX: &str = "LC_";

/// Directories of a home that may be elsewhere, and where they are otherwise.
const BASE_DIRECTORIES: [(&str, &str); 4] = [
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_CACHE_HOME", ".cache"),
];

/// Variables that send requests through a proxy. Claude Code takes `HTTPS_PROXY` for `http://` addresses too.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Variables that name the hosts to which requests go without one. Programs read either.
const UNPROXIED: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The host of the bridge.
const LOOPBACK: &str = "127.0.0.1";

type Variables = Vec<(OsString, OsString)>;

/// The environment of an agent that works for real: ours, without what an outer agent left there.
pub fn inherited(ours: impl IntoIterator<Item = (OsString, OsString)>) -> Variables {
    let mut env: Variables = ours.into_iter().collect();
    let is_inside = env.iter().any(|(name, _)| name == INSIDE);
    env.retain(|(name, _)| !is_of_an_outer_agent(name, is_inside));
    env
}

/// The environment of an agent in a rehearsal: that of a real run, without what could hold a secret or lead elsewhere, in
/// another home, and with what points it at the scripted provider. What differs and why: `docs/adr/0019`.
pub fn rehearsed(ours: impl IntoIterator<Item = (OsString, OsString)>, setup: &Setup) -> Variables {
    let mut env = inherited(ours);
    move_home(&mut env, setup);
    env.retain(|(name, _)| is_rehearsed(name));
    lay_over(&mut env, &setup.env);
    env
}

/// How variables of Ostler's own begin that may hold a secret: passphrases, and settings with tokens of MCP servers.
const OSTLER_SECRETS: [&str; 2] = ["OSTLER_MEMORY_", "OSTLER_CFG__"];

/// The environment of a served agent of the owner: without Ostler's own secrets, and with Ostler's hooks off, because a
/// served session is remembered only if its key says so.
pub fn for_served(mut env: Variables) -> Variables {
    env.retain(|(name, _)| {
        let name = name.to_str().unwrap_or_default();
        !OSTLER_SECRETS.iter().any(|prefix| name.starts_with(prefix))
    });
    env.push((HOOKS_VARIABLE.into(), HOOKS_OFF.into()));
    env
}

/// Variables of the owner that a tenant's agent gets too, besides locales: how text is written and shown. No secret is in
/// them, and nothing of the owner.
const OF_TENANTS: [&str; 9] =
    ["PATH", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR"];

/// The environment of a tenant's agent: what its setup says, and of ours only what is on a list. `PATH` is without
/// directories in the owner's home, which the tenant does not see.
pub fn for_tenant(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
    owners_home: &Path,
    setup: &Setup,
) -> Variables {
    let is_listed = |name: &OsStr| {
        name.to_str().is_some_and(|name| OF_TENANTS.contains(&name) || name.starts_with(LOCALE_PREFIX))
    };
    let mut env: Variables = ours.into_iter().filter(|(name, _)| is_listed(name)).collect();
    for (_, path) in env.iter_mut().filter(|(name, _)| name == "PATH") {
        let is_shown = |entry: &PathBuf| entry.is_absolute() && !entry.starts_with(owners_home);
        let entries = std::env::split_paths(path).filter(is_shown);
        // None of them has a separator in it: they were split there.
        *path = std::env::join_paths(entries).unwrap_or_default();
    }
    lay_over(&mut env, &setup.env);
    env
}

/// Moves the directories of the user's home that are set to the home of the rehearsal.
fn move_home(env: &mut Variables, setup: &Setup) {
    let home = setup.env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| Path::new(home));
    for (name, value) in env {
        let moved = BASE_DIRECTORIES.iter().find(|(directory, _)| name == directory);
        if let (Some((_, usual)), Some(home)) = (moved, home) {
            *value = home.join(usual).into_os_string();
        }
    }
}

fn is_rehearsed(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_moved = BASE_DIRECTORIES.iter().any(|(directory, _)| *directory == name);
    is_moved || REHEARSED.contains(&name) || name.starts_with(LOCALE_PREFIX)
}

/// What the user has set in the variable in which the agent is given settings.
pub fn users_settings(agent: &dyn Agent, env: &[(OsString, OsString)]) -> Option<String> {
    let variable = agent.settings_variable()?;
    let (_, value) = env.iter().find(|(name, _)| name == variable)?;
    Some(value.to_string_lossy().into_owned())
}

/// What a launch adds, and what a person should know about it.
pub fn launched(env: &[(OsString, OsString)], launch: &Launch) -> (Variables, Vec<String>) {
    let (mut env, mut warnings) = (env.to_vec(), launch.warnings.clone());
    lay_over(&mut env, &launch.env);
    if rustix::process::geteuid().is_root() {
        lay_over(&mut env, &launch.as_root.env);
        warnings.extend_from_slice(&launch.as_root.warnings);
    }
    exempt_loopback(&mut env);
    (env, warnings)
}

/// Lets requests to loopback go without a proxy. Behind a proxy without that exemption, all agents lose the bridge: a proxy on
/// another host cannot reach it. Doing it twice changes nothing.
pub fn exempt_loopback(env: &mut Variables) {
    let value = |name: &str| env.iter().find(|(known, _)| known == name)?.1.to_str().map(str::to_owned);
    if PROXIES.into_iter().filter_map(value).all(|proxy| proxy.is_empty()) {
        return;
    }
    let lists = UNPROXIED.map(value);
    let either = lists.iter().flatten().next().cloned();
    for (name, list) in UNPROXIED.into_iter().zip(lists) {
        let hosts = list.or_else(|| either.clone()).unwrap_or_default();
        let is_exempt = hosts.split(',').map(str::trim).any(|host| host == LOOPBACK || host == "*");
        let hosts = match (is_exempt, hosts.trim().is_empty()) {
            (true, _) => hosts,
            (false, true) => LOOPBACK.to_owned(),
            (false, false) => format!("{hosts},{LOOPBACK}"),
        };
        lay_over(env, &[(name.to_owned(), hosts)]);
    }
}

fn lay_over(env: &mut Variables, over: &[(String, String)]) {
    env.retain(|(name, _)| over.iter().all(|(new, _)| name.as_os_str() != OsStr::new(new)));
    env.extend(over.iter().map(|(name, value)| (name.into(), value.into())));
}

fn is_of_an_outer_agent(name: &OsStr, is_inside: bool) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_its_own = is_inside && name.starts_with(OUTER_PREFIX) && !ALWAYS_A_PERSONS.contains(&name);
    OF_AN_OUTER_AGENT.contains(&name) || is_its_own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(entries: &[(&str, &str)]) -> Variables {
        entries.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn a_served_agent_gets_none_of_ostlers_secrets() {
        let ours = variables(&[
            ("OSTLER_HOME", "/o"),
            ("OSTLER_MEMORY_PASSPHRASE", "secret"),
            ("OSTLER_CFG__MCP__X__HEADERS", "token"),
            ("ANTHROPIC_API_KEY", "the owner's"),
        ]);
        let want = [("OSTLER_HOME", "/o"), ("ANTHROPIC_API_KEY", "the owner's"), ("OSTLER_HOOKS", "off")];
        assert_eq!(for_served(ours), variables(&want));
    }

    #[test]
    fn a_tenants_agent_gets_nothing_of_the_owners() {
        let ours = variables(&[
            ("HOME", "/h"),
            ("USER", "me"),
            ("PATH", "/h/bin:/usr/bin:.:/bin"),
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C"),
            ("ANTHROPIC_API_KEY", "real"),
            ("OSTLER_HOME", "/h/.ostler"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("MCP_HEADER_TOKEN", "real"),
        ]);
        let setup = Setup { env: vec![("HOME".to_owned(), "/t".to_owned())], ..Setup::default() };
        let want = [("PATH", "/usr/bin:/bin"), ("LANG", "C.UTF-8"), ("LC_ALL", "C"), ("HOME", "/t")];
        assert_eq!(for_tenant(ours, Path::new("/h"), &setup), variables(&want));
    }

    #[test]
    fn an_agent_is_not_taken_for_the_child_of_another() {
        let ours = variables(&[
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_ENTRYPOINT", "cli"),
            ("AI_AGENT", "x"),
            ("CLAUDE_CONFIG_DIR", "/c"),
            ("HOME", "/h"),
        ]);
        assert_eq!(inherited(ours), variables(&[("CLAUDE_CONFIG_DIR", "/c"), ("HOME", "/h")]));
    }

    #[test]
    fn a_persons_own_settings_are_left_to_the_agent() {
        let ours = variables(&[("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "9"), ("CLAUDE_CODE_OAUTH_TOKEN", "t")]);
        assert_eq!(inherited(ours.clone()), ours);
        let inside = [ours.clone(), variables(&[("CLAUDECODE", "1")])].concat();
        assert_eq!(inherited(inside), ours[1..]);
    }

    #[test]
    fn an_agent_behind_a_proxy_reaches_the_bridge() {
        let lists = |given: &[(&str, &str)]| {
            let mut env = variables(given);
            exempt_loopback(&mut env);
            UNPROXIED.map(|name| {
                let found = env.iter().find(|(known, _)| known == name);
                found.map_or_else(String::new, |(_, hosts)| hosts.to_str().unwrap().to_owned())
            })
        };
        let proxy = ("HTTP_PROXY", "http://proxy:3128");
        assert_eq!(lists(&[]), ["", ""]);
        assert_eq!(lists(&[("http_proxy", "")]), ["", ""]);
        assert_eq!(lists(&[("HTTPS_PROXY", "http://p")]), [LOOPBACK, LOOPBACK]);
        assert_eq!(lists(&[proxy]), [LOOPBACK, LOOPBACK]);
        assert_eq!(lists(&[proxy, ("no_proxy", "intern, x")]), ["intern, x,127.0.0.1"; 2]);
        let both = [("all_proxy", "socks5://p"), ("NO_PROXY", "a"), ("no_proxy", "b")];
        assert_eq!(lists(&both), ["a,127.0.0.1", "b,127.0.0.1"]);
        assert_eq!(lists(&[proxy, ("NO_PROXY", "*")]), ["*", "*"]);
        assert_eq!(lists(&[proxy, ("NO_PROXY", "localhost, 127.0.0.1")]), ["localhost, 127.0.0.1"; 2]);
    }

    fn setup() -> Setup {
        let env = [("HOME", "/private"), ("ANTHROPIC_API_KEY", "dummy")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Setup { env: env.into(), ..Setup::default() }
    }

    #[test]
    fn a_rehearsal_has_no_secret_no_address_and_no_place_of_the_user() {
        let ours = variables(&[
            ("HOME", "/h"),
            ("ANTHROPIC_API_KEY", "real"),
            ("ANTHROPIC_BASE_URL", "https://real"),
            ("OPENAI_API_KEY", "real"),
            ("GITHUB_TOKEN", "real"),
            ("AWS_SECRET_ACCESS_KEY", "real"),
            ("CLAUDE_CONFIG_DIR", "/h/c"),
            ("CODEX_HOME", "/h/x"),
            ("OPENCODE_CONFIG", "/h/o"),
            ("XDG_CONFIG_HOME", "/h/.conf"),
            ("XDG_RUNTIME_DIR", "/run/real"),
            ("SSH_AUTH_SOCK", "/run/real"),
            ("HTTPS_PROXY", "http://real"),
            ("http_proxy", "http://real"),
            ("ALL_PROXY", "http://real"),
            ("TMPDIR", "/h/tmp"),
        ]);
        let want =
            [("XDG_CONFIG_HOME", "/private/.config"), ("HOME", "/private"), ("ANTHROPIC_API_KEY", "dummy")];
        assert_eq!(rehearsed(ours, &setup()), variables(&want));
    }

    /// A fault that a real run would have cannot hide in a rehearsal.
    #[test]
    fn a_rehearsal_is_told_the_rest_as_a_real_run_is() {
        let ours = variables(&[
            ("CLAUDECODE", "1"),
            ("PATH", "/bin"),
            ("PWD", "/elsewhere"),
            ("OLDPWD", "/before"),
            ("LC_ALL", "de_DE.UTF-8"),
            ("LANG", "C"),
            ("TERM", "dumb"),
            ("COLORTERM", "truecolor"),
            ("SHELL", "/bin/fish"),
            ("USER", "ada"),
        ]);
        let real = inherited(ours.clone());
        assert_eq!(
            rehearsed(ours, &setup()),
            [real, variables(&[("HOME", "/private"), ("ANTHROPIC_API_KEY", "dummy")])].concat()
        );
    }
}
