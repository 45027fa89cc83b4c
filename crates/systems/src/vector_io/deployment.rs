//! Deployment of vector I/O.

use super::config::VectorIo;
use super::protocol::{SERVICE, VectorClient, places};
use crate::config::{Clients, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::strategy::{Chosen, Strategy, VectorCalls};
use crate::{Measured, System, SystemShape, memory_server};
use doorbell_verbs::{AccessFlags, Cluster};

impl System for VectorIo {
    const NAME: &'static str = "vector-io";
    const ABOUT: &'static str = "Calls that write many small pieces side by side: copied together, as a list \
                                 of WRITEs, or gathered by the NIC";

    /// One thread and one target machine, as in the paper's Figures 3 and 4. The paper does not state the
    /// number of outstanding calls.
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

    fn shape(&self) -> SystemShape {
        // The pieces, and their copies.
        let apart = u64::from(self.piece).next_multiple_of(64) * u64::from(self.iovcnt);
        let warmed_bytes = apart + places(self).1;
        SystemShape {
            store_bytes: places(self).1 * u64::from(self.clients.clients),
            warmed_bytes,
            client_bytes: warmed_bytes,
            inline_bytes: Some(self.inline_bytes),
            latency_of: Some("a call, with the time to copy its pieces or to make its list"),
            ..SystemShape::of(&self.clients)
        }
    }

    fn decide(&mut self, fastest: &dyn Fn(&VectorCalls) -> Strategy) {
        if self.strategy == Chosen::Auto {
            self.strategy = fastest(&self.calls()).into();
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let Some(strategy) = self.strategy.strategy() else {
            let why = "strategy is auto, but there is no profile with the costs to decide by: use sp, \
                       doorbell or sgl";
            return Err(SiteError::Said(why.into()));
        };
        let clients = self.clients.clients;
        let memory = site.alloc(self.shape().store_bytes)?;
        memory_server::put_up(site, SERVICE, clients, memory, AccessFlags::REMOTE_WRITE);
        for number in 0..clients {
            let interval = site.client_interval();
            site.add_client(
                self.clients.place(number),
                VectorClient { number, io: self.clone(), strategy, interval },
            );
        }
        Ok(())
    }
}
