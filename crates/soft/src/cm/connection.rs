//! Establishes and ends connections: sends the messages for each command, and handles the messages of the
//! other side (IB specification vol. 1, 12.9).

use super::address::{self, Host, PREFIX};
use super::attributes::{UDP_QKEY, path};
use super::id::{CmReads, Id, IdStep, Space};
use super::message::{CmMessage, CmReceived, kind, receive, send};
use super::state::CmState;
use crate::descriptors::Private;
use crate::errno::{EINVAL, Errno};
use crate::fabric::wire;
use doorbell_abi::cm::{RDMA_MAX_PRIVATE_DATA, event, rdma_ucm_conn_param, rdma_ucm_ud_param};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Time to wait for an answer. The kernel sends a request 16 times and waits 4.3 s each time.
pub(super) const PATIENCE: Duration = Duration::from_millis(68_719);

/// Bytes of private data that each kind of message has for the program (IB specification vol. 1, 12.6 and
/// 12.11). rdma_cm's own header in the private data is not counted.
pub(super) mod private {
    pub(in super::super) const REQ: usize = 56;
    pub(in super::super) const REP: usize = 196;
    pub(in super::super) const REJ: usize = 148;
    pub(in super::super) const SIDR_REQ: usize = 180;
    pub(in super::super) const SIDR_REP: usize = 136;
}

/// Time during which a connection request to a missing listener is retried before it is rejected. On a
/// network, the resolution of addresses and paths takes some milliseconds, but here it takes no time.
/// Programs that listen again for each connection, such as perftest, rely on this delay.
const GRACE: Duration = Duration::from_millis(100);

/// Reasons of a REJ (12.6.7.2), and statuses of a SIDR_REP (12.11.2.2).
const INVALID_SERVICE_ID: u32 = 8;
pub(super) const CONSUMER_REJECT: u32 = 28;
const SIDR_UNSUPPORTED: u32 = 1;
const SIDR_REJECT: u32 = 2;

/// Largest retry count of a QP, a field of 3 bits.
const MOST_RETRIES: u8 = 7;

/// Limits retry counts to [`MOST_RETRIES`], because programs request larger ones.
pub(super) fn clamped(mut param: rdma_ucm_conn_param) -> rdma_ucm_conn_param {
    param.retry_count = param.retry_count.min(MOST_RETRIES);
    param.rnr_retry_count = param.rnr_retry_count.min(MOST_RETRIES);
    param
}

/// The file name of the socket that listens at an address. A wildcard address covers both address families,
/// or with `alone` only its own family.
pub(super) fn name(space: Space, host: Host, at: SocketAddr, alone: bool) -> String {
    let (space, port, ip) = (space.name(), at.port(), at.ip().to_canonical());
    match ip {
        ip if ip.is_unspecified() => {
            let family = if !alone {
                ""
            } else if ip.is_ipv4() {
                "4"
            } else {
                "6"
            };
            format!("{PREFIX}{space}-{port}-any{family}-{}", host.name())
        }
        ip if ip.is_loopback() => format!("{PREFIX}{space}-{port}-{ip}-{}", host.name()),
        ip => format!("{PREFIX}{space}-{port}-{ip}"),
    }
}

/// Sends the connection request of an id to the listener at the id's resolved address. If the listener's
/// connection queue is full, the request is retried until the deadline. A missing listener is retried for
/// [`GRACE`], and then counts as a rejection.
pub(super) fn ask(state: &mut CmState, name: u32) -> Result<(), Errno> {
    let folder = state.folder()?;
    let Some(id) = state.any(name) else { return Ok(()) };
    id.until.get_or_insert_with(|| Instant::now() + PATIENCE);
    let (space, is_ud) = (id.space, id.is_ud());
    let to = id.remote.ok_or(EINVAL)?;
    match reach(folder, space, to) {
        Ok(socket) => {
            let request = CmMessage {
                from: address::to_bytes(id.local),
                to: address::to_bytes(id.remote),
                ..own(id, kind::REQ)
            };
            // The first message on a socket always fits.
            send(&socket, &request)?;
            state.watch(name, Private::new(socket)?)?;
            // Only an id with a socket is waiting for an answer.
            if let Some(id) = state.any(name) {
                id.step = IdStep::Connecting { sent: true };
            }
        }
        // The connection queue of the listener is full, or the listener does not exist yet.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock || is_early(id) => {
            id.step = IdStep::Connecting { sent: false };
        }
        Err(_) => {
            let reason = if is_ud { SIDR_UNSUPPORTED } else { INVALID_SERVICE_ID };
            reject_alone(state, name, reason);
        }
    }
    state.wake();
    Ok(())
}

