//! Vector I/O on machines.

use super::config::{Chosen, VectorIo};
use super::protocol::{Client, SERVICE, places};
use crate::config::{Clients, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, memory_server};
use doorbell_verbs::{AccessFlags, Cluster};

impl System for VectorIo {
    const NAME: &'static str = "vector-io";
    const ABOUT: &'static str = "Calls that write many small pieces side by side: copied, as a list of WRITEs, or gathered by the NIC";

    /// One thread and one machine to write to, as the paper's Figures 3 and 4 have it; how many calls are outstanding is not stated.
    fn usual() -> VectorIo {
        VectorIo {
            clients: Clients::new(1, 16, 4, false),
            timing: Timing::USUAL,
            strategy: Chosen::Sp,
            iovcnt: 16,
            piece: 32,
            inline_bytes: 64,
        }
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn timing(&self) -> &Timing {
        &self.timing
    }

    fn timing_mut(&mut self) -> &mut Timing {
        &mut self.timing
    }

    fn store_bytes(&self) -> u64 {
        places(self).1 * u64::from(self.clients.clients)
    }

    /// The pieces, and their copies.
    fn warmed_bytes(&self) -> u64 {
        let apart = u64::from(self.piece).next_multiple_of(64) * u64::from(self.iovcnt);
        apart + places(self).1
    }

    fn client_bytes(&self) -> u64 {
        self.warmed_bytes()
    }

    fn latency_of(&self) -> Option<&'static str> {
        Some("a call, from before its pieces are copied or its list is made")
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let Some(strategy) = self.strategy.strategy() else {
            let why = "strategy is auto, which a profile decides, but nothing here says what things cost: use sp, doorbell or sgl";
            return Err(SiteError::Said(why.into()));
        };
        let clients = self.clients.clients;
        let memory = site.alloc(self.store_bytes())?;
        memory_server::put_up(site, SERVICE, clients, memory, AccessFlags::REMOTE_WRITE);
        for number in 0..clients {
            let interval = site.client_interval();
            site.add_client(
                self.clients.place(number),
                Client { number, io: self.clone(), strategy, interval },
            );
        }
        Ok(())
    }
}
