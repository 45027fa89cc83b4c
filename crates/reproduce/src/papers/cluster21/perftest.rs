//! Workloads like perftest's `ib_read_bw`, `ib_write_bw`, `ib_read_lat` and `ib_write_lat`. The authors' own
//! repositories contain perftest. Figure 1 and Table III use these workloads, because the paper does not
//! state its own.

use doorbell_lab::SystemWorkload;
use doorbell_nic::Profile;
use doorbell_schema::Duration;
use doorbell_systems::config::Timing;
use doorbell_systems::ping_pong::{Message, PingPong};
use doorbell_verbs::{QpType, Span};
use doorbell_workload::{Pattern, Verb, Workload};

/// For perftest's bandwidth tests: outstanding operations, and operations per signalled operation.
pub(super) const OUTSTANDING: u32 = 128;
const SIGNAL_EVERY: u32 = 100;

/// Warm-up and measured time of a latency. They are short because the latency is constant within a run.
const LATENCY: (Span, Span) = (Span::from_us(50), Span::from_us(300));

/// Sockets of a thread and of its memory: 0 is the NIC's socket, 1 the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub core: u32,
    pub memory: u32,
}

impl Place {
    /// Thread and memory at the NIC's socket.
    pub(super) const OWN: Place = Place { core: 0, memory: 0 };

    /// Places in Table III, in the order of its rows and columns.
    pub(super) const ALL: [Place; 4] = [
        Place::OWN,
        Place { core: 0, memory: 1 },
        Place { core: 1, memory: 0 },
        Place { core: 1, memory: 1 },
    ];
}

/// Warm-up and measured time of a rate, in microseconds. In the measured time, the link carries several times
/// the outstanding bytes. One completion stands for a hundred operations, so with large payloads a shorter
/// run would be coarse.
fn times(size: u32) -> (u64, u64) {
    let outstanding_us = u64::from(OUTSTANDING * size) / LINK_BYTES_PER_US;
    ((2 * outstanding_us).max(100), (16 * outstanding_us).max(300))
}

/// Bytes per microsecond that the cluster's link carries.
const LINK_BYTES_PER_US: u64 = 4000;

/// READs or WRITEs of one QP, posted singly as in perftest's bandwidth tests. Nothing is inlined.
pub(super) fn rate(verb: Verb, size: u32, initiator: Place, responder: Place) -> Workload {
    let (warmup, duration) = times(size);
    let us = |us| Some(Duration::new(Span::from_us(us)));
    Workload {
        warmup: us(warmup),
        duration: us(duration),
        verb: Some(verb),
        transport: Some(QpType::Rc),
        size: Some(size),
        pattern: Some(Pattern::Outbound),
        machines: Some(2),
        threads: Some(1),
        qps: Some(1),
        window_per_qp: Some(OUTSTANDING),
        signal_every: Some(SIGNAL_EVERY),
        inline: (verb != Verb::Read).then_some(false),
        ports: Some(1),
        socket: Some(initiator.core),
        memory_socket: Some(initiator.memory),
        peer_socket: Some(responder.core),
        peer_memory_socket: Some(responder.memory),
        ..Workload::default()
    }
}

/// Perftest's latency tests. The latency is a whole READ, or half a round trip of WRITEs. WRITEs of up to 220
/// bytes are inlined.
pub(super) fn latency(
    profile: &Profile,
    verb: Verb,
    size: u32,
    initiator: Place,
    responder: Place,
) -> SystemWorkload {
    let message = if verb == Verb::Read { Message::ReadRc } else { Message::WriteRc };
    let core = |socket| socket * profile.host.cores;
    PingPong {
        core: core(initiator.core),
        memory_core: core(initiator.memory),
        peer_core: core(responder.core),
        peer_memory_core: core(responder.memory),
        ..PingPong::of(message, size, Timing::of(LATENCY.0, LATENCY.1))
    }
    .into()
}
