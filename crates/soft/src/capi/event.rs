//! Asynchronous events.

use super::object::{Subject, SubjectKind, context, cq, qp, srq};
use super::silent_errno;
use crate::causes::ASYNC_EVENTS;
use crate::device;
use crate::watch::port::{EVENT_PORT_ACTIVE, EVENT_PORT_ERR};
use doorbell_abi::{ibv_async_event, ibv_context};
use libc::c_int;

/// The kind of object that an `enum ibv_event_type` concerns.
fn kind(event_type: u32) -> Option<SubjectKind> {
    match event_type {
        0 => Some(SubjectKind::Cq),
        1..=7 | 16 => Some(SubjectKind::Qp),
        14 | 15 => Some(SubjectKind::Srq),
        _ => None,
    }
}

pub unsafe extern "C" fn ibv_get_async_event(pointer: *mut ibv_context, to: *mut ibv_async_event) -> c_int {
    // SAFETY: a context of ours.
    let context = unsafe { context(pointer) };
    loop {
        let event = match context.async_pipe.next() {
            Ok(event) => event,
            Err(error) => {
                silent_errno(&ASYNC_EVENTS, Some(error.into()));
                return -1;
            }
        };
        if matches!(event.event_type, EVENT_PORT_ACTIVE | EVENT_PORT_ERR) {
            // `element` is a union of a port number and pointers. The port number is written here as a
            // pointer, which sets all bytes of the union.
            let element = std::ptr::without_provenance_mut(device::PORT.into());
            // SAFETY: the caller's struct.
            unsafe { to.write(ibv_async_event { element, event_type: event.event_type }) };
            return 0;
        }
        let identity = (event.index, event.generation);
        let Some(subject) = kind(event.event_type).and_then(|kind| context.subjects.find(kind, identity))
        else {
            continue;
        };
        let element = match subject {
            Subject::Cq(pointer, cq) => {
                cq.events.delivered();
                pointer.cast()
            }
            Subject::Qp(pointer, qp) => {
                // A peer's request may have put the QP into Err. The query updates the QP's state, which the
                // program must see once it has the event.
                qp.query();
                qp.events.delivered();
                pointer.cast()
            }
            Subject::Srq(pointer, _, events) => {
                events.delivered();
                pointer.cast()
            }
        };
        // SAFETY: the caller's struct.
        unsafe { to.write(ibv_async_event { element, event_type: event.event_type }) };
        return 0;
    }
}

pub unsafe extern "C" fn ibv_ack_async_event(pointer: *mut ibv_async_event) {
    // SAFETY: the event is from `ibv_get_async_event`; its object is not destroyed before this
    // acknowledgement.
    unsafe {
        let event = &*pointer;
        match kind(event.event_type) {
            Some(SubjectKind::Cq) => cq(event.element.cast()).cq.events.acknowledged(1),
            Some(SubjectKind::Qp) => qp(event.element.cast()).qp.events.acknowledged(1),
            Some(SubjectKind::Srq) => srq(event.element.cast()).events.acknowledged(1),
            None => {}
        }
    }
}
