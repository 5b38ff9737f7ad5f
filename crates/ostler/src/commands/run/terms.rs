//! Under which terms a run happens: what a flag says, else what held for it before, else what is configured.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_agent::budget::Budget;
use ostler_agent::completion::{FIRST_PAUSE, OnQuota, Policy};
use ostler_agent::jail::ConfigWrites;
use ostler_agent::network::NetAccess;
use ostler_agent::watchdog::{Limits, Repeats};
use ostler_process::journal::{Facts, Given};
use ostler_process::run::limits_from;

use super::args::{Args, Level};
use super::prepare::RunUsage;
use crate::config::{Config, ProbeAt, RunSection, Span, TerminalSize};
use crate::jailing::JailTerms;

/// The default of `--max-resumes`.
pub(crate) const MAX_RESUMES: u32 = 3;

/// The default of `--permissions`.
pub(crate) const DEFAULT_LEVEL: Level = Level::Edits;

/// The terms of a run.
pub(super) struct Terms {
    pub(super) permissions: Level,
    pub(super) allow: Vec<String>,
    pub(super) jail: JailTerms,
    pub(super) system_prompt: Option<String>,
    pub(super) agent_args: Vec<String>,
    /// What is probed instead of the agent's provider.
    pub(super) probe: Option<ProbeAt>,
    /// Names of the variables that are set for it.
    pub(super) env: Vec<String>,
    pub(super) policy: Policy,
    pub(super) budget: Budget,
    /// What the host tries itself when the agent says that it is done.
    pub(super) checks: Vec<String>,
    /// What is wanted of a bridge; nothing, if none is wanted.
    pub(super) bridge: Option<BridgeTerms>,
    /// How large a terminal is, if it is not as usual.
    pub(super) terminal_size: Option<TerminalSize>,
}

/// What is wanted of a bridge.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct BridgeTerms {
    pub(super) require: Vec<String>,
    pub(super) capabilities: Option<String>,
    pub(super) mcp: Vec<String>,
    pub(super) export: Option<PathBuf>,
}

impl BridgeTerms {
    /// A run that had none has none when it is gone on with, unless something is asked for that needs one.
    fn of(args: &Args, earlier: Option<&Given>, set: &RunSection, cwd: &Path) -> Option<Self> {
        let is_wanted = match earlier {
            Some(given) => given.bridge,
            None => set.bridge.is_none_or(|is| is.0),
        };
        let is_needed = !args.require_artifact.is_empty()
            || !args.mcp.is_empty()
            || args.capabilities.is_some()
            || args.export_artifacts.is_some();
        if args.no_bridge || !(is_wanted || is_needed) {
            return None;
        }
        let given = earlier.cloned().unwrap_or_default();
        let several = |flag: &Vec<String>, before| if flag.is_empty() { before } else { flag.clone() };
        Some(Self {
            require: several(&args.require_artifact, given.require_artifacts),
            capabilities: args.capabilities.clone().or(given.capabilities),
            mcp: several(&args.mcp, given.mcp),
            export: args.export_artifacts.as_ref().map(|path| cwd.join(path)).or(given.export_artifacts),
        })
    }
}

