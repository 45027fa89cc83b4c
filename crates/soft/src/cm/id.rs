//! An id (`struct rdma_cm_id`) as the kernel has one: its addresses, and how far its connection has come.

use crate::descriptors::Private;
use crate::errno::{EINVAL, Errno};
use doorbell_abi::cm::{port_space, rdma_ucm_conn_param};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

/// `IBV_QPT_RC`, `IBV_QPT_UD`.
const QPT_RC: u8 = 2;
pub(super) const QPT_UD: u8 = 4;

/// A port space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Space {
    Tcp,
    Udp,
    /// For QPs of any type.
    Ib,
    Ipoib,
}

impl Space {
    /// # Errors
    /// `EINVAL` where there is none with this number.
    pub(super) fn new(number: u16) -> Result<Space, Errno> {
        match number {
            port_space::TCP => Ok(Space::Tcp),
            port_space::UDP => Ok(Space::Udp),
            port_space::IB => Ok(Space::Ib),
            port_space::IPOIB => Ok(Space::Ipoib),
            _ => Err(EINVAL),
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

    /// The type of QPs, where a program says `asked`.
    pub(super) fn qp_type(self, asked: u8) -> u8 {
        match self {
            Space::Tcp => QPT_RC,
            Space::Udp | Space::Ipoib => QPT_UD,
            Space::Ib => asked,
        }
    }
}

/// How far an id has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdStep {
    Idle,
    Bound,
    /// So many more may ask before one of those that asked is told to the program.
    Listening {
        backlog: u32,
    },
    AddressResolved,
    RouteResolved,
    /// Of who has come to `listener`: its REQ is awaited.
    Arriving {
        listener: u32,
    },
    /// The REP is awaited; `sent` says whether the REQ is on its way.
    Connecting {
        sent: bool,
    },
    /// The REQ came; the program has not answered.
    Requested,
    /// The REP is sent and the RTU awaited.
    Accepted,
    /// The REP came; the program has not said that its QP is ready.
    Answered,
    Connected,
    /// The DREP is awaited.
    Disconnecting,
    Ended,
}

/// What rdma_set_option(3) sets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) may_share_port: bool,
    /// Whether a wildcard is of its own family alone. That of IPv4 always is.
    pub(super) is_of_one_family: bool,
    pub(super) tos: u8,
    pub(super) ack_timeout: Option<u8>,
}

/// READs and atomics that may be outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CmReads {
    /// Of the other side's.
    pub(super) responder: u8,
    /// Of this side's.
    pub(super) initiator: u8,
}

impl CmReads {
    /// What one side says.
    pub(super) fn of(param: &rdma_ucm_conn_param) -> CmReads {
        CmReads { responder: param.responder_resources, initiator: param.initiator_depth }
    }

    /// The same as the other side sees it.
    pub(super) fn seen(self) -> CmReads {
        CmReads { responder: self.initiator, initiator: self.responder }
    }
}

/// A socket under a name in the fabric's folder. The name goes with it.
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
    /// What the program calls it; 0 until it has accepted it.
    pub(super) uid: u64,
    /// Number of its channel.
    pub(super) channel: u32,
    pub(super) space: Space,
    pub(super) qp_type: u8,
    pub(super) options: Options,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    /// Events of it that the program has got.
    pub(super) events_reported: u32,
    pub(super) step: IdStep,
    /// The connection, or what listens.
    pub(super) socket: Option<Private>,
    pub(super) named: Option<Named>,
    /// When it is too late for what is awaited.
    pub(super) until: Option<Instant>,
    pub(super) is_active: bool,
    /// First PSNs.
    pub(super) own_psn: u32,
    pub(super) peer_psn: u32,
    /// What each side has said, with its QP.
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

    /// Whether what it asks and answers is the service of a datagram QP (SIDR), not a connection.
    pub(super) fn is_ud(&self) -> bool {
        self.qp_type == QPT_UD
    }

    /// Whether it is known which device it is of.
    pub(super) fn has_device(&self) -> bool {
        self.remote.is_some() || self.local.is_some_and(|local| !local.ip().is_unspecified())
    }

    /// There is no connection any more.
    pub(super) fn end(&mut self) {
        (self.step, self.socket, self.until) = (IdStep::Ended, None, None);
    }
}
