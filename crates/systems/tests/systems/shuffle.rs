//! Shuffles and joins in virtual time, by seeds.
#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

use crate::common::{PATIENCE, cluster};
use doorbell_sim::{Layers, SimCluster};
use doorbell_systems::config::Seats;
use doorbell_systems::join::TUPLE;
use doorbell_systems::shuffle::{Full, Plan, Transfer};
use doorbell_systems::vector_io;
use doorbell_systems_suite::shuffle::{self, ShuffleCase};
use doorbell_systems_suite::{Faults, Scale, Stop, join};
use doorbell_verbs::{Span, Time};
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
            // Each executor sends, receives, or both.
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

fn cases() -> impl Strategy<Value = ShuffleCase> {
    let work = (1..5u64, 0..120u64, prop_oneof![Just(1u64), Just(3), Just(10_000)], any::<bool>());
    let slow = prop::option::of((any::<u32>(), 100..2_000u64));
    (plans(), 1..4u32, 1..3u32, work, slow, any::<u64>()).prop_map(
        |(plan, per_machine, sockets, (rounds, entries, keys, known), slow, seed)| ShuffleCase {
            plan,
            seats: Seats { per_machine, sockets, cores_per_socket: 4 },
            // An executor learns of the end one round before.
            rounds: if known { rounds } else { rounds + 1 },
            entries: entries + 1,
            keys,
            known,
            slow: slow.map(|(who, ns)| (who % plan.executors, Span::from_ns(ns))),
            seed,
        },
    )
}

fn joins() -> impl Strategy<Value = join::JoinCase> {
    let work = (1..5u64, (0..100u64, 0..100u64), 1..200u64, 0..11u64, 0..150u64, any::<bool>());
    (plans(), 1..4u32, work, any::<u64>()).prop_map(
        |(plan, per_machine, (joins, tuples, keys, skew, room, known), seed)| {
            let (all, entry) = (plan.executors, (TUPLE as u32).max(plan.entry));
            join::JoinCase {
                plan: Plan { senders: all, receivers: all, entry, ..plan },
                seats: Seats { per_machine, sockets: 2, cores_per_socket: 4 },
                joins,
                tuples,
                keys,
                skew,
                room,
                known,
                seed,
            }
        },
    )
}

/// Time for which an executor waits for peers that have exited, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Machines of executors, and the server.
fn machines(plan: &Plan, seats: &Seats) -> u32 {
    1 + plan.executors.div_ceil(seats.per_machine)
}