impl Terms {
    /// For a new run, or for one that is gone on with.
    pub(super) fn of(
        args: &Args,
        earlier: Option<&Facts>,
        set: &Config,
        cwd: &Path,
    ) -> Result<Self, RunUsage> {
        let (probe, jail, set) = (set.network.probe.clone(), &set.jail, &set.run);
        if let Some(facts) = earlier.filter(|facts| args.no_bridge && facts.given.bridge) {
            return Err(RunUsage::Bridged { run: facts.run.clone() });
        }
        let bridge = BridgeTerms::of(args, earlier.map(|facts| &facts.given), set, cwd);
        let given = earlier.map(|facts| facts.given.clone());
        // Once a run has begun, what is configured later does not change it.
        let (set, given) = match given {
            Some(given) => (&RunSection::default(), given),
            None => (set, Given::default()),
        };
        let env: Vec<String> = args.env.iter().map(|(name, _)| name.clone()).collect();
        if let Some(missing) = given.env.iter().find(|name| !env.contains(name)) {
            return Err(RunUsage::Variable { name: missing.clone() });
        }
        let system_prompt = match &args.system_prompt_file {
            Some(file) => Some(
                fs::read_to_string(file)
                    .map_err(|source| RunUsage::Prompt { from: file.display().to_string(), source })?,
            ),
            None => given.system_prompt,
        };
        let permissions = earlier.and_then(|facts| Level::named(&facts.permissions)).or(set.permissions);
        let permissions = args.permissions.or(permissions).unwrap_or(DEFAULT_LEVEL);
        let is_unjailed = args.no_jail || permissions == Level::All;
        if let Some(net) = args.net.as_ref().filter(|net| is_unjailed && **net != NetAccess::All) {
            return Err(RunUsage::NetWithoutJail { net: net.to_string() });
        }
        let net = match earlier {
            Some(_) => given.net.as_ref().and_then(|net| net.parse().ok()),
            None => jail.net.clone().map(|net| net.0),
        };
        let max_resumes = set.max_resumes.map(|count| count.0);
        let waits = args.wait_for_quota || given.wait_for_quota || set.wait_for_quota.is_some_and(|is| is.0);
        Ok(Self {
            permissions,
            allow: if args.allow.is_empty() { given.allow } else { args.allow.clone() },
            jail: JailTerms {
                is_off: args.no_jail || given.no_jail,
                config_writes: match args.allow_config_writes || given.allow_config_writes {
                    true => ConfigWrites::Allowed,
                    false => ConfigWrites::Guarded,
                },
                read: jail.read.resolve(),
                hide: jail.hide.resolve(),
                net: args.net.clone().or(net).unwrap_or_default(),
            },
            system_prompt,
            probe,
            env,
            agent_args: if args.agent_arg.is_empty() { given.agent_args } else { args.agent_arg.clone() },
            policy: Policy {
                max_resumes: args.max_resumes.or(given.max_resumes).or(max_resumes).unwrap_or(MAX_RESUMES),
                resume_pause: given
                    .resume_pause_ms
                    .map(Duration::from_millis)
                    .or(set.resume_pause.map(|span| span.0))
                    .unwrap_or(FIRST_PAUSE),
                quota: if waits { OnQuota::Wait } else { OnQuota::Report },
                limits: limits(args, earlier, set),
            },
            budget: Budget {
                max_cost: args.max_cost.or(given.max_cost).or(set.max_cost.map(|money| money.0)),
                max_tokens: args
                    .max_tokens
                    .or(given.max_tokens)
                    .or(set.max_tokens.map(|count| count.0.into())),
                max_turns: args.max_turns.or(given.max_turns).or(set.max_turns.map(|count| count.0)),
            },
            checks: if args.check.is_empty() { given.checks } else { args.check.clone() },
            bridge,
            terminal_size: set.terminal_size,
        })
    }

    /// What of it is kept with the run.
    pub(super) fn given(&self, model: Option<&str>) -> Given {
        let bridge = self.bridge.clone();
        let is_bridged = bridge.is_some();
        let BridgeTerms { require, capabilities, mcp, export } = bridge.unwrap_or_default();
        Given {
            bridge: is_bridged,
            require_artifacts: require,
            capabilities,
            mcp,
            export_artifacts: export,
            checks: self.checks.clone(),
            model: model.map(str::to_owned),
            allow: self.allow.clone(),
            no_jail: self.jail.is_off,
            allow_config_writes: self.jail.config_writes == ConfigWrites::Allowed,
            net: Some(self.jail.net.to_string()),
            system_prompt: self.system_prompt.clone(),
            agent_args: self.agent_args.clone(),
            env: self.env.clone(),
            max_resumes: Some(self.policy.max_resumes),
            resume_pause_ms: u64::try_from(self.policy.resume_pause.as_millis()).ok(),
            wait_for_quota: self.policy.quota == OnQuota::Wait,
            max_cost: self.budget.max_cost,
            max_tokens: self.budget.max_tokens,
            max_turns: self.budget.max_turns,
        }
    }
}

