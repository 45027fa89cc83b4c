//! The sequencer over HERD's RPCs.

use crate::check::Check;
use crate::deployed;
use crate::drawing::{Case, Draws, Keeping, Sequencer, Shape};
use crate::stage::{Stage, place, text};
use doorbell_systems::herd;
use doorbell_systems::rpc_sequencer::{Client, MAX_REPLY, MAX_REQUEST, RpcSequencer, Server};
use doorbell_verbs::Cluster;

/// Over HERD's RPCs, requests by WRITE.
#[derive(Clone, Copy, Debug)]
pub struct HerdRpc;

impl Sequencer for HerdRpc {
    fn put_up<C: Cluster>(case: &Case<HerdRpc>, stage: &mut Stage<'_, C, Draws>) -> Result<(), String> {
        let config = herd::Config {
            requests: herd::Requests::WriteUc,
            replies: herd::Replies::SendUd,
            workers: case.workers,
            clients: case.clients,
            window: case.outstanding,
            max_request: MAX_REQUEST,
            max_reply: MAX_REPLY,
            gather: case.gather,
            doorbell: case.doorbell,
            queues: case.queues,
            retry: case.retry,
        };
        let region = stage.alloc(config.region_bytes()).map_err(text)?;
        let counter = stage.counter(case.first).map_err(text)?;
        let interval = stage.server_interval();
        for number in 0..case.workers {
            stage.add_server(Server {
                config: config.clone(),
                number,
                region,
                counter,
                interval: interval.clone(),
            });
        }
        let (drawing, interval) = (case.drawing(), stage.client_interval());
        let machines = stage.cluster().machines();
        for number in 0..case.clients {
            let client = Client { config: config.clone(), number, drawing, interval: interval.clone() };
            stage.add_client(place(machines, number), Keeping(client));
        }
        Ok(())
    }
}

/// Its checks.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let with = |outstanding| Shape::new(HerdRpc, outstanding);
    vec![
        with(1).check("systems/sequencer/herd_rpc"),
        with(8).batched().check("systems/sequencer/herd_rpc_batching"),
        with(4).batched().across_2_32().check("systems/sequencer/herd_rpc_across_2_32"),
        with(4).batched().across_2_32().losing().check("systems/sequencer/herd_rpc_lost_messages"),
        deployed::check::<RpcSequencer, C>(),
    ]
}
