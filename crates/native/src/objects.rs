//! The objects of libibverbs. Each object holds its parents. So children are destroyed before parents,
//! regardless of the order in which a program drops them.

use crate::error::last_refusal;
use crate::library::Library;
use doorbell_abi::{
    CEnum, PollCq, PostRecv, PostSend, PostSrqRecv, ibv_ah, ibv_ah_attr, ibv_context, ibv_cq, ibv_device,
    ibv_gid, ibv_global_route, ibv_mr, ibv_pd, ibv_qp, ibv_qp_cap, ibv_qp_init_attr, ibv_srq, ibv_srq_attr,
    ibv_srq_init_attr,
};
use doorbell_verbs::{AccessFlags, AhAttr, MrKeys, QpCap, QpInitAttr, QpState, QpType, SrqAttr, VerbsError};
use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;

/// The object that `verb` created. If the pointer is null, the error in errno.
fn created<T>(verb: &'static str, object: *mut T) -> Result<NonNull<T>, VerbsError> {
    NonNull::new(object).ok_or_else(|| last_refusal(verb))
}

macro_rules! destroyed_by {
    ($($type:ident . $function:ident $(through $parent:ident)?;)*) => {$(
        impl Drop for $type {
            fn drop(&mut self) {
                // SAFETY: The same library created the object, and it is destroyed once. Dependent objects
                // hold their parents, so nothing depends on it any more, and the call is not refused.
                let _ = unsafe { (self$(.$parent)?.library().$function)(self.raw.as_ptr()) };
            }
        }
    )*};
}

destroyed_by! {
    IbvDevice.ibv_close_device;
    IbvPd.ibv_dealloc_pd through device;
    IbvMr.ibv_dereg_mr through pd;
    IbvCq.ibv_destroy_cq through device;
    IbvSrq.ibv_destroy_srq through pd;
    IbvAh.ibv_destroy_ah through pd;
    IbvQp.ibv_destroy_qp through pd;
}

/// An opened device.
pub(crate) struct IbvDevice {
    library: Arc<Library>,
    name: String,
    raw: NonNull<ibv_context>,
    poll_cq: PollCq,
    post_srq_recv: PostSrqRecv,
    post_send: PostSend,
    post_recv: PostRecv,
}

impl IbvDevice {
    /// Opens `device`.
    ///
    /// # Safety
    /// `device` is an entry of a list of this library, and the list was not freed.
    pub(crate) unsafe fn open(
        library: &Arc<Library>,
        device: *mut ibv_device,
        name: &str,
    ) -> Result<IbvDevice, VerbsError> {
        // SAFETY: The caller guarantees that `device` is valid.
        let raw = created("ibv_open_device", unsafe { (library.ibv_open_device)(device) })?;
        // SAFETY: The context is open. libibverbs fills its table before it returns the context.
        let ops = unsafe { &(*raw.as_ptr()).ops };
        let (Some(poll_cq), Some(post_srq_recv), Some(post_send), Some(post_recv)) =
            (ops.poll_cq, ops.post_srq_recv, ops.post_send, ops.post_recv)
        else {
            // SAFETY: The context was just opened and is not used any more.
            unsafe { (library.ibv_close_device)(raw.as_ptr()) };
            return Err(VerbsError::Unsupported(format!("{name} has no operations for posting and polling")));
        };
        let (library, name) = (library.clone(), name.to_owned());
        Ok(IbvDevice { library, name, raw, poll_cq, post_srq_recv, post_send, post_recv })
    }

    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn raw(&self) -> *mut ibv_context {
        self.raw.as_ptr()
    }
}

/// A protection domain.
pub(crate) struct IbvPd {
    device: Rc<IbvDevice>,
    raw: NonNull<ibv_pd>,
}

impl IbvPd {
    pub(crate) fn alloc(device: Rc<IbvDevice>) -> Result<IbvPd, VerbsError> {
        // SAFETY: The context is open.
        let raw = created("ibv_alloc_pd", unsafe { (device.library.ibv_alloc_pd)(device.raw()) })?;
        Ok(IbvPd { device, raw })
    }

    fn library(&self) -> &Library {
        &self.device.library
    }
}

