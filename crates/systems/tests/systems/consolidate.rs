//! IO consolidation in virtual time, with any schedule, by seeds.
#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

use crate::common::cluster;
use doorbell_systems::consolidate::{Holding, Rules};
use doorbell_systems_suite::Faults;
use doorbell_systems_suite::consolidate::{ConsolidateCase, two_writers, written_again};
use doorbell_verbs::{Span, Time};
use proptest::prelude::*;

/// Lost packets are sent again after a local ACK time-out of 67 ms.
const PATIENCE: Span = Span::from_ms(60_000);

/// Lost packets in a million, in cases with losses: enough to lose a few packets in each case.
const LOSS_PPM: u32 = 2_000;

/// A case, and the number of lost packets in a million.
fn cases() -> impl Strategy<Value = (ConsolidateCase, u32)> {
    let rules = (
        prop_oneof![Just(64u32), Just(100), Just(1024)],
        1..20u32,
        prop_oneof![Just(Holding::Exclusive), Just(Holding::Shared)],
        1..8u32,
        1..6u32,
        prop_oneof![Just(Vec::new()), (0..2000u64).prop_map(|at| std::iter::once(at..at + 300).collect())],
    );
    let rules = rules.prop_map(|(block, theta, holding, held, outstanding, marked)| Rules {
        block,
        theta,
        timeout: Span::from_us(30),
        holding,
        held,
        outstanding,
        marked,
    });
    let shape = (1..4u32, 2..12u64, 1..300u64);
    let trouble = prop_oneof![Just((0, None)), Just((LOSS_PPM, None)), Just((0, Some(Span::from_us(2)))),];
    (rules, shape, trouble, any::<u64>()).prop_map(|(rules, (clients, blocks, longest), trouble, seed)| {
        let (loss, hesitation) = trouble;
        let faults = Faults { hesitation, ..Faults::default() };
        // Covers the time of a full queue, of a READ, and of waits for other posts, if no packets are lost.
        let late = (loss == 0).then_some(Span::from_us(400));
        (ConsolidateCase { clients, steps: 150, blocks, longest, rules, late, seed, faults }, loss)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_target_has_what_was_written((case, loss_ppm) in cases()) {
        let mut cluster = cluster("cx3", 3, |config| {
            config.end = Time::START + PATIENCE + Span::from_ms(10);
            config.layers.loss_ppm = loss_ppm;
            config.seed = case.seed;
        });
        let ran = case.run(&mut cluster, PATIENCE);
        prop_assert!(ran.is_ok(), "{:?}", ran);
    }
}

/// Only a writer that holds a block exclusively may post all of it. This test shows the reason.
#[test]
fn whole_blocks_of_a_shared_block_undo_what_another_wrote() {
    let survive =
        |holding| two_writers(&mut cluster("cx3", 3, |_| ()), holding, crate::common::PATIENCE).unwrap();
    assert_eq!(survive(Holding::Shared), Some(2));
    assert_eq!(survive(Holding::Exclusive), Some(1));
}

#[test]
fn the_time_out_is_of_the_first_write() {
    let (took, timeout) = written_again(&mut cluster("cx3", 2, |_| ()), crate::common::PATIENCE).unwrap();
    let took = took.expect("all machines are in this process");
    assert!(timeout <= took && took < timeout + Span::from_us(3), "{} ns", took.as_ns());
}
