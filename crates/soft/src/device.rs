//! The device that programs see: its name, limits, port and addresses.

use crate::identity::Identity;
use crate::limits::limits;
use crate::memory::records::{CQS, GROUPS, MRS, QPS_IN_SLOT, SLOTS, SRQS};
use crate::memory::regions::MAX_PD;
use doorbell_abi::{
    CEnum, IBV_PORT_ACTIVE, ibv_device_attr, ibv_device_attr_ex, ibv_moderate_cq, ibv_port_attr,
};
use doorbell_launch::Link;
use doorbell_launch::say::say;
use doorbell_launch::variables::DEVICE_ID;
use doorbell_transport::MAX_MESSAGE_BYTES;
use doorbell_verbs::{Gid, LinkLayer, Mtu};
use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;
use std::fs::File;
use std::sync::OnceLock;

pub(crate) const NAME: &str = "doorbell0";
/// Name of the device file. The file only has to exist, because commands do not pass through it.
pub(crate) const DEVICE_FILE: &str = "uverbs0";
/// Name of rdma_cm's device file.
pub(crate) const CM_FILE: &str = "rdma_cm";
/// Path of rdma_cm's class in sysfs.
pub(crate) const CM_CLASS: &str = "/sys/class/misc/rdma_cm";
/// Device numbers of rdma_cm: the major number of the class `misc`, and a minor number of the kind that the
/// kernel assigns.
const CM_NUMBERS: (u32, u32) = (10, 122);
/// The device's only port.
pub(crate) const PORT: u8 = 1;
/// Largest and active MTU.
pub(crate) const MTU: Mtu = Mtu::Mtu4096;
/// Number of entries in the P_Key table.
pub(crate) const PKEYS: u16 = 1;
/// The default P_Key, with full membership.
pub(crate) const DEFAULT_PKEY: u16 = 0xffff;
/// `IBV_ODP_SUPPORT`, `IBV_ODP_SUPPORT_IMPLICIT`.
const ODP_SUPPORT: u64 = 1;
const ODP_SUPPORT_IMPLICIT: u64 = 2;
/// `IBV_ODP_SUPPORT_SEND` and so on.
const ODP_SEND: u32 = 1;
const ODP_RECV: u32 = 2;
const ODP_WRITE: u32 = 4;
const ODP_SRQ_RECV: u32 = 32;
const ODP_ALL: u32 = 63;
/// Largest CQ moderation, the same as mlx5's.
pub(crate) const MODERATION: ibv_moderate_cq = ibv_moderate_cq { cq_count: 0xffff, cq_period: 0xfff };
/// Number of completion vectors. A program with a thread and a CQ for each processor spreads the CQs over the
/// vectors. The vectors of this device do not differ.
pub(crate) const COMP_VECTORS: i32 = 64;

/// Default vendor ID and part ID. The vendor ID is a locally administered OUI, which no vendor has.
const OWN_ID: (u32, u32) = (0x02_dbe1, 1);

/// `IBV_TRANSPORT_IB`, `IBV_NODE_CA`.
pub(crate) const TRANSPORT_IB: i32 = 0;
pub(crate) const NODE_CA: i32 = 1;
/// `IBV_ATOMIC_HCA`: atomics are atomic to each other, but not to stores of the processor.
const ATOMIC_HCA: u32 = 1;
/// `IBV_PORT_CM_SUP`, `IBV_PORT_IP_BASED_GIDS`.
const PORT_CM_SUP: u32 = 1 << 16;
const PORT_IP_BASED_GIDS: u32 = 1 << 26;
/// `IBV_DEVICE_*`: CURR_QP_STATE_MOD, SYS_IMAGE_GUID, RC_RNR_NAK_GEN, MEM_WINDOW, XRC, MEM_WINDOW_TYPE_2B.
/// MEM_MGT_EXTENSIONS is not included, because it also promises memory registration by work requests.
const DEVICE_CAPS: u32 = 1 << 7 | 1 << 11 | 1 << 12 | 1 << 17 | 1 << 20 | 1 << 24;
/// `IB_UVERBS_DEVICE_ATOMIC_WRITE`.
const CAP_ATOMIC_WRITE: u64 = 1 << 40;
/// Link width 4X and speed EDR (25 Gb/s a lane). Programs may compute rates from them. They do not limit the
/// device.
const WIDTH_4X: u8 = 2;
const SPEED_EDR: u8 = 32;
/// The port's rate in the kernel's sysfs format.
pub(crate) const RATE: &str = "100 Gb/sec (4X EDR)";
/// `LinkUp`, the port's physical state.
pub(crate) const LINK_UP: u8 = 5;