/// Whether the id's connection request began less than [`GRACE`] ago.
fn is_early(id: &Id) -> bool {
    id.until.is_some_and(|until| until.saturating_duration_since(Instant::now()) > PATIENCE - GRACE)
}

/// Connects to the listener at an address, or else to the listener at the wildcard address of the host that
/// has this address.
fn reach(folder: &File, space: Space, to: SocketAddr) -> io::Result<std::os::fd::OwnedFd> {
    let host = Host::own().find(to.ip(), folder).ok_or(io::ErrorKind::NotFound)?;
    let any = SocketAddr::new(address::any_like(to).ip(), to.port());
    let mut last = io::ErrorKind::NotFound.into();
    for (at, alone) in [(to, false), (any, true), (any, false)] {
        match wire::connect(folder, name(space, host, at, alone)) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => last = error,
            reached => return reached,
        }
    }
    Err(last)
}

/// A message with this side's PSN and parameters.
fn own(id: &Id, kind: u32) -> CmMessage {
    CmMessage { psn: id.own_psn, param: id.own, ..CmMessage::new(kind) }
}

/// Sends a message to the other side. A failure is ignored, because the socket reports a closed connection to
/// the thread.
fn say(id: &Id, message: &CmMessage) {
    if let Some(socket) = &id.socket {
        let _ = send(socket.get(), message);
    }
}

/// Accepts a connection request for rdma_accept(3): sends the REP. For UD, this ends the exchange.
pub(super) fn accept(id: &mut Id, uid: u64, param: rdma_ucm_conn_param) {
    id.own = clamped(param);
    (id.uid, id.reads) = (uid, CmReads::of(&id.own));
    if id.is_ud() && id.own.qkey == 0 {
        id.own.qkey = UDP_QKEY;
    }
    say(id, &own(id, kind::REP));
    if id.is_ud() {
        return id.end();
    }
    (id.step, id.until) = (IdStep::Accepted, Some(Instant::now() + PATIENCE));
}

/// Rejects a connection for rdma_reject(3): sends the REJ with `bytes` as private data.
pub(super) fn reject(id: &mut Id, reason: u32, bytes: &[u8]) {
    let mut message = CmMessage { reason, ..CmMessage::new(kind::REJ) };
    if id.is_ud() {
        message.reason = SIDR_REJECT;
    }
    message.param.private_data[..bytes.len()].copy_from_slice(bytes);
    say(id, &message);
    id.end();
}

/// Sends the RTU, because the program's QP is ready.
pub(super) fn establish(id: &mut Id) {
    say(id, &CmMessage::new(kind::RTU));
    (id.step, id.until) = (IdStep::Connected, None);
}

/// Begins to disconnect for rdma_disconnect(3): sends the DREQ.
pub(super) fn disconnect(id: &mut Id) {
    say(id, &CmMessage::new(kind::DREQ));
    (id.step, id.until) = (IdStep::Disconnecting, Some(Instant::now() + PATIENCE));
}

/// The event parameters that report the other side's parameters. `room` is the number of bytes of private
/// data in the other side's message.
fn told(param: &rdma_ucm_conn_param, reads: CmReads, room: usize) -> rdma_ucm_conn_param {
    let mut told = rdma_ucm_conn_param {
        private_data_len: room as u8,
        responder_resources: reads.responder,
        initiator_depth: reads.initiator,
        valid: 0,
        ..*param
    };
    told.private_data[room..].fill(0);
    told
}

