//! XRC domains, and the target QPs that receive requests for the SRQs of a domain.

use super::handle::hand_out;
use super::object::{QpObject, QpOrigin, Uses, XrcdObject, context, is_of, xrcd};
use super::{destroyed, object_or_null};
use crate::causes::*;
use crate::device::MAX_QP;
use crate::errno::{EAGAIN, EINVAL, Errno};
use crate::fabric::domains::Opening;
use crate::queues::cq::Cq;
use crate::queues::qp::targets::elsewhere;
use crate::queues::qp::{Qp, QpKind, QpParts};
use doorbell_abi::{
    IBV_QPT_XRC_RECV, ibv_context, ibv_qp, ibv_qp_cap, ibv_qp_init_attr, ibv_qp_init_attr_ex,
    ibv_qp_open_attr, ibv_xrcd, ibv_xrcd_init_attr,
};
use doorbell_transport::Refused;
use doorbell_verbs::{QpAttr, QpCap, QpState};
use libc::c_int;
use std::fs::File;
use std::os::fd::FromRawFd;
use std::ptr::null_mut;
use std::sync::Arc;

/// The sizes of an XRC target, which has no queues.
const NOTHING: QpCap =
    QpCap { max_send_wr: 0, max_recv_wr: 0, max_send_sge: 0, max_recv_sge: 0, max_inline_data: 0 };
/// `IBV_XRCD_INIT_ATTR_FD`, `_OFLAGS`.
const XRCD_FD: u32 = 1;
const XRCD_OFLAGS: u32 = 1 << 1;
/// `IBV_QP_OPEN_ATTR_NUM`, `_XRCD`, `_CONTEXT`, `_TYPE`.
const OPEN_NUM: u32 = 1;
const OPEN_XRCD: u32 = 1 << 1;
const OPEN_CONTEXT: u32 = 1 << 2;
const OPEN_TYPE: u32 = 1 << 3;

pub(crate) unsafe extern "C" fn open_xrcd(
    pointer: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    // SAFETY: a context of ours, and the caller's struct.
    let (owner, attr) = unsafe { (context(pointer), &*attr) };
    let open = |opening| {
        let opened = owner.process.open_domain(opening);
        opened.map_err(|errno| match errno {
            EINVAL => XRCD_NEW.bare(),
            EAGAIN => XRCD_ABSENT.bare(),
            other => by_system(other),
        })
    };
    let opened = opening(attr).and_then(open).map(|domain| {
        Box::new(XrcdObject { base: ibv_xrcd { context: pointer }, domain, uses: Uses::default() })
    });
    object_or_null("ibv_open_xrcd", opened).cast()
}

fn opening(attr: &ibv_xrcd_init_attr) -> Result<Opening, Refused> {
    let all = XRCD_FD | XRCD_OFLAGS;
    if attr.comp_mask & !all != 0 {
        return Err(XRCD_FLAGS.of([&attr.comp_mask]));
    }
    if attr.comp_mask != all {
        return Err(XRCD_MASK.of([&attr.comp_mask]));
    }
    let file = match attr.fd {
        -1 => None,
        // This calls libc, because rustix takes only open descriptors, and the program's may be closed.
        // SAFETY: takes numbers.
        fd => match unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) } {
            -1 => {
                let error = std::io::Error::last_os_error();
                return Err(XRCD_FILE.of([&fd, &error]).with_errno(Errno::from(error).0));
            }
            // SAFETY: just opened; nothing else owns it.
            fd => Some(unsafe { File::from_raw_fd(fd) }),
        },
    };
    let has = |flag: c_int| attr.oflags & flag != 0;
    Ok(Opening { file, creates: has(libc::O_CREAT), is_exclusive: has(libc::O_EXCL) })
}

pub(crate) unsafe extern "C" fn close_xrcd(pointer: *mut ibv_xrcd) -> c_int {
    // SAFETY: a domain of ours, not used after this, and its context.
    unsafe {
        let object = xrcd(pointer);
        let busy = object.uses.check_none(&XRCD_BUSY);
        if busy.is_ok() {
            context(object.base.context).process.close_domain(&object.domain);
            drop(Box::from_raw(pointer.cast::<XrcdObject>()));
        }
        destroyed("ibv_close_xrcd", pointer, busy)
    }
}

