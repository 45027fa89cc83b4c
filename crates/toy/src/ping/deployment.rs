//! Deployment of the counter over SENDs.

use super::config::Ping;
use super::protocol::{Client, Server};
use doorbell_schema::Duration;
use doorbell_systems::config::{Clients, Timing};
use doorbell_systems::site::{Dress, Site, SiteError};
use doorbell_systems::{Measured, System, SystemShape};
use doorbell_verbs::{Cluster, Span};

impl System for Ping {
    const NAME: &'static str = "ping";
    const ABOUT: &'static str = "Counter over RC SENDs";

    fn usual() -> Ping {
        Ping {
            clients: Clients::new(8, 4, 4, false),
            timing: Timing::USUAL,
            service: Duration::new(Span::ZERO),
        }
    }

    fn shape(&self) -> SystemShape {
        SystemShape::of(&self.clients)
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let Clients { clients, outstanding, .. } = self.clients;
        let interval = site.server_interval();
        site.add_server(Server { clients, outstanding, first: 0, service: self.service.span(), interval });
        for number in 0..clients {
            let (drawing, interval) = (self.clients.drawing(), site.client_interval());
            site.add_client(self.clients.place(number), Client { number, drawing, interval });
        }
        Ok(())
    }
}
