//! One client at a time holds a lock, with any schedule. A late holder loses its lock if the lock has a
//! lease.

#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

use crate::common::{PATIENCE, cluster};
use doorbell_systems::spinlock::{Release, Waits};
use doorbell_systems_suite::spinlock::{Counted, LockKind, SpinlockCase};
use doorbell_systems_suite::{Faults, LateWrite, Stop};
use doorbell_verbs::{Span, Time};
use proptest::prelude::*;

/// Longer than an operation without contention, and shorter than a stop or the delay of a late WRITE.
const LEASE: Span = Span::from_us(30);
const LATE: Span = Span::from_us(200);

fn leased(fencing: bool) -> LockKind {
    LockKind::Leased { lease: LEASE, drift: Span::from_us(5), fencing }
}

/// Longer than an operation whose WRITE hesitates: with a shorter lease, no client would keep its lock.
const LONGER: Span = Span::from_us(80);

fn case(kind: LockKind) -> SpinlockCase {
    SpinlockCase {
        kind,
        clients: 4,
        locks: 1,
        data: 128,
        sections: 40,
        hold: Span::ZERO,
        waits: Waits { first: Span::ZERO, most: Span::ZERO },
        dies: false,
        faults: Faults::default(),
        seed: 1,
    }
}

fn run(case: SpinlockCase) -> Result<Vec<Counted>, String> {
    case.run(&mut cluster("cib", 4, |c| c.seed = case.seed), PATIENCE)
}

fn kinds() -> impl Strategy<Value = LockKind> {
    let leased = LockKind::Leased { lease: LONGER, drift: Span::from_us(5), fencing: true };
    prop_oneof![
        1 => Just(LockKind::Local(Release::Write)),
        1 => Just(LockKind::Local(Release::Cas)),
        1 => Just(LockKind::Remote(Release::Write)),
        1 => Just(LockKind::Remote(Release::Cas)),
        1 => (1..4u32).prop_map(|cores| LockKind::Rpc { cores }),
        2 => Just(leased),
    ]
}

fn faults() -> impl Strategy<Value = Faults> {
    // Not each step, because a client that stops before each step would never keep its lock.
    let stop = (8..40u32, 1..160u64).prop_map(|(one_in, us)| Stop { one_in, span: Span::from_us(us) });
    let hesitation = prop::option::weighted(0.3, (1..30u64).prop_map(Span::from_us));
    (prop::option::weighted(0.5, stop), hesitation, any::<u64>())
        .prop_map(|(stop, hesitation, seed)| Faults { stop, hesitation, seed, ..Faults::default() })
}

fn cases() -> impl Strategy<Value = SpinlockCase> {
    let shape = (1..7u32, 1..4u32, prop_oneof![Just(8u32), Just(64), Just(400)], 1..20u64);
    let waits = prop_oneof![Just(0u64), 1..20u64];
    (kinds(), shape, waits, prop_oneof![Just(0u64), 1..3000u64], faults(), any::<u64>()).prop_map(
        |(kind, (clients, locks, data, sections), first, hold, faults, seed)| SpinlockCase {
            clients,
            locks,
            data,
            sections,
            hold: Span::from_ns(hold),
            waits: Waits { first: Span::from_us(first), most: Span::from_us(40) },
            faults,
            seed,
            ..case(kind)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn no_count_is_lost(case in cases()) {
        run(case).map_err(TestCaseError::fail)?;
    }

    /// RC sends lost packets again, but does not execute an atomic twice if its answer was lost.
    #[test]
    fn no_count_is_lost_where_packets_are(case in cases(), loss_ppm in 1..20_000u32) {
        let patience = Span::from_ms(60_000);
        let mut cluster = cluster("cib", 4, |c| {
            c.seed = case.seed;
            (c.layers.loss_ppm, c.layers.duplicate_ppm, c.layers.reliable) = (loss_ppm, loss_ppm, true);
            c.end = Time::START + patience;
        });
        // The loss of a last packet is noticed only after tens of milliseconds, so sections are few, and
        // locks have no lease.
        let sections = case.sections.min(6);
        let kind = if let LockKind::Leased { .. } = case.kind { LockKind::Remote(Release::Cas) } else { case.kind };
        // To spin for tens of milliseconds would make the test slow.
        let waits = Waits { first: Span::from_us(5), most: Span::from_ms(10) };
        let case = SpinlockCase { kind, sections, waits, ..case };
        case.run(&mut cluster, patience).map_err(TestCaseError::fail)?;
    }
}

/// A client's WRITE number `number` arrives after another client has taken over its lock. What the late WRITE
/// overwrites depends on later WRITEs of the client and on sections of other clients.
fn late(fencing: bool, number: u32) -> Result<Vec<Counted>, String> {
    let late_write = Some(LateWrite { client: 0, number, span: LATE });
    run(SpinlockCase { faults: Faults { late_write, ..Faults::default() }, ..case(leased(fencing)) })
}

#[test]
fn a_late_write_harms_nothing_where_it_is_fenced() {
    for number in 0..20 {
        let counted = late(true, number).unwrap();
        // Other clients took the lock over, so the late client had to repeat its section.
        assert!(counted[0].again > 0, "{counted:?}");
    }
}

/// The test above says little if such a WRITE does no harm anyway. For some numbers it does none, if it
/// arrives between another client's READ and WRITE.
#[test]
fn a_late_write_takes_counts_back_where_it_is_not() {
    let harmed = (0..20).filter_map(|number| late(false, number).err());
    let counted = |wrong: &String| wrong.contains("sections were counted as");
    let harmed = harmed.filter(counted).count();
    assert!(harmed >= 10, "{harmed} of 20");
}

#[test]
fn stops_take_locks_away_that_have_leases() {
    let faults = Faults { stop: Some(Stop { one_in: 20, span: LATE }), ..Faults::default() };
    run(SpinlockCase { faults, ..case(leased(true)) }).unwrap();
    run(SpinlockCase { faults, ..case(leased(false)) }).unwrap_err();
}

#[test]
fn a_dead_holders_lock_is_taken_over_where_it_has_a_lease() {
    run(SpinlockCase { dies: true, ..case(leased(true)) }).unwrap();
    let rpc = LockKind::Rpc { cores: 1 };
    for kind in [LockKind::Remote(Release::Cas), rpc, LockKind::Local(Release::Write)] {
        let waits = Waits { first: Span::from_us(10), most: Span::from_ms(10) };
        let wrong = run(SpinlockCase { dies: true, waits, ..case(kind) }).unwrap_err();
        assert!(wrong.contains("sections in time"), "{kind:?}: {wrong}");
        // Failed attempts without an answer are counted, too. They show whether a lock stayed held.
        assert!(!wrong.contains("(0 attempts failed)"), "{kind:?}: {wrong}");
    }
}

/// A thread of the server has memory for so many locks, and several locks share a slot of the NIC.
#[test]
fn no_count_is_lost_of_many_locks() {
    let leased = LockKind::Leased { lease: LONGER, drift: Span::from_us(5), fencing: true };
    for kind in [
        LockKind::Rpc { cores: 1 },
        LockKind::Rpc { cores: 2 },
        LockKind::Remote(Release::Cas),
        LockKind::Local(Release::Write),
        leased,
    ] {
        let many = SpinlockCase { locks: 9000, data: 8, sections: 200, ..case(kind) };
        run(many).unwrap_or_else(|why| panic!("{kind:?}: {why}"));
    }
}
