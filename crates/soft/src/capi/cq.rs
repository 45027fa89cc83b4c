//! Completion channels and completion queues.

use super::object::{Channel, CqObject, Subject, SubjectKind, Subjects, Uses, channel, context, cq, pd};
use super::{destroyed, made_or_null, object_or_null, silent_errno, status, tried};
use crate::causes::*;
use crate::device;
use crate::errno::Errno;
use crate::fabric::pipe::EventPipe;
use crate::limits::limits;
use crate::memory::records::CQS;
use crate::queues::cq::Cq;
use crate::refused::{Asked, Called, NONE, Size};
use doorbell_abi::{ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex, ibv_modify_cq_attr, ibv_pd, ibv_wc};
use doorbell_transport::Refused;
use libc::{c_int, c_void};
use std::sync::Arc;

pub unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    let made = EventPipe::new().map_err(no_files).map(|pipe| {
        let base = ibv_comp_channel { context, fd: pipe.read_fd(), refcnt: 0 };
        Box::new(Channel { base, pipe, subjects: Subjects::default(), uses: Uses::default() })
    });
    object_or_null("ibv_create_comp_channel", made).cast()
}

/// The error for a channel whose pipe cannot be opened.
fn no_files(error: std::io::Error) -> Refused {
    CHANNEL_FILES.of([&error]).with_errno(Errno::from(error).0)
}

pub unsafe extern "C" fn ibv_destroy_comp_channel(pointer: *mut ibv_comp_channel) -> c_int {
    // SAFETY: a channel of ours, not used after this.
    unsafe {
        let busy = channel(pointer).uses.check_none(&CHANNEL_BUSY);
        if busy.is_ok() {
            drop(Box::from_raw(pointer.cast::<Channel>()));
        }
        destroyed("ibv_destroy_comp_channel", pointer, busy)
    }
}

pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: passed on.
    let made =
        unsafe { create(context, cqe as u32, cq_context, channel, comp_vector as u32, std::ptr::null_mut()) };
    made_or_null(asked("ibv_create_cq", context, cqe as u32, comp_vector as u32), made).cast()
}

/// The sizes of a CQ that the program may reduce.
pub(super) fn asked(call: &'static str, context: *mut ibv_context, cqe: u32, comp_vector: u32) -> Asked {
    let sizes = [Size::new(OF_CQE, cqe), Size::new(OF_CQ_VECTOR, comp_vector), NONE, NONE, NONE];
    Asked { call: Called::verbs(call), same: [context.addr() as u64, 0, 0, 0], sizes }
}

/// A change of a CQ whose sizes the program may reduce.
fn asked_again(call: &'static str, cq: *mut ibv_cq, sizes: [Size; 2]) -> Asked {
    let [first, second] = sizes;
    let sizes = [first, second, NONE, NONE, NONE];
    Asked { call: Called::verbs(call), same: [cq.addr() as u64, 0, 0, 0], sizes }
}

/// # Safety
/// `pointer` is a context of ours. `channel_pointer` is null or a channel of ours, and `parent_domain` is
/// null or a parent domain of ours.
pub(crate) unsafe fn create(
    pointer: *mut ibv_context,
    cqe: u32,
    cq_context: *mut c_void,
    channel_pointer: *mut ibv_comp_channel,
    comp_vector: u32,
    parent_domain: *mut ibv_pd,
) -> Result<Box<CqObject>, Refused> {
    if !(1..=limits().cqe).contains(&cqe) {
        return Err(CQ_CQE.of([&cqe.cast_signed(), &limits().cqe]));
    }
    if comp_vector >= device::COMP_VECTORS as u32 {
        return Err(CQ_VECTOR.of([&comp_vector.cast_signed(), &(device::COMP_VECTORS - 1)]));
    }
    // SAFETY: vouched for by the caller.
    let (owner, channel) = unsafe {
        (context(pointer), if channel_pointer.is_null() { None } else { Some(channel(channel_pointer)) })
    };
    // The kernel finds a channel by its file descriptor, which belongs to one context.
    if channel.is_some_and(|channel| channel.base.context != pointer) {
        return Err(CQ_CHANNEL.bare());
    }
    let channel_fd = channel.map_or(0, |c| c.pipe.in_record());
    let made = Cq::new(owner.process, cqe, channel_fd, owner.async_pipe.in_record());
    let made = made.map_err(|errno| at_limit(&CQ_ROOM, errno, [&cqe, &CQS]))?;
    let made = Arc::new(made.with_reads(channel.map(|channel| channel.pipe.reads())));
    // SAFETY: integers, pointers and optional functions, which may be zero.
    let mut base: ibv_cq_ex = unsafe { std::mem::zeroed() };
    base.context = pointer;
    base.channel = channel_pointer;
    base.cq_context = cq_context;
    base.handle = made.index;
    base.cqe = cqe as c_int;
    base.mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    base.cond = libc::PTHREAD_COND_INITIALIZER;
    let (current, uses) = (ibv_wc::default(), Uses::default());
    let object = Box::new(CqObject { base, cq: made.clone(), current, uses, parent_domain });
    if !parent_domain.is_null() {
        // SAFETY: a parent domain of ours.
        unsafe { pd(parent_domain) }.uses.begin();
    }
    let own = (&raw const object.base).cast_mut().cast::<ibv_cq>();
    if let Some(channel) = channel {
        channel.uses.begin();
        channel.subjects.add(Subject::Cq(own, made.clone()));
    }
    owner.subjects.add(Subject::Cq(own, made));
    Ok(object)
}

