//! Where Claude Code reaches its provider. Facts: observed on 2.1.197 and 2.1.325.
//!
//! Variables that its settings name replace those that it is started with. A proxy is used for every address, also for
//! one on this machine, and by whichever of the usual variables names it; `ALL_PROXY` is not used.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::endpoint::{Configuration, Endpoint, Provider, Proxy};

/// Its own provider.
pub(super) const DEFAULT: &str = "https://api.anthropic.com";

/// Other clouds have an address for each region.
pub(super) const OTHER_CLOUDS: [&str; 6] = [
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "ANTHROPIC_UNIX_SOCKET",
];

pub(super) const PROXIES: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"];

/// Arguments that name other settings, which are not read here.
const OTHER_SETTINGS: [&str; 3] = ["--settings", "--setting-sources", "--bare"];

/// What an administrator sets; it outranks all else.
const MANAGED: &str = "/etc/claude-code/managed-settings.json";

/// Its provider, unless that is not known.
pub(super) fn provider(configuration: &Configuration<'_>) -> Option<Provider> {
    if configuration.has_flag(&OTHER_SETTINGS) {
        return None;
    }
    let settings = Settings::read(configuration)?;
    if OTHER_CLOUDS.into_iter().any(|name| settings.variable(name).is_some()) {
        return None;
    }
    let default = || (DEFAULT.to_owned(), "the default of Claude Code".to_owned());
    let (url, configured_by) = settings.variable("ANTHROPIC_BASE_URL").unwrap_or_else(default);
    let endpoint = Endpoint::of_url(&url)?;
    let exempt = ["no_proxy", "NO_PROXY"].into_iter().find_map(|name| settings.variable(name));
    let proxy = Proxy {
        named: PROXIES.into_iter().find_map(|name| settings.variable(name)),
        exempt: exempt.map(|(rules, _)| rules).unwrap_or_default(),
    };
    proxy.lead(endpoint, configured_by)
}

/// The variables that it works with.
pub(super) struct Settings<'a> {
    configuration: &'a Configuration<'a>,
    /// What files set, the most important first.
    files: Vec<(PathBuf, Value)>,
}

impl<'a> Settings<'a> {
    /// `None` if one of the files cannot be read: the setting is then unknown.
    pub(super) fn read(configuration: &'a Configuration<'a>) -> Option<Self> {
        let home = configuration.home()?;
        let named = configuration.variable("CLAUDE_CONFIG_DIR");
        let own = named.as_ref().map_or_else(|| home.join(".claude"), PathBuf::from);
        let project = configuration.workspace.join(".claude");
        let paths = [
            PathBuf::from(MANAGED),
            project.join("settings.local.json"),
            project.join("settings.json"),
            own.join("settings.json"),
            named.map_or(home, PathBuf::from).join(".claude.json"),
        ];
        let mut files = Vec::new();
        for path in paths {
            if let Some(text) = (configuration.file)(&path).ok()? {
                files.push((path, serde_json::from_str(&text).ok()?));
            }
        }
        Some(Self { configuration, files })
    }

    /// The file that sets a variable, if one does.
    pub(super) fn in_file(&self, name: &str) -> Option<&Path> {
        let sets =
            |settings: &Value| settings["env"].get(name).is_some_and(|value| value.as_str() != Some(""));
        self.files.iter().find(|(_, settings)| sets(settings)).map(|(path, _)| path.as_path())
    }

    /// A setting that is not a variable.
    pub(super) fn find(&self, name: &str) -> Option<Value> {
        self.files.iter().find_map(|(_, settings)| settings.get(name).cloned())
    }

