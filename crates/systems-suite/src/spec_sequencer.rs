//! Spec-S0: the sequencer by header-only SENDs with speculation.

use crate::check::Check;
use crate::deployed;
use crate::drawing::{DrawingCase, DrawingShape, Draws, Keeping, Sequencer};
use crate::stage::{Stage, place, text};
use doorbell_systems::spec_sequencer::{Config, SpecClient, SpecSequencer, SpecServer};
use doorbell_verbs::Cluster;

/// Header-only SENDs with speculation.
#[derive(Clone, Copy, Debug)]
pub struct SpecS0 {
    /// The upper half with which clients begin to guess.
    pub guess: u32,
}

impl Sequencer for SpecS0 {
    /// Replies carry no name, so a client knows its request only if one is outstanding.
    fn names_replies(case: &DrawingCase<SpecS0>) -> bool {
        case.outstanding == 1
    }

    /// A client that repeats a request skips a number.
    fn is_dense(case: &DrawingCase<SpecS0>) -> bool {
        case.retry.is_none()
    }

    fn put_up<C: Cluster>(case: &DrawingCase<SpecS0>, stage: &mut Stage<'_, C, Draws>) -> Result<(), String> {
        let config = Config {
            workers: case.workers,
            clients: case.clients,
            outstanding: case.outstanding,
            gather: case.gather,
            doorbell: case.doorbell,
            queues: case.queues,
            retry: case.retry,
        };
        let counter = stage.counter(case.first).map_err(text)?;
        let interval = stage.server_interval();
        for number in 0..case.workers {
            stage.add_server(SpecServer {
                config: config.clone(),
                number,
                counter,
                interval: interval.clone(),
            });
        }
        let (drawing, guess, interval) = (case.drawing(), case.sequencer.guess, stage.client_interval());
        let machines = stage.cluster().machines();
        for number in 0..case.clients {
            let client =
                SpecClient { config: config.clone(), number, guess, drawing, interval: interval.clone() };
            stage.add_client(place(machines, number), Keeping(client));
        }
        Ok(())
    }
}

/// The checks of Spec-S0.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let with = |guess, outstanding| DrawingShape::new(SpecS0 { guess }, outstanding);
    vec![
        with(0, 1).check("systems/sequencer/spec_s0"),
        with(0, 8).batched().check("systems/sequencer/spec_s0_batching"),
        with(0, 1).batched().across_2_32().check("systems/sequencer/spec_s0_stale_guess"),
        with(2, 8).batched().across_2_32().check("systems/sequencer/spec_s0_across_2_32"),
        with(2, 1).batched().across_2_32().losing().check("systems/sequencer/spec_s0_lost_messages"),
        deployed::check::<SpecSequencer, C>(),
    ]
}
