//! A log in virtual time. Engines stop, are late, have appends refused, are fenced, or lose the log machine.
#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

use crate::common::{PATIENCE, cluster};
use doorbell_systems::log::{Full, Reserve};
use doorbell_systems::vector_io::Strategy as Gathering;
use doorbell_systems_suite::log::{Had, LogCase};
use doorbell_systems_suite::{Faults, LateWrite, Stop};
use doorbell_verbs::{Span, Time};
use proptest::prelude::*;

fn case() -> LogCase {
    LogCase {
        engines: 3,
        readers: 1,
        appends: 20,
        records: 5,
        record: 64,
        slots: 64,
        outstanding: 3,
        strategy: Gathering::Sgl,
        reserve: Reserve::FetchAdd,
        full: Full::Wrap,
        patience: PATIENCE,
        retry: None,
        inline: 64,
        faults: Faults::default(),
        seed: 1,
    }
}

fn run(case: LogCase) -> Result<Vec<Had>, String> {
    case.run(&mut cluster("cib", 4, |c| c.seed = case.seed), PATIENCE)
}

fn faults() -> impl Strategy<Value = Faults> {
    let stop = (8..40u32, 1..160u64).prop_map(|(one_in, us)| Stop { one_in, span: Span::from_us(us) });
    let hesitation = prop::option::weighted(0.3, (1..30u64).prop_map(Span::from_us));
    (prop::option::weighted(0.5, stop), hesitation, any::<u64>())
        .prop_map(|(stop, hesitation, seed)| Faults { stop, hesitation, seed, ..Faults::default() })
}

