//! Deployment of the store over HERD's RPCs.

use super::config::HerdKv;
use super::protocol::HerdKvClient;
use crate::config::{Clients, Pairs, Scale, Timing, Travel, Values, Workers};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape};
use doorbell_verbs::Cluster;

impl System for HerdKv {
    const NAME: &'static str = "herd-kv";
    const ABOUT: &'static str = "Key-value store like MICA over HERD's RPCs";

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

    fn shape(&self) -> SystemShape {
        SystemShape {
            store_bytes: self.server().store_bytes(),
            workers: Some(self.workers.cores),
            warmed_bytes: self.server().config.warmed_bytes(),
            datagram: Some((Values::value.key, self.server().datagram())),
            followed: self.server().config.followed(),
            ..SystemShape::of(&self.clients)
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let server = self.server();
        server.deploy(site)?;
        for number in 0..self.clients.clients {
            let client = HerdKvClient {
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
