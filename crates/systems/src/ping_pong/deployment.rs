//! Deployment of ping-pong: machine 0 answers machine 1.

use super::config::{Message, PingPong};
use super::protocol::{PingPongClient, PingPongServer};
use crate::config::{Clients, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape};
use doorbell_verbs::{Cluster, QpType};

/// One client, with one message at a time.
const ALONE: Clients = Clients::new(1, 1, 1, false);

impl System for PingPong {
    const NAME: &'static str = "ping-pong";
    const ABOUT: &'static str = "Ping-pong like perftest's latency tests: half a round trip, or a whole READ";

    /// perftest's defaults.
    fn usual() -> PingPong {
        PingPong::of(Message::WriteRc, 2, Timing::USUAL)
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn shape(&self) -> SystemShape {
        let PingPong { core, memory_core, peer_core, peer_memory_core, .. } = *self;
        let peer = [("peer_core", peer_core), ("peer_memory_core", peer_memory_core)];
        let cores = [("core", core), ("memory_core", memory_core)].into_iter().chain(peer).collect();
        SystemShape {
            cores,
            // Buffers for both directions, on both machines.
            store_bytes: 4 * u64::from(self.size),
            inline_bytes: self.inline_bytes,
            datagram: (self.message.transport() == QpType::Ud).then_some((PingPong::size.key, self.size)),
            followed: Ok(if self.message == Message::ReadRc { 1 } else { 2 }),
            latency_of: Some(if self.message == Message::ReadRc {
                "a whole READ"
            } else {
                "half a round trip"
            }),
            ..SystemShape::of(&ALONE)
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let PingPong { message, size, core, memory_core, peer_core, peer_memory_core, .. } = *self;
        let inline = self.inlines();
        let interval = site.server_interval();
        let server = PingPongServer { message, size, inline, near: peer_memory_core, interval };
        site.add_server_on(peer_core, server);
        let interval = site.client_interval();
        site.add_client((1, core), PingPongClient { message, size, inline, near: memory_core, interval });
        Ok(())
    }
}
