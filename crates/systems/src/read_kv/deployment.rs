//! The store that clients READ on machines.

use super::config::ReadKv;
use super::protocol::Client;
use crate::config::{Clients, Pairs, Scale, Timing, Travel, Values, Workers};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System};
use doorbell_verbs::Cluster;

impl System for ReadKv {
    const NAME: &'static str = "read-kv";
    const ABOUT: &'static str = "GET by two READs, PUT over HERD's RPCs";

    fn usual() -> ReadKv {
        ReadKv {
            clients: Clients::new(70, 16, 16, false),
            workers: Workers::new(1),
            travel: Travel::WRITES,
            pairs: Pairs::new(8 << 10, 0),
            values: Values::USUAL,
            scale: Scale::PAPER,
            timing: Timing::USUAL,
        }
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
        self.server().store_bytes()
    }

    fn warmed_bytes(&self) -> u64 {
        self.server().config.warmed_bytes()
    }

    fn datagram(&self) -> Option<(&'static str, u32)> {
        Some(("value", self.server().datagram()))
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let server = self.server();
        server.deploy(site)?;
        for number in 0..self.clients.clients {
            let client = Client {
                config: server.config.clone(),
                layout: server.layout(),
                number,
                load: server.load,
                interval: site.client_interval(),
            };
            site.add_client(self.clients.place(number), client);
        }
        Ok(())
    }
}
