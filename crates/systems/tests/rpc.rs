//! Replies match requests, whatever the schedule.

#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

mod common;

use common::{PATIENCE, cluster};
use doorbell_systems::herd::Requests;
use doorbell_systems_suite::Faults;
use doorbell_systems_suite::herd::{Answered, Case};
use doorbell_verbs::Span;
use proptest::prelude::*;

/// A case, what the fabric loses in a million packets, and the seed of its schedule.
#[derive(Clone, Copy, Debug)]
struct Run {
    case: Case,
    loss_ppm: u32,
    seed: u64,
}

impl Run {
    fn run(&self) -> Result<Vec<Answered>, String> {
        let mut cluster = cluster("cib", 4, |c| {
            c.seed = self.seed;
            c.layers.loss_ppm = self.loss_ppm;
        });
        let retry = match self.case.faults.late.is_some() {
            // Far shorter than the way there and back.
            true => Some(Span::from_us(2)),
            false => (self.loss_ppm > 0).then_some(Span::from_us(50)),
        };
        let answered = Case { retry, ..self.case }.run(&mut cluster, PATIENCE)?;
        assert_eq!(answered.len(), self.case.clients as usize);
        Ok(answered)
    }
}

fn runs() -> impl Strategy<Value = Run> {
    let by = prop_oneof![Just(Requests::Write), Just(Requests::Send)];
    let shape = (1..7u32, 1..4u32, 0..5u32, 1..20u32, any::<bool>(), 1..4u32);
    let trouble = prop_oneof![Just((0, None)), Just((30_000u32, None)), Just((0, Some(Span::from_us(3))))];
    (by, shape, trouble, any::<u64>()).prop_map(|(by, s, (loss_ppm, late), seed)| {
        let case = Case {
            by,
            clients: s.0,
            workers: s.1,
            outstanding: 1 << s.2,
            gather: s.3,
            doorbell: s.4,
            queues: s.5,
            requests: 100,
            retry: None,
            faults: Faults { late, ..Faults::default() },
        };
        Run { case, loss_ppm, seed }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn replies_match_requests(run in runs()) {
        run.run().map_err(TestCaseError::fail)?;
    }
}
