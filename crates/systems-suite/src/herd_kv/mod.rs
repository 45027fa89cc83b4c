//! The store over HERD's RPCs: linearizable for each key, and it refuses what is out of range.

mod client;
mod refusals;

pub(crate) use client::Client;
pub use refusals::refuses;

use crate::check::{Check, Trouble};
use crate::deployed;
use crate::kv::{Case, History, LENGTHS, MAX_REQUEST_VALUE, MAX_VALUE, Shape, Store};
use crate::stage::{Stage, text};
use doorbell_systems::herd::{Config, Replies, Requests};
use doorbell_systems::herd_kv::{HerdKv, Server, max_reply, max_request};
use doorbell_systems::kv::Layout;
use doorbell_systems::{Record, SystemError};
use doorbell_verbs::{Cluster, Program, Time};

/// All over HERD's RPCs.
#[derive(Clone, Copy, Debug)]
pub struct Herd;

impl Store for Herd {
    const FIRST: Option<u64> = None;
    const ONLY_PUT_AND_GET: bool = false;
    const LENGTHS: [usize; 2] = LENGTHS;

    fn serve<C: Cluster>(case: &Case<Herd>, stage: &mut Stage<'_, C, History>) -> Result<(), String> {
        serve(case, layout(), 0, stage)
    }

    fn client(
        case: Case<Herd>,
        number: u32,
        end: Time,
    ) -> impl Program<Output = Result<History, SystemError>> {
        Client { case, reads: false, number, end }
    }
}

/// A log that takes all that is ever appended, so that nothing is evicted.
pub(crate) fn layout() -> Layout {
    Layout { buckets: 4, log: 64 * 65_536, max_value: MAX_VALUE }
}

/// Parameters of the RPCs of a case.
pub(crate) fn config<S>(case: &Case<S>) -> Config {
    Config {
        requests: Requests::WriteUc,
        replies: Replies::SendUd,
        workers: case.workers,
        clients: case.clients,
        window: case.outstanding,
        max_request: max_request(MAX_REQUEST_VALUE),
        max_reply: max_reply(MAX_VALUE),
        gather: case.gather,
        doorbell: case.doorbell,
        queues: 2,
        retry: case.retry,
    }
}

/// Adds the server's threads; so many clients READ its tables.
pub(crate) fn serve<S, C: Cluster, R: Record>(
    case: &Case<S>,
    layout: Layout,
    readers: u32,
    stage: &mut Stage<'_, C, R>,
) -> Result<(), String> {
    let config = config(case);
    let interval = stage.server_interval();
    let region = stage.alloc(config.region_bytes()).map_err(text)?;
    let tables = stage.alloc(layout.bytes() * u64::from(case.workers)).map_err(text)?;
    for number in 0..case.workers {
        stage.add_server(Server {
            config: config.clone(),
            number,
            region,
            tables,
            layout,
            pairs: 0,
            value: 0,
            filled: None,
            prefetch: case.prefetch,
            readers,
            interval: interval.clone(),
        });
    }
    Ok(())
}

/// Its checks.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    vec![
        Shape::new(Herd, 1).check("systems/kv/herd"),
        Shape::new(Herd, 4).batched().check("systems/kv/herd_batching"),
        Shape::new(Herd, 4).batched().under(Trouble::Loss).check("systems/kv/herd_lost_messages"),
        Check::new("systems/rpc/refusals", |cluster, scale| refuses(cluster, scale.patience)),
        deployed::check::<HerdKv, C>(),
    ]
}
