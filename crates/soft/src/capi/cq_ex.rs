//! Extended completion queues: the program reads completions field by field.

use super::object::{CqObject, is_of, pd};
use super::{made_or_null, silent_errno, status};
use crate::causes::{CQ_EX_EMPTY, CQ_EX_FLAGS, CQ_EX_PARENT, CQ_EX_POLL, POLL_OVERRUN};
use doorbell_abi::{ibv_context, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_values_ex, ibv_wc};
use doorbell_transport::Refused;
use libc::{c_int, c_void};
use std::ptr::null_mut;

/// The `IBV_WC_EX_WITH_*` bits that this device supports: the standard ones and both time stamps.
const WC_FLAGS: u64 = 0x7f | 1 << 7 | 1 << 11;
/// `IBV_CQ_INIT_ATTR_MASK_FLAGS`, `_PD`.
const MASK_FLAGS: u32 = 1;
const MASK_PD: u32 = 1 << 1;
/// `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`, the only accepted flag.
const CREATE_FLAGS: u32 = 1;

pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: the caller's struct and context.
    let (made, attr) = unsafe { (create(context, &*attr), &*attr) };
    made_or_null(super::cq::asked("ibv_create_cq_ex", context, attr.cqe, attr.comp_vector), made).cast()
}

unsafe fn create(context: *mut ibv_context, attr: &ibv_cq_init_attr_ex) -> Result<Box<CqObject>, Refused> {
    let flags = if attr.comp_mask & MASK_FLAGS != 0 { attr.flags } else { 0 };
    if attr.comp_mask & !(MASK_FLAGS | MASK_PD) != 0
        || flags & !CREATE_FLAGS != 0
        || attr.wc_flags & !WC_FLAGS != 0
    {
        return Err(CQ_EX_FLAGS.of([&attr.comp_mask, &attr.wc_flags, &flags]));
    }
    let domain = if attr.comp_mask & MASK_PD != 0 {
        // SAFETY: a PD of ours, or null.
        let is_parent = |domain| unsafe { pd(domain) }.parent_of.is_some();
        let wrong = attr.parent_domain.is_null() || !is_parent(attr.parent_domain);
        if wrong {
            return Err(CQ_EX_PARENT.bare());
        }
        // SAFETY: as above.
        is_of(context, unsafe { (*attr.parent_domain).context }, "parent_domain")?;
        attr.parent_domain
    } else {
        null_mut()
    };
    // SAFETY: vouched for by the caller.
    let mut object = unsafe {
        super::cq::create(context, attr.cqe, attr.cq_context, attr.channel, attr.comp_vector, domain)?
    };
    let base = &mut object.base;
    base.start_poll = Some(start_poll);
    base.next_poll = Some(next_poll);
    base.end_poll = Some(end_poll);
    base.read_opcode = Some(read_opcode);
    base.read_vendor_err = Some(read_vendor_err);
    base.read_byte_len = Some(read_byte_len);
    base.read_imm_data = Some(read_imm_data);
    base.read_qp_num = Some(read_qp_num);
    base.read_src_qp = Some(read_src_qp);
    base.read_wc_flags = Some(read_wc_flags);
    base.read_slid = Some(read_slid);
    base.read_sl = Some(read_sl);
    base.read_dlid_path_bits = Some(read_dlid_path_bits);
    base.read_completion_ts = Some(read_completion_ts);
    base.read_completion_wallclock_ns = Some(read_completion_wallclock_ns);
    Ok(object)
}

unsafe extern "C" fn start_poll(pointer: *mut ibv_cq_ex, attr: *mut c_void) -> c_int {
    // SAFETY: the caller's struct begins with its mask. This device knows no bit of the mask.
    let mask = if attr.is_null() { 0 } else { unsafe { *attr.cast::<u32>() } };
    if mask != 0 {
        return status("ibv_start_poll", Err(CQ_EX_POLL.of([&mask])));
    }
    // SAFETY: passed on.
    unsafe { next_poll(pointer) }
}

unsafe extern "C" fn next_poll(pointer: *mut ibv_cq_ex) -> c_int {
    // SAFETY: a CQ of ours; ibv_start_poll(3) allows one thread between start and end.
    let object = unsafe { &mut *pointer.cast::<CqObject>() };
    let mut wc = [ibv_wc::default()];
    match object.cq.poll(&mut wc) {
        // The usual answer to a poll does not set errno.
        Ok(0) => CQ_EX_EMPTY.errno,
        Ok(_) => {
            object.base.wr_id = wc[0].wr_id;
            object.base.status = wc[0].status;
            object.current = wc[0];
            0
        }
        // A line about the QP explains the overrun.
        Err(errno) => silent_errno(&POLL_OVERRUN, Some(errno)),
    }
}

unsafe extern "C" fn end_poll(_pointer: *mut ibv_cq_ex) {}

macro_rules! readers {
    ($($name:ident -> $result:ty: $field:ident;)*) => {$(
        unsafe extern "C" fn $name(pointer: *mut ibv_cq_ex) -> $result {
            // SAFETY: a CQ of ours, between start and end of a poll.
            unsafe { (*pointer.cast::<CqObject>()).current.$field.into() }
        }
    )*};
}

readers! {
    read_opcode -> u32: opcode;
    read_vendor_err -> u32: vendor_err;
    read_byte_len -> u32: byte_len;
    read_imm_data -> u32: imm_data;
    read_qp_num -> u32: qp_num;
    read_src_qp -> u32: src_qp;
    read_wc_flags -> u32: wc_flags;
    read_slid -> u32: slid;
    read_sl -> u8: sl;
    read_dlid_path_bits -> u8: dlid_path_bits;
}

/// Nanoseconds of the monotonic clock at the time of this call, in place of the time of the completion.
unsafe extern "C" fn read_completion_ts(_pointer: *mut ibv_cq_ex) -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970 at the time of this call, in place of the time of the completion.
unsafe extern "C" fn read_completion_wallclock_ns(_pointer: *mut ibv_cq_ex) -> u64 {
    nanoseconds(libc::CLOCK_REALTIME)
}

/// `IBV_VALUES_MASK_RAW_CLOCK`.
const RAW_CLOCK: u32 = 1;

/// Writes the clock of completion time stamps. Like mlx5, it writes the whole value to `tv_nsec`.
pub(crate) unsafe extern "C" fn query_rt_values(
    _context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    // SAFETY: the caller's struct.
    let values = unsafe { &mut *values };
    values.comp_mask &= RAW_CLOCK;
    if values.comp_mask != 0 {
        let tv_nsec = nanoseconds(libc::CLOCK_MONOTONIC) as i64;
        values.raw_clock = libc::timespec { tv_sec: 0, tv_nsec };
    }
    0
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // libc reads the clock without a system call. rustix is not optimised in the profile `release`.
    // SAFETY: every Linux has the clock, and `now` has space for its time.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