fn cases() -> impl Strategy<Value = LogCase> {
    let engines = (1..6u32, 0..3u32, 1..30u64, 1..5u32);
    let shape = (prop_oneof![1..6u32, 28..40u32], prop_oneof![Just(8u32), Just(64), Just(200)], 1..90u64);
    let ways = (
        prop_oneof![Just(Gathering::Sgl), Just(Gathering::Sp), Just(Gathering::Doorbell)],
        prop_oneof![3 => Just(Reserve::FetchAdd), 1 => Just(Reserve::Rpc)],
        prop_oneof![3 => Just(Full::Wrap), 1 => Just(Full::Refuse)],
    );
    (engines, shape, ways, prop_oneof![Just(0u32), Just(64)], faults(), any::<u64>()).prop_map(
        |((engines, readers, appends, outstanding), (records, record, more), ways, inline, faults, seed)| {
            let (strategy, reserve, full) = ways;
            let slots = u64::from(records) + more;
            let appends = if records > 6 { appends.min(8) } else { appends };
            LogCase {
                engines,
                readers,
                appends,
                records,
                record,
                slots,
                outstanding,
                strategy,
                reserve,
                full,
                inline,
                faults,
                seed,
                ..case()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn a_log_is_what_its_page_promises(case in cases()) {
        let had = run(case).map_err(TestCaseError::fail)?;
        prop_assert!(!had.is_empty());
    }
}

/// The reader stops just after it has passed a void position. It must not sleep through the next position.
/// (The property above once drew this case.)
#[test]
fn a_log_that_refuses_is_read_to_its_end() {
    let stop = Some(Stop { one_in: 20, span: Span::from_us(4) });
    let hesitation = Some(Span::from_us(7));
    let faults = Faults { hesitation, stop, seed: 7104384177231415443, ..Faults::default() };
    let case = LogCase {
        engines: 4,
        readers: 0,
        appends: 8,
        records: 29,
        record: 8,
        slots: 93,
        outstanding: 2,
        full: Full::Refuse,
        inline: 0,
        faults,
        seed: 0,
        ..case()
    };
    assert!(!run(case).expect("a log").is_empty());
}

proptest! {
    // Time-outs take tens of milliseconds. In this time, an engine that waits for room READs the head
    // thousands of times.
    #![proptest_config(ProptestConfig { cases: 25, ..ProptestConfig::default() })]

    /// RC sends lost packets again, but does not execute an atomic twice if its answer was lost.
    #[test]
    fn it_is_where_packets_are_lost(case in cases(), loss_ppm in 1..20_000u32) {
        let patience = Span::from_ms(60_000);
        let mut cluster = cluster("cib", 4, |c| {
            c.seed = case.seed;
            (c.layers.loss_ppm, c.layers.duplicate_ppm, c.layers.reliable) = (loss_ppm, loss_ppm, true);
            c.end = Time::START + patience;
        });
        let (reserve, appends) = (Reserve::FetchAdd, case.appends.min(5));
        let case = LogCase { reserve, appends, patience, ..case };
        case.run(&mut cluster, patience).map_err(TestCaseError::fail)?;
    }
}

/// Number of appends of each engine when one engine is late. The other engines append for longer than the
/// patience, and their marks show that the hole is not theirs.
const APPENDS: usize = 60;

/// Engine 0 posts the list of append number `append` late by `span`. Returns the number of its acknowledged
/// appends, whether its NIC gave up, and the number of void positions.
fn late(append: u32, span: Span) -> (usize, bool, u64) {
    // The first list has the engine's word.
    let late_write = Some(LateWrite { client: 0, number: 1 + append, span });
    // The engine's retries end after half a second of silence, or more.
    let patience = Span::from_ms(10_000);
    let faults = Faults { late_write, ..Faults::default() };
    let case = LogCase {
        appends: APPENDS as u64,
        slots: 1024,
        outstanding: 1,
        patience: Span::from_us(100),
        faults,
        ..case()
    };
    let mut cluster = cluster("cib", 4, |c| c.end = Time::START + patience + Span::from_ms(10));
    let had = case.run(&mut cluster, patience).expect("a log");
    let others = had[1..3].iter().all(|had| matches!(had, Had::Engine { failed: false, .. }));
    assert!(others, "{had:?}");
    let voids = had.iter().find_map(|had| match had {
        Had::Reader { voids, .. } => Some(*voids),
        _ => None,
    });
    let Had::Engine { appends, failed, .. } = &had[0] else { panic!("{had:?}") };
    (appends.len(), *failed, voids.unwrap_or(0))
}

/// If the WRITE were not refused, the engine's records would overwrite records that readers have passed.
#[test]
fn a_write_that_comes_after_its_engine_is_fenced_is_refused() {
    for append in 0..5 {
        let (acknowledged, failed, voids) = late(append, Span::from_us(400));
        assert!(failed && acknowledged == append as usize, "{acknowledged} of {append}");
        assert_eq!(voids, 1 + u64::from(append) % 5);
    }
}

/// Some WRITEs arrive during the fencing. Records of WRITEs that the NIC had accepted are in the log,
/// acknowledged or not. The case itself checks acknowledged records.
#[test]
fn a_write_that_comes_as_its_engine_is_fenced_is_there_or_refused() {
    let mut seen = [0; 3];
    for ns in (85_000..115_000).step_by(500) {
        match late(4, Span::from_ns(ns)) {
            (APPENDS, false, 0) => seen[0] += 1,
            (4, true, 1..=5) => seen[2] += 1,
            // The engine appended until its connection was destroyed.
            (4.., true, 0..=5) => seen[1] += 1,
            had => panic!("{ns} ns: {had:?}"),
        }
    }
    assert!(seen[0] > 0 && seen[2] > 0, "{seen:?}");
}

/// The warden does not fence an engine that does not own the hole: an engine that rests, that waits for room,
/// or that has marked later positions. Logs are so small that the other engines fill them up to the hole. One
/// of them may have no record after the hole.
#[test]
fn who_waits_behind_a_hole_is_not_fenced() {
    let patience = Span::from_ms(10_000);
    for (slots, append) in (5..10).flat_map(|slots| (0..5).map(move |append| (slots, append))) {
        let late_write = Some(LateWrite { client: 0, number: 1 + append, span: Span::from_us(400) });
        let faults = Faults { late_write, ..Faults::default() };
        let case = LogCase {
            readers: 0,
            slots,
            appends: 8,
            outstanding: 1,
            patience: Span::from_us(100),
            faults,
            ..case()
        };
        let mut cluster = cluster("cib", 4, |c| c.end = Time::START + patience + Span::from_ms(10));
        let had = case.run(&mut cluster, patience).expect("a log");
        let failed: Vec<bool> =
            had[..3].iter().map(|had| matches!(had, Had::Engine { failed: true, .. })).collect();
        assert_eq!(failed[1..], [false; 2], "{slots} slots, append {append}: {had:?}");
    }
}

/// The log machine is killed, together with its connections.
#[test]
fn engines_of_a_dead_log_machine_end_with_an_error_in_time() {
    // Time after which a NIC gives up: eight times 67 ms by the specification, up to four times as long in
    // practice.
    let most = Span::from_ms(8 * 67 * 4);
    let case = LogCase { appends: u64::MAX, slots: 1024, ..case() };
    let mut cluster = cluster("cib", 4, |c| c.end = Time::START + most * 2);
    let ended = case.without_log_machine(&mut cluster, Span::from_us(300)).expect("an end");
    assert_eq!(ended.len(), 3);
    for (failed, after) in ended {
        assert!(failed && after < most, "{failed}, after {after:?}");
    }
}