pub unsafe extern "C" fn ibv_destroy_cq(pointer: *mut ibv_cq) -> c_int {
    // SAFETY: a CQ of ours, not used after this; its context and channel.
    unsafe {
        let object = cq(pointer);
        if let Err(busy) = object.uses.check_none(&CQ_BUSY) {
            return destroyed("ibv_destroy_cq", pointer, Err(busy));
        }
        let index = object.cq.index;
        context(object.base.context).subjects.remove(SubjectKind::Cq, index);
        if !object.base.channel.is_null() {
            let channel = channel(object.base.channel);
            channel.subjects.remove(SubjectKind::Cq, index);
            channel.uses.end();
        }
        let about = format_args!("the CQ at {pointer:?}");
        object.cq.events.wait_for_all("ibv_destroy_cq", "ibv_ack_cq_events", about);
        if !object.parent_domain.is_null() {
            pd(object.parent_domain).uses.end();
        }
        drop(Box::from_raw(pointer.cast::<CqObject>()));
    }
    destroyed("ibv_destroy_cq", pointer, Ok(()))
}

pub unsafe extern "C" fn ibv_resize_cq(pointer: *mut ibv_cq, cqe: c_int) -> c_int {
    let asked = asked_again("ibv_resize_cq", pointer, [Size::new(OF_CQE, cqe as u32), NONE]);
    if !(1..=limits().cqe as c_int).contains(&cqe) {
        return tried(asked, Err(CQ_CQE.of([&cqe, &limits().cqe])));
    }
    // SAFETY: a CQ of ours.
    unsafe {
        let resized = cq(pointer).cq.resize(cqe as u32);
        if resized.is_ok() {
            (*pointer).cqe = cqe;
        }
        tried(asked, resized)
    }
}

/// `IBV_CQ_ATTR_MODERATE`.
const ATTR_MODERATE: u32 = 1;

/// Accepts CQ moderation within the limits of ibv_query_device_ex(3). Moderation only allows a device to
/// delay events, so this device reports each event at once.
pub(crate) unsafe extern "C" fn modify_cq(pointer: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    // SAFETY: the caller's struct.
    let ibv_modify_cq_attr { attr_mask, moderate } = unsafe { *attr };
    let (period, most) = (moderate.cq_period, device::MODERATION.cq_period);
    let modified = match attr_mask {
        ATTR_MODERATE if period <= most => Ok(()),
        ATTR_MODERATE => Err(CQ_PERIOD.of([&period, &most])),
        0 => Err(CQ_ATTR_NONE.bare()),
        _ => Err(CQ_ATTR_MASK.of([&attr_mask])),
    };
    // No count is refused.
    let sizes = [Size::new(OF_CQ_PERIOD, period), Size::new(&[], moderate.cq_count)];
    tried(asked_again("ibv_modify_cq", pointer, sizes), modified)
}

pub(crate) unsafe extern "C" fn poll_cq(pointer: *mut ibv_cq, room: c_int, to: *mut ibv_wc) -> c_int {
    let Ok(room) = usize::try_from(room) else {
        return -status("ibv_poll_cq", Err(POLL_ENTRIES.of([&room])));
    };
    if room == 0 {
        return 0;
    }
    // SAFETY: a CQ of ours; the caller's array has `room` entries, and any bytes are valid in them.
    unsafe {
        match cq(pointer).cq.poll(std::slice::from_raw_parts_mut(to, room)) {
            Ok(taken) => taken as c_int,
            // A line about the QP explains the overrun.
            Err(errno) => -silent_errno(&POLL_OVERRUN, Some(errno)),
        }
    }
}

pub(crate) unsafe extern "C" fn req_notify_cq(pointer: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: a CQ of ours.
    unsafe { cq(pointer) }.cq.request_notify(solicited_only != 0);
    0
}

pub unsafe extern "C" fn ibv_get_cq_event(
    pointer: *mut ibv_comp_channel,
    to: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: a channel of ours.
    let channel = unsafe { channel(pointer) };
    loop {
        let event = match channel.pipe.next() {
            Ok(event) => event,
            Err(error) => {
                silent_errno(&CQ_EVENTS, Some(error.into()));
                return -1;
            }
        };
        let found = channel.subjects.find(SubjectKind::Cq, (event.index, event.generation));
        if let Some(Subject::Cq(own, object)) = found {
            object.events.delivered();
            // SAFETY: the caller's variables; a CQ of ours.
            unsafe {
                to.write(own);
                cq_context.write((*own).cq_context);
            }
            return 0;
        }
    }
}

pub unsafe extern "C" fn ibv_ack_cq_events(pointer: *mut ibv_cq, count: u32) {
    // SAFETY: a CQ of ours.
    unsafe { cq(pointer) }.cq.events.acknowledged(count);
}
