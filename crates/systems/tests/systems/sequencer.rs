//! Numbers are unique, dense and monotone, with any schedule.

#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

use crate::common::{PATIENCE, cluster};
use doorbell_systems_suite::Faults;
use doorbell_systems_suite::atomics_sequencer::Atomics;
use doorbell_systems_suite::drawing::{DrawingCase, Draws, Sequencer};
use doorbell_systems_suite::local_sequencer::Local;
use doorbell_systems_suite::rpc_sequencer::HerdRpc;
use doorbell_systems_suite::spec_sequencer::SpecS0;
use doorbell_verbs::Span;
use proptest::prelude::*;

const DRAWS: u64 = 150;
const LOSS_PPM: u32 = 30_000;

/// A case, how many packets in a million the fabric loses, and the seed of the schedule.
#[derive(Clone, Copy, Debug)]
struct Run<S> {
    case: DrawingCase<S>,
    loss_ppm: u32,
    seed: u64,
}

impl<S: Sequencer> Run<S> {
    fn run(&self) -> Result<Vec<Draws>, String> {
        let mut cluster = cluster("cib", 4, |c| {
            c.seed = self.seed;
            c.layers.loss_ppm = self.loss_ppm;
        });
        let retry = (self.loss_ppm > 0).then_some(Span::from_us(50));
        let drawn = DrawingCase { retry, ..self.case }.run(&mut cluster, PATIENCE)?;
        assert_eq!(drawn.len(), self.case.clients as usize);
        Ok(drawn)
    }

    fn lossy(self) -> Run<S> {
        Run { loss_ppm: LOSS_PPM, ..self }
    }
}

fn runs<S: Sequencer>(sequencer: impl Fn(u32) -> S) -> impl Strategy<Value = Run<S>> {
    let firsts = prop_oneof![Just(0u64), (1u64 << 32) - 400..1 << 32, (7u64 << 32) - 400..7 << 32];
    let shape = (1..7u32, 1..4u32, 0..5u32, any::<bool>(), 1..20u32, any::<bool>(), 1..4u32);
    (shape, firsts, 0..9u32, any::<u64>()).prop_map(move |(s, first, guess, seed)| {
        let case = DrawingCase {
            sequencer: sequencer(guess),
            clients: s.0,
            workers: s.1,
            outstanding: 1 << s.2,
            windows: s.3,
            gather: s.4,
            doorbell: s.5,
            queues: s.6,
            first,
            draws: DRAWS,
            retry: None,
            faults: Faults::default(),
        };
        Run { case, loss_ppm: 0, seed }
    })
}

fn tested<S: Sequencer>(run: Run<S>) -> Result<(), TestCaseError> {
    run.run().map(drop).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn herd_rpc(run in runs(|_| HerdRpc)) {
        tested(run)?;
    }

    #[test]
    fn herd_rpc_executes_a_request_once_when_messages_are_lost(run in runs(|_| HerdRpc)) {
        tested(run.lossy())?;
    }

    #[test]
    fn spec_s0(run in runs(|guess| SpecS0 { guess })) {
        tested(run)?;
    }

    #[test]
    fn spec_s0_skips_numbers_when_messages_are_lost(run in runs(|guess| SpecS0 { guess })) {
        tested(run.lossy())?;
    }

    #[test]
    fn atomics_draw(run in runs(|_| Atomics)) {
        tested(run)?;
    }

    #[test]
    fn threads_draw(run in runs(|_| Local)) {
        tested(run)?;
    }
}

fn run<S: Sequencer>(sequencer: S) -> Run<S> {
    let case = DrawingCase {
        sequencer,
        clients: 5,
        workers: 2,
        outstanding: 8,
        windows: false,
        gather: 16,
        doorbell: true,
        queues: 2,
        first: (3 << 32) - 200,
        draws: DRAWS,
        retry: None,
        faults: Faults::default(),
    };
    Run { case, loss_ppm: 0, seed: 1 }
}

#[test]
fn wrong_guesses_are_corrected_once() {
    for (first, guess, wrong) in [((3 << 32) - 200, 2, 1), ((3 << 32) - 200, 0, 2), (100, 0, 0)] {
        let spec = run(SpecS0 { guess });
        let case = DrawingCase { first, outstanding: 1, ..spec.case };
        for drawn in (Run { case, ..spec }).run().unwrap() {
            assert_eq!(DRAWS - drawn.header_only, wrong, "from {first} with guess {guess}");
        }
    }
}

fn again(drawn: &[Draws]) -> u64 {
    drawn.iter().map(|d| d.again).sum()
}

#[test]
fn loss_is_noticed() {
    assert!(again(&run(HerdRpc).lossy().run().unwrap()) > 0);
    assert!(again(&run(SpecS0 { guess: 0 }).lossy().run().unwrap()) > 0);
}

/// The layer that loses messages on real devices also loses them here.
#[test]
fn messages_that_never_leave_are_noticed() {
    fn drawn<S: Sequencer>(sequencer: S) -> Vec<Draws> {
        let faults = Faults { loss_ppm: LOSS_PPM, ..Faults::default() };
        let case = DrawingCase { faults, retry: Some(Span::from_us(50)), ..run(sequencer).case };
        case.run(&mut cluster("cib", 4, |_| {}), PATIENCE).unwrap()
    }
    assert!(again(&drawn(HerdRpc)) > 0);
    assert!(again(&drawn(SpecS0 { guess: 0 })) > 0);
}