/// Hardware version, `hw_ver`.
pub(crate) const HW_VERSION: u32 = 1;

/// The network interface with the port's addresses on Ethernet: the loopback interface.
pub(crate) const INTERFACE: &CStr = c"lo";

/// Most QPs of a process.
pub(crate) const MAX_QP: usize = 1 << 16;
const _: () = assert!(MAX_QP <= SLOTS * (QPS_IN_SLOT.end - QPS_IN_SLOT.start) as usize);

/// Maximum number of address handles of a process.
pub(crate) const MAX_AH: usize = 1 << 16;

/// Prefix of link-local addresses.
const LINK_LOCAL: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];

/// Kind of a GID (`enum ibv_gid_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum GidType {
    /// InfiniBand.
    Ib = 0,
    /// RoCE v1.
    RoceV1 = 1,
    /// RoCE v2.
    RoceV2 = 2,
}

/// The port's link layer, from `DOORBELL_LINK`; InfiniBand by default.
pub(crate) fn link_layer() -> LinkLayer {
    match Link::own() {
        Link::Ib => LinkLayer::Infiniband,
        Link::Roce => LinkLayer::Ethernet,
    }
}

/// `vendor_id` and `vendor_part_id`, from `DOORBELL_DEVICE_ID` if it is set.
fn id() -> (u32, u32) {
    static ID: OnceLock<(u32, u32)> = OnceLock::new();
    *ID.get_or_init(|| {
        let Ok(text) = std::env::var(DEVICE_ID) else { return OWN_ID };
        let told =
            text.split_once(':').and_then(|(vendor, part)| Some((vendor.parse().ok()?, part.parse().ok()?)));
        told.unwrap_or_else(|| {
            say(format_args!(
                "{DEVICE_ID} is {text:?}, but must be two numbers such as 713:4113; the device shows its own \
                 ID"
            ));
            OWN_ID
        })
    })
}

/// Reads a sysfs file of the kernel. This uses rustix, which calls the kernel directly, because the library
/// redirects such paths in calls of the C library.
fn kernels_text(path: &str) -> Option<String> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    std::io::read_to_string(File::from(file)).ok()
}

/// Device numbers of rdma_cm's device file. If the kernel has this file, the result is the file's numbers,
/// because librdmacm reads them too.
pub(crate) fn cm_numbers() -> (u32, u32) {
    static NUMBERS: OnceLock<(u32, u32)> = OnceLock::new();
    let told = || {
        let text = kernels_text(&format!("{CM_CLASS}/dev"))?;
        let (major, minor) = text.trim().split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    *NUMBERS.get_or_init(|| told().unwrap_or(CM_NUMBERS))
}

/// The GID table of the port.
pub(crate) fn gids() -> &'static [(Gid, GidType)] {
    static GIDS: OnceLock<Vec<(Gid, GidType)>> = OnceLock::new();
    GIDS.get_or_init(|| gids_of(link_layer(), Identity::own()))
}

/// The GID table of a port on the fabric with this identity.
pub(crate) fn gids_of(link: LinkLayer, identity: &Identity) -> Vec<(Gid, GidType)> {
    let of_prefix = |prefix: [u8; 8]| {
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&prefix);
        gid[8..].copy_from_slice(&identity.guid());
        Gid(gid)
    };
    match link {
        LinkLayer::Infiniband => vec![(of_prefix(identity.prefix()), GidType::Ib)],
        LinkLayer::Ethernet => {
            let ipv4 = Gid(identity.ipv4().to_ipv6_mapped().octets());
            let link_local = of_prefix(LINK_LOCAL);
            vec![
                (link_local, GidType::RoceV1),
                (link_local, GidType::RoceV2),
                (ipv4, GidType::RoceV1),
                (ipv4, GidType::RoceV2),
            ]
        }
    }
}

/// The port's LID; 0 on Ethernet.
pub(crate) fn lid() -> u16 {
    lid_of(link_layer(), Identity::own())
}

/// The LID of a port on the fabric with this identity; 0 on Ethernet.
pub(crate) fn lid_of(link: LinkLayer, identity: &Identity) -> u16 {
    if link == LinkLayer::Infiniband { identity.lid() } else { 0 }
}

/// The node's GUID in network byte order.
pub(crate) fn guid() -> u64 {
    u64::from_ne_bytes(Identity::own().guid())
}

