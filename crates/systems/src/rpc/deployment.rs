//! Deployment of an RPC.

use super::config::{Rpc, Times};
use super::protocol::{Load, RpcClient, RpcServer};
use super::sizes::Sizes;
use crate::config::{Clients, Timing, Workers};
use crate::herd::{self, Replies, Requests};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape, pace};
use doorbell_schema::{Arrivals, Duration, Given};
use doorbell_verbs::{Cluster, QpType, Span};

impl Rpc {
    fn herd(&self) -> herd::Config {
        herd::Config {
            requests: self.request,
            replies: self.reply,
            workers: self.workers.cores,
            clients: self.clients.clients,
            window: self.clients.outstanding.next_power_of_two(),
            max_request: self.request_size.longest(),
            max_reply: self.reply_size.longest(),
            gather: self.workers.gather,
            doorbell: self.workers.batching,
            queues: self.workers.queues,
            retry: None,
        }
    }

    fn load(&self) -> Load {
        Load {
            arrivals: self.arrivals,
            between: pace::between(self.rate, self.clients.clients.into()),
            think: self.think.span(),
            windows: self.clients.windows,
            outstanding: self.clients.outstanding,
            requests: self.request_size.clone(),
            limit: 0,
            seed: self.timing.seed,
        }
    }
}

impl System for Rpc {
    const NAME: &'static str = "rpc";
    const ABOUT: &'static str = "Any RPC: you choose verbs, sizes, work and arrivals";

    /// HERD's values.
    fn usual() -> Rpc {
        Rpc {
            clients: Clients::new(24, 8, 4, false),
            workers: Workers::new(1),
            timing: Timing::USUAL,
            request: Requests::WriteUc,
            reply: Replies::SendUd,
            request_size: Sizes::fixed(32),
            reply_size: Sizes::fixed(32),
            handler: Duration::new(Span::ZERO),
            handler_times: Times::Fixed,
            arrivals: Arrivals::Closed,
            rate: 0,
            think: Duration::new(Span::ZERO),
        }
    }

    /// Without batching, a worker replies to a request before it polls for the next one.
    fn settle(&mut self, given: &Given) {
        if !self.workers.batching && given.get(Workers::gather.key).is_none() {
            self.workers.gather = 1;
        }
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn shape(&self) -> SystemShape {
        // Each client has a window of requests and of replies at each worker.
        let (config, clients) = (self.herd(), u64::from(self.clients.clients));
        let messages = u64::from(config.max_request) + u64::from(config.max_reply) + 128;
        let store_bytes = clients * u64::from(config.workers) * u64::from(config.window) * messages;
        let by_datagrams = |transport| transport == QpType::Ud;
        let request = by_datagrams(self.request.transport())
            .then(|| (Rpc::request_size.key, self.request_size.longest()));
        let reply =
            by_datagrams(self.reply.transport()).then(|| (Rpc::reply_size.key, self.reply_size.longest()));
        let datagram = request.into_iter().chain(reply).max_by_key(|(_, bytes)| *bytes);
        SystemShape {
            store_bytes,
            warmed_bytes: config.warmed_bytes(),
            workers: Some(self.workers.cores),
            datagram,
            rate: (self.arrivals != Arrivals::Closed).then_some(self.rate),
            think: self.think.span(),
            followed: config.followed(),
            ..SystemShape::of(&self.clients)
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let config = self.herd();
        let region = site.alloc(config.region_bytes())?;
        let interval = site.server_interval();
        for number in 0..self.workers.cores {
            site.add_server(RpcServer {
                config: config.clone(),
                number,
                region,
                handler: self.handler.span(),
                times: self.handler_times,
                replies: self.reply_size.clone(),
                seed: self.timing.seed,
                interval: interval.clone(),
            });
        }
        for number in 0..self.clients.clients {
            let (load, interval) = (self.load(), site.client_interval());
            let client = RpcClient { config: config.clone(), number, load, interval };
            site.add_client(self.clients.place(number), client);
        }
        Ok(())
    }
}
