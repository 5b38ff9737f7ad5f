use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::canonical::read;
use crate::fingerprint::hash;

fn terms(tenant: &str) -> Terms {
    Terms {
        kind: crate::access::KeyKind::Owner,
        memory: crate::access::KeyMemory::Off,
        tenant: tenant.to_owned(),
        agent: "claude-headless".to_owned(),
        engine: Engine::Stream,
        model: None,
        workspace: Place::Own,
        system_prompt: None,
        permissions: Permissions::Deny,
        asks_client: false,
        allow: Vec::new(),
        tools: String::new(),
    }
}

/// What is known after one was asked, and answered.
fn known(talk: &str) -> Known {
    let messages = [json!({"role": "user", "content": talk}), json!({"role": "assistant", "content": "ok"})];
    Known::of(&read(&messages).unwrap(), |_| false, hash)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn idle(seat: u64, tenant: &str, talk: &str, since: u64) -> Live {
    let doing = Doing::Idle { known: known(talk), since: seconds(since) };
    Live { seat: Seat(seat), terms: terms(tenant), doing, memory: 1, is_held: false }
}

fn busy(seat: u64, tenant: &str) -> Live {
    Live { seat: Seat(seat), terms: terms(tenant), doing: Doing::Busy, memory: 1, is_held: false }
}

fn spare(seat: u64, tenant: &str, since: u64) -> Live {
    let doing = Doing::Spare { since: seconds(since) };
    Live { seat: Seat(seat), terms: terms(tenant), doing, memory: 1, is_held: false }
}

/// Few, so that they are reached.
fn limits() -> Limits {
    Limits {
        live: 3,
        live_of_tenant: 2,
        idle: 2,
        rest: seconds(60),
        called: seconds(20),
        memory: 100,
        expected: 10,
        waiting: 2,
        waiting_of_tenant: 1,
    }
}

fn pool<'a>(live: &'a [Live], waiting: &'a [Waiting]) -> Pool<'a> {
    Pool { live, waiting, called: &[], limits: limits(), doors: Doors::Open }
}

fn waits(tenants: &[&str]) -> Vec<Waiting> {
    tenants.iter().map(|tenant| Waiting { tenant: (*tenant).to_owned() }).collect()
}

fn decided(live: &[Live], waiting: &[&str], tenant: &str, talk: Option<&str>, queued: Queued) -> Decision {
    let terms = terms(tenant);
    let wanted = Wanted { terms: &terms, prior: talk.map(known), queued };
    decide(&pool(live, &waits(waiting)), &wanted)
}

fn spawn(evict: &[u64], opening: Opening) -> Decision {
    Decision::Spawn { evict: evict.iter().map(|seat| Seat(*seat)).collect(), opening }
}

#[test]
fn the_table() {
    use Opening::{Fresh, Inject};
    use Queued::{Next, Not};
    let full = [busy(1, "a"), busy(2, "b"), busy(3, "c")];
    type Row<'a> = (&'a str, Vec<Live>, &'a [&'a str], Option<&'a str>, Queued, Decision);
    let table: Vec<Row<'_>> = vec![
        ("nothing is there", vec![], &[], None, Not, spawn(&[], Fresh)),
        ("nothing knows it", vec![], &[], Some("x"), Not, spawn(&[], Inject)),
        ("one knows it", vec![idle(1, "a", "x", 5)], &[], Some("x"), Not, Decision::Reuse(Seat(1))),
        (
            "two know it: the one used last",
            vec![idle(1, "a", "x", 5), idle(2, "a", "x", 9)],
            &[],
            Some("x"),
            Not,
            Decision::Reuse(Seat(2)),
        ),
        ("another's knows it", vec![idle(1, "b", "x", 5)], &[], Some("x"), Not, spawn(&[], Inject)),
        ("it is edited", vec![idle(1, "a", "x", 5)], &[], Some("y"), Not, spawn(&[], Inject)),
        ("a new one leaves it alone", vec![idle(1, "a", "x", 5)], &[], None, Not, spawn(&[], Fresh)),
        ("a spare", vec![spare(1, "a", 5)], &[], None, Not, Decision::Spare(Seat(1))),
        ("another's spare", vec![spare(1, "b", 5)], &[], None, Not, spawn(&[], Fresh)),
        ("a spare knows nothing", vec![spare(1, "a", 5)], &[], Some("x"), Not, spawn(&[], Inject)),
        (
            "full: the one that waited longest goes",
            vec![idle(1, "b", "x", 7), idle(2, "c", "y", 5), busy(3, "c")],
            &[],
            None,
            Not,
            spawn(&[2], Fresh),
        ),
        (
            "too many of the tenant: one of his own goes",
            vec![idle(1, "b", "x", 1), busy(2, "a"), idle(3, "a", "y", 5)],
            &[],
            None,
            Not,
            // Full for all as well: the first that goes makes room for all but the tenant.
            spawn(&[1, 3], Fresh),
        ),
        ("all are at work", full.to_vec(), &[], None, Not, Decision::Queue),
        ("too many wait", full.to_vec(), &["b", "c"], None, Not, Decision::Refuse(Refused::Full)),
        (
            "too many of the tenant wait",
            full.to_vec(),
            &["a"],
            None,
            Not,
            Decision::Refuse(Refused::FullForTenant),
        ),
        ("others were here before", vec![], &["b"], None, Not, Decision::Queue),
        ("its turn has come", vec![], &["b"], None, Next, spawn(&[], Fresh)),
        (
            "nobody else can use it",
            vec![idle(1, "a", "x", 5)],
            &["b"],
            Some("x"),
            Not,
            Decision::Reuse(Seat(1)),
        ),
        ("its turn, and no room", full.to_vec(), &["b", "c"], None, Next, Decision::Queue),
    ];
    for (what, live, waiting, talk, queued, want) in table {
        assert_eq!(decided(&live, waiting, "a", talk, queued), want, "{what}");
    }
}

