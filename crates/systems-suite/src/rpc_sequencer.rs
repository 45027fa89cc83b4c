//! The sequencer over HERD's RPCs.

use crate::check::Check;
use crate::deployed;
use crate::drawing::{DrawingCase, DrawingShape, Draws, Keeping, Sequencer};
use crate::stage::{Stage, place, text};
use doorbell_systems::herd;
use doorbell_systems::rpc_sequencer::{
    MAX_REPLY, MAX_REQUEST, RpcSequencer, RpcSequencerClient, RpcSequencerServer,
};
use doorbell_verbs::Cluster;

/// The sequencer over HERD's RPCs, with requests by WRITE.
#[derive(Clone, Copy, Debug)]
pub struct HerdRpc;

/// The sequencer by RC SENDs in both directions.
#[derive(Clone, Copy, Debug)]
pub struct RcSends;

impl Sequencer for HerdRpc {
    fn put_up<C: Cluster>(
        case: &DrawingCase<HerdRpc>,
        stage: &mut Stage<'_, C, Draws>,
    ) -> Result<(), String> {
        case.put_up_by((herd::Requests::WriteUc, herd::Replies::SendUd), case.queues, stage)
    }
}

impl Sequencer for RcSends {
    fn put_up<C: Cluster>(
        case: &DrawingCase<RcSends>,
        stage: &mut Stage<'_, C, Draws>,
    ) -> Result<(), String> {
        case.put_up_by((herd::Requests::SendRc, herd::Replies::SendRc), 1, stage)
    }
}

impl<S: Sequencer> DrawingCase<S> {
    fn put_up_by<C: Cluster>(
        &self,
        (requests, replies): (herd::Requests, herd::Replies),
        queues: u32,
        stage: &mut Stage<'_, C, Draws>,
    ) -> Result<(), String> {
        let config = herd::Config {
            requests,
            replies,
            workers: self.workers,
            clients: self.clients,
            window: self.outstanding,
            max_request: MAX_REQUEST,
            max_reply: MAX_REPLY,
            gather: self.gather,
            doorbell: self.doorbell,
            queues,
            retry: self.retry,
        };
        let region = stage.alloc(config.region_bytes()).map_err(text)?;
        let counter = stage.counter(self.first).map_err(text)?;
        let interval = stage.server_interval();
        for number in 0..self.workers {
            stage.add_server(RpcSequencerServer {
                config: config.clone(),
                number,
                region,
                counter,
                interval: interval.clone(),
            });
        }
        let (drawing, interval) = (self.drawing(), stage.client_interval());
        let machines = stage.cluster().machines();
        for number in 0..self.clients {
            let client =
                RpcSequencerClient { config: config.clone(), number, drawing, interval: interval.clone() };
            stage.add_client(place(machines, number), Keeping(client));
        }
        Ok(())
    }
}

/// The checks of the sequencer over RPCs.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let with = |outstanding| DrawingShape::new(HerdRpc, outstanding);
    vec![
        with(1).check("systems/sequencer/herd_rpc"),
        with(8).batched().check("systems/sequencer/herd_rpc_batching"),
        with(4).batched().across_2_32().check("systems/sequencer/herd_rpc_across_2_32"),
        with(4).batched().across_2_32().losing().check("systems/sequencer/herd_rpc_lost_messages"),
        DrawingShape::new(RcSends, 1).check("systems/sequencer/rc_sends"),
        deployed::check::<RpcSequencer, C>(),
    ]
}