fn limits(args: &Args, earlier: Option<&Facts>, set: &RunSection) -> Limits {
    let before = earlier.map_or_else(Limits::default, |facts| limits_from(&facts.limits));
    let of = |flag: Option<Duration>, set: Option<Span>, before: Duration| {
        flag.or(set.map(|span| span.0)).unwrap_or(before)
    };
    let stop = args.repeats.or(set.r#loop.map(|count| count.0)).unwrap_or(before.repeats.stop);
    Limits {
        start: of(args.start, set.start, before.start),
        silence: of(args.silence, set.silence, before.silence),
        open_call: of(args.open_call, set.open_call, before.open_call),
        repeats: Repeats { stop, warn: before.repeats.warn.min(stop), ..before.repeats },
        ceiling: of(args.ceiling, set.ceiling, before.ceiling),
        max_wait: of(args.max_wait, set.max_wait, before.max_wait),
        ..before
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(words: &[&str]) -> Args {
        Line::try_parse_from([&["run"], words].concat()).unwrap().args
    }

    fn facts() -> Facts {
        serde_json::from_value(json!({
            "v": 1, "run": "r", "agent": "codex", "engine": "stream", "program": "/p", "agent_version": null,
            "cwd": "/w", "began_at": 0, "prompt": "x", "rehearse": null, "permissions": "deny",
            "limits": {"silence_ms": 5_000, "loop": 7},
            "given": {"max_turns": 2, "wait_for_quota": true, "agent_args": ["--old"]},
        }))
        .unwrap()
    }

    #[test]
    fn a_flag_outranks_what_was_before_and_that_what_is_configured() {
        let set: Config = toml::from_str("[run]\nsilence = \"9s\"\nceiling = \"9s\"\nloop = 3").unwrap();
        let of = |words: &[&str], earlier: Option<&Facts>| {
            let terms = Terms::of(&args(words), earlier, &set, Path::new("/w")).unwrap();
            let limits = terms.policy.limits;
            (limits.silence.as_secs(), limits.ceiling.as_secs(), limits.repeats.stop, terms.budget.max_turns)
        };
        let (hour, facts) = (3_600, facts());
        assert_eq!(of(&["x"], None), (9, 9, 3, None));
        assert_eq!(of(&["--silence", "1s", "--loop", "4", "x"], None), (1, 9, 4, None));
        assert_eq!(of(&["--resume", "r"], Some(&facts)), (5, hour, 7, Some(2)));
        assert_eq!(of(&["--resume", "r", "--max-turns", "8"], Some(&facts)), (5, hour, 7, Some(8)));
    }

    #[test]
    fn a_bridge_is_there_unless_told_otherwise_or_needed() {
        let off: Config = toml::from_str("[run]\nbridge = false").unwrap();
        let on = Config::default();
        let of = |words: &[&str], earlier: Option<&Facts>, set: &Config| {
            Terms::of(&args(words), earlier, set, Path::new("/w")).unwrap().bridge
        };
        assert_eq!(of(&["x"], None, &on), Some(BridgeTerms::default()));
        assert_eq!(of(&["--no-bridge", "x"], None, &on), None);
        assert_eq!(of(&["x"], None, &off), None);
        let needed =
            of(&["--require-artifact", "plan", "--export-artifacts", "out", "x"], None, &off).unwrap();
        assert_eq!(needed.export.as_deref(), Some(Path::new("/w/out")));
        let mut facts = facts();
        assert_eq!(of(&["--resume", "r"], Some(&facts), &on), None, "an old run had none");
        facts.given = Terms {
            bridge: Some(needed.clone()),
            ..Terms::of(&args(&["x"]), None, &on, Path::new("/w")).unwrap()
        }
        .given(None);
        assert_eq!(of(&["--resume", "r"], Some(&facts), &off), Some(needed));
    }

    #[test]
    fn what_a_run_was_given_it_is_given_again() {
        let facts = facts();
        let terms =
            Terms::of(&args(&["--resume", "r"]), Some(&facts), &Config::default(), Path::new("/w")).unwrap();
        assert_eq!(
            (terms.permissions, terms.agent_args.as_slice()),
            (Level::Deny, &["--old".to_owned()][..])
        );
        assert_eq!(terms.policy.quota, OnQuota::Wait);
        let again = Given {
            net: Some("provider".to_owned()),
            max_resumes: Some(MAX_RESUMES),
            resume_pause_ms: Some(10_000),
            ..facts.given.clone()
        };
        assert_eq!(terms.given(None), again);
        let widened = args(&["--resume", "r", "--permissions", "all", "--agent-arg", "--new"]);
        let terms = Terms::of(&widened, Some(&facts), &Config::default(), Path::new("/w")).unwrap();
        assert_eq!((terms.permissions, terms.agent_args.as_slice()), (Level::All, &["--new".to_owned()][..]));
    }

    #[test]
    fn the_first_pause_is_set_once_and_kept_with_the_run() {
        let set: Config = toml::from_str("[run]\nresume_pause = \"2s\"").unwrap();
        let of = |words: &[&str], earlier: Option<&Facts>| {
            Terms::of(&args(words), earlier, &set, Path::new("/w")).unwrap()
        };
        assert_eq!(of(&["x"], None).policy.resume_pause, Duration::from_secs(2));
        let mut facts = facts();
        let again = of(&["--resume", "r"], Some(&facts)).policy.resume_pause;
        assert_eq!(again, FIRST_PAUSE, "a run of before this could be set");
        facts.given = of(&["x"], None).given(None);
        assert_eq!(of(&["--resume", "r"], Some(&facts)).policy.resume_pause, Duration::from_secs(2));
    }

    #[test]
    fn a_run_that_has_a_bridge_cannot_be_gone_on_with_without() {
        let mut facts = facts();
        let resumed = args(&["--resume", "r", "--no-bridge"]);
        let of = |facts: &Facts| Terms::of(&resumed, Some(facts), &Config::default(), Path::new("/w"));
        assert!(of(&facts).is_ok_and(|terms| terms.bridge.is_none()));
        facts.given.bridge = true;
        assert!(matches!(of(&facts), Err(RunUsage::Bridged { .. })));
    }
}
