//! Handles of QPs, as programs hold them.

use super::building::Builder;
use super::object::{QpObject, QpOrigin, Subject, context};
use crate::queues::qp::Qp;
use doorbell_abi::{ibv_context, ibv_pd, ibv_qp_ex, ibv_qp_init_attr};
use std::ptr::null_mut;
use std::sync::Arc;

/// Creates a handle of a QP. If the program created the QP, events of the QP name this handle.
///
/// # Safety
/// A context of ours.
pub(super) unsafe fn hand_out(
    pointer: *mut ibv_context,
    pd_pointer: *mut ibv_pd,
    attr: &ibv_qp_init_attr,
    made: Arc<Qp>,
    origin: QpOrigin,
) -> Box<QpObject> {
    // SAFETY: integers, pointers and optional functions, which may be zero.
    let mut base: ibv_qp_ex = unsafe { std::mem::zeroed() };
    base.qp_base.context = pointer;
    base.qp_base.qp_context = attr.qp_context;
    base.qp_base.pd = pd_pointer;
    base.qp_base.send_cq = attr.send_cq;
    base.qp_base.recv_cq = attr.recv_cq;
    base.qp_base.srq = attr.srq;
    base.qp_base.handle = made.event_identity().0;
    base.qp_base.qp_num = made.num();
    base.qp_base.qp_type = attr.qp_type;
    base.qp_base.mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    base.qp_base.cond = libc::PTHREAD_COND_INITIALIZER;
    let (builder, xrcd) = (Builder::default(), null_mut());
    let object = Box::new(QpObject { base, qp: made.clone(), builder, xrcd, origin, send_ops: 0.into() });
    if origin == QpOrigin::Made {
        // SAFETY: vouched for by the caller.
        let owner = unsafe { context(pointer) };
        owner.subjects.add(Subject::Qp((&raw const object.base.qp_base).cast_mut(), made));
    }
    object
}
