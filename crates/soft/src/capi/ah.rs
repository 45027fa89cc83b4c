//! Address handles.

use super::object::{pd, process_of};
use super::qp::{c_path, rust_path};
use super::{minus_one, object_or_null};
use crate::causes::{AH_LIMIT, WC_GRH, WC_PORT};
use crate::device::{self, MAX_AH};
use crate::path::{self, Header, Path};
use doorbell_abi::{IBV_WC_GRH, ibv_ah, ibv_ah_attr, ibv_context, ibv_grh, ibv_pd, ibv_wc};
use doorbell_transport::Refused;
use doorbell_verbs::{AhAttr, AhHandle};
use libc::c_int;

pub unsafe extern "C" fn ibv_create_ah(pd_pointer: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the caller's struct and PD.
    let (attr, pd, process) = unsafe {
        let pd = pd(pd_pointer);
        (&*attr, pd, process_of(pd.base.context))
    };
    let add = |path| process.paths.add(path).map_err(|errno| AH_LIMIT.of([&MAX_AH]).with_errno(errno.0));
    let made = Path::new(&rust_path(attr)).and_then(add).map(|handle| {
        pd.uses.begin();
        Box::new(ibv_ah { context: pd.base.context, pd: pd_pointer, handle: handle.0 })
    });
    object_or_null("ibv_create_ah", made)
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
    let grh = has_grh.then(|| path::way_back(header)).transpose();
    let grh = grh.map_err(|errno| WC_GRH.bare().with_errno(errno.0))?;
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
    match unsafe { way_back(port, &*wc, &grh.cast::<Header>().read()) } {
        // SAFETY: the PD is passed on.
        Ok(mut attr) => unsafe { ibv_create_ah(pd, &mut attr) },
        Err(refused) => object_or_null::<ibv_ah>("ibv_create_ah_from_wc", Err(refused)),
    }
}
