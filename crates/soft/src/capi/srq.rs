//! Shared receive queues.

use super::object::{SrqObject, Subject, SubjectKind, Uses, context, cq, is_of, pd, process_of, srq, xrcd};
use super::wr::sges;
use super::{destroyed, made_or_null, object_or_null, status, tried};
use crate::causes::*;
use crate::counts;
use crate::errno::Errno;
use crate::limits::limits;
use crate::memory::records::{QPS, SRQS};
use crate::queues::events::Events;
use crate::queues::recv_queue::{RecvQueue, Senders, Sizes};
use crate::refused::{Asked, Called, NONE, Size};
use doorbell_abi::{
    ibv_context, ibv_cq, ibv_pd, ibv_recv_wr, ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex,
    ibv_xrcd,
};
use doorbell_launch::qp_numbers::qp_num;
use doorbell_transport::Refused;
use libc::c_int;
use std::sync::Arc;

/// `IBV_SRQ_MAX_WR`, `IBV_SRQ_LIMIT`.
const SRQ_MAX_WR: c_int = 1;
const SRQ_LIMIT_BIT: c_int = 2;
/// `IBV_SRQ_INIT_ATTR_TYPE`, `_PD`, `_XRCD`, `_CQ`; `IBV_SRQT_BASIC`, `IBV_SRQT_XRC`.
const INIT_ATTR_TYPE: u32 = 1;
const INIT_ATTR_PD: u32 = 1 << 1;
const INIT_ATTR_XRCD: u32 = 1 << 2;
const INIT_ATTR_CQ: u32 = 1 << 3;
const BASIC: u32 = 0;
const XRC: u32 = 1;

pub unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: the caller's struct and PD.
    let (asked, made) = unsafe { (asked("ibv_create_srq", pd, &*attr), create(pd, &mut *attr, None)) };
    made_or_null(asked, made).cast()
}

/// The sizes of an SRQ that the program may reduce.
fn asked(call: &'static str, pd: *mut ibv_pd, attr: &ibv_srq_init_attr) -> Asked {
    let ibv_srq_attr { max_wr, max_sge, .. } = attr.attr;
    let sizes = [Size::new(OF_SRQ_WR, max_wr), Size::new(OF_SRQ_SGE, max_sge), NONE, NONE, NONE];
    Asked { call: Called::verbs(call), same: [pd.addr() as u64, 0, 0, 0], sizes }
}

pub(crate) unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    const CALL: &str = "ibv_create_srq_ex";
    // SAFETY: the caller's struct, which begins with the fields of `ibv_srq_init_attr`.
    let asked = unsafe { asked(CALL, (*attr).pd, &*attr.cast::<ibv_srq_init_attr>()) };
    // SAFETY: the caller's struct.
    let attr_ex = unsafe { &mut *attr };
    // SAFETY: a PD of ours, or null.
    if let Some(Err(foreign)) = unsafe { attr_ex.pd.as_ref() }.map(|pd| is_of(context, pd.context, "pd")) {
        return object_or_null::<SrqObject>(CALL, Err(foreign)).cast();
    }
    let srq_type = if attr_ex.comp_mask & INIT_ATTR_TYPE != 0 { attr_ex.srq_type } else { BASIC };
    if srq_type == XRC {
        // SAFETY: the caller's struct.
        return made_or_null(asked, unsafe { create_xrc(attr_ex) }).cast();
    }
    if srq_type != BASIC || attr_ex.comp_mask & !(INIT_ATTR_TYPE | INIT_ATTR_PD) != 0 {
        let refused = SRQ_EX_FLAGS.of([&srq_type, &attr_ex.comp_mask]);
        return object_or_null::<SrqObject>(CALL, Err(refused)).cast();
    }
    let pd = attr_ex.pd;
    // SAFETY: the struct begins with the fields of `ibv_srq_init_attr`; the PD is checked.
    let plain = unsafe { &mut *attr.cast::<ibv_srq_init_attr>() };
    // SAFETY: as above.
    made_or_null(asked, unsafe { create(pd, plain, None) }).cast()
}

