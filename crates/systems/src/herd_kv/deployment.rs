//! The store over HERD's RPCs on machines.

use super::config::HerdKv;
use super::protocol::Client;
use crate::config::{Clients, Pairs, Scale, Timing, Travel, Values, Workers};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System};
use doorbell_verbs::Cluster;

impl System for HerdKv {
    const NAME: &'static str = "herd-kv";
    const ABOUT: &'static str = "MICA-like store over HERD's RPCs";

    fn usual() -> HerdKv {
        HerdKv {
            clients: Clients::new(128, 16, 32, true),
            workers: Workers::new(1),
            travel: Travel::WRITES,
            pairs: Pairs::new(8 << 10, 50),
            values: Values::USUAL,
            scale: Scale::PAPER,
            timing: Timing::USUAL,
            speculate: false,
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
                number,
                load: server.load,
                speculate: self.speculate,
                interval: site.client_interval(),
            };
            site.add_client(self.clients.place(number), client);
        }
        Ok(())
    }
}