/// The event parameters that report the other side's parameters for UD. `room` is the number of bytes of
/// private data in the other side's message.
fn told_of_ud(id: &Id, param: &rdma_ucm_conn_param, room: usize) -> rdma_ucm_ud_param {
    let mut private_data = [0; RDMA_MAX_PRIVATE_DATA];
    private_data[..room].copy_from_slice(&param.private_data[..room]);
    rdma_ucm_ud_param {
        qp_num: param.qp_num,
        qkey: param.qkey,
        ah_attr: path(id.options.tos),
        private_data,
        private_data_len: room as u8,
        reserved: [0; 7],
    }
}

/// Handles all messages that have arrived for an id.
pub(super) fn hear(state: &mut CmState, name: u32) {
    while let Some(id) = state.any(name) {
        let Some(socket) = &id.socket else { return };
        match receive(socket.get()) {
            CmReceived::Nothing => return,
            CmReceived::End => return hear_end(state, name),
            CmReceived::Message(message) => hear_message(state, name, &message),
        }
    }
}

fn hear_message(state: &mut CmState, name: u32, message: &CmMessage) {
    let Some(id) = state.any(name) else { return };
    match (id.step, message.kind) {
        (IdStep::Arriving { listener }, kind::REQ) => hear_request(state, name, listener, message),
        (IdStep::Connecting { .. }, kind::REP) => hear_answer(state, name, message),
        (IdStep::Connecting { .. } | IdStep::Answered | IdStep::Accepted, kind::REJ) => {
            hear_reject(state, name, message);
        }
        (IdStep::Accepted, kind::RTU) => {
            (id.step, id.until) = (IdStep::Connected, None);
            state.tell(name, event::ESTABLISHED, 0, &[]);
        }
        (IdStep::Connected | IdStep::Accepted | IdStep::Answered | IdStep::Disconnecting, kind::DREQ) => {
            say(id, &CmMessage::new(kind::DREP));
            end(state, name, (event::DISCONNECTED, 0));
        }
        (IdStep::Disconnecting, kind::DREP) => end(state, name, (event::DISCONNECTED, 0)),
        // The message is late or invalid.
        _ => {}
    }
}

fn end(state: &mut CmState, name: u32, (event, status): (u32, i32)) {
    if let Some(id) = state.any(name) {
        id.end();
        state.tell(name, event, status, &[]);
    }
}

/// Handles a connection request at a listener. Requests beyond the listener's backlog are rejected.
fn hear_request(state: &mut CmState, name: u32, listener: u32, message: &CmMessage) {
    let Some(Id { uid, channel, step: IdStep::Listening { backlog }, .. }) = state.any(listener) else {
        state.remove(name);
        return;
    };
    let (uid, channel) = (*uid, *channel);
    let is_full = *backlog == 0;
    *backlog = backlog.saturating_sub(1);
    let Some(id) = state.any(name) else { return };
    // The listener may have moved to another channel since the connection was accepted.
    (id.step, id.channel) = (IdStep::Requested, channel);
    if is_full {
        reject(id, CONSUMER_REJECT, &[]);
        state.remove(name);
        return;
    }
    id.remote = address::parse(&message.from).ok().flatten();
    id.local = address::parse(&message.to).ok().flatten();
    (id.peer, id.peer_psn) = (clamped(message.param), message.psn);
    id.reads = CmReads::of(&id.peer).seen();
    let told = match id.is_ud() {
        true => told_of_ud(id, &id.peer, private::SIDR_REQ).as_bytes().to_vec(),
        false => told(&id.peer, id.reads, private::REQ).as_bytes().to_vec(),
    };
    state.push(channel, listener, (uid, name), (event::CONNECT_REQUEST, 0, &told));
}

/// Handles a REP: the other side has accepted the connection request.
fn hear_answer(state: &mut CmState, name: u32, message: &CmMessage) {
    let Some(id) = state.any(name) else { return };
    (id.peer, id.peer_psn, id.until) = (clamped(message.param), message.psn, None);
    if id.is_ud() {
        let told = told_of_ud(id, &id.peer, private::SIDR_REP);
        id.end();
        return state.tell(name, event::ESTABLISHED, 0, told.as_bytes());
    }
    id.step = IdStep::Answered;
    id.reads = CmReads::of(&id.peer).seen();
    let told = told(&id.peer, id.reads, private::REP);
    state.tell(name, event::CONNECT_RESPONSE, 0, told.as_bytes());
}

