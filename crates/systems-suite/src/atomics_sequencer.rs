//! The sequencer by RDMA fetch-and-add.

use crate::check::Check;
use crate::deployed;
use crate::drawing::{DrawingCase, DrawingShape, Draws, Keeping, Sequencer};
use crate::stage::{Stage, place, text};
use doorbell_systems::atomics_sequencer::{AtomicsClient, AtomicsSequencer, SERVICE};
use doorbell_systems::memory_server;
use doorbell_verbs::{AccessFlags, Cluster};

/// Fetch-and-add by RDMA. It ignores a case's switches of the server.
#[derive(Clone, Copy, Debug)]
pub struct Atomics;

impl Sequencer for Atomics {
    fn put_up<C: Cluster>(
        case: &DrawingCase<Atomics>,
        stage: &mut Stage<'_, C, Draws>,
    ) -> Result<(), String> {
        let counter = stage.counter(case.first).map_err(text)?;
        memory_server::put_up(stage, SERVICE, case.clients, counter, AccessFlags::REMOTE_ATOMIC);
        let (drawing, interval) = (case.drawing(), stage.client_interval());
        let machines = stage.cluster().machines();
        for number in 0..case.clients {
            stage.add_client(
                place(machines, number),
                Keeping(AtomicsClient { number, drawing, interval: interval.clone() }),
            );
        }
        Ok(())
    }
}

/// The checks of the sequencer by RDMA fetch-and-add.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    vec![
        DrawingShape::new(Atomics, 4).check("systems/sequencer/atomics"),
        DrawingShape::new(Atomics, 4).across_2_32().check("systems/sequencer/atomics_across_2_32"),
        deployed::check::<AtomicsSequencer, C>(),
    ]
}
