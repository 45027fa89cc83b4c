//! Deployment of IO consolidation.

use super::config::Consolidate;
use super::protocol::{ConsolidateClient, SERVICE};
use super::rules::Holding;
use crate::config::{Clients, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape, memory_server};
use doorbell_schema::Duration;
use doorbell_verbs::{AccessFlags, Cluster, Span};

impl System for Consolidate {
    const NAME: &'static str = "consolidate";
    const ABOUT: &'static str =
        "Small writes that clients hold back and post block by block (IO consolidation)";

    /// Values of the paper's Figure 8: writes of 32 bytes, blocks of 1 kB, one thread. The paper does not
    /// state the number of blocks, of outstanding posts, or the time-out. Here there are 16 blocks: a small
    /// range as in the paper's discussion, which stays in the core's own caches. The time-out is longer than
    /// theta writes to each block take.
    fn usual() -> Consolidate {
        Consolidate {
            clients: Clients::new(1, 16, 16, false),
            timing: Timing::USUAL,
            block: 1024,
            theta: 16,
            time_out: Duration::new(Span::from_ms(1)),
            modification: 32,
            blocks: 16,
            holding: Holding::Exclusive,
            marked: 0,
        }
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn shape(&self) -> SystemShape {
        // A frame for each held or posted block, one for the next block to be held, and one for READs.
        let frames = u64::from(self.blocks) + u64::from(self.clients.outstanding) + 2;
        let client_bytes = frames * u64::from(self.block);
        SystemShape {
            store_bytes: self.region() * u64::from(self.clients.clients),
            // A client READs and writes each of its blocks once, one after the other.
            warmed_bytes: u64::from(self.blocks) * u64::from(self.block.max(2048)),
            client_bytes,
            latency_of: Some("a write, from the time it is held back until its block is at the target"),
            held_back: Some((Consolidate::time_out.key, self.time_out.span())),
            ..SystemShape::of(&self.clients)
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let clients = self.clients.clients;
        let memory = site.alloc(self.shape().store_bytes)?;
        let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        memory_server::put_up(site, SERVICE, clients, memory, access);
        for number in 0..clients {
            let interval = site.client_interval();
            site.add_client(
                self.clients.place(number),
                ConsolidateClient { number, io: self.clone(), interval },
            );
        }
        Ok(())
    }
}
