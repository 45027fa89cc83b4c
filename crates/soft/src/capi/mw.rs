//! Memory windows.

use super::mr::{self, ZERO_BASED};
use super::object::{pd, process_of, qp};
use super::wr::rust_wr;
use super::{object_or_null, status};
use crate::causes::*;
use crate::memory::records::MRS;
use crate::memory::window::WindowKind;
use crate::memory::windows::{Bind, WindowPart};
use crate::queues::qp::posting::Posting;
use crate::queues::qp::window_wr::{WindowOp, WindowWr};
use crate::wr_opcode::SEND_WITH_INV;
use doorbell_abi::{ibv_mw, ibv_mw_bind, ibv_mw_bind_info, ibv_pd, ibv_qp, ibv_send_wr};
use doorbell_transport::{Keys, Refused};
use doorbell_verbs::{AccessFlags, Opcode, SendFlags};
use libc::c_int;

/// `IBV_MW_TYPE_1`, `IBV_MW_TYPE_2`.
const TYPE_1: u32 = 1;
const TYPE_2: u32 = 2;
/// `IBV_WR_LOCAL_INV`, `IBV_WR_BIND_MW`.
const WR_LOCAL_INV: u32 = 7;
const WR_BIND_MW: u32 = 8;

pub(crate) unsafe extern "C" fn alloc_mw(pd_pointer: *mut ibv_pd, mw_type: u32) -> *mut ibv_mw {
    // SAFETY: a PD of ours, and its context.
    let (pd, process) = unsafe { (pd(pd_pointer), process_of((*pd_pointer).context)) };
    let kind = match mw_type {
        TYPE_1 => Ok(WindowKind::One),
        TYPE_2 => Ok(WindowKind::Two),
        _ => Err(MW_TYPE.of([&mw_type])),
    };
    let add = |kind| {
        let added = process.regions.add_window(process.segment, pd.base.handle, kind);
        added.map_err(|errno| at_limit(&MR_LIMIT, errno, [&(MRS - 1)]))
    };
    let made = kind.and_then(add).map(|rkey| {
        pd.uses.begin();
        let handle = Keys::slot_of(rkey).unwrap_or(0) as u32;
        Box::new(ibv_mw { context: pd.base.context, pd: pd_pointer, rkey, handle, mw_type })
    });
    object_or_null("ibv_alloc_mw", made)
}

pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: a window of ours, not used after this.
    unsafe {
        let process = process_of((*mw).context);
        if let Some(revoked) = process.regions.remove_window(process.segment, (*mw).handle as usize) {
            process.settle(revoked, "ibv_dealloc_mw(3)");
        }
        pd((*mw).pd).uses.end();
        drop(Box::from_raw(mw));
    }
    0
}

pub(crate) unsafe extern "C" fn bind_mw(
    pointer: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    // SAFETY: objects of ours, and the caller's struct.
    status("ibv_bind_mw", unsafe { bind_type_1(pointer, mw, bind) })
}

unsafe fn bind_type_1(
    pointer: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *const ibv_mw_bind,
) -> Result<(), Refused> {
    // SAFETY: vouched for by the caller.
    unsafe {
        let (mw, ibv_mw_bind { wr_id, send_flags, bind_info }) = (&mut *mw, &*bind);
        if mw.mw_type != TYPE_1 {
            return Err(MW_BIND_TYPE.of([&mw.mw_type]));
        }
        if bind_info.mr.is_null() && (bind_info.addr != 0 || bind_info.length != 0) {
            return Err(MW_BIND_MR.of([&bind_info.addr, &bind_info.length]));
        }
        if bind_info.mw_access_flags & ZERO_BASED != 0 {
            return Err(MW_BIND_ZERO.bare());
        }
        // Each bind creates a new rkey. The program gets this rkey before the bind is carried out.
        let rkey = mw.rkey & !0xff | mw.rkey.wrapping_add(1) & 0xff;
        let flags = SendFlags::from_bits_truncate(*send_flags);
        let op = WindowOp::Bind(bind_to(mw, rkey as u8, bind_info));
        let mut posting = qp(pointer).qp.begin_post();
        posting.check_window()?;
        if posting.room() == 0 {
            return Err(posting.full("ibv_bind_mw", 1));
        }
        posting.post_window(&WindowWr { wr_id: *wr_id, flags, op })?;
        drop(posting);
        mw.rkey = rkey;
    }
    Ok(())
}

/// The operation that binds a window of type 2. Only the lowest 8 bits of `rkey` count, as with the drivers
/// mlx5, irdma and rxe.
///
/// # Safety
/// `mw` is a window of ours or null. `info` is the caller's struct, and its region is one of ours or null.
pub(super) unsafe fn bind_of(
    mw: *const ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) -> Result<WindowOp, Refused> {
    // SAFETY: vouched for by the caller.
    unsafe {
        match mw.as_ref() {
            Some(mw) if mw.mw_type == TYPE_2 => Ok(WindowOp::Bind(bind_to(mw, rkey as u8, &*info))),
            _ => Err(SEND_WINDOW.bare()),
        }
    }
}

/// The bind of a window to the part of a region that `info` describes.
///
/// # Safety
/// The region in `info` is one of ours or null.
unsafe fn bind_to(mw: &ibv_mw, tag: u8, info: &ibv_mw_bind_info) -> Bind {
    let part = (!info.mr.is_null()).then(|| {
        // SAFETY: vouched for by the caller.
        let (lkey, may_be_bound) = unsafe { mr::for_windows(info.mr) };
        WindowPart {
            lkey,
            may_be_bound,
            addr: info.addr,
            len: info.length,
            access: AccessFlags::from_bits_truncate(info.mw_access_flags),
            is_zero_based: info.mw_access_flags & ZERO_BASED != 0,
        }
    });
    Bind { slot: mw.handle as usize, tag, part }
}

/// Posts a local invalidation, a bind, or a SEND with invalidate. [`Opcode`] does not have these opcodes.
/// Fails with `EINVAL` for any other opcode.
///
/// # Safety
/// As for [`rust_wr`]; the objects in the work request are ours.
#[cold]
pub(super) unsafe fn post(posting: &mut Posting<'_>, wr: &ibv_send_wr) -> Result<(), Refused> {
    let flags = SendFlags::from_bits_truncate(wr.send_flags);
    let op = match wr.opcode {
        WR_LOCAL_INV => WindowOp::Invalidate(wr.imm_data),
        // SAFETY: vouched for by the caller.
        WR_BIND_MW => unsafe { bind_of(wr.bind_mw.mw, wr.bind_mw.rkey, &wr.bind_mw.bind_info)? },
        SEND_WITH_INV => {
            // SAFETY: vouched for by the caller.
            let send = unsafe { rust_wr(wr, Opcode::Send, posting.qp_type())? };
            return posting.post_invalidating(&send, wr.imm_data, None);
        }
        opcode => return Err(SEND_OPCODE.of([&opcode, &posting.shown_type()])),
    };
    posting.post_window(&WindowWr { wr_id: wr.wr_id, flags, op })
}
