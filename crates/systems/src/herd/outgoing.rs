//! How a worker's replies leave: by UD QPs of each port, or by the connection of each client.

use super::config::Config;
use crate::SystemError;
use crate::device::{Device, QKEY};
use crate::outbox::{self, Outbox};
use doorbell_verbs::{Ah, AhAttr, Endpoint, Provider, RemoteAddr, SendWr, UdDest};

/// The address of a client, and the local port by which a worker reaches it.
struct Destination {
    port: u8,
    dest: UdDest,
}

/// Sends replies by UD QPs.
pub(super) struct Datagrams<P: Provider> {
    clients: Vec<Destination>,
    ahs: Vec<(AhAttr, Ah<P>)>,
    /// For each port, the outboxes of its UD QPs.
    outboxes: Vec<Vec<Outbox<P>>>,
    queue: usize,
}

impl<P: Provider> Datagrams<P> {
    pub(super) fn new(device: &Device<P>, config: &Config, inline: u32) -> Result<Datagrams<P>, SystemError> {
        let mut outboxes = Vec::new();
        for port in 1..=device.attr.ports {
            let mut queues = Vec::new();
            for _ in 0..config.queues {
                let cq = device.context.create_cq(outbox::cqe(config.gather))?;
                let qp = device.ud(port, (&cq, &cq), outbox::depth(config.gather), 1, inline)?;
                queues.push(Outbox::new(qp, cq, config.gather));
            }
            outboxes.push(queues);
        }
        Ok(Datagrams { clients: Vec::new(), ahs: Vec::new(), outboxes, queue: 0 })
    }

    /// Adds the next client, which is reached through local `port`.
    pub(super) fn add_client(
        &mut self,
        device: &Device<P>,
        port: u8,
        remote: &Endpoint,
    ) -> Result<(), SystemError> {
        let local = device.context.query_port(port)?;
        let attr = AhAttr::to_endpoint(port, &local, remote);
        // Clients on one port share an address handle.
        let ah = match self.ahs.iter().find(|(a, _)| *a == attr) {
            Some((_, ah)) => ah.clone(),
            None => {
                let ah = device.pd.create_ah(&attr)?;
                self.ahs.push((attr, ah.clone()));
                ah
            }
        };
        self.clients.push(Destination { port, dest: ah.dest(remote.qpn, QKEY) });
        Ok(())
    }

    /// The number of clients that were added.
    pub(super) fn clients(&self) -> u32 {
        self.clients.len() as u32
    }

    /// Posts replies, each with its client, by one QP of each port. Calls `posted` with the length of each
    /// list.
    pub(super) fn post(
        &mut self,
        replies: Vec<(u32, SendWr<'_>)>,
        most: usize,
        posted: &mut dyn FnMut(usize),
    ) -> Result<(), SystemError> {
        let mut lists: Vec<Vec<SendWr<'_>>> = vec![Vec::new(); self.outboxes.len()];
        for (client, wr) in replies {
            let to = &self.clients[client as usize];
            lists[usize::from(to.port - 1)].push(wr.to(to.dest));
        }
        for (queues, list) in self.outboxes.iter_mut().zip(&mut lists) {
            let queue = self.queue % queues.len();
            for part in list.chunks_mut(most) {
                queues[queue].post(part)?;
                posted(part.len());
            }
        }
        self.queue = self.queue.wrapping_add(1);
        Ok(())
    }
}

/// Sends replies by connections. A client that has left gets no more replies.
pub(super) struct Connected<P: Provider> {
    outboxes: Vec<Option<Outbox<P>>>,
    /// For each client, the address to which its replies are WRITTEN; empty if replies are SENT.
    targets: Vec<RemoteAddr>,
}

impl<P: Provider> Connected<P> {
    pub(super) fn new(outboxes: Vec<Outbox<P>>) -> Connected<P> {
        Connected { outboxes: outboxes.into_iter().map(Some).collect(), targets: Vec::new() }
    }

    /// Adds the address to which the next client's replies are WRITTEN.
    pub(super) fn add_target(&mut self, target: RemoteAddr) {
        self.targets.push(target);
    }

    /// The address to which a client's replies are WRITTEN; `None` if replies are SENT.
    pub(super) fn target(&self, client: u32) -> Option<RemoteAddr> {
        self.targets.get(client as usize).copied()
    }

    /// Posts replies, each with its client. Calls `posted` with the length of each list. If replies are
    /// WRITTEN `again`, waits until these WRITEs have left. Until then the NIC may read their slots, but the
    /// first WRITE may already let the client reuse a slot for its next request.
    pub(super) fn post(
        &mut self,
        mut replies: Vec<(u32, SendWr<'_>)>,
        most: usize,
        again: bool,
        posted: &mut dyn FnMut(usize),
    ) -> Result<(), SystemError> {
        // The replies to one client stay in order.
        replies.sort_by_key(|(client, _)| *client);
        for of_client in replies.chunk_by(|a, b| a.0 == b.0) {
            let list: Vec<SendWr<'_>> = of_client.iter().map(|(_, wr)| *wr).collect();
            self.post_to(of_client[0].0, list, most, again, posted)?;
        }
        Ok(())
    }

    fn post_to(
        &mut self,
        client: u32,
        mut list: Vec<SendWr<'_>>,
        most: usize,
        again: bool,
        posted: &mut dyn FnMut(usize),
    ) -> Result<(), SystemError> {
        let outbox = &mut self.outboxes[client as usize];
        for part in list.chunks_mut(most) {
            let Some(open) = outbox else { return Ok(()) };
            let wait = again && !self.targets.is_empty();
            match if wait { open.post_and_wait(part) } else { open.post(part) } {
                // The client has left. If the client ended with an error, the client reports it.
                Err(SystemError::Completion(_)) => *outbox = None,
                ended => ended?,
            }
            posted(part.len());
        }
        Ok(())
    }
}