/// Creates an XRC target.
///
/// # Safety
/// The domain is one of ours, or null.
pub(super) unsafe fn create_target(
    context: *mut ibv_context,
    attr: &ibv_qp_init_attr_ex,
) -> Result<Box<QpObject>, Refused> {
    if attr.xrcd.is_null() {
        return Err(QP_EX_MASK.of([&attr.comp_mask, &"IBV_QP_INIT_ATTR_XRCD"]));
    }
    // SAFETY: a domain of ours.
    unsafe {
        is_of(context, (*attr.xrcd).context, "xrcd")?;
        let made = make_target(xrcd(attr.xrcd))?;
        Ok(target(attr.xrcd, attr.qp_context, made, QpOrigin::Made))
    }
}

/// # Safety
/// The domain's context is open.
unsafe fn make_target(domain: &XrcdObject) -> Result<Arc<Qp>, Refused> {
    // SAFETY: vouched for by the caller.
    let owner = unsafe { context(domain.base.context) };
    // Completions go to the CQs of SRQs only, so this CQ stays empty.
    let full = |errno: Errno| at_limit(&QP_ROOM, errno, [&MAX_QP]);
    let nothing = Arc::new(Cq::new(owner.process, 1, 0, 0).map_err(full)?);
    let made = Qp::new(
        owner.process,
        QpParts {
            pd: 0,
            kind: QpKind::Target(domain.domain.id),
            cap: NOTHING,
            sq_sig_all: false,
            send_cq: nothing.clone(),
            recv_cq: nothing,
            async_pipe: owner.async_pipe.clone(),
        },
    );
    made.map_err(full)
}

/// State and attributes of an XRC target that belongs to another process.
///
/// # Safety
/// The handle's domain is one of ours.
pub(super) unsafe fn known_elsewhere(object: &QpObject) -> (QpState, QpAttr) {
    // SAFETY: vouched for by the caller.
    let (domain, process) = unsafe { (xrcd(object.xrcd), context(object.base.qp_base.context).process) };
    let found = elsewhere(process, object.base.qp_base.qp_num, domain.domain.id);
    // The attributes of a target are not available after its process has exited.
    found.unwrap_or((QpState::Err, QpAttr::default()))
}

pub(crate) unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    // SAFETY: the caller's struct.
    object_or_null("ibv_open_qp", unsafe { open(context, &*attr) }).cast()
}

unsafe fn open(opener: *mut ibv_context, attr: &ibv_qp_open_attr) -> Result<Box<QpObject>, Refused> {
    let needed = OPEN_NUM | OPEN_XRCD | OPEN_TYPE;
    if attr.comp_mask & !(needed | OPEN_CONTEXT) != 0 {
        return Err(OPEN_FLAGS.of([&attr.comp_mask]));
    }
    if attr.comp_mask & needed != needed || attr.qp_type != IBV_QPT_XRC_RECV || attr.xrcd.is_null() {
        return Err(OPEN_MASK.of([&attr.comp_mask, &attr.qp_type]));
    }
    let qp_context = if attr.comp_mask & OPEN_CONTEXT != 0 { attr.qp_context } else { null_mut() };
    // SAFETY: a domain of ours.
    unsafe {
        let domain = xrcd(attr.xrcd);
        is_of(opener, domain.base.context, "xrcd")?;
        let (process, id) = (context(domain.base.context).process, domain.domain.id);
        if elsewhere(process, attr.qp_num, id).is_none() {
            let made = Qp::open(attr.qp_num, id)?;
            return Ok(target(attr.xrcd, qp_context, made, QpOrigin::Opened));
        }
        let stands_for = make_target(domain)?;
        let mut object = target(attr.xrcd, qp_context, stands_for, QpOrigin::Foreign);
        object.base.qp_base.qp_num = attr.qp_num;
        Ok(object)
    }
}

/// Creates a handle of an XRC target.
///
/// # Safety
/// The domain is one of ours.
unsafe fn target(
    pointer: *mut ibv_xrcd,
    qp_context: *mut libc::c_void,
    made: Arc<Qp>,
    origin: QpOrigin,
) -> Box<QpObject> {
    let init = ibv_qp_init_attr {
        qp_context,
        send_cq: null_mut(),
        recv_cq: null_mut(),
        srq: null_mut(),
        cap: ibv_qp_cap::default(),
        qp_type: IBV_QPT_XRC_RECV,
        sq_sig_all: 0,
    };
    // SAFETY: vouched for by the caller.
    unsafe {
        let domain = xrcd(pointer);
        domain.uses.begin();
        let mut object = hand_out(domain.base.context, null_mut(), &init, made, origin);
        object.xrcd = pointer;
        object
    }
}
