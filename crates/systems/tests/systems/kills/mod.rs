//! Clients are killed at any step that other clients can observe. Seeds choose the steps. The tests check
//! locks, writes that are held back, and requests to a proxy.
#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

mod engines;
mod executors;

use crate::common::{PATIENCE, cluster};
use doorbell_sim::SimCluster;
use doorbell_systems::consolidate::Holding;
use doorbell_systems::spinlock::Release;
use doorbell_systems_suite::KillWay;
use doorbell_systems_suite::kills::{self, MACHINES, locks, proxies, tables, writers};
use doorbell_verbs::{Span, Time};
use proptest::prelude::*;

const WAYS: [KillWay; 2] = [KillWay::Stops, KillWay::LosesQps];

fn machines(seed: u64) -> SimCluster {
    cluster("cib", MACHINES, |config| config.seed = seed)
}

/// Locks with a lease that is longer than any action of a live client.
fn locked(way: KillWay, seed: u64) -> locks::LockKills {
    locks::LockKills {
        lease: Span::from_us(200),
        drift: Span::from_us(5),
        fencing: true,
        data: 400,
        sections: 4,
        hold: Span::ZERO,
        way,
        seed,
    }
}

fn locks() -> impl Strategy<Value = locks::LockKills> {
    let shape = (prop_oneof![Just(8u32), Just(64), Just(400), Just(5000)], 1..8u64, 0..3000u64);
    (shape, prop::sample::select(&WAYS), any::<u64>()).prop_map(|((data, sections, hold), way, seed)| {
        locks::LockKills { data, sections, hold: Span::from_ns(hold), ..locked(way, seed) }
    })
}

fn writers() -> impl Strategy<Value = writers::WriterKills> {
    let holding = prop_oneof![Just(Holding::Exclusive), Just(Holding::Shared)];
    let shape = (prop_oneof![Just(64u32), Just(100), Just(1024)], 6..12u32, 1..8u32, 1..300u64);
    (holding, shape, 1..60u64, 1..30u64, prop::sample::select(&WAYS), any::<u64>()).prop_map(
        |(holding, (block, blocks, theta, longest), writes, flushes, way, seed)| writers::WriterKills {
            block,
            blocks,
            theta,
            holding,
            longest,
            writes,
            flushes,
            way,
            seed,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// No client takes over a lock of a live client.
    #[test]
    fn each_section_is_counted_once_whoever_is_killed(case in locks()) {
        let lost = case.run(&mut machines(case.seed), PATIENCE).map_err(TestCaseError::fail)?;
        prop_assert!(!lost.is_empty() && lost.iter().all(|lost| *lost == 0), "{:?}", lost);
    }

    #[test]
    fn of_what_a_killed_writer_wrote_only_what_it_held_is_lost(case in writers()) {
        case.run(&mut machines(case.seed), PATIENCE).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    /// After lease and drift, clients take over the locks of a killed client, and pass over its numbers.
    #[test]
    fn of_what_a_killed_front_end_wrote_only_what_it_had_not_published_is_lost(
        (hot, versions, theta, moves) in (0..=4u32, 2..5u32, 1..6u32, prop::sample::select(&[0, 150])),
        way in prop::sample::select(&WAYS), seed: u64,
    ) {
        let mut config = tables::table(25 * hot, (Span::from_us(100), Span::from_us(50)), seed);
        (config.versions, config.theta, config.move_permille) = (versions, theta, moves);
        let case = tables::TableKills { config, operations: 40, way, seed };
        case.run(&mut machines(seed), PATIENCE).map_err(TestCaseError::fail)?;
    }
}

/// The property above says little if half a WRITE does no harm anyway.
#[test]
fn half_a_write_is_left_where_it_is_not_fenced() {
    let harmed = |seed: &u64| {
        let case = locks::LockKills { fencing: false, ..locked(KillWay::Stops, *seed) };
        let ended = case.run(&mut machines(*seed), PATIENCE);
        ended.is_err_and(|why| why.contains("half written"))
    };
    let harmed = (0..20).filter(harmed).count();
    assert!(harmed >= 5, "{harmed} of 20");
}

#[test]
fn the_lock_of_a_killed_holder_stays_taken_where_it_has_no_lease() {
    for release in [Release::Write, Release::Cas] {
        for (way, seed) in WAYS.into_iter().flat_map(|way| (0..5).map(move |seed| (way, seed))) {
            let ended = locks::TakenLock { release, way, seed }.run(&mut machines(seed), PATIENCE);
            assert_eq!(ended, Ok(()), "{release:?}, {way:?}, seed {seed}");
        }
    }
}

/// One of four threads is killed. A thread that asks it waits until its own interval ends, and no longer. The
/// threads of the other machine complete all READs.
#[test]
fn who_asks_a_killed_proxy_waits_in_vain_and_nobody_else_does() {
    const READS: u64 = 40;
    for (way, seed) in WAYS.into_iter().flat_map(|way| (0..10).map(move |seed| (way, seed))) {
        let mut cluster = cluster("cx3-dual-split", 3, |config| config.end += Span::from_ms(2_000));
        let clients = (proxies::OF_A_MACHINE + 1, 1);
        let done =
            proxies::ProxyKills { reads: READS, clients, way, seed }.run(&mut cluster, PATIENCE).unwrap();
        let [one, other, asks] = done[..] else { panic!("{way:?}, seed {seed}: {done:?}") };
        assert!((one, other) == (READS, READS) && asks < READS, "{way:?}, seed {seed}: {done:?}");
    }
}

/// Back-ends are killed, together with their connections.
#[test]
fn front_ends_of_dead_back_ends_end_with_an_error_in_time() {
    // Time after which a NIC gives up: seven times 67 ms by the specification, up to four times as long in
    // practice.
    let most = Span::from_ms(7 * 67 * 4);
    for (seed, by_proxy) in (0..6).zip([false, true].into_iter().cycle()) {
        let mut cluster = cluster("cx3-dual", tables::MACHINES, |config| {
            (config.seed, config.end) = (seed, Time::START + most * 2)
        });
        let lives = Span::from_us(300 + 10 * seed);
        let ended = tables::without_back_ends(&mut cluster, (lives, by_proxy), seed).unwrap();
        assert!(ended.len() == 2 && ended.iter().all(|after| *after < most), "seed {seed}: {ended:?}");
    }
}

/// Software and kernel NICs run these checks by their names.
#[test]
fn checks_with_processes_have_names_of_their_own() {
    let mut names: Vec<String> =
        kills::checks::<SimCluster>().iter().map(|check| check.name().to_owned()).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}