    /// A variable that is set and not empty, and where it is set.
    pub(super) fn variable(&self, name: &str) -> Option<(String, String)> {
        let in_file = self.files.iter().find_map(|(path, settings)| {
            let value = settings["env"].get(name)?;
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Some((value, format!("{name} in {}", path.display())))
        });
        let started_with = || Some((self.configuration.variable(name)?, format!("the variable {name}")));
        in_file.or_else(started_with).filter(|(value, _)| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use crate::endpoint::testing::{Case, check};

    #[test]
    fn the_provider_is_the_one_that_it_is_configured_for() {
        let base = |port: u16| format!(r#"{{"env": {{"ANTHROPIC_BASE_URL": "http://127.0.0.1:{port}"}}}}"#);
        let (user, project, local, managed) = (base(1), base(2), base(3), base(4));
        let files = |count: usize| -> Vec<(&str, &str)> {
            let all = [
                ("/h/.claude/settings.json", user.as_str()),
                ("/w/.claude/settings.json", project.as_str()),
                ("/w/.claude/settings.local.json", local.as_str()),
                ("/etc/claude-code/managed-settings.json", managed.as_str()),
            ];
            all[..count].to_vec()
        };
        let variable = ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
        check(
            "claude-headless",
            &[
                Case { want: "api.anthropic.com:443 (the default of Claude Code)", ..Case::default() },
                Case {
                    variables: vec![variable],
                    want: "127.0.0.1:9 (the variable ANTHROPIC_BASE_URL)",
                    ..Case::default()
                },
                Case {
                    variables: vec![variable],
                    files: files(1),
                    want: "127.0.0.1:1 (ANTHROPIC_BASE_URL in /h/.claude/settings.json)",
                    ..Case::default()
                },
                Case {
                    files: files(2),
                    want: "127.0.0.1:2 (ANTHROPIC_BASE_URL in /w/.claude/settings.json)",
                    ..Case::default()
                },
                Case {
                    files: files(3),
                    want: "127.0.0.1:3 (ANTHROPIC_BASE_URL in /w/.claude/settings.local.json)",
                    ..Case::default()
                },
                Case {
                    files: files(4),
                    want: "127.0.0.1:4 (ANTHROPIC_BASE_URL in /etc/claude-code/managed-settings.json)",
                    ..Case::default()
                },
                Case {
                    variables: vec![("CLAUDE_CONFIG_DIR", "/other")],
                    files: vec![
                        files(1)[0],
                        ("/other/settings.json", r#"{"env": {"ANTHROPIC_BASE_URL": "https://gateway"}}"#),
                    ],
                    want: "gateway:443 (ANTHROPIC_BASE_URL in /other/settings.json)",
                    ..Case::default()
                },
                Case {
                    files: vec![("/h/.claude.json", user.as_str())],
                    want: "127.0.0.1:1 (ANTHROPIC_BASE_URL in /h/.claude.json)",
                    ..Case::default()
                },
                Case { files: vec![("/w/.claude/settings.json", "{ not json")], want: "", ..Case::default() },
                Case { files: vec![("/w/.claude/settings.json", "UNREADABLE")], want: "", ..Case::default() },
                Case { variables: vec![("CLAUDE_CODE_USE_BEDROCK", "1")], want: "", ..Case::default() },
                Case {
                    files: vec![("/h/.claude/settings.json", r#"{"env": {"CLAUDE_CODE_USE_VERTEX": 1}}"#)],
                    want: "",
                    ..Case::default()
                },
                Case { args: vec!["--settings=x.json"], want: "", ..Case::default() },
                Case { variables: vec![("ANTHROPIC_BASE_URL", "gateway")], want: "", ..Case::default() },
            ],
        );
    }

    #[test]
    fn the_proxy_is_probed_where_one_is_used() {
        let proxy = ("HTTPS_PROXY", "http://p:3128");
        let local = ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
        check(
            "claude",
            &[
                Case {
                    variables: vec![proxy],
                    want: "p:3128 (the proxy of the variable HTTPS_PROXY)",
                    ..Case::default()
                },
                Case {
                    variables: vec![("HTTP_PROXY", "p:3128"), local],
                    want: "p:3128 (the proxy of the variable HTTP_PROXY)",
                    ..Case::default()
                },
                Case {
                    files: vec![("/h/.claude/settings.json", r#"{"env": {"HTTPS_PROXY": "http://p:1"}}"#)],
                    want: "p:1 (the proxy of HTTPS_PROXY in /h/.claude/settings.json)",
                    ..Case::default()
                },
                Case {
                    variables: vec![("ALL_PROXY", "http://p:3128")],
                    want: "api.anthropic.com:443 (the default of Claude Code)",
                    ..Case::default()
                },
                Case {
                    variables: vec![proxy, ("NO_PROXY", "x, .anthropic.com")],
                    want: "api.anthropic.com:443 (the default of Claude Code)",
                    ..Case::default()
                },
                Case {
                    variables: vec![proxy, local, ("NO_PROXY", "127.0.0.1")],
                    want: "127.0.0.1:9 (the variable ANTHROPIC_BASE_URL)",
                    ..Case::default()
                },
                Case {
                    variables: vec![proxy, local, ("NO_PROXY", "127.0.0.0/8")],
                    want: "",
                    ..Case::default()
                },
                Case { variables: vec![("HTTPS_PROXY", "what is this")], want: "", ..Case::default() },
            ],
        );
    }
}
