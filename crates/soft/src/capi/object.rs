//! The objects behind the pointers that programs hold. Each object begins with its struct from verbs.h.

use crate::causes::CONTEXT_OTHER;
use crate::fabric::domains::Domain;
use crate::fabric::pipe::EventPipe;
use crate::fabric::process::Process;
use crate::queues::cq::Cq;
use crate::queues::events::Events;
use crate::queues::qp::Qp;
use crate::queues::recv_queue::RecvQueue;
use crate::sync::lock;
use doorbell_abi::{
    ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex, ibv_pd, ibv_qp, ibv_qp_ex, ibv_srq, ibv_td, ibv_wc,
    ibv_xrcd, verbs_context,
};
use doorbell_transport::{Cause, Refused};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};

/// Counts the objects that use an object. An object in use cannot be destroyed (`EBUSY`). Release at
/// the end of a use and Acquire at the check order the last use before the object is freed, as in an `Arc`.
#[derive(Debug, Default)]
pub(crate) struct Uses(AtomicU32);

impl Uses {
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn end(&self) {
        self.0.fetch_sub(1, Release);
    }

    /// Fails for the reason `busy`, whose sentence shows the number of uses.
    pub(crate) fn check_none(&self, busy: &'static Cause) -> Result<(), Refused> {
        match self.0.load(Acquire) {
            0 => Ok(()),
            uses => Err(busy.of([&uses])),
        }
    }
}

/// An object that events can concern, with the program's pointer to it.
#[derive(Clone)]
pub(crate) enum Subject {
    /// A CQ.
    Cq(*mut ibv_cq, Arc<Cq>),
    /// A QP.
    Qp(*mut ibv_qp, Arc<Qp>),
    /// An SRQ.
    Srq(*mut ibv_srq, Arc<RecvQueue>, Arc<Events>),
}

/// Kind of a [`Subject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SubjectKind {
    /// A CQ.
    Cq,
    /// A QP.
    Qp,
    /// An SRQ.
    Srq,
}

// SAFETY: the pointers are only returned to the program, and are never dereferenced through this type.
unsafe impl Send for Subject {}

impl Subject {
    fn key(&self) -> (SubjectKind, u32) {
        let kind = match self {
            Subject::Cq(..) => SubjectKind::Cq,
            Subject::Qp(..) => SubjectKind::Qp,
            Subject::Srq(..) => SubjectKind::Srq,
        };
        (kind, self.identity().0)
    }

    /// The index and the generation in the events of this object.
    pub(crate) fn identity(&self) -> (u32, u32) {
        match self {
            Subject::Cq(_, cq) => cq.event_identity(),
            Subject::Qp(_, qp) => qp.event_identity(),
            Subject::Srq(_, rq, _) => rq.event_identity(),
        }
    }
}

/// Objects by the index in their events, to find the object of an event.
#[derive(Default)]
pub(crate) struct Subjects(Mutex<HashMap<(SubjectKind, u32), Subject>>);

impl Subjects {
    pub(crate) fn add(&self, subject: Subject) {
        lock(&self.0).insert(subject.key(), subject);
    }

    pub(crate) fn remove(&self, kind: SubjectKind, index: u32) {
        lock(&self.0).remove(&(kind, index));
    }

    /// The object that an event concerns, if it still exists.
    pub(crate) fn find(&self, kind: SubjectKind, identity: (u32, u32)) -> Option<Subject> {
        lock(&self.0).get(&(kind, identity.0)).filter(|s| s.identity() == identity).cloned()
    }
}

/// An opened device.
#[repr(C)]
pub(crate) struct Context {
    pub(crate) verbs: verbs_context,
    pub(crate) _device_file: std::fs::File,
    pub(crate) process: &'static Process,
    pub(crate) async_pipe: Arc<EventPipe>,
    pub(crate) subjects: Subjects,
}

/// A protection domain.
#[repr(C)]
pub(crate) struct Pd {
    pub(crate) base: ibv_pd,
    pub(crate) uses: Uses,
    /// The protection domain and the thread domain (or null) of a parent domain; `None` for other protection
    /// domains.
    pub(crate) parent_of: Option<(*mut ibv_pd, *mut ibv_td)>,
}

/// A thread domain.
#[repr(C)]
pub(crate) struct TdObject {
    pub(crate) base: ibv_td,
    pub(crate) uses: Uses,
}

