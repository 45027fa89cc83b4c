//! Deployment of the sequencer by fetch-and-add.

use super::config::AtomicsSequencer;
use super::protocol::{AtomicsClient, SERVICE};
use crate::config::{Clients, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape, memory_server};
use doorbell_verbs::{AccessFlags, Cluster};

impl System for AtomicsSequencer {
    const NAME: &'static str = "atomics-sequencer";
    const ABOUT: &'static str = "Sequencer by RDMA fetch-and-add";
    const DESIGN: Option<(&'static str, &'static str)> = Some(("sequencer", "atomics"));

    fn usual() -> AtomicsSequencer {
        AtomicsSequencer { clients: Clients::new(70, 14, 16, false), timing: Timing::USUAL }
    }

    fn shape(&self) -> SystemShape {
        SystemShape::of(&self.clients)
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let counter = site.counter(0)?;
        memory_server::put_up(site, SERVICE, self.clients.clients, counter, AccessFlags::REMOTE_ATOMIC);
        for number in 0..self.clients.clients {
            let (drawing, interval) = (self.clients.drawing(), site.client_interval());
            site.add_client(self.clients.place(number), AtomicsClient { number, drawing, interval });
        }
        Ok(())
    }
}
