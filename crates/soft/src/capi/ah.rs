//! Address handles, and multicast.

use super::object::pd;
use super::qp::rust_path;
use super::{object_or_null, status};
use crate::device::{self, PathHandle};
use crate::errno::{EINVAL, EOPNOTSUPP, Errno};
use doorbell_abi::{
    IBV_WC_GRH, ibv_ah, ibv_ah_attr, ibv_context, ibv_gid, ibv_global_route, ibv_grh, ibv_pd, ibv_qp, ibv_wc,
};
use doorbell_verbs::Gid;
use libc::c_int;

pub unsafe extern "C" fn ibv_create_ah(pd_pointer: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the caller's struct and PD.
    let (attr, pd) = unsafe { (&*attr, pd(pd_pointer)) };
    let made = PathHandle::new(&rust_path(attr)).ok_or(EINVAL).map(|path| {
        pd.uses.begin();
        Box::new(ibv_ah { context: pd.base.context, pd: pd_pointer, handle: path.0 })
    });
    object_or_null(made)
}

pub unsafe extern "C" fn ibv_destroy_ah(pointer: *mut ibv_ah) -> c_int {
    // SAFETY: an address handle of ours, not used after this, and its PD.
    unsafe {
        pd((*pointer).pd).uses.end();
        drop(Box::from_raw(pointer));
    }
    0
}

/// The way back to who sent a datagram.
fn way_back(port: u8, wc: &ibv_wc, grh: &ibv_grh) -> Result<ibv_ah_attr, Errno> {
    if port != device::PORT {
        return Err(EINVAL);
    }
    let mut attr = ibv_ah_attr { dlid: wc.slid, sl: wc.sl, port_num: port, ..ibv_ah_attr::default() };
    if wc.wc_flags & IBV_WC_GRH != 0 {
        let own = device::gids().iter().position(|(gid, _)| *gid == Gid(grh.dgid.raw)).ok_or(EINVAL)?;
        attr.is_global = 1;
        attr.grh = ibv_global_route {
            dgid: ibv_gid { raw: grh.sgid.raw },
            flow_label: u32::from_be(grh.version_tclass_flow) & 0xf_ffff,
            sgid_index: own as u8,
            hop_limit: 0xff,
            traffic_class: (u32::from_be(grh.version_tclass_flow) >> 20) as u8,
        };
    }
    Ok(attr)
}

pub unsafe extern "C" fn ibv_init_ah_from_wc(
    _context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    to: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: the caller's structs; the GRH lies in a buffer of any alignment.
    super::minus_one(unsafe { way_back(port, &*wc, &grh.read_unaligned()).map(|attr| to.write(attr)) })
}

pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    // SAFETY: as above.
    match unsafe { way_back(port, &*wc, &grh.read_unaligned()) } {
        // SAFETY: the PD is passed on.
        Ok(mut attr) => unsafe { ibv_create_ah(pd, &mut attr) },
        Err(errno) => object_or_null::<ibv_ah>(Err(errno)),
    }
}

/// Multicast groups are not had: `max_mcast_grp` is 0.
pub unsafe extern "C" fn ibv_attach_mcast(_qp: *mut ibv_qp, _gid: *const ibv_gid, _lid: u16) -> c_int {
    status(Err(EOPNOTSUPP))
}

pub unsafe extern "C" fn ibv_detach_mcast(_qp: *mut ibv_qp, _gid: *const ibv_gid, _lid: u16) -> c_int {
    status(Err(EOPNOTSUPP))
}
