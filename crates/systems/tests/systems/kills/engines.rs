//! Engines of a log are killed at any step that other engines can observe. Seeds choose the steps.
#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

use crate::common::{PATIENCE, cluster};
use doorbell_sim::SimCluster;
use doorbell_systems::log::{Full, Reserve};
use doorbell_systems::vector_io::Strategy as Gathering;
use doorbell_systems_suite::kills::{MACHINES, engines, readers};
use doorbell_systems_suite::log::{self, Had};
use doorbell_systems_suite::{Faults, KillWay};
use doorbell_verbs::Span;
use proptest::prelude::*;

const WAYS: [KillWay; 2] = [KillWay::Stops, KillWay::LosesQps];

fn machines(seed: u64) -> SimCluster {
    cluster("cib", MACHINES, |config| config.seed = seed)
}

/// Engines that append. The warden's patience is longer than any action of a live engine.
fn appended(way: KillWay, seed: u64) -> engines::EngineKills {
    engines::EngineKills {
        log: log::LogCase {
            engines: 0,
            readers: 1,
            appends: 12,
            records: 5,
            record: 64,
            slots: 64,
            outstanding: 3,
            strategy: Gathering::Sgl,
            reserve: Reserve::FetchAdd,
            full: Full::Wrap,
            patience: Span::from_us(200),
            retry: None,
            inline: 64,
            faults: Faults::default(),
            seed,
        },
        way,
    }
}

fn engines() -> impl Strategy<Value = engines::EngineKills> {
    let shape = (prop_oneof![1..7u32, 28..40u32], prop_oneof![Just(8u32), Just(400)], 1..100u64, 1..5u32);
    let gathering = prop_oneof![3 => Just(Gathering::Sgl), 1 => Just(Gathering::Doorbell)];
    let reserve = prop_oneof![4 => Just(Reserve::FetchAdd), 1 => Just(Reserve::Rpc)];
    let full = prop_oneof![4 => Just(Full::Wrap), 1 => Just(Full::Refuse)];
    let how = (gathering, reserve, full, prop::sample::select(&WAYS));
    (shape, 1..15u64, how, any::<u64>()).prop_map(
        |((records, record, more, outstanding), appends, (strategy, reserve, full, way), seed)| {
            let case = appended(way, seed);
            let slots = u64::from(records) + more;
            let log = log::LogCase {
                records,
                record,
                slots,
                outstanding,
                appends,
                strategy,
                reserve,
                full,
                ..case.log
            };
            engines::EngineKills { log, ..case }
        },
    )
}

/// Whether all live engines completed their appends, and the number of positions that hold nothing.
fn all_and_voids(had: &[Had]) -> (bool, u64) {
    let failed = had.iter().any(|had| matches!(had, Had::Engine { failed: true, .. }));
    let voids = had.iter().find_map(|had| match had {
        Had::Reader { voids, .. } => Some(*voids),
        _ => None,
    });
    (!failed, voids.unwrap_or(0))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// No live engine is fenced.
    #[test]
    fn a_log_has_what_killed_engines_had_acknowledged(case in engines()) {
        let had = case.run(&mut machines(case.log.seed), PATIENCE).map_err(TestCaseError::fail)?;
        prop_assert!(all_and_voids(&had).0, "{had:?}");
    }
}

/// The property above says little if no engine is ever killed between a reservation and its marks.
#[test]
fn killed_engines_leave_holes_that_are_closed() {
    let holes = |seed: &u64| {
        let case = appended(WAYS[*seed as usize % 2], *seed);
        all_and_voids(&case.run(&mut machines(*seed), PATIENCE).expect("a log")).1 > 0
    };
    let holes = (0..20).filter(holes).count();
    assert!(holes >= 10, "{holes} of 20");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Engines do not wait for killed readers, and everything that the readers read is in the log.
    #[test]
    fn a_log_has_what_killed_readers_have_read(
        (records, more) in (1..7u32, 1..100u64), way in prop::sample::select(&WAYS), seed: u64,
    ) {
        let slots = u64::from(records) + more;
        let log = log::LogCase { records, slots, ..appended(way, seed).log };
        let case = readers::ReaderKills { log, way };
        case.run(&mut machines(seed), PATIENCE).map_err(TestCaseError::fail)?;
    }
}
