//! Attributes of devices, ports and QPs.

use crate::error::{outcome, refused};
use crate::objects::{IbvDevice, IbvQp, ah_attr};
use doorbell_abi::{
    CEnum, IBV_ATOMIC_NONE, IBV_GID_TYPE_ROCE_V2, IBV_PORT_ACTIVE, ibv_device_attr, ibv_gid_entry,
    ibv_port_attr, ibv_qp_attr, ibv_qp_attr_mask as mask, ibv_qp_init_attr,
};
use doorbell_verbs::{DeviceAttr, Gid, LinkLayer, Mtu, PortAttr, QpAttr, QpState, VerbsError};
use std::ffi::c_int;
use std::mem::{MaybeUninit, size_of};

/// Converts a device's limit from a C int. A negative limit becomes 0, and a limit that does not fit becomes
/// `most`.
fn limit<T: TryFrom<c_int> + Default>(value: c_int, most: T) -> T {
    if value < 0 { T::default() } else { T::try_from(value).unwrap_or(most) }
}

fn c_device_attr(device: &IbvDevice) -> Result<ibv_device_attr, VerbsError> {
    let mut attr = MaybeUninit::<ibv_device_attr>::zeroed();
    // SAFETY: The context is open, and `attr` has room for the result.
    let errno = unsafe { (device.library().ibv_query_device)(device.raw(), attr.as_mut_ptr()) };
    outcome("ibv_query_device", errno)?;
    // SAFETY: This struct of numbers is valid if it is all zeroes.
    Ok(unsafe { attr.assume_init() })
}

/// The limits of a device.
pub(crate) fn device(device: &IbvDevice) -> Result<DeviceAttr, VerbsError> {
    let attr = c_device_attr(device)?;
    Ok(DeviceAttr {
        name: device.name().to_owned(),
        ports: attr.phys_port_cnt,
        max_qp_wr: limit(attr.max_qp_wr, u32::MAX),
        max_sge: limit(attr.max_sge, u32::MAX),
        max_cqe: limit(attr.max_cqe, u32::MAX),
        max_qp_rd_atom: limit(attr.max_qp_rd_atom, u8::MAX),
        max_qp_init_rd_atom: limit(attr.max_qp_init_rd_atom, u8::MAX),
        max_srq_wr: if attr.max_srq > 0 { limit(attr.max_srq_wr, u32::MAX) } else { 0 },
        atomics: attr.atomic_cap != IBV_ATOMIC_NONE,
        max_inline_data: None,
    })
}

/// Suitability of a GID table entry as a source address. RoCEv2 over IPv4 is best, then RoCEv2 over IPv6,
/// then any other entry.
fn rank(entry: &ibv_gid_entry) -> u8 {
    let v4 = std::net::Ipv6Addr::from(entry.gid.raw).to_ipv4_mapped().is_some();
    match (entry.gid_type, v4) {
        (IBV_GID_TYPE_ROCE_V2, true) => 2,
        (IBV_GID_TYPE_ROCE_V2, false) => 1,
        _ => 0,
    }
}

/// The index and the value of a port's GID with the highest [`rank`]. Among GIDs with equal ranks, the first
/// is used. Verbs store the index in 8 bits, so entries with a greater index are skipped.
fn best_gid(entries: &[ibv_gid_entry], port: u8) -> Option<(u8, Gid)> {
    let usable = entries.iter().rev().filter(|e| e.port_num == u32::from(port) && e.gid_index <= 255);
    let best = usable.max_by_key(|e| rank(e))?;
    Some((u8::try_from(best.gid_index).ok()?, Gid(best.gid.raw)))
}

/// All valid GIDs of a device whose ports have `per_port` entries each.
fn gid_table(device: &IbvDevice, per_port: c_int) -> Result<Vec<ibv_gid_entry>, VerbsError> {
    let ports = usize::from(c_device_attr(device)?.phys_port_cnt);
    let mut entries = vec![ibv_gid_entry::default(); ports * usize::try_from(per_port).unwrap_or(0)];
    let (room, size) = (entries.len(), size_of::<ibv_gid_entry>());
    // SAFETY: The context is open, and there is room for `room` entries of this size.
    let count =
        unsafe { (device.library()._ibv_query_gid_table)(device.raw(), entries.as_mut_ptr(), room, 0, size) };
    let failed = |_| refused("ibv_query_gid_table", c_int::try_from(count).unwrap_or(libc::EIO));
    entries.truncate(usize::try_from(count).map_err(failed)?);
    Ok(entries)
}

/// State and addresses of a port.
pub(crate) fn port(device: &IbvDevice, port: u8) -> Result<PortAttr, VerbsError> {
    let mut attr = ibv_port_attr::default();
    // SAFETY: The context is open, and `attr` has more room than the exported function fills.
    let errno = unsafe { (device.library().ibv_query_port)(device.raw(), port, &mut attr) };
    outcome("ibv_query_port", errno)?;
    let link_layer = LinkLayer::from_c(attr.link_layer.into()).unwrap_or(LinkLayer::Infiniband);
    let (gid_index, gid) = best_gid(&gid_table(device, attr.gid_tbl_len)?, port).unwrap_or_default();
    Ok(PortAttr {
        active: attr.state == IBV_PORT_ACTIVE,
        active_mtu: Mtu::from_c(attr.active_mtu).unwrap_or(Mtu::Mtu256),
        lid: attr.lid,
        link_layer,
        gid_index,
        gid,
    })
}

