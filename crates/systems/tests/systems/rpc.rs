//! Replies match requests, with any schedule.

#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

use crate::common::{PATIENCE, cluster};
use doorbell_systems::herd::{Replies, Requests, ways};
use doorbell_systems_suite::Faults;
use doorbell_systems_suite::herd::{Answered, HerdCase};
use doorbell_verbs::{QpType, Span};
use proptest::prelude::*;

/// A case, how many packets in a million the fabric loses, and the seed of the schedule.
#[derive(Clone, Copy, Debug)]
struct Run {
    case: HerdCase,
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
            // Far shorter than a round trip.
            true => Some(Span::from_us(2)),
            false => (self.loss_ppm > 0).then_some(Span::from_us(50)),
        };
        let answered = HerdCase { retry, ..self.case }.run(&mut cluster, PATIENCE)?;
        assert_eq!(answered.len(), self.case.clients as usize);
        Ok(answered)
    }
}

fn runs() -> impl Strategy<Value = Run> {
    // The verbs of HERD, more often than all others.
    let by = prop_oneof![
        Just((Requests::WriteUc, Replies::SendUd)),
        Just((Requests::SendUd, Replies::SendUd)),
        prop::sample::select(ways().collect::<Vec<_>>()),
    ];
    let shape = (1..7u32, 1..4u32, 0..5u32, 1..20u32, any::<bool>(), 1..4u32);
    let trouble = prop_oneof![Just((0, None)), Just((30_000u32, None)), Just((0, Some(Span::from_us(3))))];
    (by, shape, trouble, any::<u64>()).prop_map(|(by, s, (loss_ppm, late), seed)| {
        // RC's retries take milliseconds. RC also delivers requests that clients repeat without need.
        let (loss_ppm, late) = if by.0.transport() == QpType::Rc { (0, None) } else { (loss_ppm, late) };
        let datagrams = by.1.transport() == QpType::Ud;
        let case = HerdCase {
            by,
            clients: s.0,
            workers: s.1,
            outstanding: 1 << s.2,
            gather: s.3,
            doorbell: s.4,
            queues: if datagrams { s.5 } else { 1 },
            requests: 100,
            retry: None,
            faults: Faults { late, ..Faults::default() },
        };
        Run { case, loss_ppm, seed }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn replies_match_requests(run in runs()) {
        run.run().map_err(TestCaseError::fail)?;
    }
}

/// One client repeats requests without need and ends early. The server does not wait for this client.
#[test]
fn a_client_that_leaves_keeps_no_other_waiting() {
    let case = HerdCase {
        by: (Requests::SendRc, Replies::WriteRc),
        clients: 2,
        workers: 1,
        outstanding: 1,
        gather: 1,
        doorbell: false,
        queues: 1,
        requests: 100,
        retry: None,
        faults: Faults { late: Some(Span::from_us(3)), ..Faults::default() },
    };
    Run { case, loss_ppm: 0, seed: 0 }.run().unwrap();
}