/// The attributes that ibv_query_device(3) returns.
pub(crate) fn attributes() -> ibv_device_attr {
    // SAFETY: all fields are integers.
    let mut attr: ibv_device_attr = unsafe { std::mem::zeroed() };
    for (to, from) in attr.fw_ver.iter_mut().zip(env!("CARGO_PKG_VERSION").bytes()) {
        *to = from as libc::c_char;
    }
    let (count, limits) = (|n: usize| n as i32, limits());
    attr.node_guid = guid();
    attr.sys_image_guid = guid();
    attr.max_mr_size = u64::MAX;
    attr.page_size_cap = !0xfff;
    (attr.vendor_id, attr.vendor_part_id) = id();
    attr.hw_ver = HW_VERSION;
    attr.max_qp = count(MAX_QP);
    attr.max_qp_wr = limits.wr as i32;
    attr.device_cap_flags = DEVICE_CAPS;
    attr.max_sge = limits.sge as i32;
    attr.max_sge_rd = limits.sge as i32;
    attr.max_cq = count(CQS);
    attr.max_cqe = limits.cqe as i32;
    attr.max_mr = count(MRS) - 1;
    // Memory windows and regions share one table.
    attr.max_mw = count(MRS) - 1;
    attr.max_pd = count(MAX_PD);
    attr.max_qp_rd_atom = limits.rd_atomic as i32;
    attr.max_res_rd_atom = count(MAX_QP) * limits.rd_atomic as i32;
    attr.max_qp_init_rd_atom = limits.rd_atomic as i32;
    attr.atomic_cap = ATOMIC_HCA;
    // All attachments may be to different groups or of different QPs.
    attr.max_mcast_grp = count(GROUPS);
    attr.max_mcast_qp_attach = count(GROUPS);
    attr.max_total_mcast_qp_attach = count(GROUPS);
    attr.max_ah = count(MAX_AH);
    attr.max_srq = count(SRQS);
    attr.max_srq_wr = limits.srq_wr as i32;
    attr.max_srq_sge = limits.srq_sge as i32;
    attr.max_pkeys = PKEYS;
    attr.local_ca_ack_delay = 4;
    attr.phys_port_cnt = PORT;
    attr
}

/// The attributes that ibv_query_device_ex(3) returns.
pub(crate) fn attributes_ex() -> ibv_device_attr_ex {
    // SAFETY: all fields are integers.
    let mut attr: ibv_device_attr_ex = unsafe { std::mem::zeroed() };
    attr.orig_attr = attributes();
    // Memory is never pinned, because accesses go through the page tables of the process.
    attr.odp_general_caps = ODP_SUPPORT | ODP_SUPPORT_IMPLICIT;
    attr.odp_per_transport =
        [ODP_ALL, ODP_SEND | ODP_RECV | ODP_WRITE | ODP_SRQ_RECV, ODP_SEND | ODP_RECV | ODP_SRQ_RECV];
    attr.xrc_odp_caps = ODP_ALL;
    attr.max_dm_size = limits().dm.into();
    attr.cq_mod_caps = MODERATION;
    attr.completion_timestamp_mask = u64::MAX;
    // The clock of completion time stamps, in kHz: time stamps are nanoseconds.
    attr.hca_core_clock = 1_000_000;
    attr.device_cap_flags_ex = u64::from(DEVICE_CAPS) | CAP_ATOMIC_WRITE;
    attr.phys_port_cnt_ex = PORT.into();
    attr
}

/// `port_cap_flags` of a port with this link layer.
pub(crate) fn port_caps(link: LinkLayer) -> u32 {
    if link == LinkLayer::Infiniband { PORT_CM_SUP } else { PORT_CM_SUP | PORT_IP_BASED_GIDS }
}

/// Index of the network interface with the port's addresses; 0 on InfiniBand, or if the interface does not
/// exist.
pub(crate) fn interface() -> u32 {
    match link_layer() {
        LinkLayer::Infiniband => 0,
        // This calls libc, because rustix needs a socket for this call. SAFETY: the name is a C string.
        LinkLayer::Ethernet => unsafe { libc::if_nametoindex(INTERFACE.as_ptr()) },
    }
}

/// The attributes that ibv_query_port(3) returns.
pub(crate) fn port() -> ibv_port_attr {
    ibv_port_attr {
        state: IBV_PORT_ACTIVE,
        max_mtu: MTU.to_c(),
        active_mtu: MTU.to_c(),
        gid_tbl_len: gids().len() as i32,
        port_cap_flags: port_caps(link_layer()),
        max_msg_sz: MAX_MESSAGE_BYTES,
        pkey_tbl_len: PKEYS,
        lid: lid(),
        sm_lid: lid(),
        max_vl_num: 1,
        active_width: WIDTH_4X,
        active_speed: SPEED_EDR,
        phys_state: LINK_UP,
        link_layer: link_layer().to_c() as u8,
        ..ibv_port_attr::default()
    }
}