/// Creates an XRC SRQ. Messages to any target QP of its XRC domain name the SRQ by its number.
unsafe fn create_xrc(attr: &mut ibv_srq_init_attr_ex) -> Result<Box<SrqObject>, Refused> {
    let needed = INIT_ATTR_TYPE | INIT_ATTR_PD | INIT_ATTR_XRCD | INIT_ATTR_CQ;
    if attr.comp_mask & !needed != 0 {
        return Err(SRQ_EX_FLAGS.of([&attr.srq_type, &attr.comp_mask]));
    }
    if attr.comp_mask != needed || attr.cq.is_null() || attr.xrcd.is_null() || attr.pd.is_null() {
        return Err(SRQ_EX_MASK.of([&attr.comp_mask]));
    }
    let xrc = Some((attr.cq, attr.xrcd));
    // SAFETY: the struct begins with the fields of `ibv_srq_init_attr`; objects of ours.
    unsafe {
        is_of((*attr.xrcd).context, (*attr.cq).context, "cq")?;
        is_of((*attr.xrcd).context, (*attr.pd).context, "pd")?;
        let object = create(attr.pd, &mut *(&raw mut *attr).cast::<ibv_srq_init_attr>(), xrc)?;
        let (cq, xrcd) = (cq(attr.cq), xrcd(attr.xrcd));
        cq.uses.begin();
        xrcd.uses.begin();
        cq.cq.add_srq(&object.rq);
        object.rq.set_domain(Some(xrcd.domain.id), cq.cq.index);
        Ok(object)
    }
}

unsafe fn create(
    pd_pointer: *mut ibv_pd,
    attr: &mut ibv_srq_init_attr,
    xrc: Option<(*mut ibv_cq, *mut ibv_xrcd)>,
) -> Result<Box<SrqObject>, Refused> {
    let sizes = &mut attr.attr;
    let most = limits();
    if pd_pointer.is_null() {
        return Err(SRQ_PD.bare());
    }
    if !(1..=most.wr).contains(&sizes.max_wr) {
        return Err(SRQ_WR.of([&sizes.max_wr, &most.wr]));
    }
    if sizes.max_sge > most.sge {
        return Err(SRQ_SGE.of([&sizes.max_sge, &most.sge]));
    }
    // SAFETY: a PD of ours and its context.
    let (pd, owner) = unsafe {
        let pd = pd(pd_pointer);
        (pd, context(pd.base.context))
    };
    let full = |errno: Errno| at_limit(&SRQ_ROOM, errno, [&SRQS]);
    let held = Arc::new(owner.process.srq_numbers.hold().map_err(full)?);
    let number = held.number;
    let index = QPS as u32 + number;
    let async_fd = owner.async_pipe.in_record();
    let room = Sizes { depth: sizes.max_wr, max_sge: sizes.max_sge.max(1) };
    let senders = if xrc.is_some() { Senders::Named } else { Senders::Many };
    let queue =
        RecvQueue::new(owner.process, index, pd.base.handle, room, senders, async_fd).map_err(full)?;
    let rq = Arc::new(queue.with_number(held));
    sizes.max_sge = sizes.max_sge.max(1);
    pd.uses.begin();
    // SAFETY: integers and pointers, which may be zero.
    let mut base: ibv_srq = unsafe { std::mem::zeroed() };
    base.context = pd.base.context;
    base.srq_context = attr.srq_context;
    base.pd = pd_pointer;
    base.handle = number;
    base.mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    base.cond = libc::PTHREAD_COND_INITIALIZER;
    let events = Arc::new(Events::default());
    let uses = Uses::default();
    let object = Box::new(SrqObject { base, rq: rq.clone(), events: events.clone(), uses, xrc });
    owner.subjects.add(Subject::Srq((&raw const object.base).cast_mut(), rq, events));
    Ok(object)
}

