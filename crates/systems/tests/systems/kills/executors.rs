//! Executors of shuffles and joins are killed at any step that other executors can observe. Seeds choose the
//! steps.
#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

use crate::common::cluster;
use doorbell_systems::shuffle::{Full, Transfer};
use doorbell_systems_suite::join;
use doorbell_systems_suite::kills::RETRIES;
use doorbell_systems_suite::kills::executors::{self, Job};
use doorbell_systems_suite::{KillWay, Scale};
use doorbell_verbs::Span;
use proptest::prelude::*;

const WAYS: [KillWay; 2] = [KillWay::Stops, KillWay::LosesQps];

fn shuffled() -> impl Strategy<Value = executors::ExecutorKills> {
    let who = prop::sample::select(&[(4u32, 4u32), (2, 2), (3, 1), (1, 4)]);
    let how = (
        prop_oneof![Just(Transfer::Push), Just(Transfer::Pull)],
        prop_oneof![Just(Full::Block), Just(Full::Spill)],
    );
    (who, how, 1..12u32, 0..4u32, 1..2_000u64, prop::sample::select(&WAYS), any::<u64>()).prop_map(
        |((senders, receivers), (transfer, full), batch, victim, steps, way, seed)| {
            let mut job = Job::shuffle(&Scale::SMALL);
            job.plan.give_up = GIVE_UP;
            (job.plan.senders, job.plan.receivers, job.plan.batch) = (senders, receivers, batch);
            (job.plan.transfer, job.plan.full, job.seed) = (transfer, full, seed);
            executors::ExecutorKills { job: Job::Shuffle(job), victim, steps, way }
        },
    )
}

fn joined() -> impl Strategy<Value = executors::ExecutorKills> {
    (0..4u32, 1..2_000u64, prop::sample::select(&WAYS), any::<u64>()).prop_map(
        |(victim, steps, way, seed)| {
            let mut job = join::JoinCase { seed, ..Job::join(&Scale::SMALL) };
            job.plan.give_up = GIVE_UP;
            executors::ExecutorKills { job: Job::Join(job), victim, steps, way }
        },
    )
}

/// Time after which an executor gives up if it sees nothing new.
const GIVE_UP: Span = Span::from_ms(20);

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// The other executors end in time, with an error.
    #[test]
    fn a_job_ends_with_an_executor(case in prop_oneof![2 => shuffled().boxed(), 1 => joined().boxed()]) {
        let patience = Span::from_ms(3_000);
        let mut cluster = cluster("cib", executors::MACHINES, |config| {
            config.seed = case.job.seed();
            config.end += patience;
        });
        let ended = case.run(&mut cluster, patience).map_err(TestCaseError::fail)?.expect("machine 0 is here");
        let after = Span::from_ns(ended.last.saturating_sub(ended.gone));
        // A round takes far less than this.
        let round = Span::from_ms(1);
        prop_assert!(after <= GIVE_UP + RETRIES * 2 + round, "{:?} later", after);
    }
}

/// Some requests to the dead executor fail. An executor without such a request would wait far longer if its
/// peers did not tell it. (If only the dead executor sends, it may be that no executor has such a request.
/// Then all wait.)
#[test]
fn who_gives_up_tells_the_others() {
    let give_up = Span::from_ms(5_000);
    for (transfer, senders, receivers, victim) in [
        (Transfer::Push, 1, 4, 2),
        (Transfer::Push, 2, 2, 3),
        (Transfer::Pull, 1, 4, 2),
        (Transfer::Pull, 3, 1, 1),
    ] {
        let mut early = 0;
        for seed in 0..10 {
            let mut job = Job::shuffle(&Scale::SMALL);
            (job.plan.transfer, job.plan.senders, job.plan.receivers) = (transfer, senders, receivers);
            (job.plan.give_up, job.seed) = (give_up, seed);
            let job = Job::Shuffle(job);
            let case = executors::ExecutorKills { job, victim, steps: 400, way: KillWay::LosesQps };
            let patience = give_up * 2;
            let mut cluster = cluster("cib", executors::MACHINES, |config| {
                (config.seed, config.end) = (seed, config.end + patience);
            });
            let ended = case.run(&mut cluster, patience).expect("it ends").expect("machine 0 is here");
            let apart = Span::from_ns(ended.last - ended.first);
            assert!(apart <= RETRIES, "{transfer:?}, {senders} to {receivers}, seed {seed}: {ended:?}");
            early += u32::from(Span::from_ns(ended.first.saturating_sub(ended.gone)) < RETRIES);
        }
        assert!(early > 0, "{transfer:?}, {senders} to {receivers}: nobody's request has failed");
    }
}
