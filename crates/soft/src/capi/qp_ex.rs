//! Send work requests built by function calls (ibv_wr_post(3)).
//!
//! `ibv_wr_start` begins a list, and `ibv_wr_complete` posts all of its work requests or none.

use super::building::{BuiltList, BuiltOp, BuiltWr};
use super::mw;
use super::object::QpObject;
use super::wr::sges;
use crate::causes::{BUILD_AH, BUILD_INLINE, BUILD_ORDER, BUILD_SRQN};
use crate::engine::request::ATOMIC_WRITE_BYTES;
use crate::queues::qp::window_wr::WindowOp;
use crate::watch::strict::violated;
use doorbell_abi::{ibv_ah, ibv_data_buf, ibv_mw, ibv_mw_bind_info, ibv_qp_ex, ibv_sge};
use doorbell_launch::strict::Strict;
use doorbell_transport::Refused;
use doorbell_verbs::{AhHandle, QpType, RemoteAddr, SendFlags, SendOp, Sge, UdDest};
use libc::{c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;

/// Sets the function pointers of a QP's struct. Without them, ibv_qp_to_qp_ex(3) returns null. `send_ops` has
/// the operations that the program names in ibv_create_qp_ex(3).
pub(crate) fn set_functions(object: &mut QpObject, send_ops: u64) {
    object.send_ops = send_ops.into();
    let base = &mut object.base;
    base.wr_atomic_cmp_swp = Some(wr_atomic_cmp_swp);
    base.wr_atomic_fetch_add = Some(wr_atomic_fetch_add);
    base.wr_atomic_write = Some(wr_atomic_write);
    base.wr_bind_mw = Some(wr_bind_mw);
    base.wr_local_inv = Some(wr_local_inv);
    base.wr_rdma_read = Some(wr_rdma_read);
    base.wr_rdma_write = Some(wr_rdma_write);
    base.wr_rdma_write_imm = Some(wr_rdma_write_imm);
    base.wr_send = Some(wr_send);
    base.wr_send_imm = Some(wr_send_imm);
    base.wr_send_inv = Some(wr_send_inv);
    base.wr_set_ud_addr = Some(wr_set_ud_addr);
    base.wr_set_xrc_srqn = Some(wr_set_xrc_srqn);
    base.wr_set_inline_data = Some(wr_set_inline_data);
    base.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    base.wr_set_sge = Some(wr_set_sge);
    base.wr_set_sge_list = Some(wr_set_sge_list);
    base.wr_start = Some(wr_start);
    base.wr_complete = Some(if Strict::own().is_some() { wr_complete_strictly } else { wr_complete });
    base.wr_abort = Some(wr_abort);
}

/// The call that posts a list.
const CALL: &str = "ibv_wr_complete";

unsafe extern "C" fn wr_start(pointer: *mut ibv_qp_ex) {
    // SAFETY: a QP of ours.
    unsafe { (*pointer.cast::<QpObject>()).builder.take() };
}

unsafe extern "C" fn wr_abort(pointer: *mut ibv_qp_ex) {
    if doorbell_launch::say::broken("c-abort") {
        // SAFETY: break
        unsafe { wr_complete(pointer) };
        return;
    }
    // SAFETY: a QP of ours.
    unsafe { (*pointer.cast::<QpObject>()).builder.give_back() };
}

unsafe extern "C" fn wr_complete(pointer: *mut ibv_qp_ex) -> c_int {
    // SAFETY: a QP of ours; this thread owns its list.
    let (object, list) = unsafe { (&*pointer.cast::<QpObject>(), list(pointer)) };
    let posted = post_all(object, list);
    object.builder.give_back();
    super::status(CALL, posted)
}

/// Like [`wr_complete`], but first reports each operation that the program did not name when it created the
/// QP. The function pointer of such an operation is null in the structs of drivers. Also reports a work
/// request without payload, or with two.
unsafe extern "C" fn wr_complete_strictly(pointer: *mut ibv_qp_ex) -> c_int {
    // SAFETY: a QP of ours; this thread owns its list.
    let (object, list) = unsafe { (&*pointer.cast::<QpObject>(), list(pointer)) };
    for (bit, name) in list.wrs.iter().filter_map(|building| building.op.send_op()) {
        // The bits guard no other memory, so Relaxed suffices.
        if object.send_ops.fetch_or(bit, Relaxed) & bit == 0 {
            violated(format_args!(
                "QP {:#x} was not created with IBV_QP_EX_WITH_{name}: with the driver of a NIC, the function \
                 pointer is null and its call ends the program (ibv_create_qp_ex(3))",
                object.qp.num()
            ));
        }
    }
    if list.error.is_none() {
        check_setters(object, list);
    }
    // SAFETY: vouched for by the caller.
    unsafe { wr_complete(pointer) }
}

/// Reports the first work request of a list whose payload was not set by exactly one call.
fn check_setters(object: &QpObject, list: &BuiltList) {
    let is_wrong = |building: &&BuiltWr| building.setters != 1 && !matches!(building.op, BuiltOp::Window(_));
    if let Some(building) = list.wrs.iter().find(is_wrong)
        && let Some((_, name)) = building.op.send_op()
    {
        violated(format_args!(
            "the {name} with wr_id {:#x} of QP {:#x} was built with {} calls that set its payload, such as \
             ibv_wr_set_sge(3): the driver of a NIC needs exactly one (ibv_wr_post(3))",
            building.wr_id,
            object.qp.num(),
            building.setters
        ));
    }
}

fn post_all(object: &QpObject, list: &BuiltList) -> Result<(), Refused> {
    if let Some(error) = &list.error {
        return Err(error.clone());
    }
    let mut posting = object.qp.begin_post();
    if posting.room() < list.wrs.len() as u64 {
        return Err(posting.full(CALL, list.wrs.len()));
    }
    list.wrs.iter().try_for_each(|building| building.check(list, &posting))?;
    list.wrs.iter().try_for_each(|building| building.post(list, &mut posting))
}

/// The list that this thread is building.
///
/// # Safety
/// A QP of ours, between start and complete or abort on this thread.
unsafe fn list<'a>(pointer: *mut ibv_qp_ex) -> &'a mut BuiltList {
    // SAFETY: vouched for by the caller.
    unsafe { (*pointer.cast::<QpObject>()).builder.list() }
}

/// Begins a work request with the `wr_id` and the `wr_flags` in the QP's struct.
unsafe fn begin(pointer: *mut ibv_qp_ex, op: BuiltOp) {
    // SAFETY: vouched for by the caller.
    let (list, base) = unsafe { (list(pointer), &*pointer) };
    let at = list.sges.len();
    let flags = SendFlags::from_bits_truncate(base.wr_flags) - SendFlags::INLINE;
    list.wrs.push(BuiltWr {
        wr_id: base.wr_id,
        op,
        flags,
        dest: None,
        srqn: 0,
        sges: at..at,
        inline: None,
        setters: 0,
    });
}

/// Changes the last work request of the list. Records an error if the list is empty.
unsafe fn change(pointer: *mut ibv_qp_ex, change: impl FnOnce(&mut BuiltWr, &mut Vec<Sge>, &mut Vec<u8>)) {
    // SAFETY: vouched for by the caller.
    let list = unsafe { list(pointer) };
    match list.wrs.last_mut() {
        Some(last) => change(last, &mut list.sges, &mut list.inline),
        None => list.error = Some(BUILD_ORDER.bare()),
    }
}

const fn remote(rkey: u32, addr: u64) -> RemoteAddr {
    RemoteAddr { addr, rkey }
}

macro_rules! begins {
    ($($name:ident($($arg:ident: $t:ty),*) => $op:expr;)*) => {$(
        unsafe extern "C" fn $name(pointer: *mut ibv_qp_ex $(, $arg: $t)*) {
            // SAFETY: between start and complete, as ibv_wr_post(3) demands; objects and structs are the
            // caller's.
            unsafe { begin(pointer, $op) }
        }
    )*};
}

begins! {
    wr_atomic_cmp_swp(rkey: u32, addr: u64, compare: u64, swap: u64) =>
        BuiltOp::Send(SendOp::CompareSwap { remote: remote(rkey, addr), compare, swap });
    wr_atomic_fetch_add(rkey: u32, addr: u64, add: u64) =>
        BuiltOp::Send(SendOp::FetchAdd { remote: remote(rkey, addr), add });
    wr_bind_mw(window: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) =>
        BuiltOp::Window(mw::bind_of(window, rkey, info).ok());
    wr_local_inv(rkey: u32) => BuiltOp::Window(Some(WindowOp::Invalidate(rkey)));
    wr_rdma_read(rkey: u32, addr: u64) => BuiltOp::Send(SendOp::Read(remote(rkey, addr)));
    wr_rdma_write(rkey: u32, addr: u64) => BuiltOp::Send(SendOp::Write(remote(rkey, addr)));
    wr_rdma_write_imm(rkey: u32, addr: u64, imm: u32) =>
        BuiltOp::Send(SendOp::WriteWithImm(remote(rkey, addr), u32::from_be(imm)));
    wr_send() => BuiltOp::Send(SendOp::Send);
    wr_send_imm(imm: u32) => BuiltOp::Send(SendOp::SendWithImm(u32::from_be(imm)));
    wr_send_inv(rkey: u32) => BuiltOp::SendInvalidating(rkey);
}

unsafe extern "C" fn wr_atomic_write(pointer: *mut ibv_qp_ex, rkey: u32, addr: u64, word: *const c_void) {
    // SAFETY: between start and complete, as ibv_wr_post(3) demands; the caller's word.
    unsafe {
        begin(pointer, BuiltOp::AtomicWrite(remote(rkey, addr)));
        wr_set_inline_data(pointer, word.cast_mut(), ATOMIC_WRITE_BYTES as usize);
    }
}

unsafe extern "C" fn wr_set_ud_addr(pointer: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    // SAFETY: an address handle of ours; between start and complete.
    unsafe {
        let object = &*pointer.cast::<QpObject>();
        let ud = object.qp.qp_type() == QpType::Ud;
        if ah.is_null() || !ud {
            list(pointer).error = Some(BUILD_AH.bare());
            return;
        }
        let dest = UdDest { ah: AhHandle((*ah).handle), qpn, qkey };
        change(pointer, |wr, _, _| wr.dest = Some(dest));
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(pointer: *mut ibv_qp_ex, srqn: u32) {
    // SAFETY: a QP of ours, between start and complete.
    unsafe {
        if !(*pointer.cast::<QpObject>()).qp.names_srqs() {
            list(pointer).error = Some(BUILD_SRQN.bare());
            return;
        }
        change(pointer, |wr, _, _| wr.srqn = srqn);
    }
}

unsafe extern "C" fn wr_set_inline_data(pointer: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    let buffer = ibv_data_buf { addr, length };
    // SAFETY: one buffer, just made.
    unsafe { wr_set_inline_data_list(pointer, 1, &buffer) }
}

unsafe extern "C" fn wr_set_inline_data_list(
    pointer: *mut ibv_qp_ex,
    count: usize,
    buffers: *const ibv_data_buf,
) {
    // SAFETY: between start and complete; the caller's buffers.
    unsafe {
        let object = &*pointer.cast::<QpObject>();
        let most = object.qp.cap.max_inline_data as usize;
        let buffers: &[ibv_data_buf] =
            if count == 0 { &[] } else { std::slice::from_raw_parts(buffers, count) };
        let total = buffers.iter().fold(0usize, |sum, buffer| sum.saturating_add(buffer.length));
        if total > most {
            list(pointer).error = Some(BUILD_INLINE.of([&total, &most]));
            return;
        }
        change(pointer, |wr, _, inline| {
            let at = inline.len();
            for buffer in buffers.iter().filter(|buffer| buffer.length > 0) {
                inline.extend_from_slice(std::slice::from_raw_parts(buffer.addr.cast::<u8>(), buffer.length));
            }
            wr.inline = Some(at..inline.len());
            wr.setters += 1;
        });
    }
}

unsafe extern "C" fn wr_set_sge(pointer: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: between start and complete.
    unsafe {
        change(pointer, |wr, sges, _| {
            let at = sges.len();
            sges.push(Sge { addr, length, lkey });
            wr.sges = at..at + 1;
            wr.setters += 1;
        });
    }
}

unsafe extern "C" fn wr_set_sge_list(pointer: *mut ibv_qp_ex, count: usize, from: *const ibv_sge) {
    // SAFETY: between start and complete; the caller's list.
    unsafe {
        let new = match sges(from, c_int::try_from(count).unwrap_or(-1)) {
            Ok(new) => new,
            Err(error) => {
                list(pointer).error = Some(error);
                return;
            }
        };
        change(pointer, |wr, sges, _| {
            let at = sges.len();
            sges.extend_from_slice(new);
            wr.sges = at..sges.len();
            wr.setters += 1;
        });
    }
}