/// Converts changes of a QP to C: the attributes, and the mask of the attributes that are set.
fn c_qp_attr(attr: &QpAttr) -> (ibv_qp_attr, c_int) {
    let mut c = ibv_qp_attr::default();
    let mut named = 0;
    macro_rules! set {
        ($($flag:ident: $to:ident = $from:expr;)*) => {$(
            if let Some(value) = $from {
                c.$to = value;
                named |= mask::$flag;
            }
        )*};
    }
    set! {
        IBV_QP_STATE: qp_state = attr.qp_state.map(CEnum::to_c);
        IBV_QP_PKEY_INDEX: pkey_index = attr.pkey_index;
        IBV_QP_PORT: port_num = attr.port_num;
        IBV_QP_ACCESS_FLAGS: qp_access_flags = attr.qp_access_flags.map(|f| f.bits());
        IBV_QP_QKEY: qkey = attr.qkey;
        IBV_QP_PATH_MTU: path_mtu = attr.path_mtu.map(CEnum::to_c);
        IBV_QP_DEST_QPN: dest_qp_num = attr.dest_qp_num;
        IBV_QP_RQ_PSN: rq_psn = attr.rq_psn;
        IBV_QP_AV: ah_attr = attr.ah_attr.as_ref().map(ah_attr);
        IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic = attr.max_dest_rd_atomic;
        IBV_QP_MIN_RNR_TIMER: min_rnr_timer = attr.min_rnr_timer;
        IBV_QP_SQ_PSN: sq_psn = attr.sq_psn;
        IBV_QP_TIMEOUT: timeout = attr.timeout;
        IBV_QP_RETRY_CNT: retry_cnt = attr.retry_cnt;
        IBV_QP_RNR_RETRY: rnr_retry = attr.rnr_retry;
        IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic = attr.max_rd_atomic;
    }
    (c, named)
}

/// Changes a QP by ibv_modify_qp(3).
pub(crate) fn modify_qp(qp: &IbvQp, attr: &QpAttr) -> Result<(), VerbsError> {
    let (mut attr, named) = c_qp_attr(attr);
    // SAFETY: The QP is live.
    outcome("ibv_modify_qp", unsafe { (qp.library().ibv_modify_qp)(qp.raw(), &mut attr, named) })
}

/// The state of a QP, by ibv_query_qp(3).
pub(crate) fn qp_state(qp: &IbvQp) -> Result<QpState, VerbsError> {
    let mut attr = ibv_qp_attr::default();
    let mut init = MaybeUninit::<ibv_qp_init_attr>::zeroed();
    // SAFETY: The QP is live, and there is room for both results.
    let errno =
        unsafe { (qp.library().ibv_query_qp)(qp.raw(), &mut attr, mask::IBV_QP_STATE, init.as_mut_ptr()) };
    outcome("ibv_query_qp", errno)?;
    QpState::from_c(attr.qp_state).ok_or_else(|| refused("ibv_query_qp", libc::EPROTO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_abi::ibv_gid;
    use doorbell_verbs::AccessFlags;

    fn entry(gid_index: u32, port_num: u32, gid_type: u32, gid: [u8; 16]) -> ibv_gid_entry {
        ibv_gid_entry { gid: ibv_gid { raw: gid }, gid_index, port_num, gid_type, ndev_ifindex: 0 }
    }

    #[test]
    fn the_first_gid_over_ipv4_is_the_source() {
        let link_local = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let v4 = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last];
        let table = [
            entry(0, 1, 2, link_local),
            entry(2, 1, 1, v4(1)),
            entry(3, 1, 2, v4(1)),
            entry(5, 1, 2, v4(2)),
            entry(0, 2, 2, link_local),
            entry(300, 2, 2, v4(3)),
        ];
        assert_eq!(best_gid(&table, 1), Some((3, Gid(v4(1)))));
        assert_eq!(best_gid(&table, 2), Some((0, Gid(link_local))));
        assert_eq!(best_gid(&table, 3), None);
    }

    #[test]
    fn the_mask_names_what_is_given() {
        let (_, named) = c_qp_attr(&QpAttr::default());
        assert_eq!(named, 0);
        let (attr, named) = c_qp_attr(&QpAttr {
            qp_state: Some(QpState::Init),
            port_num: Some(2),
            qp_access_flags: Some(AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE),
            ..QpAttr::default()
        });
        assert_eq!((attr.qp_state, attr.port_num, attr.qp_access_flags), (1, 2, 6));
        assert_eq!(named, mask::IBV_QP_STATE | mask::IBV_QP_PORT | mask::IBV_QP_ACCESS_FLAGS);
    }

    #[test]
    fn limits_that_do_not_fit_are_cut() {
        assert_eq!(limit(300, u8::MAX), 255);
        assert_eq!(limit(-1, u32::MAX), 0);
        assert_eq!(limit(16, u8::MAX), 16);
    }
}
