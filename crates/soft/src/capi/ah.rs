//! Address handles.

use super::object::{pd, process_of};
use super::qp::{c_path, rust_path};
use super::{minus_one, object_or_null};
use crate::causes::{AH_LIMIT, WC_PORT, at_limit};
use crate::device::{self, MAX_AH};
use crate::path::{self, Header, Path};
use doorbell_abi::{IBV_WC_GRH, ibv_ah, ibv_ah_attr, ibv_context, ibv_grh, ibv_pd, ibv_wc};
use doorbell_transport::Refused;
use doorbell_verbs::{AhAttr, AhHandle};
use libc::c_int;

pub unsafe extern "C" fn ibv_create_ah(pd_pointer: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the caller's struct and PD.
    object_or_null("ibv_create_ah", unsafe { create(pd_pointer, &*attr) })
}

/// # Safety
/// The PD is one of ours.
unsafe fn create(pd_pointer: *mut ibv_pd, attr: &ibv_ah_attr) -> Result<Box<ibv_ah>, Refused> {
    // SAFETY: vouched for by the caller.
    let pd = unsafe { pd(pd_pointer) };
    // SAFETY: the PD's context.
    let process = unsafe { process_of(pd.base.context) };
    let path = Path::new(&rust_path(attr))?;
    let handle = process.paths.add(path).map_err(|errno| at_limit(&AH_LIMIT, errno, [&MAX_AH]))?;
    pd.uses.begin();
    Ok(Box::new(ibv_ah { context: pd.base.context, pd: pd_pointer, handle: handle.0 }))
}

pub unsafe extern "C" fn ibv_destroy_ah(pointer: *mut ibv_ah) -> c_int {
    // SAFETY: an address handle of ours, not used after this, and its PD.
    unsafe {
        let ah = Box::from_raw(pointer);
        process_of(ah.context).paths.remove(AhHandle(ah.handle));
        pd(ah.pd).uses.end();
    }
    0
}

/// The address attributes of the path back to the sender of a datagram.
fn way_back(port: u8, wc: &ibv_wc, header: &Header) -> Result<ibv_ah_attr, Refused> {
    if port != device::PORT {
        return Err(WC_PORT.of([&port]));
    }
    let has_grh = wc.wc_flags & IBV_WC_GRH != 0;
    let grh = has_grh.then(|| path::way_back(header)).transpose()?;
    Ok(c_path(&AhAttr { port_num: port, dlid: wc.slid, sl: wc.sl, grh }))
}

pub unsafe extern "C" fn ibv_init_ah_from_wc(
    _context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    to: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: the caller's structs; the header is bytes.
    let attr = unsafe { way_back(port, &*wc, &grh.cast::<Header>().read()) };
    // SAFETY: as above.
    minus_one("ibv_init_ah_from_wc", attr.map(|attr| unsafe { to.write(attr) }))
}

pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    // SAFETY: as above.
    let attr = unsafe { way_back(port, &*wc, &grh.cast::<Header>().read()) };
    // SAFETY: the PD is passed on.
    object_or_null("ibv_create_ah_from_wc", attr.and_then(|attr| unsafe { create(pd, &attr) }))
}
