//! A wall on its way to the shim: texts without a NUL, as all of a plan are.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use ostler_agent::jail::{Access, JailKind, JailPolicy, Rule};

use super::{Jail, JailNetwork};

/// How many texts come before the ports: the wall, the canary's file, its port if the network is limited, and how many
/// ports there are.
const HEAD_TEXTS: usize = 4;

/// Each rule is so many texts: its access, its path, and two more paths that may be empty.
const RULE_TEXTS: usize = 4;

impl Jail {
    /// The wall as texts.
    pub(crate) fn to_texts(&self) -> Vec<OsString> {
        let network = self.network.as_ref();
        let canary = network.map(|network| network.canary.to_string()).unwrap_or_default();
        let listen = network.map(|network| network.listen.as_slice()).unwrap_or_default();
        let mut texts = vec![self.kind.name().into(), self.policy.canary.clone().into_os_string()];
        texts.extend([canary.into(), listen.len().to_string().into()]);
        texts.extend(listen.iter().map(|address| OsString::from(address.to_string())));
        for Rule { path, access } in &self.policy.rules {
            let (name, first, second) = match access {
                Access::Read => ("read", None, None),
                Access::Write => ("write", None, None),
                Access::Substitute { source } => ("substitute", Some(source), None),
                Access::CopyOnWrite { upper, work } => ("copy-on-write", Some(upper), Some(work)),
                Access::Guarded => ("guarded", None, None),
                Access::Hidden => ("hidden", None, None),
            };
            let text = |path: Option<&PathBuf>| path.cloned().unwrap_or_default().into_os_string();
            texts.extend([name.into(), path.clone().into_os_string(), text(first), text(second)]);
        }
        texts
    }

    /// The wall that these texts are. `None` if they are none.
    pub(crate) fn from_texts(texts: &[OsString]) -> Option<Self> {
        let (head, rest) = texts.split_first_chunk::<HEAD_TEXTS>()?;
        let [kind, canary, port, count] = head;
        let (listen, rules) = rest.split_at_checked(count.to_str()?.parse().ok()?)?;
        let listen = listen.iter().map(|text| text.to_str()?.parse().ok()).collect::<Option<_>>()?;
        let network = match port.to_str()? {
            "" => None,
            port => Some(JailNetwork { listen, canary: port.parse().ok()? }),
        };
        let kind =
            [JailKind::Namespace, JailKind::Landlock].into_iter().find(|known| kind == known.name())?;
        let (rules, rest) = rules.as_chunks::<RULE_TEXTS>();
        let rules: Option<Vec<Rule>> = rules.iter().map(rule).collect();
        let policy = JailPolicy { rules: rules?, canary: canary.into() };
        rest.is_empty().then_some(Self { kind, policy, network })
    }
}

fn rule([name, path, first, second]: &[OsString; RULE_TEXTS]) -> Option<Rule> {
    let access = match OsStr::to_str(name)? {
        "read" => Access::Read,
        "write" => Access::Write,
        "substitute" => Access::Substitute { source: first.into() },
        "copy-on-write" => Access::CopyOnWrite { upper: first.into(), work: second.into() },
        "guarded" => Access::Guarded,
        "hidden" => Access::Hidden,
        _ => return None,
    };
    Some(Rule { path: path.into(), access })
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn a_wall_arrives_as_it_was_sent() {
        let odd = PathBuf::from(OsString::from_vec(b"/\xff\n ,:\\".to_vec()));
        let all = [
            Access::Read,
            Access::Write,
            Access::Substitute { source: odd.clone() },
            Access::CopyOnWrite { upper: odd.clone(), work: "/w".into() },
            Access::Guarded,
            Access::Hidden,
        ];
        let rules = all.map(|access| Rule { path: odd.clone(), access }).to_vec();
        for kind in [JailKind::Namespace, JailKind::Landlock] {
            let policy = JailPolicy { rules: rules.clone(), canary: odd.clone() };
            let listen = ["127.0.0.1:80", "[::1]:81"].map(|address| address.parse().unwrap()).into();
            let network = JailNetwork { listen, canary: "127.0.0.1:9".parse().unwrap() };
            for network in [None, Some(network)] {
                let jail = Jail { kind, policy: policy.clone(), network };
                assert_eq!(Jail::from_texts(&jail.to_texts()), Some(jail.clone()));
                let mut cut = jail.to_texts();
                cut.pop();
                assert_eq!(Jail::from_texts(&cut), None);
            }
        }
        assert_eq!(Jail::from_texts(&["bastille".into(), "/c".into()]), None);
        assert_eq!(Jail::from_texts(&[]), None);
    }
}