/// A tenant whose conversations go on and on would otherwise keep its sessions for ever.
#[test]
fn one_tenant_has_its_share_while_others_wait() {
    // Three sessions; `a` has one that waits for its conversation, and so many at work.
    let decided = |at_work: u64, waiting: &[&str], called: &[&str], queued: Queued| {
        let mut live = vec![idle(1, "a", "x", 5)];
        live.extend((0..at_work).map(|seat| busy(2 + seat, "a")));
        let (terms, waiting, called) = (terms("a"), waits(waiting), waits(called));
        let limits = Limits { waiting: 9, waiting_of_tenant: 9, ..limits() };
        let pool = Pool { called: &called, limits, ..pool(&live, &waiting) };
        decide(&pool, &Wanted { terms: &terms, prior: Some(known("x")), queued })
    };
    let reused = Decision::Reuse(Seat(1));
    let table = [
        ("nobody else waits", decided(2, &[], &[], Queued::Not), reused.clone()),
        ("only its own wait", decided(2, &["a"], &[], Queued::Not), reused.clone()),
        ("it has less than its share", decided(0, &["b"], &[], Queued::Not), reused.clone()),
        ("it has its share, and another waits", decided(1, &["b"], &[], Queued::Not), Decision::Queue),
        (
            "the other was called, and has not looked yet",
            decided(1, &[], &["b"], Queued::Not),
            Decision::Queue,
        ),
        ("its turn has come", decided(1, &["b"], &[], Queued::Next), reused),
    ];
    for (what, decided, want) in table {
        assert_eq!(decided, want, "{what}");
    }
}

#[test]
fn what_is_free_is_theirs_who_were_called() {
    let (terms, called) = (terms("a"), waits(&["b"]));
    let wanted = Wanted { terms: &terms, prior: None, queued: Queued::Not };
    let free = [idle(1, "c", "x", 5), busy(2, "c"), busy(3, "c")];
    let pool = Pool { called: &called, ..pool(&free, &[]) };
    assert_eq!(decide(&pool, &wanted), Decision::Queue);
    assert_eq!(decide(&pool, &Wanted { queued: Queued::Next, ..wanted }), spawn(&[1], Opening::Fresh));
}

#[test]
fn every_term_counts() {
    let live = [idle(1, "a", "x", 5)];
    let base = terms("a");
    let others = [
        Terms { tenant: "b".to_owned(), ..base.clone() },
        Terms { agent: "codex".to_owned(), ..base.clone() },
        Terms { engine: Engine::Terminal, ..base.clone() },
        Terms { model: Some("m".to_owned()), ..base.clone() },
        Terms { workspace: Place::Folder(PathBuf::from("/srv")), ..base.clone() },
        Terms { system_prompt: Some("s".to_owned()), ..base.clone() },
        Terms { permissions: Permissions::All, ..base.clone() },
        Terms { asks_client: true, ..base.clone() },
        Terms { allow: vec!["Bash".to_owned()], ..base.clone() },
        Terms { tools: "[]".to_owned(), ..base },
    ];
    for terms in others {
        let wanted = Wanted { terms: &terms, prior: Some(known("x")), queued: Queued::Not };
        assert_eq!(decide(&pool(&live, &[]), &wanted), spawn(&[], Opening::Inject), "{terms:?}");
    }
}

#[test]
fn nobody_comes_in_while_it_closes() {
    let (live, terms) = ([idle(1, "a", "x", 5), busy(2, "a")], terms("a"));
    let closing = Pool { doors: Doors::Closing, ..pool(&live, &[]) };
    let wanted = Wanted { terms: &terms, prior: Some(known("x")), queued: Queued::Next };
    assert_eq!(decide(&closing, &wanted), Decision::Refuse(Refused::Closing));
    assert_eq!(sweep(&closing, seconds(6)), [Seat(1)]);
    assert_eq!(missing_spares(&closing, &terms, 1), 0);
}

