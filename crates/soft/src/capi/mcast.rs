//! Multicast groups.

use super::object::qp;
use super::status;
use crate::memory::groups::Group;
use crate::queues::qp::Qp;
use doorbell_abi::{ibv_gid, ibv_qp};
use doorbell_transport::Refused;
use doorbell_verbs::Gid;
use libc::c_int;

pub unsafe extern "C" fn ibv_attach_mcast(pointer: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: passed on.
    unsafe { change(("ibv_attach_mcast", pointer), gid, lid, Qp::attach) }
}

pub unsafe extern "C" fn ibv_detach_mcast(pointer: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: passed on.
    unsafe { change(("ibv_detach_mcast", pointer), gid, lid, Qp::detach) }
}

unsafe fn change(
    (call, pointer): (&'static str, *mut ibv_qp),
    gid: *const ibv_gid,
    lid: u16,
    change: impl FnOnce(&Qp, Group) -> Result<(), Refused>,
) -> c_int {
    // SAFETY: a QP of ours and the caller's struct, which need not be aligned.
    let (qp, gid) = unsafe { (&qp(pointer).qp, gid.read_unaligned()) };
    status(call, change(qp, Group { gid: Gid(gid.raw), lid }))
}