pub unsafe extern "C" fn ibv_destroy_srq(pointer: *mut ibv_srq) -> c_int {
    // SAFETY: an SRQ of ours, not used after this, its PD and context.
    unsafe {
        let object = srq(pointer);
        if let Err(busy) = object.uses.check_none(&SRQ_BUSY) {
            return destroyed("ibv_destroy_srq", pointer, Err(busy));
        }
        let owner = context(object.base.context);
        owner.subjects.remove(SubjectKind::Srq, object.base.handle);
        let about = format_args!("the SRQ at {pointer:?}");
        object.events.wait_for_all("ibv_destroy_srq", "ibv_ack_async_event", about);
        if let Some((of_cq, _)) = object.xrc {
            object.rq.set_domain(None, cq(of_cq).cq.index);
            owner.process.wait_for_copies("ibv_destroy_srq(3)");
        }
        object.rq.close();
        object.rq.explain_end();
        if let Some((of_cq, of_xrcd)) = object.xrc {
            cq(of_cq).cq.end_srq(&object.rq);
            cq(of_cq).uses.end();
            xrcd(of_xrcd).uses.end();
        }
        pd(object.base.pd).uses.end();
        drop(Box::from_raw(pointer.cast::<SrqObject>()));
    }
    destroyed("ibv_destroy_srq", pointer, Ok(()))
}

pub unsafe extern "C" fn ibv_modify_srq(
    pointer: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    // The program need not set fields that the mask does not select.
    // SAFETY: the caller's struct.
    let limit = if mask & SRQ_LIMIT_BIT != 0 { Some(unsafe { (*attr).srq_limit }) } else { None };
    let size = Size::new(OF_SRQ_LIMIT, limit.unwrap_or(0));
    let same = [pointer.addr() as u64, mask as u64, 0, 0];
    let asked = Asked { call: Called::verbs("ibv_modify_srq"), same, sizes: [size, NONE, NONE, NONE, NONE] };
    // SAFETY: an SRQ of ours.
    tried(asked, change(&unsafe { srq(pointer) }.rq, mask, limit))
}

fn change(rq: &RecvQueue, mask: c_int, limit: Option<u32>) -> Result<(), Refused> {
    if mask & SRQ_MAX_WR != 0 {
        // IBV_DEVICE_SRQ_RESIZE is not among the device's capabilities.
        return Err(SRQ_RESIZE.bare());
    }
    if mask & !SRQ_LIMIT_BIT != 0 {
        return Err(SRQ_MASK.of([&mask]));
    }
    let Some(limit) = limit else { return Ok(()) };
    if limit > rq.depth {
        return Err(SRQ_LIMIT.of([&limit, &rq.depth]));
    }
    rq.arm_limit(limit);
    Ok(())
}

pub unsafe extern "C" fn ibv_query_srq(pointer: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: an SRQ of ours and the caller's struct.
    unsafe {
        let rq = &srq(pointer).rq;
        attr.write(ibv_srq_attr { max_wr: rq.depth, max_sge: rq.max_sge, srq_limit: rq.limit() });
    }
    0
}

pub(crate) unsafe extern "C" fn get_srq_num(pointer: *mut ibv_srq, number: *mut u32) -> c_int {
    // SAFETY: an SRQ of ours, its context, and the caller's variable.
    unsafe {
        let base = &srq(pointer).base;
        number.write(qp_num(process_of(base.context).slot, base.handle));
    }
    0
}

pub(crate) unsafe extern "C" fn post_srq_recv(
    pointer: *mut ibv_srq,
    mut list: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: an SRQ of ours.
    let rq = unsafe { &srq(pointer).rq };
    let (mut recvs, mut most_sges) = (0, 0);
    // SAFETY: the caller's list, which ends with null.
    while let Some(wr) = unsafe { list.as_ref() } {
        // SAFETY: the caller's work request.
        let posted = unsafe { sges(wr.sg_list, wr.num_sge) }.and_then(|sges| rq.enqueue(wr.wr_id, sges));
        if posted.is_err() {
            counts::srq_posted(recvs, most_sges);
            // SAFETY: the caller's variable.
            unsafe { bad.write(list) };
            return status("ibv_post_srq_recv", posted);
        }
        recvs += 1;
        most_sges = most_sges.max(wr.num_sge as u32);
        list = wr.next;
    }
    counts::srq_posted(recvs, most_sges);
    0
}
