//! Deployment of the store that clients READ.

use super::config::ReadKv;
use super::protocol::ReadKvClient;
use crate::config::{Clients, Pairs, Scale, Timing, Travel, Values, Workers};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape};
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
            let client = ReadKvClient {
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
