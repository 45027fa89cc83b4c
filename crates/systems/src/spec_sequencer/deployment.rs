//! Deployment of Spec-S0.

use super::config::SpecSequencer;
use super::protocol::{SpecClient, SpecServer};
use crate::config::{Clients, Timing, Workers};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape};
use doorbell_verbs::Cluster;

impl System for SpecSequencer {
    const NAME: &'static str = "spec-sequencer";
    const ABOUT: &'static str = "Spec-S0, a sequencer by header-only SENDs";
    const DESIGN: Option<(&'static str, &'static str)> = Some(("sequencer", "spec-s0"));

    /// Clients keep 16 requests outstanding.
    fn usual() -> SpecSequencer {
        SpecSequencer {
            clients: Clients::new(70, 14, 16, false),
            workers: Workers::new(3),
            timing: Timing::USUAL,
        }
    }

    fn shape(&self) -> SystemShape {
        SystemShape { workers: Some(self.workers.cores), ..SystemShape::of(&self.clients) }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let config = self.shared();
        let counter = site.counter(0)?;
        let interval = site.server_interval();
        for number in 0..self.workers.cores {
            site.add_server(SpecServer {
                config: config.clone(),
                number,
                counter,
                interval: interval.clone(),
            });
        }
        for number in 0..self.clients.clients {
            let (drawing, interval) = (self.clients.drawing(), site.client_interval());
            let client = SpecClient { config: config.clone(), number, guess: 0, drawing, interval };
            site.add_client(self.clients.place(number), client);
        }
        Ok(())
    }
}
