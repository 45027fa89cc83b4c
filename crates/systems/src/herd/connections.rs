//! The server's ends of its clients' connections.

use super::config::Config;
use crate::SystemError;
use crate::device::{self, Device};
use crate::outbox::{self, Outbox};
use doorbell_verbs::{Cq, Provider, QpCap, QpInitAttr};

/// The name under which the connections of a worker are published. If a client has one connection for all
/// workers, it is worker 0's.
pub(super) fn service(worker: u32) -> String {
    format!("herd/{worker}")
}

/// Bytes up to which a reply over a connection is inline.
pub(super) fn inline<P: Provider>(device: &Device<P>, config: &Config) -> u32 {
    device.inline(config.reply_slots().reach(config.max_reply) as u32)
}

/// The `batch` of a connection's outbox: its room for work requests beyond the signalled ones. Everything
/// fits that a client may have outstanding, so the worker never waits for a client that has left.
pub(super) fn batch(config: &Config) -> u32 {
    config.window.max(config.gather)
}

/// Connects worker `worker` with every client. If requests are SENT, `requests` has the CQ in which they
/// complete, and the number of RECVs of each connection.
pub(super) fn connect<P: Provider>(
    device: &Device<P>,
    config: &Config,
    worker: u32,
    requests: Option<(&Cq<P>, u32)>,
) -> Result<Vec<Outbox<P>>, SystemError> {
    let posts = config.replies.are_posted_to_connections();
    let unused = device.context.create_cq(1)?;
    let (received, recvs) = requests.unwrap_or((&unused, 1));
    let batch = batch(config);
    let mut outboxes = Vec::new();
    device::serve_qps(device, config.clients, &service(worker), |_| {
        // If a client leaves, each work request completes.
        let sent = if posts { device.context.create_cq(outbox::depth(batch))? } else { unused.clone() };
        let cap = QpCap {
            max_send_wr: if posts { outbox::depth(batch) } else { 1 },
            max_recv_wr: recvs,
            max_inline_data: if posts { inline(device, config) } else { 0 },
            ..QpCap::default()
        };
        let attr = QpInitAttr::new(config.requests.transport(), cap);
        let qp = device.pd.create_qp(&sent, received, None, &attr)?;
        outboxes.push(Outbox::new(qp.clone(), sent, batch));
        Ok(qp)
    })?;
    Ok(outboxes)
}
