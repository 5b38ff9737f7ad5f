//! What an agent may leave behind. Every script tells the number of each process that must die, one a line.

use ostler_process::contain::Tier;

pub(super) struct Hostile {
    pub(super) name: &'static str,
    /// Run by a shell; goes on with what the test appends.
    pub(super) script: &'static str,
    /// How many numbers are told before the rest of the test.
    pub(super) told: usize,
    has_mark: bool,
}

impl Hostile {
    /// Whether it can be found when the guardian was killed. Without a guardian nobody inherits orphans, so in the
    /// last tier only the mark is left, and a process that threw that away too is not found.
    pub(super) fn is_found_without_a_guardian(&self, tier: Tier) -> bool {
        self.has_mark || tier != Tier::Sweep
    }
}

pub(super) const HOSTILE: &[Hostile] = &[
    Hostile { name: "nothing", script: "", told: 0, has_mark: true },
    Hostile { name: "a plain child", script: "sh -c 'echo $$; exec sleep 600' &", told: 1, has_mark: true },
    Hostile {
        name: "a setsid grandchild",
        script: "sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 600\" & wait' &",
        told: 1,
        has_mark: true,
    },
    Hostile {
        name: "a double fork",
        script: "( ( sh -c 'echo $$; exec sleep 600' & ) & )",
        told: 1,
        has_mark: true,
    },
    Hostile {
        name: "a daemon",
        script: "( setsid sh -c '( sh -c \"echo \\$\\$; exec sleep 600 </dev/null >/dev/null 2>&1\" & )' & )",
        told: 1,
        has_mark: true,
    },
    Hostile {
        name: "one that ignores every signal it can",
        script: "setsid sh -c 'trap \"\" TERM INT HUP QUIT; echo $$; while :; do sleep 600; done' &",
        told: 1,
        has_mark: true,
    },
    Hostile {
        name: "a daemon that threw its environment away",
        script: "( setsid env -i /bin/sh -c '( /bin/sh -c \"echo \\$\\$; exec /bin/sleep 600\" & )' & )",
        told: 1,
        has_mark: false,
    },
    Hostile {
        name: "fifty",
        script: "i=0; while [ $i -lt 50 ]; do setsid sh -c 'echo $$; exec sleep 600' & i=$((i+1)); done",
        told: 50,
        has_mark: true,
    },
    // Two hundred and more, still being born when the end comes: only the first are waited for.
    Hostile {
        name: "a bounded fork bomb",
        script: "export B='echo $$; if [ $1 -gt 0 ]; then n=$(($1-1)); setsid sh -c \"$B\" b $n & \
                 sh -c \"$B\" b $n & fi; exec sleep 600'; sh -c \"$B\" b 7 &",
        told: 20,
        has_mark: true,
    },
];
