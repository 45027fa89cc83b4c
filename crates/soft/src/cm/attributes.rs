//! The QP attributes of a connection (rdma_init_qp_attr(3)), and the path of a connection.

use super::address;
use super::causes::{CM_ATTR_STATE, CM_NO_DEVICE};
use super::id::{Id, IdStep};
use crate::device::{self, DEFAULT_PKEY, GidType, MTU, PORT};
use doorbell_abi::CEnum;
use doorbell_abi::cm::{
    ib_user_path_rec, ib_uverbs_ah_attr, ib_uverbs_global_route, ib_uverbs_qp_attr, rdma_ucm_query_route_resp,
};
use doorbell_abi::ibv_qp_attr_mask::*;
use doorbell_transport::Refused;
use doorbell_verbs::{Gid, LinkLayer};

/// `IBV_QPS_INIT`, `IBV_QPS_RTR` and `IBV_QPS_RTS`.
const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;
/// `IBV_ACCESS_REMOTE_WRITE`, `IBV_ACCESS_REMOTE_READ` and `IBV_ACCESS_REMOTE_ATOMIC`.
const REMOTE_WRITE: u32 = 1 << 1;
const REMOTE_READ: u32 = 1 << 2;
const REMOTE_ATOMIC: u32 = 1 << 3;
/// Default Q_Key of rdma_cm's UD QPs (`RDMA_UDP_QKEY`).
pub(super) const UDP_QKEY: u32 = 0x0123_4567;

/// Local ACK timeout: 4.096 us times 2^18, about one second, as in the kernel for Ethernet.
const ACK_TIMEOUT: u8 = 18;
const HOP_LIMIT: u8 = 64;
/// Selector in a path record: MTU, rate and lifetime are exactly the given values (vol. 1, 15.2.5.16).
const EXACTLY: u8 = 2;
/// `IBV_RATE_100_GBPS`, the rate of 4X EDR.
const RATE_100: u8 = 16;

/// The GID to which all paths of the fabric lead, and its index in the GID table.
fn gid() -> (usize, Gid) {
    let gids = device::gids();
    // For RoCE this is the last GID: version 2 with an IPv4 address.
    let at = gids.iter().rposition(|(_, kind)| matches!(kind, GidType::RoceV2 | GidType::Ib)).unwrap_or(0);
    (at, gids[at].0)
}

/// The path to all other processes of the fabric.
pub(super) fn path(tos: u8) -> ib_uverbs_ah_attr {
    let is_global = device::link_layer() == LinkLayer::Ethernet;
    let (at, gid) = gid();
    let grh = ib_uverbs_global_route {
        dgid: gid.0,
        sgid_index: at as u8,
        hop_limit: HOP_LIMIT,
        traffic_class: tos,
        ..Default::default()
    };
    ib_uverbs_ah_attr {
        grh: if is_global { grh } else { Default::default() },
        dlid: device::lid(),
        is_global: is_global.into(),
        port_num: PORT,
        ..Default::default()
    }
}

/// The attributes that rdma_init_qp_attr(3) returns for a state.
pub(super) fn qp_attr(id: &Id, state: u32) -> Result<ib_uverbs_qp_attr, Refused> {
    if !id.has_device() {
        return Err(CM_NO_DEVICE.bare());
    }
    let mut attr = ib_uverbs_qp_attr { qp_state: state, ..Default::default() };
    let is_known = !matches!(id.step, IdStep::Bound | IdStep::AddressResolved | IdStep::RouteResolved);
    let mask = match state {
        INIT => init(id, is_known, &mut attr),
        RTR if id.is_ud() => IBV_QP_STATE,
        RTS if id.is_ud() => {
            attr.sq_psn = id.own_psn;
            IBV_QP_STATE | IBV_QP_SQ_PSN
        }
        RTR if is_known => rtr(id, &mut attr),
        RTS if is_known => rts(id, &mut attr),
        _ => return Err(CM_ATTR_STATE.of([&state, &id.step.name()])),
    };
    attr.qp_attr_mask = mask as u32;
    Ok(attr)
}

fn init(id: &Id, is_known: bool, attr: &mut ib_uverbs_qp_attr) -> i32 {
    attr.port_num = PORT;
    let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    if id.is_ud() {
        attr.qkey = UDP_QKEY;
        return mask | IBV_QP_QKEY;
    }
    if is_known {
        let reads = if id.reads.responder > 0 { REMOTE_READ | REMOTE_ATOMIC } else { 0 };
        attr.qp_access_flags = REMOTE_WRITE | reads;
    }
    mask | IBV_QP_ACCESS_FLAGS
}

fn rtr(id: &Id, attr: &mut ib_uverbs_qp_attr) -> i32 {
    attr.ah_attr = path(id.options.tos);
    attr.path_mtu = MTU.to_c();
    (attr.dest_qp_num, attr.rq_psn) = (id.peer.qp_num, id.peer_psn);
    attr.max_dest_rd_atomic = id.reads.responder;
    let all = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    all | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
}

fn rts(id: &Id, attr: &mut ib_uverbs_qp_attr) -> i32 {
    attr.sq_psn = id.own_psn;
    attr.timeout = id.options.ack_timeout.unwrap_or(ACK_TIMEOUT);
    // The retry count of the active side's REQ holds for both sides. Each side uses the RNR retry count that
    // the other side announced.
    attr.retry_cnt = if id.is_active { id.own.retry_count } else { id.peer.retry_count };
    attr.rnr_retry = id.peer.rnr_retry_count;
    attr.max_rd_atomic = id.reads.initiator;
    let all = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT;
    all | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
}

/// The answer to QUERY_ROUTE.
pub(super) fn route(id: &Id) -> rdma_ucm_query_route_resp {
    let mut route = rdma_ucm_query_route_resp {
        src_addr: address::to_bytes(id.local),
        dst_addr: address::to_bytes(id.remote),
        ..Default::default()
    };
    if !id.has_device() {
        return route;
    }
    (route.node_guid, route.port_num) = (device::guid(), PORT);
    if !matches!(id.step, IdStep::Bound | IdStep::Listening { .. } | IdStep::AddressResolved) {
        route.num_paths = 1;
    }
    route.ib_route[0] = path_record(id.options.tos);
    route
}

fn path_record(tos: u8) -> ib_user_path_rec {
    let (_, gid) = gid();
    let lid = device::lid().to_be();
    ib_user_path_rec {
        dgid: gid.0,
        sgid: gid.0,
        dlid: lid,
        slid: lid,
        reversible: 1,
        mtu: MTU.to_c(),
        pkey: DEFAULT_PKEY.to_be(),
        hop_limit: HOP_LIMIT,
        traffic_class: tos,
        numb_path: 1,
        mtu_selector: EXACTLY,
        rate_selector: EXACTLY,
        rate: RATE_100,
        packet_life_time_selector: EXACTLY,
        packet_life_time: ACK_TIMEOUT - 1,
        ..Default::default()
    }
}
