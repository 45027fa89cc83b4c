//! An id (`struct rdma_cm_id`) as the kernel would keep it: its addresses and the progress of its connection.

use super::causes::{CM_PS, CM_STEP};
use crate::causes::Hex;
use crate::descriptors::Private;
use doorbell_abi::cm::{port_space, rdma_ucm_conn_param};
use doorbell_transport::Refused;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

/// `IBV_QPT_RC`, `IBV_QPT_UD`.
const QPT_RC: u8 = 2;
pub(super) const QPT_UD: u8 = 4;

/// A port space of rdma_cm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Space {
    Tcp,
    Udp,
    /// The port space for QPs of any type.
    Ib,
    Ipoib,
}

impl Space {
    /// # Errors
    /// `EINVAL` if no port space has this number.
    pub(super) fn new(number: u16) -> Result<Space, Refused> {
        match number {
            port_space::TCP => Ok(Space::Tcp),
            port_space::UDP => Ok(Space::Udp),
            port_space::IB => Ok(Space::Ib),
            port_space::IPOIB => Ok(Space::Ipoib),
            _ => Err(CM_PS.of([&Hex(number)])),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Space::Tcp => "tcp",
            Space::Udp => "udp",
            Space::Ib => "ib",
            Space::Ipoib => "ipoib",
        }
    }

    /// The type of an id's QP in this port space. `asked` is the type that the program requested, which
    /// counts only for [`Space::Ib`].
    pub(super) fn qp_type(self, asked: u8) -> u8 {
        match self {
            Space::Tcp => QPT_RC,
            Space::Udp | Space::Ipoib => QPT_UD,
            Space::Ib => asked,
        }
    }
}

/// The progress of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdStep {
    Idle,
    Bound,
    /// `backlog` more requests are accepted before the program fetches the event of a request.
    Listening {
        backlog: u32,
    },
    AddressResolved,
    RouteResolved,
    /// A process has connected to the listener `listener`, and its REQ is awaited.
    Arriving {
        listener: u32,
    },
    /// The REP is awaited. `sent` says whether the REQ was sent.
    Connecting {
        sent: bool,
    },
    /// The REQ has arrived, and the program has not answered.
    Requested,
    /// The REP was sent, and the RTU is awaited.
    Accepted,
    /// The REP has arrived, and the program has not reported that its QP is ready.
    Answered,
    Connected,
    /// The DREP is awaited.
    Disconnecting,
    Ended,
}

/// The names of steps in sentences.
pub(super) const NEW: &str = "new";
pub(super) const BOUND: &str = "bound";
pub(super) const NEW_OR_BOUND: &str = "new or bound";
pub(super) const HAS_ADDRESS: &str = "resolved to an address";
pub(super) const HAS_ROUTE: &str = "resolved to a route";
pub(super) const REQUESTED: &str = "a connection request";

impl IdStep {
    /// The name of the step in sentences.
    pub(super) fn name(self) -> &'static str {
        match self {
            IdStep::Idle => NEW,
            IdStep::Bound => BOUND,
            IdStep::Listening { .. } => "listening",
            IdStep::AddressResolved => HAS_ADDRESS,
            IdStep::RouteResolved => HAS_ROUTE,
            IdStep::Arriving { .. } | IdStep::Connecting { .. } => "connecting",
            IdStep::Requested => REQUESTED,
            IdStep::Accepted => "accepted",
            IdStep::Answered => "accepted by the peer",
            IdStep::Connected => "connected",
            IdStep::Disconnecting => "disconnecting",
            IdStep::Ended => "disconnected",
        }
    }

    /// The error for a call that needs an id in another step.
    pub(super) fn is_not(self, needed: &str) -> Refused {
        CM_STEP.of([&self.name(), &needed])
    }
}

/// Options of rdma_set_option(3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) may_share_port: bool,
    /// Whether an IPv6 wildcard address covers only IPv6. An IPv4 wildcard always covers only IPv4.
    pub(super) is_of_one_family: bool,
    pub(super) tos: u8,
    pub(super) ack_timeout: Option<u8>,
}

/// The numbers of READs and atomics that may be outstanding on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CmReads {
    /// Maximum number of outstanding requests of the other side.
    pub(super) responder: u8,
    /// Maximum number of outstanding requests of this side.
    pub(super) initiator: u8,
}

impl CmReads {
    /// The numbers that one side announces.
    pub(super) fn of(param: &rdma_ucm_conn_param) -> CmReads {
        CmReads { responder: param.responder_resources, initiator: param.initiator_depth }
    }

    /// The numbers of the other side, with the two directions swapped.
    pub(super) fn seen(self) -> CmReads {
        CmReads { responder: self.initiator, initiator: self.responder }
    }
}

/// The path of a listening socket in the fabric's folder. Dropping the value removes the path.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) path: PathBuf,
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[derive(Debug)]
pub(super) struct Id {
    /// The number by which the program knows the id in events; 0 for the id of a connection request that the
    /// program has not accepted.
    pub(super) uid: u64,
    /// Number of the id's channel.
    pub(super) channel: u32,
    pub(super) space: Space,
    pub(super) qp_type: u8,
    pub(super) options: Options,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    /// Number of events of the id that the program has fetched.
    pub(super) events_reported: u32,
    pub(super) step: IdStep,
    /// The socket of the connection, or the listening socket.
    pub(super) socket: Option<Private>,
    pub(super) named: Option<Named>,
    /// Deadline of the awaited message.
    pub(super) until: Option<Instant>,
    pub(super) is_active: bool,
    /// First PSNs of this side and of the peer.
    pub(super) own_psn: u32,
    pub(super) peer_psn: u32,
    /// Connection parameters of this side and of the peer, with their QP numbers.
    pub(super) own: rdma_ucm_conn_param,
    pub(super) peer: rdma_ucm_conn_param,
    pub(super) reads: CmReads,
}

impl Id {
    pub(super) fn new(uid: u64, channel: u32, space: Space, qp_type: u8, own_psn: u32) -> Id {
        Id {
            uid,
            channel,
            space,
            qp_type,
            options: Options::default(),
            local: None,
            remote: None,
            events_reported: 0,
            step: IdStep::Idle,
            socket: None,
            named: None,
            until: None,
            is_active: false,
            own_psn,
            peer_psn: 0,
            own: rdma_ucm_conn_param::default(),
            peer: rdma_ucm_conn_param::default(),
            reads: CmReads::default(),
        }
    }

    /// Whether the id resolves the service of a datagram QP (SIDR) instead of a connection.
    pub(super) fn is_ud(&self) -> bool {
        self.qp_type == QPT_UD
    }

    /// Whether the id is bound to the device: it has a remote address, or a local address other than a
    /// wildcard.
    pub(super) fn has_device(&self) -> bool {
        self.remote.is_some() || self.local.is_some_and(|local| !local.ip().is_unspecified())
    }

    /// Closes the connection. No deadline remains.
    pub(super) fn end(&mut self) {
        (self.step, self.socket, self.until) = (IdStep::Ended, None, None);
    }
}
