//! Any RPC: each client gets all replies, each to its own request, for all verbs, sizes and times.

use crate::check::{Check, Scale, Trouble};
use crate::deployed;
use crate::stage::{self, place, text};
use doorbell_systems::Measured;
use doorbell_systems::herd::{Config, Replies, Requests};
use doorbell_systems::rpc::{Arrivals, Load, Rpc, RpcClient, RpcServer, Sizes, Times};
use doorbell_verbs::{Cluster, Span};

/// The parameters of a case. [`RpcCase::usual`] has the usual ones.
#[derive(Clone, Debug)]
struct RpcCase {
    /// How requests and replies travel.
    by: (Requests, Replies),
    /// Number of clients.
    clients: u32,
    /// Threads of the server.
    workers: u32,
    /// Largest number of requests that a client has outstanding.
    outstanding: u32,
    /// Whether clients wait for a window of replies.
    windows: bool,
    /// When requests are due.
    arrivals: Arrivals,
    /// Mean span between a client's requests, in an open loop.
    between: Span,
    /// Time that clients wait between requests, in a closed loop.
    think: Span,
    /// Mean time that a worker computes for a request.
    handler: Span,
    /// Distribution of that time.
    times: Times,
    /// Requests that a worker takes in a pass.
    gather: u32,
    /// Bytes of requests.
    requests: Sizes,
    /// Bytes of replies.
    replies: Sizes,
    /// Requests of each client.
    limit: u64,
    /// Time after which clients repeat a request.
    retry: Option<Span>,
    /// Seed of the draws.
    seed: u64,
}

impl RpcCase {
    /// HERD's RPCs in a closed loop, with several requests outstanding.
    fn usual() -> RpcCase {
        RpcCase {
            by: (Requests::WriteUc, Replies::SendUd),
            clients: 3,
            workers: 2,
            outstanding: 4,
            windows: false,
            arrivals: Arrivals::Closed,
            between: Span::from_us(20),
            think: Span::ZERO,
            handler: Span::ZERO,
            times: Times::Fixed,
            gather: 8,
            requests: Sizes::fixed(32),
            replies: Sizes::fixed(32),
            limit: 100,
            retry: None,
            seed: 1,
        }
    }

    fn config(&self) -> Config {
        Config {
            requests: self.by.0,
            replies: self.by.1,
            workers: self.workers,
            clients: self.clients,
            window: self.outstanding.next_power_of_two(),
            max_request: self.requests.longest(),
            max_reply: self.replies.longest(),
            gather: self.gather,
            doorbell: self.gather > 1,
            queues: 1,
            retry: self.retry,
        }
    }

    fn load(&self) -> Load {
        Load {
            arrivals: self.arrivals,
            between: self.between,
            think: self.think,
            windows: self.windows,
            outstanding: self.outstanding,
            requests: self.requests.clone(),
            limit: self.limit,
            seed: self.seed,
        }
    }

    /// Runs the case. Clients compare replies with their requests, and give up if a reply does not arrive.
    ///
    /// # Errors
    /// A description of the failure.
    fn run<C: Cluster>(&self, cluster: &mut C, trouble: Trouble, scale: &Scale) -> Result<(), String> {
        let machines = cluster.machines();
        let mut stage = stage::stage::<C, Measured>(cluster, trouble.faults(scale), scale.patience)?;
        let config = self.config();
        let region = stage.alloc(config.region_bytes()).map_err(text)?;
        let interval = stage.server_interval();
        for number in 0..self.workers {
            let (config, replies) = (config.clone(), self.replies.clone());
            let RpcCase { handler, times, seed, .. } = *self;
            stage.add_server(RpcServer {
                config,
                number,
                region,
                handler,
                times,
                replies,
                seed,
                interval: interval.clone(),
            });
        }
        for number in 0..self.clients {
            let (config, load, interval) = (config.clone(), self.load(), stage.client_interval());
            stage.add_client(
                place(machines, number),
                RpcClient { config, number, load, interval: interval.clone() },
            );
        }
        let Some(ended) = stage.run().map_err(text)? else { return Ok(()) };
        let done: Vec<u64> = ended.clients.iter().map(|client| client.done).collect();
        if done.iter().any(|done| *done != self.limit) {
            return Err(format!(
                "each client has {} requests, but the clients completed {done:?}",
                self.limit
            ));
        }
        let (posted, asked) = (ended.server.replies, u64::from(self.clients) * self.limit);
        let as_many = match (self.by.1, self.retry) {
            (Replies::ReadRc, _) => posted == 0,
            (_, None) => posted == asked,
            (_, Some(_)) => posted >= asked,
        };
        if as_many { Ok(()) } else { Err(format!("the server posted {posted} replies to {asked} requests")) }
    }
}

/// A check with the usual number of requests divided by `part`.
fn check<C: Cluster>(name: &str, case: RpcCase, part: u32, trouble: Trouble) -> Check<C> {
    Check::new(format!("systems/rpc_load/{name}"), move |cluster: &mut C, scale| {
        let clients = scale.clients;
        let limit = (scale.requests / part / trouble.part()).into();
        RpcCase { clients, limit, retry: trouble.retry(scale), ..case.clone() }.run(cluster, trouble, scale)
    })
}

/// The checks of RPCs.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let sizes = |text: &str| text.parse::<Sizes>().expect("the text is a valid list of sizes");
    let mixed =
        RpcCase { requests: sizes("0-200:3,1500"), replies: sizes("0:1,32-900:3"), ..RpcCase::usual() };
    let long = RpcCase { requests: sizes("1"), replies: sizes("20000-40000"), ..RpcCase::usual() };
    let exponential = RpcCase { handler: Span::from_us(2), times: Times::Exponential, ..mixed.clone() };
    let (send, write, read) = (
        (Requests::SendRc, Replies::SendRc),
        (Requests::WriteUc, Replies::WriteUc),
        (Requests::WriteRc, Replies::ReadRc),
    );
    vec![
        check("closed_loop", exponential.clone(), 1, Trouble::None),
        check(
            "windows",
            RpcCase { windows: true, think: Span::from_us(3), ..mixed.clone() },
            1,
            Trouble::None,
        ),
        check(
            "fixed_arrivals",
            RpcCase { arrivals: Arrivals::Fixed, by: send, ..mixed.clone() },
            1,
            Trouble::None,
        ),
        check(
            "poisson_arrivals",
            RpcCase { arrivals: Arrivals::Poisson, by: write, ..exponential },
            1,
            Trouble::None,
        ),
        check("lost_messages", RpcCase { by: write, ..mixed.clone() }, 1, Trouble::Loss),
        check("lost_datagrams", mixed, 1, Trouble::Loss),
        check("long_replies_by_write", RpcCase { by: write, ..long.clone() }, 8, Trouble::Hesitation),
        check("long_replies_by_read", RpcCase { by: read, ..long.clone() }, 8, Trouble::None),
        check("long_replies_by_read_while_stored", RpcCase { by: read, ..long }, 8, Trouble::Hesitation),
        deployed::check::<Rpc, C>(),
    ]
}
