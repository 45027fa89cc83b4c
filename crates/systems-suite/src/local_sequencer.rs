//! The sequencer of the threads of one machine.

use crate::check::Check;
use crate::deployed;
use crate::drawing::{DrawingCase, DrawingShape, Draws, Keeping, Sequencer};
use crate::stage::{Stage, text};
use doorbell_systems::local_sequencer::{LocalSequencer, LocalSequencerClient, MACHINE};
use doorbell_verbs::{Cluster, PageSize};

/// Fetch-and-add by a machine's threads. It ignores a case's server, and draws one number at a time.
#[derive(Clone, Copy, Debug)]
pub struct Local;

impl Sequencer for Local {
    fn put_up<C: Cluster>(case: &DrawingCase<Local>, stage: &mut Stage<'_, C, Draws>) -> Result<(), String> {
        let cluster = stage.cluster();
        let counter = cluster.alloc(MACHINE, 64, PageSize::Huge).map_err(text)?;
        cluster.preset(MACHINE, counter, |bytes| bytes[..8].copy_from_slice(&case.first.to_ne_bytes()));
        let (drawing, interval) = (case.drawing(), stage.client_interval());
        for core in 0..case.clients {
            stage.add_client(
                (MACHINE, core),
                Keeping(LocalSequencerClient { counter, drawing, interval: interval.clone() }),
            );
        }
        Ok(())
    }
}

/// The checks of the local sequencer.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    vec![
        DrawingShape::new(Local, 1).check("systems/sequencer/local"),
        DrawingShape::new(Local, 1).across_2_32().check("systems/sequencer/local_across_2_32"),
        deployed::check::<LocalSequencer, C>(),
    ]
}