/// An executor that stops only delays the other executors.
fn stops() -> impl Strategy<Value = Option<Stop>> {
    prop::option::of((2..60u32, 1..40u64))
        .prop_map(|stop| stop.map(|(one_in, us)| Stop { one_in, span: Span::from_us(us) }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn each_receiver_has_what_the_rule_gives_it(case in cases(), stop in stops(), profile in prop::sample::select(&["cib", "cx3-dual"])) {
        let mut cluster = cluster(profile, machines(&case.plan, &case.seats), |config| config.seed = case.seed);
        let faults = Faults { stop, seed: case.seed, ..Faults::default() };
        let had = case.run(&mut cluster, faults, PATIENCE).map_err(TestCaseError::fail)?;
        let ended = had.iter().map(|had| had.ended);
        let between = ended.clone().max().unwrap() - ended.min().unwrap();
        prop_assert!(between < SECOND, "an executor waited for farewells that had come: {had:?}");
    }

    #[test]
    fn a_join_is_what_comparing_all_keys_gives(case in joins(), stop in stops()) {
        let mut cluster = cluster("cx3-dual", machines(&case.plan, &case.seats), |config| config.seed = case.seed);
        let faults = Faults { stop, seed: case.seed, ..Faults::default() };
        case.run(&mut cluster, faults, PATIENCE).map_err(TestCaseError::fail)?;
    }
}

/// Longer than RC's retries. After this time a packet has arrived, or its QP has failed.
const RETRIES: Span = Span::from_ms(60_000);

/// Faults of RC packets: some are lost, some are duplicated, and some are so late that later packets overtake
/// them.
fn lossy(loss_ppm: u32, duplicate_ppm: u32, delay_ppm: u32, delay: Span) -> Layers {
    Layers { loss_ppm, duplicate_ppm, delay_ppm, delay, reliable: true }
}

fn losses() -> impl Strategy<Value = Layers> {
    (1..20_000u32, 0..20_000u32, 0..50_000u32, 1..100u64)
        .prop_map(|(loss, twice, late, us)| lossy(loss, twice, late, Span::from_us(us)))
}

fn lossy_cluster(machines: u32, seed: u64, layers: Layers) -> SimCluster {
    cluster("cx3-dual", machines, |config| {
        (config.seed, config.layers, config.end) = (seed, layers, Time::START + RETRIES * 2);
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// RC sends lost packets again. A WRITE arrives whole before the told word that counts it, each addition
    /// counts once, and a READ that is answered twice returns equal bytes.
    #[test]
    fn each_receiver_has_it_where_packets_are_lost(mut case in cases(), stop in stops(), layers in losses()) {
        case.plan.give_up = RETRIES;
        let mut cluster = lossy_cluster(machines(&case.plan, &case.seats), case.seed, layers);
        let faults = Faults { stop, seed: case.seed, ..Faults::default() };
        case.run(&mut cluster, faults, RETRIES).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn a_join_is_it_where_packets_are_lost(mut case in joins(), stop in stops(), layers in losses()) {
        case.plan.give_up = RETRIES;
        let mut cluster = lossy_cluster(machines(&case.plan, &case.seats), case.seed, layers);
        let faults = Faults { stop, seed: case.seed, ..Faults::default() };
        case.run(&mut cluster, faults, RETRIES).map_err(TestCaseError::fail)?;
    }
}

/// All transfers and strategies. All executors send to all, or few executors send to others, in several
/// rounds of uneven keys, and in two skewed joins.
#[test]
fn what_is_lost_is_sent_again_whatever_the_plan() {
    use vector_io::Strategy::{Doorbell, Sgl, Sp};
    let layers = lossy(5_000, 5_000, 10_000, Span::from_us(30));
    for (transfer, strategy, batch) in [
        (Transfer::Push, Sgl, 1),
        (Transfer::Push, Sgl, 7),
        (Transfer::Push, Sp, 7),
        (Transfer::Push, Doorbell, 7),
        (Transfer::Pull, Sp, 1),
        (Transfer::Pull, Sp, 7),
    ] {
        for (seed, (senders, receivers)) in (0..).zip([(6, 6), (6, 6), (2, 4), (5, 1)]) {
            let mut case = shuffle::small(6, &Scale::SMALL);
            let plan = Plan { senders, receivers, transfer, strategy, batch, give_up: RETRIES, ..case.plan };
            (case.plan, case.entries, case.keys, case.known, case.seed) = (plan, 200, 3, false, seed);
            let mut cluster = lossy_cluster(machines(&plan, &case.seats), seed, layers);
            let had = case.run(&mut cluster, Faults::default(), RETRIES);
            assert!(had.is_ok(), "{plan:?}, seed {seed}: {had:?}");
            let again = cluster.metrics().sent_again;
            assert!(again.packets > 0, "{plan:?}, seed {seed}: nothing was lost: {again:?}");
            let plan = Plan { senders: 6, receivers: 6, entry: TUPLE as u32, ..plan };
            let join = join::JoinCase { plan, keys: 40, skew: 3, seed, ..join::small(6, &Scale::SMALL) };
            let joined = join.run(
                &mut lossy_cluster(machines(&plan, &join.seats), seed, layers),
                Faults::default(),
                RETRIES,
            );
            assert_eq!(joined, Ok(()), "{plan:?}, seed {seed}");
        }
    }
}

/// If a credit word is lost and sent again, its receiver begins the next join later than other executors.
/// Their entries arrive before it begins.
#[test]
fn what_comes_before_an_executor_begins_is_part_of_its_join() {
    for seed in 0..40 {
        let mut case = join::small(6, &Scale::SMALL);
        (case.plan.give_up, case.seats.per_machine) = (RETRIES, 1);
        (case.joins, case.tuples, case.keys, case.seed) = (6, (20, 20), 10, seed);
        let layers = lossy(30_000, 0, 0, Span::ZERO);
        let mut cluster = lossy_cluster(machines(&case.plan, &case.seats), seed, layers);
        assert_eq!(case.run(&mut cluster, Faults::default(), RETRIES), Ok(()), "seed {seed}");
    }
}

/// Segments have room for few entries, so each credit counts. Executors stop between steps, or one executor
/// takes longer for an entry than many entries need to arrive.
#[test]
fn credit_is_right_whoever_stops_before_it_leaves_or_is_slow() {
    let slow = [None, Some((2, Span::from_us(20)))];
    for (seed, slow) in (0..60).flat_map(|seed| slow.map(|slow| (seed, slow))) {
        let mut case = shuffle::small(4, &Scale::SMALL);
        (case.plan.batch, case.plan.segment, case.plan.give_up) = (1, 4, PATIENCE);
        (case.seats.per_machine, case.entries, case.seed, case.slow) = (1, 150, seed, slow);
        let mut cluster = cluster("cib", machines(&case.plan, &case.seats), |config| config.seed = seed);
        // Senders fill the segment while the receiver is slow.
        let stop = slow.is_none().then_some(Stop { one_in: 4, span: Span::from_us(8) });
        let had = case.run(&mut cluster, Faults { stop, seed, ..Faults::default() }, PATIENCE);
        assert!(had.is_ok(), "seed {seed}, slow {slow:?}: {had:?}");
    }
}
