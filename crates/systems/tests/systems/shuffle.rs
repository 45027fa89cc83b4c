//! Shuffles, and joins made of them, in virtual time by seeds.
#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

use crate::common::{PATIENCE, cluster};
use doorbell_systems::config::Seats;
use doorbell_systems::join::TUPLE;
use doorbell_systems::shuffle::{Full, Plan, Transfer};
use doorbell_systems::vector_io;
use doorbell_systems_suite::join;
use doorbell_systems_suite::shuffle::Case;
use doorbell_systems_suite::{Faults, Stop};
use doorbell_verbs::Span;
use proptest::prelude::*;

fn plans() -> impl Strategy<Value = Plan> {
    let who = (1..6u32, any::<u32>(), any::<u32>());
    let transfer = prop_oneof![3 => Just(Transfer::Push), 1 => Just(Transfer::Pull)];
    let strategy = prop::sample::select(&[
        vector_io::Strategy::Sp,
        vector_io::Strategy::Doorbell,
        vector_io::Strategy::Sgl,
    ]);
    let full = prop_oneof![Just(Full::Block), Just(Full::Spill)];
    let sizes = (1..40u32, 1..12u32, 0..40u32, 1..6u32, prop_oneof![Just(0u32), Just(64)]);
    (who, transfer, strategy, full, sizes).prop_map(
        |((executors, a, b), transfer, strategy, full, (batch, words, more, outstanding, inline))| {
            let senders = 1 + a % executors;
            // Each executor does one of both at least.
            let least = (executors - senders).max(1);
            let receivers = least + b % (executors - least + 1);
            Plan {
                executors,
                senders,
                receivers,
                transfer,
                strategy,
                batch,
                entry: words * 8,
                segment: 2 * batch + more,
                full,
                inline,
                outstanding,
                give_up: PATIENCE,
            }
        },
    )
}

fn cases() -> impl Strategy<Value = Case> {
    let work = (1..5u64, 0..120u64, prop_oneof![Just(1u64), Just(3), Just(10_000)], any::<bool>());
    let slow = prop::option::of((any::<u32>(), 100..2_000u64));
    (plans(), 1..4u32, 1..3u32, work, slow, any::<u64>()).prop_map(
        |(plan, per_machine, sockets, (rounds, entries, keys, known), slow, seed)| Case {
            plan,
            seats: Seats { per_machine, sockets, cores_per_socket: 4 },
            // Who is told of the end is told a round before.
            rounds: if known { rounds } else { rounds + 1 },
            entries: entries + 1,
            keys,
            known,
            slow: slow.map(|(who, ns)| (who % plan.executors, Span::from_ns(ns))),
            seed,
        },
    )
}

fn joins() -> impl Strategy<Value = join::Case> {
    let work = (1..3u64, (0..100u64, 0..100u64), 1..200u64, 0..11u64, 0..150u64);
    (plans(), 1..4u32, work, any::<u64>()).prop_map(
        |(plan, per_machine, (joins, tuples, keys, skew, room), seed)| {
            let (all, entry) = (plan.executors, (TUPLE as u32).max(plan.entry));
            join::Case {
                plan: Plan { senders: all, receivers: all, entry, ..plan },
                seats: Seats { per_machine, sockets: 2, cores_per_socket: 4 },
                joins,
                tuples,
                keys,
                skew,
                room,
                seed,
            }
        },
    )
}

/// An executor that stops delays the others, and that is all.
fn stops() -> impl Strategy<Value = Option<Stop>> {
    prop::option::of((2..60u32, 1..40u64))
        .prop_map(|stop| stop.map(|(one_in, us)| Stop { one_in, span: Span::from_us(us) }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn each_receiver_has_what_the_rule_gives_it(case in cases(), stop in stops(), profile in prop::sample::select(&["cib", "cx3-dual"])) {
        let machines = 1 + case.plan.executors.div_ceil(case.seats.per_machine);
        let mut cluster = cluster(profile, machines, |config| config.seed = case.seed);
        let faults = Faults { stop, seed: case.seed, ..Faults::default() };
        case.run(&mut cluster, faults, PATIENCE).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn a_join_is_what_comparing_all_keys_gives(case in joins(), stop in stops()) {
        let machines = 1 + case.plan.executors.div_ceil(case.seats.per_machine);
        let mut cluster = cluster("cx3-dual", machines, |config| config.seed = case.seed);
        let faults = Faults { stop, seed: case.seed, ..Faults::default() };
        case.run(&mut cluster, faults, PATIENCE).map_err(TestCaseError::fail)?;
    }
}
