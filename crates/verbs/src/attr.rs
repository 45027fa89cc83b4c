//! Attributes of devices, ports and queue pairs.

use crate::{AccessFlags, Gid, LinkLayer, Mtu, QpState, QpType};

/// Limits of a device (the part of `struct ibv_device_attr` that programs plan with).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAttr {
    /// Name, such as `mlx5_0`.
    pub name: String,
    /// Number of ports, counted from 1.
    pub ports: u8,
    /// Work requests a queue may hold.
    pub max_qp_wr: u32,
    /// SGEs in a work request.
    pub max_sge: u32,
    /// CQEs in a completion queue.
    pub max_cqe: u32,
    /// Most READs and atomics that a QP accepts at a time, as responder.
    pub max_qp_rd_atom: u8,
    /// Most READs and atomics that a QP has outstanding at a time, as requester.
    pub max_qp_init_rd_atom: u8,
    /// Work requests a shared receive queue may hold; 0 if the device has no such queues.
    pub max_srq_wr: u32,
    /// Whether the device executes atomics.
    pub atomics: bool,
    /// Largest inline payload in bytes that `QpCap::max_inline_data` may ask for, if known.
    pub max_inline_data: Option<u32>,
}

/// Attributes of a port (`struct ibv_port_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAttr {
    /// Whether the port is active.
    pub active: bool,
    /// Active MTU.
    pub active_mtu: Mtu,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Link layer.
    pub link_layer: LinkLayer,
    /// Index of the GID to use as source.
    pub gid_index: u8,
    /// The GID at `gid_index`.
    pub gid: Gid,
}

/// Sizes of a QP's queues (`struct ibv_qp_cap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpCap {
    /// Send work requests outstanding.
    pub max_send_wr: u32,
    /// Receive work requests outstanding.
    pub max_recv_wr: u32,
    /// SGEs in a send work request.
    pub max_send_sge: u32,
    /// SGEs in a receive work request.
    pub max_recv_sge: u32,
    /// Bytes of inline payload.
    pub max_inline_data: u32,
}

impl Default for QpCap {
    fn default() -> QpCap {
        QpCap { max_send_wr: 128, max_recv_wr: 128, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 }
    }
}

/// Attributes of a new QP, including the sizes of its queues (`struct ibv_qp_init_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpInitAttr {
    /// Transport.
    pub qp_type: QpType,
    /// Queue sizes.
    pub cap: QpCap,
    /// Whether every send work request is signalled regardless of its flags.
    pub sq_sig_all: bool,
    /// Largest payload, in bytes, that the device puts into the CQE of a RECV (`max_inl_recv` of Mellanox's
    /// experimental verbs). The driver copies the payload to the RECV's buffer when the completion is polled.
    /// 0 turns this off. Devices without this feature write every payload to the RECV's buffer.
    pub max_inl_recv: u32,
}

impl QpInitAttr {
    /// A QP of this transport with these queues, signalling on request.
    pub const fn new(qp_type: QpType, cap: QpCap) -> QpInitAttr {
        QpInitAttr { qp_type, cap, sq_sig_all: false, max_inl_recv: 0 }
    }
}

/// Sizes of a shared receive queue (`struct ibv_srq_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqAttr {
    /// Receive work requests outstanding.
    pub max_wr: u32,
    /// SGEs in a receive work request.
    pub max_sge: u32,
}

/// A path to a port (`struct ibv_ah_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AhAttr {
    /// Local port to leave by.
    pub port_num: u8,
    /// LID of the destination; InfiniBand.
    pub dlid: u16,
    /// Service level of the packets (0 to 15); InfiniBand.
    pub sl: u8,
    /// Route by GIDs; needed on Ethernet.
    pub grh: Option<GlobalRoute>,
}

/// A 20-bit flow label. It takes three bytes, because many QPs store their paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlowLabel([u8; 3]);

impl FlowLabel {
    /// The lower 20 bits of a number.
    pub const fn new(number: u32) -> FlowLabel {
        let [_, high, middle, low] = number.to_be_bytes();
        FlowLabel([high & 0xf, middle, low])
    }

    /// The label as a number.
    pub const fn number(self) -> u32 {
        let [high, middle, low] = self.0;
        u32::from_be_bytes([0, high, middle, low])
    }
}

/// The global route header of packets on a path (`struct ibv_global_route`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalRoute {
    /// GID of the destination.
    pub dgid: Gid,
    /// Index of the source GID.
    pub sgid_index: u8,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Maximum number of hops that packets may take.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

impl GlobalRoute {
    /// Default hop limit. Usual networks have fewer routers on a path.
    const HOP_LIMIT: u8 = 64;

    /// A route between two GIDs with default values.
    pub const fn new(dgid: Gid, sgid_index: u8) -> GlobalRoute {
        GlobalRoute {
            dgid,
            sgid_index,
            flow_label: FlowLabel::new(0),
            hop_limit: GlobalRoute::HOP_LIMIT,
            traffic_class: 0,
        }
    }
}

/// Changes to a QP (`struct ibv_qp_attr`). The fields that are `Some` are the mask of ibv_modify_qp(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QpAttr {
    /// Next state.
    pub qp_state: Option<QpState>,
    /// Index into the P_Key table.
    pub pkey_index: Option<u16>,
    /// Port, from 1.
    pub port_num: Option<u8>,
    /// Rights of remote requesters on this QP.
    pub qp_access_flags: Option<AccessFlags>,
    /// Q_Key; UD.
    pub qkey: Option<u32>,
    /// Path MTU.
    pub path_mtu: Option<Mtu>,
    /// QP number of the peer.
    pub dest_qp_num: Option<u32>,
    /// First PSN to expect (24 bits).
    pub rq_psn: Option<u32>,
    /// Path to the peer.
    pub ah_attr: Option<AhAttr>,
    /// READs and atomics to accept at a time; RC.
    pub max_dest_rd_atomic: Option<u8>,
    /// Code of the time that the peer waits after an RNR NAK from this QP (table 45 of the IB specification;
    /// 0 is 655.36 ms, 1 is 10 us, 31 is 491.52 ms); RC. Only the lowest 5 bits count.
    pub min_rnr_timer: Option<u8>,
    /// First PSN to send (24 bits).
    pub sq_psn: Option<u32>,
    /// Time-out: 4.096 us * 2^timeout, 0 for none; RC.
    pub timeout: Option<u8>,
    /// Retries after a time-out or a sequence error (0 to 7); RC.
    pub retry_cnt: Option<u8>,
    /// Retries after RNR NAKs (7 for no limit); RC.
    pub rnr_retry: Option<u8>,
    /// READs and atomics to have outstanding at a time; RC.
    pub max_rd_atomic: Option<u8>,
}

impl QpAttr {
    /// A change of the state only.
    pub fn state(state: QpState) -> QpAttr {
        QpAttr { qp_state: Some(state), ..QpAttr::default() }
    }
}