/// A memory region.
pub(crate) struct IbvMr {
    pd: Rc<IbvPd>,
    raw: NonNull<ibv_mr>,
}

impl IbvMr {
    /// Registers `len` bytes at `base`.
    ///
    /// # Safety
    /// The bytes are memory of the cluster and stay mapped as long as the region exists.
    pub(crate) unsafe fn register(
        pd: Rc<IbvPd>,
        base: *mut u8,
        len: usize,
        access: AccessFlags,
    ) -> Result<IbvMr, VerbsError> {
        // The bits of `AccessFlags` are few and low, so they fit a `c_int`.
        let access = access.bits() as c_int;
        // SAFETY: The protection domain is live. The caller guarantees that the memory is valid.
        let mr = unsafe { (pd.library().ibv_reg_mr)(pd.raw.as_ptr(), base.cast(), len, access) };
        let raw = created("ibv_reg_mr", mr)?;
        Ok(IbvMr { pd, raw })
    }

    pub(crate) fn keys(&self) -> MrKeys {
        // SAFETY: The region is live, and its keys do not change.
        let mr = unsafe { self.raw.as_ref() };
        MrKeys { lkey: mr.lkey, rkey: mr.rkey }
    }
}

/// A completion queue.
pub(crate) struct IbvCq {
    device: Rc<IbvDevice>,
    raw: NonNull<ibv_cq>,
}

impl IbvCq {
    pub(crate) fn create(device: Rc<IbvDevice>, cqe: u32) -> Result<IbvCq, VerbsError> {
        let cqe = c_int::try_from(cqe)
            .map_err(|_| VerbsError::Invalid(format!("a CQ has at most 2^31 - 1 entries, got {cqe}")))?;
        // SAFETY: The context is open. A queue needs neither a user context nor a completion channel.
        let cq =
            unsafe { (device.library.ibv_create_cq)(device.raw(), cqe, ptr::null_mut(), ptr::null_mut(), 0) };
        let raw = created("ibv_create_cq", cq)?;
        Ok(IbvCq { device, raw })
    }

    /// The queue and the function that polls it.
    pub(crate) fn poll(&self) -> (*mut ibv_cq, PollCq) {
        (self.raw.as_ptr(), self.device.poll_cq)
    }
}

/// A shared receive queue.
pub(crate) struct IbvSrq {
    pd: Rc<IbvPd>,
    raw: NonNull<ibv_srq>,
}

impl IbvSrq {
    pub(crate) fn create(pd: Rc<IbvPd>, attr: &SrqAttr) -> Result<IbvSrq, VerbsError> {
        let attr = ibv_srq_attr { max_wr: attr.max_wr, max_sge: attr.max_sge, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: ptr::null_mut(), attr };
        // SAFETY: The protection domain is live.
        let srq = unsafe { (pd.library().ibv_create_srq)(pd.raw.as_ptr(), &mut init) };
        let raw = created("ibv_create_srq", srq)?;
        Ok(IbvSrq { pd, raw })
    }

    /// The queue and the function that posts to it.
    pub(crate) fn post_recv(&self) -> (*mut ibv_srq, PostSrqRecv) {
        (self.raw.as_ptr(), self.pd.device.post_srq_recv)
    }
}

/// Converts the attributes of an address handle to C.
pub(crate) fn ah_attr(attr: &AhAttr) -> ibv_ah_attr {
    let grh = attr.grh.map(|route| ibv_global_route {
        dgid: ibv_gid { raw: route.dgid.0 },
        flow_label: route.flow_label.number(),
        sgid_index: route.sgid_index,
        hop_limit: route.hop_limit,
        traffic_class: route.traffic_class,
    });
    ibv_ah_attr {
        grh: grh.unwrap_or_default(),
        dlid: attr.dlid,
        sl: attr.sl,
        is_global: grh.is_some().into(),
        port_num: attr.port_num,
        ..Default::default()
    }
}

/// An address handle.
pub(crate) struct IbvAh {
    pd: Rc<IbvPd>,
    raw: NonNull<ibv_ah>,
}