fn hear_reject(state: &mut CmState, name: u32, message: &CmMessage) {
    let Some(id) = state.any(name) else { return };
    let is_ud = id.is_ud();
    let told = told(&message.param, CmReads::default(), private::REJ);
    id.end();
    match is_ud {
        true => state.tell(name, event::UNREACHABLE, message.reason as i32, &[]),
        false => state.tell(name, event::REJECTED, message.reason as i32, told.as_bytes()),
    }
}

/// Handles a rejection that no peer has sent. As in the kernel, the event has private data of zeros.
fn reject_alone(state: &mut CmState, name: u32, reason: u32) {
    hear_reject(state, name, &CmMessage { reason, ..CmMessage::new(kind::REJ) });
}

/// Handles a closed connection: the other side has closed its id, or its process has exited.
fn hear_end(state: &mut CmState, name: u32) {
    let Some(id) = state.any(name) else { return };
    match id.step {
        IdStep::Arriving { .. } => drop(state.remove(name)),
        IdStep::Connecting { .. } if id.is_ud() => reject_alone(state, name, SIDR_REJECT),
        IdStep::Connecting { .. } | IdStep::Answered | IdStep::Accepted => {
            reject_alone(state, name, CONSUMER_REJECT)
        }
        IdStep::Connected | IdStep::Disconnecting => end(state, name, (event::DISCONNECTED, 0)),
        _ => id.end(),
    }
}

/// Handles a passed deadline: the message that an id awaits has not arrived in time.
pub(super) fn too_late(state: &mut CmState, name: u32) {
    let Some(id) = state.any(name) else { return };
    match id.step {
        IdStep::Disconnecting => end(state, name, (event::DISCONNECTED, 0)),
        _ => end(state, name, (event::UNREACHABLE, -libc::ETIMEDOUT)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::channel::Channel;
    use super::*;
    use std::os::fd::AsRawFd;

    /// A listener moves to another channel after a process has connected and before its request arrives.
    #[test]
    fn who_asks_is_on_the_channel_of_the_listener() {
        let mut state = CmState::default();
        let [(before, _one), (after, _other)] = [(); 2].map(|()| {
            let (channel, fd) = Channel::new().expect("there are descriptors");
            state.add_channel(fd.as_raw_fd(), channel);
            (state.channel_of(fd.as_raw_fd()).expect("it is there"), fd)
        });
        let kind = (Space::Tcp, Space::Tcp.qp_type(0));
        let listener = state.add(7, before, kind);
        state.any(listener).expect("it is there").step = IdStep::Listening { backlog: 1 };
        let asks = state.add(0, before, kind);
        state.any(asks).expect("it is there").step = IdStep::Arriving { listener };
        state.migrate(before, after, listener).expect("both are there");
        hear_message(&mut state, asks, &CmMessage::new(kind::REQ));
        let told = state.channel(after).expect("it is there").pop().expect("it is told").told;
        assert_eq!((told.event, told.id), (event::CONNECT_REQUEST, asks));
        assert_eq!(state.id(after, asks).expect("it is to be accepted here").step, IdStep::Requested);
    }

    /// An answer does not arrive, for example because the other side is stopped.
    #[test]
    fn what_does_not_come_in_time_is_told() {
        let mut state = CmState::default();
        let (channel, fd) = Channel::new().expect("there are descriptors");
        state.add_channel(fd.as_raw_fd(), channel);
        let channel = state.channel_of(fd.as_raw_fd()).expect("it is there");
        let name = state.add(7, channel, (Space::Tcp, Space::Tcp.qp_type(0)));
        let unreachable = (event::UNREACHABLE, -libc::ETIMEDOUT);
        for (step, told) in [
            (IdStep::Connecting { sent: true }, unreachable),
            (IdStep::Accepted, unreachable),
            (IdStep::Disconnecting, (event::DISCONNECTED, 0)),
        ] {
            state.any(name).expect("it is there").step = step;
            too_late(&mut state, name);
            let event = state.channel(channel).expect("it is there").pop().expect("it is told").told;
            assert_eq!((event.event, event.status as i32, event.uid), (told.0, told.1, 7));
            assert_eq!(state.any(name).expect("it is there").step, IdStep::Ended);
        }
    }
}
