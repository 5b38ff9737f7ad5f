//! A layer of settings for one process, for an agent that takes text settings from its own configuration folder or
//! from arguments only. Every user of the machine can read arguments, so the settings go into a private file, and a
//! link in the agent's folder names it for as long as the process lives. The user's own files are not changed.

use std::path::PathBuf;

use toml::{Table, Value};

/// The prefix of the names of links. No other profile has it.
pub const PREFIX: &str = "ostler-";

/// A layer of settings for one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The variable that names the agent's configuration folder.
    pub variable: &'static str,
    /// Where that folder is below the home directory, if the variable is not set.
    pub below_home: &'static str,
    /// The user's settings in that folder.
    pub settings: &'static str,
    /// The profile in that folder that the user asked for. Its settings hold too.
    pub chosen: Option<String>,
    /// The link in that folder.
    pub link: String,
    /// The private file that the link leads to.
    pub path: PathBuf,
    /// The setting that instructions are added to.
    pub key: &'static str,
    /// The instructions.
    pub text: String,
    /// Settings of a project, in the workspace or a directory above it. They overrule a profile.
    pub project: &'static str,
}

/// The profile that the user chose is not TOML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not valid TOML: {0}")]
pub struct InvalidSettings(String);

impl Profile {
    /// The content of the private file, given the user's settings and the chosen profile. Instructions of the user's own
    /// come first. Settings that cannot be read are left to the agent, which reports them.
    pub fn content(&self, settings: Option<&str>, chosen: Option<&str>) -> Result<String, InvalidSettings> {
        let (settings, mut layer) = (parse(settings).unwrap_or_default(), parse(chosen)?);
        let own = layer.get(self.key).or_else(|| settings.get(self.key)).and_then(Value::as_str);
        let text = match own.map(str::trim_end).filter(|own| !own.is_empty()) {
            Some(own) => format!("{own}\n\n{}", self.text),
            None => self.text.clone(),
        };
        layer.insert(self.key.to_owned(), Value::String(text));
        Ok(layer.to_string())
    }

    /// Whether these settings of a project overrule the instructions, if the agent trusts the project.
    pub fn is_overruled_by(&self, project: &str) -> bool {
        parse(Some(project)).is_ok_and(|settings| settings.contains_key(self.key))
    }

    /// What a person should know if they do.
    pub fn overrule_warning(&self) -> String {
        format!(
            "`{}` in {} takes the place of the instructions that the agent is given, if the agent trusts the folder",
            self.key, self.project
        )
    }
}

fn parse(text: Option<&str>) -> Result<Table, InvalidSettings> {
    let parsed = text.unwrap_or_default().parse();
    parsed.map_err(|error: toml::de::Error| InvalidSettings(error.message().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        Profile {
            variable: "CODEX_HOME",
            below_home: ".codex",
            settings: "config.toml",
            chosen: None,
            link: "ostler-1.config.toml".to_owned(),
            path: "/run/7/codex-profile.toml".into(),
            key: "developer_instructions",
            text: "Call \"done\"\nwhen\u{7f} done.".to_owned(),
            project: ".codex/config.toml",
        }
    }

    #[test]
    fn instructions_of_the_users_own_come_first() {
        let ours = "Call \"done\"\nwhen\u{7f} done.";
        let own = "developer_instructions = \"Be brief.\\n\"\nmodel = \"a\"";
        let other = "developer_instructions = \"Be quick.\"\nmodel = \"b\"";
        let table = [
            (None, None, ours.to_owned(), None),
            (Some(own), None, format!("Be brief.\n\n{ours}"), None),
            (Some(own), Some("model = \"b\""), format!("Be brief.\n\n{ours}"), Some("b")),
            (Some(own), Some(other), format!("Be quick.\n\n{ours}"), Some("b")),
            (Some("developer_instructions = 7"), None, ours.to_owned(), None),
            (Some("model = "), None, ours.to_owned(), None),
        ];
        for (settings, chosen, text, model) in table {
            let content: Table = profile().content(settings, chosen).unwrap().parse().unwrap();
            assert_eq!(content.get("developer_instructions").and_then(Value::as_str), Some(text.as_str()));
            assert_eq!(content.get("model").and_then(Value::as_str), model, "{settings:?} {chosen:?}");
        }
        let refused = profile().content(None, Some("model = ")).unwrap_err().to_string();
        assert!(refused.starts_with("it is not valid TOML: "), "{refused}");
    }

    #[test]
    fn a_project_overrules_only_what_it_sets() {
        let table = [
            ("developer_instructions = \"x\"", true),
            ("model = \"x\"", false),
            ("[mcp_servers.x]\ndeveloper_instructions = \"x\"", false),
            ("developer_instructions = ", false),
            ("", false),
        ];
        for (project, want) in table {
            assert_eq!(profile().is_overruled_by(project), want, "{project}");
        }
    }
}