/// A completion channel.
#[repr(C)]
pub(crate) struct Channel {
    pub(crate) base: ibv_comp_channel,
    pub(crate) pipe: EventPipe,
    pub(crate) subjects: Subjects,
    pub(crate) uses: Uses,
}

/// A completion queue.
#[repr(C)]
pub(crate) struct CqObject {
    pub(crate) base: ibv_cq_ex,
    pub(crate) cq: Arc<Cq>,
    /// The completion that `ibv_start_poll` or `ibv_next_poll` took last.
    pub(crate) current: ibv_wc,
    pub(crate) uses: Uses,
    /// The parent domain that the CQ was created in, or null.
    pub(crate) parent_domain: *mut ibv_pd,
}

/// A queue pair.
#[repr(C)]
pub(crate) struct QpObject {
    pub(crate) base: ibv_qp_ex,
    pub(crate) qp: Arc<Qp>,
    pub(crate) builder: super::building::Builder,
    /// The XRC domain of an XRC target; null for other QPs.
    pub(crate) xrcd: *mut ibv_xrcd,
    pub(crate) origin: QpOrigin,
    /// `IBV_QP_EX_WITH_*` bits of the operations that are built without a report in strict mode.
    pub(crate) send_ops: AtomicU64,
}

/// How the program obtained a handle of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpOrigin {
    /// The program created the QP and got this handle. Events of the QP name this handle.
    Made,
    /// The program called ibv_open_qp(3) on a QP of this process.
    Opened,
    /// The program called ibv_open_qp(3) on a QP of another process. The handle holds a placeholder QP of
    /// this process, which is never used.
    Foreign,
}

/// An XRC domain.
#[repr(C)]
pub(crate) struct XrcdObject {
    pub(crate) base: ibv_xrcd,
    pub(crate) domain: Domain,
    pub(crate) uses: Uses,
}

/// A shared receive queue.
#[repr(C)]
pub(crate) struct SrqObject {
    pub(crate) base: ibv_srq,
    pub(crate) rq: Arc<RecvQueue>,
    pub(crate) events: Arc<Events>,
    pub(crate) uses: Uses,
    /// The CQ and the XRC domain of an XRC SRQ; `None` for a basic SRQ.
    pub(crate) xrc: Option<(*mut ibv_cq, *mut ibv_xrcd)>,
}

/// Defines the function from a pointer type of verbs.h to the object behind it.
macro_rules! object {
    ($name:ident: $c:ty => $object:ty) => {
        /// The object behind the pointer.
        ///
        /// # Safety
        /// The pointer is to an object of this library that is not destroyed.
        pub(crate) unsafe fn $name<'a>(pointer: *mut $c) -> &'a $object {
            // SAFETY: vouched for by the caller; the C struct is the object's first field.
            unsafe { &*pointer.cast::<$object>() }
        }
    };
}

object!(pd: ibv_pd => Pd);
object!(channel: ibv_comp_channel => Channel);
object!(cq: ibv_cq => CqObject);
object!(qp: ibv_qp => QpObject);
object!(srq: ibv_srq => SrqObject);
object!(xrcd: ibv_xrcd => XrcdObject);
object!(td: ibv_td => TdObject);

/// Checks that the object in `field`, which belongs to context `of`, may be used with `context`. The kernel
/// looks up the handle of an object in the caller's own context.
pub(crate) fn is_of(context: *mut ibv_context, of: *mut ibv_context, field: &str) -> Result<(), Refused> {
    if context == of { Ok(()) } else { Err(CONTEXT_OTHER.of([&field])) }
}

/// The object behind the pointer to a context.
///
/// # Safety
/// The pointer is to a context of this library that is not closed.
pub(crate) unsafe fn context<'a>(pointer: *mut ibv_context) -> &'a Context {
    // SAFETY: vouched for by the caller; the struct that programs see lies within the object.
    unsafe { &*pointer.byte_sub(std::mem::offset_of!(verbs_context, context)).cast::<Context>() }
}

/// The process that a context belongs to.
///
/// # Safety
/// As for [`context`].
pub(crate) unsafe fn process_of(pointer: *mut ibv_context) -> &'static Process {
    // SAFETY: vouched for by the caller.
    unsafe { context(pointer) }.process
}
