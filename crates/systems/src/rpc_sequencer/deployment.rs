//! Deployment of the sequencer over HERD's RPCs.

use super::config::RpcSequencer;
use super::protocol::{RpcSequencerClient, RpcSequencerServer};
use crate::config::{Clients, Timing, Travel, Workers};
use crate::herd::{Replies, Requests};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape};
use doorbell_schema::Given;
use doorbell_verbs::{Cluster, QpType};

impl System for RpcSequencer {
    const NAME: &'static str = "rpc-sequencer";
    const ABOUT: &'static str = "Sequencer over HERD's RPCs or other verbs";
    const DESIGN: Option<(&'static str, &'static str)> = Some(("sequencer", "rpc"));

    /// Clients send windows of 32 requests. Multi-queue means 3 QPs per port.
    fn usual() -> RpcSequencer {
        RpcSequencer {
            clients: Clients::new(70, 14, 32, true),
            workers: Workers::new(3),
            travel: Travel::WRITES,
            timing: Timing::USUAL,
            request: Requests::WriteUc,
            reply: Replies::SendUd,
        }
    }

    /// Without batching, a worker replies to a request before it polls for the next one. Only replies by
    /// datagrams have several queues.
    fn settle(&mut self, given: &Given) {
        if !self.workers.batching && given.get(Workers::gather.key).is_none() {
            self.workers.gather = 1;
        }
        if self.travel.datagrams && given.get(RpcSequencer::request.key).is_none() {
            self.request = Requests::SendUd;
        }
        if self.reply.transport() != QpType::Ud && given.get(Workers::queues.key).is_none() {
            self.workers.queues = 1;
        }
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn shape(&self) -> SystemShape {
        SystemShape {
            workers: Some(self.workers.cores),
            warmed_bytes: self.herd().warmed_bytes(),
            followed: self.herd().followed(),
            ..SystemShape::of(&self.clients)
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let config = self.herd();
        let region = site.alloc(config.region_bytes())?;
        let counter = site.counter(0)?;
        let interval = site.server_interval();
        for number in 0..self.workers.cores {
            site.add_server(RpcSequencerServer {
                config: config.clone(),
                number,
                region,
                counter,
                interval: interval.clone(),
            });
        }
        for number in 0..self.clients.clients {
            let (drawing, interval) = (self.clients.drawing(), site.client_interval());
            site.add_client(
                self.clients.place(number),
                RpcSequencerClient { config: config.clone(), number, drawing, interval },
            );
        }
        Ok(())
    }
}
