//! Deployment of the sequencer on one machine.

use super::config::LocalSequencer;
use super::protocol::LocalSequencerClient;
use crate::config::{OneByOne, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape};
use doorbell_verbs::Cluster;

/// The machine of all threads: the first machine that has clients.
pub const MACHINE: u32 = 1;

impl System for LocalSequencer {
    const NAME: &'static str = "local-sequencer";
    const ABOUT: &'static str =
        "Sequencer by fetch-and-add of threads of one machine; the server takes no part";
    const DESIGN: Option<(&'static str, &'static str)> = Some(("sequencer", "local"));

    fn usual() -> LocalSequencer {
        LocalSequencer { clients: OneByOne::new(8, 8), timing: Timing::USUAL }
    }

    fn check(&self) -> Result<(), String> {
        self.clients.refuse()
    }

    fn shape(&self) -> SystemShape {
        SystemShape { one_machine: true, ..SystemShape::of(self.clients.clients()) }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let counter = site.alloc_near((MACHINE, 0), 64)?;
        for core in 0..self.clients.clients().clients {
            let (drawing, interval) = (self.clients.clients().drawing(), site.client_interval());
            site.add_client((MACHINE, core), LocalSequencerClient { counter, drawing, interval });
        }
        Ok(())
    }
}
