//! The sequencer of a machine, on it.

use super::config::LocalSequencer;
use super::protocol::Client;
use crate::config::{Clients, OneByOne, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System};
use doorbell_verbs::Cluster;

/// The machine of the threads, which is that of the first clients.
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

    fn clients(&self) -> &Clients {
        self.clients.clients()
    }

    fn timing(&self) -> &Timing {
        &self.timing
    }

    fn timing_mut(&mut self) -> &mut Timing {
        &mut self.timing
    }

    fn is_of_one_machine(&self) -> bool {
        true
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let counter = site.alloc_near((MACHINE, 0), 64)?;
        for core in 0..self.clients().clients {
            let (drawing, interval) = (self.clients().drawing(), site.client_interval());
            site.add_client((MACHINE, core), Client { counter, drawing, interval });
        }
        Ok(())
    }
}