impl IbvAh {
    pub(crate) fn create(pd: Rc<IbvPd>, attr: &AhAttr) -> Result<IbvAh, VerbsError> {
        let mut attr = ah_attr(attr);
        // SAFETY: The protection domain is live.
        let ah = unsafe { (pd.library().ibv_create_ah)(pd.raw.as_ptr(), &mut attr) };
        let raw = created("ibv_create_ah", ah)?;
        Ok(IbvAh { pd, raw })
    }

    pub(crate) fn raw(&self) -> *mut ibv_ah {
        self.raw.as_ptr()
    }
}

/// A queue pair.
pub(crate) struct IbvQp {
    pd: Rc<IbvPd>,
    _send_cq: Rc<IbvCq>,
    _recv_cq: Rc<IbvCq>,
    srq: Option<Rc<IbvSrq>>,
    qp_type: QpType,
    raw: NonNull<ibv_qp>,
}

impl IbvQp {
    pub(crate) fn create(
        pd: Rc<IbvPd>,
        send_cq: Rc<IbvCq>,
        recv_cq: Rc<IbvCq>,
        srq: Option<Rc<IbvSrq>>,
        attr: &QpInitAttr,
    ) -> Result<IbvQp, VerbsError> {
        let devices = [&send_cq.device, &recv_cq.device].into_iter().chain(srq.iter().map(|s| &s.pd.device));
        if !devices.into_iter().all(|device| Rc::ptr_eq(device, &pd.device)) {
            let what = "the QP, its CQs and its SRQ must belong to one opened device";
            return Err(VerbsError::Invalid(what.into()));
        }
        let mut init = ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: send_cq.raw.as_ptr(),
            recv_cq: recv_cq.raw.as_ptr(),
            srq: srq.as_ref().map_or(ptr::null_mut(), |s| s.raw.as_ptr()),
            cap: qp_cap(&attr.cap),
            qp_type: attr.qp_type.to_c(),
            sq_sig_all: attr.sq_sig_all.into(),
        };
        // SAFETY: All objects are live, and the new object holds them.
        let qp = unsafe { (pd.library().ibv_create_qp)(pd.raw.as_ptr(), &mut init) };
        let raw = created("ibv_create_qp", qp)?;
        Ok(IbvQp { pd, _send_cq: send_cq, _recv_cq: recv_cq, srq, qp_type: attr.qp_type, raw })
    }

    pub(crate) fn library(&self) -> &Library {
        self.pd.library()
    }

    pub(crate) fn raw(&self) -> *mut ibv_qp {
        self.raw.as_ptr()
    }

    pub(crate) fn qp_num(&self) -> u32 {
        // SAFETY: The QP is live, and its number does not change.
        unsafe { (*self.raw()).qp_num }
    }

    pub(crate) fn qp_type(&self) -> QpType {
        self.qp_type
    }

    /// Whether the QP's RECVs come from a shared receive queue.
    pub(crate) fn has_srq(&self) -> bool {
        self.srq.is_some()
    }

    /// The QP's state as of the last ibv_modify_qp(3) or ibv_query_qp(3) of this program. `None` if the value
    /// is unknown.
    pub(crate) fn known_state(&self) -> Option<QpState> {
        // SAFETY: The QP is live. libibverbs writes the state only during calls, and only this thread makes
        // calls.
        QpState::from_c(unsafe { (*self.raw()).state })
    }

    pub(crate) fn post_send(&self) -> PostSend {
        self.pd.device.post_send
    }

    pub(crate) fn post_recv(&self) -> PostRecv {
        self.pd.device.post_recv
    }
}

fn qp_cap(cap: &QpCap) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_verbs::{Gid, GlobalRoute};

    #[test]
    fn a_path_is_global_where_it_has_a_gid() {
        let local = ah_attr(&AhAttr { port_num: 2, dlid: 7, sl: 3, grh: None });
        assert_eq!((local.is_global, local.dlid, local.port_num, local.sl), (0, 7, 2, 3));
        let route = GlobalRoute::new(Gid([9; 16]), 3);
        let global = ah_attr(&AhAttr { port_num: 1, dlid: 0, sl: 0, grh: Some(route) });
        assert_eq!((global.is_global, global.grh.dgid.raw, global.grh.sgid_index), (1, [9; 16], 3));
        assert!(global.grh.hop_limit > 1);
    }
}
