//! The server of a case of the store over HERD's RPCs.

use crate::kv::{KvCase, MAX_REQUEST_VALUE, MAX_VALUE};
use crate::stage::{Stage, text};
use doorbell_systems::Record;
use doorbell_systems::herd::{Config, Replies, Requests};
use doorbell_systems::herd_kv::{HerdKvServer, max_reply, max_request};
use doorbell_systems::kv::Layout;
use doorbell_verbs::Cluster;

/// A log that has room for all appends, so that nothing is evicted.
pub(crate) fn layout() -> Layout {
    Layout { buckets: 4, log: 64 * 65_536, max_value: MAX_VALUE }
}

/// Parameters of the RPCs of a case.
pub(crate) fn config<S>(case: &KvCase<S>) -> Config {
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

/// Adds the server's threads. `readers` clients READ its tables.
pub(crate) fn serve<S, C: Cluster, R: Record>(
    case: &KvCase<S>,
    layout: Layout,
    readers: u32,
    stage: &mut Stage<'_, C, R>,
) -> Result<(), String> {
    let config = config(case);
    let interval = stage.server_interval();
    let region = stage.alloc(config.region_bytes()).map_err(text)?;
    let tables = stage.alloc(layout.bytes() * u64::from(case.workers)).map_err(text)?;
    for number in 0..case.workers {
        stage.add_server(HerdKvServer {
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
