//! Deployment of DrTM-KV.

use super::config::DrtmKv;
use super::protocol::{ACCESS, DrtmClient, ITEM, SERVICE, VALUE};
use crate::config::{Clients, Pairs, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape, memory_server};
use doorbell_verbs::Cluster;

impl System for DrtmKv {
    const NAME: &'static str = "drtm-kv";
    const ABOUT: &'static str = "DrTM-KV: GET by READ, PUT by atomics";

    fn usual() -> DrtmKv {
        DrtmKv {
            clients: Clients::new(70, 14, 16, false),
            pairs: Pairs::new(1 << 20, 0),
            timing: Timing::USUAL,
            update: false,
        }
    }

    fn shape(&self) -> SystemShape {
        let store_bytes = self.pairs.pairs * ITEM;
        SystemShape { store_bytes, followed: Ok(1), ..SystemShape::of(&self.clients) }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let items = site.alloc(self.shape().store_bytes)?;
        // Clients do not check the key of an item, so the items have no keys.
        memory_server::put_up(site, SERVICE, self.clients.clients, items, ACCESS);
        let load = self.pairs.load(1, VALUE, &self.clients, &self.timing);
        for number in 0..self.clients.clients {
            let interval = site.client_interval();
            site.add_client(
                self.clients.place(number),
                DrtmClient { number, load, update: self.update, interval },
            );
        }
        Ok(())
    }
}