#[test]
fn memory_is_a_limit_too() {
    let heavy = |seat, since| Live { memory: 45, ..idle(seat, "b", "x", since) };
    let live = [heavy(1, 9), heavy(2, 3)];
    assert_eq!(decided(&live, &[], "a", None, Queued::Not), spawn(&[], Opening::Fresh));
    let live = [heavy(1, 9), Live { memory: 46, ..heavy(2, 3) }];
    assert_eq!(decided(&live, &[], "a", None, Queued::Not), spawn(&[2], Opening::Fresh));
    let live = [Live { memory: 200, ..busy(1, "b") }];
    assert_eq!(decided(&live, &[], "a", None, Queued::Not), Decision::Queue);
    // A ceiling below what one takes does not mean none.
    let (terms, low) = (terms("a"), Limits { memory: 5, ..limits() });
    let wanted = Wanted { terms: &terms, prior: None, queued: Queued::Not };
    assert_eq!(decide(&Pool { limits: low, ..pool(&[], &[]) }, &wanted), spawn(&[], Opening::Fresh));
}

#[test]
fn what_a_person_sits_at_goes_for_nobody() {
    let held = |seat, since| Live { is_held: true, ..idle(seat, "b", "x", since) };
    let full = |live: &[Live]| {
        let limits = Limits { live: 2, idle: 1, ..limits() };
        let terms = terms("a");
        let wanted = Wanted { terms: &terms, prior: None, queued: Queued::Not };
        let pool = Pool { limits, ..pool(live, &[]) };
        (decide(&pool, &wanted), sweep(&pool, seconds(500)))
    };
    let free = idle(2, "b", "y", 9);
    assert_eq!(full(&[held(1, 1), free.clone()]), (spawn(&[2], Opening::Fresh), vec![Seat(2)]));
    assert_eq!(full(&[held(1, 1), held(2, 9)]), (Decision::Queue, vec![]));
    // Only when all have to go.
    let live = [held(1, 1), free];
    let closing = Pool { doors: Doors::Closing, ..pool(&live, &[]) };
    assert_eq!(sweep(&closing, seconds(9)), [Seat(1), Seat(2)]);
}

#[test]
fn what_waits_too_long_goes() {
    let live = [idle(1, "a", "x", 10), busy(2, "a"), spare(3, "a", 30)];
    let swept = |now| sweep(&pool(&live, &[]), seconds(now));
    assert_eq!(swept(69), []);
    assert_eq!(swept(70), [Seat(1)]);
    assert_eq!(swept(90), [Seat(1), Seat(3)]);
    assert_eq!(wake_at(&pool(&live, &[])), Some(seconds(70)));
    assert_eq!(wake_at(&pool(&live[1..2], &[])), None);
    let many = [idle(1, "a", "x", 12), idle(2, "b", "x", 11), idle(3, "c", "x", 13)];
    assert_eq!(sweep(&pool(&many, &[]), seconds(14)), [Seat(2)]);
    let heavy = [Live { memory: 90, ..idle(1, "a", "x", 10) }, Live { memory: 90, ..busy(2, "a") }];
    assert_eq!(sweep(&pool(&heavy, &[]), seconds(11)), [Seat(1)]);
}

#[test]
fn calls_are_waited_for_less_long() {
    let called =
        |since| Live { doing: Doing::Called { known: known("x"), since: seconds(since) }, ..busy(1, "a") };
    let live = [called(10)];
    assert_eq!(wake_at(&pool(&live, &[])), Some(seconds(30)));
    assert_eq!(sweep(&pool(&live, &[]), seconds(29)), []);
    assert_eq!(sweep(&pool(&live, &[]), seconds(30)), [Seat(1)]);
    assert_eq!(decided(&live, &[], "a", Some("x"), Queued::Not), Decision::Reuse(Seat(1)));
    assert_eq!(decided(&live, &[], "a", None, Queued::Not), spawn(&[], Opening::Fresh));
}

#[test]
fn spares_take_nobodys_place() {
    let ours = terms("a");
    let missing = |live: &[Live], waiting: &[&str]| missing_spares(&pool(live, &waits(waiting)), &ours, 2);
    assert_eq!(missing(&[], &[]), 2);
    assert_eq!(missing(&[spare(1, "a", 0)], &[]), 1);
    assert_eq!(missing(&[busy(1, "a")], &[]), 1, "two of a tenant");
    assert_eq!(missing(&[busy(1, "b"), busy(2, "b")], &[]), 1, "three in all");
    assert_eq!(missing(&[idle(1, "b", "x", 0), idle(2, "b", "y", 0)], &[]), 0, "two may rest");
    assert_eq!(missing(&[], &["b"]), 0);
}

