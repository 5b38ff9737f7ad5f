//! What Claude Code reaches in the network. Facts: observed on 2.1.197 and 2.1.325.

use super::provider::{DEFAULT, PROXIES, Settings};
use crate::endpoint::{Configuration, Endpoint};
use crate::network::{AgentNetwork, HostRule};

/// Where it refreshes a sign-in.
const SIGN_IN: [&str; 2] = ["platform.claude.com", "console.anthropic.com"];

/// It asks these when it starts: telemetry, updates and flags. It asks the first one with any other provider, too.
const DISPENSABLE: &[&str] = &[
    "api.anthropic.com",
    "statsig.anthropic.com",
    "http-intake.logs.us5.datadoghq.com",
    "downloads.claude.ai",
    "storage.googleapis.com",
];

/// Another cloud that Claude Code knows.
struct Cloud {
    /// Chooses it.
    variable: &'static str,
    /// Name a part of its addresses, the first that is set; else it is the last word.
    parts: (&'static [&'static str], &'static str),
    /// The hosts of its API and of its sign-in. All of the cloud would be too much: anybody can store things there.
    hosts: &'static [&'static str],
}

const AWS_REGION: (&[&str], &str) = (&["AWS_REGION", "AWS_DEFAULT_REGION"], "us-east-1");

const CLOUDS: [Cloud; 5] = [
    Cloud { variable: "CLAUDE_CODE_USE_BEDROCK", parts: AWS_REGION, hosts: AWS_HOSTS },
    Cloud { variable: "CLAUDE_CODE_USE_ANTHROPIC_AWS", parts: AWS_REGION, hosts: AWS_HOSTS },
    Cloud { variable: "CLAUDE_CODE_USE_MANTLE", parts: AWS_REGION, hosts: AWS_HOSTS },
    Cloud {
        variable: "CLAUDE_CODE_USE_VERTEX",
        parts: (&["CLOUD_ML_REGION"], "us-east5"),
        hosts: &[
            "{}-aiplatform.googleapis.com",
            "aiplatform.googleapis.com",
            "oauth2.googleapis.com",
            "sts.googleapis.com",
            "iamcredentials.googleapis.com",
        ],
    },
    Cloud {
        variable: "CLAUDE_CODE_USE_FOUNDRY",
        parts: (&["ANTHROPIC_FOUNDRY_RESOURCE"], "unset"),
        hosts: &["{}.services.ai.azure.com", "login.microsoftonline.com"],
    },
];

const AWS_HOSTS: &[&str] = &[
    "bedrock-runtime.{}.amazonaws.com",
    "bedrock.{}.amazonaws.com",
    "bedrock-mantle.{}.api.aws",
    "aws-external-anthropic.{}.api.aws",
    "sts.{}.amazonaws.com",
    "oidc.{}.amazonaws.com",
    "portal.sso.{}.amazonaws.com",
];

/// Addresses that replace those of other clouds.
const CLOUD_ADDRESSES: [&str; 3] =
    ["ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_FOUNDRY_BASE_URL"];

/// What it reaches, as it is configured.
pub(super) fn network(configuration: &Configuration<'_>) -> AgentNetwork {
    let mut network = AgentNetwork { dispensable: DISPENSABLE, ..AgentNetwork::default() };
    network.hosts.extend(SIGN_IN.map(HostRule::host));
    let Some(settings) = Settings::read(configuration) else {
        network.endpoints.extend(Endpoint::of_url(DEFAULT));
        return network;
    };
    let value = |name: &str| settings.variable(name).map(|(value, _)| value);
    let url = value("ANTHROPIC_BASE_URL").unwrap_or_else(|| DEFAULT.to_owned());
    let others = CLOUD_ADDRESSES.into_iter().filter_map(value);
    network.endpoints = std::iter::once(url).chain(others).filter_map(|url| Endpoint::of_url(&url)).collect();
    for Cloud { variable, parts: (names, default), hosts } in CLOUDS {
        if value(variable).is_some() {
            let part = names.iter().find_map(|name| value(name)).unwrap_or_else(|| default.to_owned());
            network.hosts.extend(hosts.iter().map(|host| HostRule::host(&host.replace("{}", &part))));
        }
    }
    let own_proxy = PROXIES.into_iter().find_map(|name| settings.in_file(name).map(|file| (name, file)));
    network.obstacle = own_proxy.map(|(name, file)| {
        let file = file.display();
        format!(
            "Claude Code uses the proxy that {file} names ({name}), which cannot be reached from the jail: set {name} \
             where Ostler is started instead, or permit everything with `--net all`"
        )
    });
    network
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::testing::configured;
    use crate::network::{NetAccess, NetPolicy};

    fn hosts(variables: &[(&str, &str)], files: &[(&str, &str)], ask: &str) -> bool {
        let network = configured(variables, files, network);
        let policy = NetPolicy::decide(&NetAccess::Provider, &network).unwrap();
        policy.find_permission(&Endpoint::parse(ask).unwrap()).is_some()
    }

    #[test]
    fn it_reaches_the_provider_that_is_configured() {
        assert!(hosts(&[], &[], "api.anthropic.com:443"));
        assert!(hosts(&[], &[], "platform.claude.com:443"));
        let own = [("ANTHROPIC_BASE_URL", "https://g.example:8443/x")];
        assert!(hosts(&own, &[], "g.example:8443"));
        assert!(!hosts(&own, &[], "api.anthropic.com:443"));
        let settings = [(
            "/h/.claude/settings.json",
            r#"{"env": {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-central-1"}}"#,
        )];
        assert!(hosts(&[], &settings, "bedrock-runtime.eu-central-1.amazonaws.com:443"));
        assert!(!hosts(&[], &settings, "s3.eu-central-1.amazonaws.com:443"));
        assert!(!hosts(&[], &[], "bedrock-runtime.eu-central-1.amazonaws.com:443"));
    }

    #[test]
    fn a_proxy_in_its_settings_is_an_obstacle() {
        let settings = [("/h/.claude/settings.json", r#"{"env": {"HTTPS_PROXY": "http://p:1"}}"#)];
        let obstacle = configured(&[], &settings, network).obstacle.unwrap();
        assert!(obstacle.contains("/h/.claude/settings.json names (HTTPS_PROXY)"), "{obstacle}");
        assert_eq!(configured(&[("HTTPS_PROXY", "http://p:1")], &[], network).obstacle, None);
    }
}
