//! A log in virtual time: whoever stops, is late, is refused, is fenced, or has lost its log machine.
#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

mod common;

use common::{PATIENCE, cluster};
use doorbell_systems::log::{Full, Reserve};
use doorbell_systems::vector_io::Strategy as Gathering;
use doorbell_systems_suite::log::{Case, Had};
use doorbell_systems_suite::{Faults, LateWrite, Stop};
use doorbell_verbs::{Span, Time};
use proptest::prelude::*;

fn case() -> Case {
    Case {
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

fn run(case: Case) -> Result<Vec<Had>, String> {
    case.run(&mut cluster("cib", 4, |c| c.seed = case.seed), PATIENCE)
}

fn faults() -> impl Strategy<Value = Faults> {
    let stop = (8..40u32, 1..160u64).prop_map(|(one_in, us)| Stop { one_in, span: Span::from_us(us) });
    let hesitation = prop::option::weighted(0.3, (1..30u64).prop_map(Span::from_us));
    (prop::option::weighted(0.5, stop), hesitation, any::<u64>())
        .prop_map(|(stop, hesitation, seed)| Faults { stop, hesitation, seed, ..Faults::default() })
}

fn cases() -> impl Strategy<Value = Case> {
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
            Case {
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
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn a_log_is_what_its_page_promises(case in cases()) {
        let had = run(case).map_err(TestCaseError::fail)?;
        prop_assert!(!had.is_empty());
    }

    /// RC sends again; an atomic whose answer was lost is not done twice.
    #[test]
    fn it_is_where_packets_are_lost(case in cases(), loss_ppm in 1..20_000u32) {
        let patience = Span::from_ms(60_000);
        let mut cluster = cluster("cib", 4, |c| {
            c.seed = case.seed;
            (c.layers.loss_ppm, c.layers.duplicate_ppm, c.layers.reliable) = (loss_ppm, loss_ppm, true);
            c.end = Time::START + patience;
        });
        // Time-outs are tens of milliseconds.
        let (reserve, appends) = (Reserve::FetchAdd, case.appends.min(5));
        let case = Case { reserve, appends, patience, ..case };
        case.run(&mut cluster, patience).map_err(TestCaseError::fail)?;
    }
}