#[test]
fn those_with_little_are_served_first() {
    let live = [busy(1, "a"), busy(2, "a"), busy(3, "b")];
    let next = |waiting: &[&str]| served_next(&pool(&live, &waits(waiting)));
    assert_eq!(next(&[]), None);
    assert_eq!(next(&["a", "b", "c"]), Some(2));
    assert_eq!(next(&["a", "b", "b"]), Some(1));
}

/// A pool that does as it is told.
#[derive(Default)]
struct Toy {
    live: Vec<Live>,
    waiting: Vec<Waiting>,
    next: u64,
    now: u64,
}

const TENANTS: [&str; 3] = ["a", "b", "c"];
const TALKS: [&str; 3] = ["x", "y", "z"];

impl Toy {
    fn pool(&self) -> Pool<'_> {
        pool(&self.live, &self.waiting)
    }

    fn ask(&mut self, tenant: &str, talk: Option<&str>) -> Result<(), TestCaseError> {
        let terms = terms(tenant);
        let wanted = Wanted { terms: &terms, prior: talk.map(known), queued: Queued::Not };
        let decision = decide(&self.pool(), &wanted);
        let find = |seat: Seat| self.live.iter().position(|live| live.seat == seat);
        match decision {
            Decision::Reuse(seat) | Decision::Spare(seat) => {
                let at = find(seat).ok_or_else(|| TestCaseError::fail("it is not there"))?;
                prop_assert_eq!(&self.live[at].terms, &terms);
                match self.live[at].doing {
                    Doing::Idle { known: its, .. } | Doing::Called { known: its, .. } => {
                        prop_assert_eq!(Some(its), talk.map(known));
                    }
                    Doing::Spare { .. } => prop_assert_eq!(talk, None),
                    Doing::Busy => prop_assert!(false, "it is at work"),
                }
                self.live[at].doing = Doing::Busy;
            }
            Decision::Spawn { evict, .. } => {
                let fits = |live: &Live| matches!(live.doing, Doing::Idle { known: its, .. } | Doing::Called { known: its, .. } if Some(its) == talk.map(known));
                prop_assert!(!self.live.iter().any(|live| live.terms == terms && fits(live)), "one knew it");
                self.evict(&evict)?;
                self.next += 1;
                self.live.push(busy(self.next, tenant));
            }
            Decision::Queue => self.waiting.push(Waiting { tenant: tenant.to_owned() }),
            Decision::Refuse(_) => {
                prop_assert!(!self.waiting.is_empty(), "nobody is sent away from an empty queue");
            }
        }
        Ok(())
    }

    fn evict(&mut self, seats: &[Seat]) -> Result<(), TestCaseError> {
        for seat in seats {
            let at = self.live.iter().position(|live| live.seat == *seat);
            let gone = self.live.remove(at.ok_or_else(|| TestCaseError::fail("it is not there"))?);
            prop_assert_ne!(gone.doing, Doing::Busy, "whoever works stays");
        }
        Ok(())
    }
}

proptest! {
    /// Whatever is asked in whatever order: nobody gets another's, nobody is disturbed, and no limit is passed.
    #[test]
    fn the_invariants_hold(steps in proptest::collection::vec((0_u8..5, 0_usize..3, 0_usize..4), 0..60)) {
        let mut toy = Toy::default();
        for (kind, who, what) in steps {
            toy.now += 7;
            match kind {
                0 | 1 => toy.ask(TENANTS[who], TALKS.get(what).copied())?,
                2 => {
                    let since = seconds(toy.now);
                    if let Some(live) = toy.live.iter_mut().filter(|live| live.doing == Doing::Busy).nth(who) {
                        let talk = TALKS[what % TALKS.len()];
                        let known = known(talk);
                        live.doing = match what {
                            3 => Doing::Called { known, since },
                            _ => Doing::Idle { known, since },
                        };
                    }
                }
                3 => {
                    let swept = sweep(&toy.pool(), seconds(toy.now));
                    toy.evict(&swept)?;
                    let left: Vec<Duration> = toy.live.iter().filter_map(Live::rests_since).collect();
                    prop_assert!(left.len() <= limits().idle);
                    prop_assert!(left.iter().all(|since| seconds(toy.now) - *since < limits().rest));
                }
                _ => {
                    if let Some(at) = served_next(&toy.pool()) {
                        toy.waiting.remove(at);
                    }
                }
            }
            prop_assert!(toy.live.len() <= limits().live);
            for tenant in TENANTS {
                let of_tenant = toy.live.iter().filter(|live| live.terms.tenant == tenant).count();
                prop_assert!(of_tenant <= limits().live_of_tenant);
            }
            prop_assert!(toy.waiting.len() <= limits().waiting);
        }
    }
}
