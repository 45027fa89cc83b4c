//! Thread domains and parent domains. A thread domain allows a device to leave out locks. This device keeps
//! its locks, so objects of a parent domain work like objects of the protection domain in it.

use super::object::{Pd, TdObject, Uses, is_of, pd, td};
use super::{destroyed, object_or_null};
use crate::causes::{PARENT_MASK, PARENT_PD, TD_BUSY, TD_MASK};
use doorbell_abi::{ibv_context, ibv_parent_domain_init_attr, ibv_pd, ibv_td, ibv_td_init_attr};
use doorbell_transport::Refused;
use libc::c_int;

/// `IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS`, `_PD_CONTEXT`. The program's functions for the memory of queues
/// are accepted and never called, because all queues are in the segment of the process.
const ALLOCATORS: u32 = 1;
const PD_CONTEXT: u32 = 1 << 1;

pub(crate) unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    // SAFETY: the caller's struct.
    let made = match unsafe { (*attr).comp_mask } {
        0 => Ok(Box::new(TdObject { base: ibv_td { context }, uses: Uses::default() })),
        mask => Err(TD_MASK.of([&mask])),
    };
    object_or_null("ibv_alloc_td", made).cast()
}

pub(crate) unsafe extern "C" fn dealloc_td(pointer: *mut ibv_td) -> c_int {
    // SAFETY: a thread domain of ours, not used after this.
    unsafe {
        let busy = td(pointer).uses.check_none(&TD_BUSY);
        if busy.is_ok() {
            drop(Box::from_raw(pointer.cast::<TdObject>()));
        }
        destroyed("ibv_dealloc_td", pointer, busy)
    }
}

pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    // SAFETY: the caller's struct and objects of ours.
    object_or_null("ibv_alloc_parent_domain", unsafe { alloc_parent(context, &*attr) }).cast()
}

unsafe fn alloc_parent(
    context: *mut ibv_context,
    attr: &ibv_parent_domain_init_attr,
) -> Result<Box<Pd>, Refused> {
    if attr.comp_mask & !(ALLOCATORS | PD_CONTEXT) != 0 {
        return Err(PARENT_MASK.of([&attr.comp_mask]));
    }
    // SAFETY: a PD of ours or null, and a thread domain of ours or null.
    let (inner, thread) = unsafe {
        let inner = attr.pd.as_mut().ok_or_else(|| PARENT_PD.bare())?;
        (pd(inner), if attr.td.is_null() { None } else { Some(td(attr.td)) })
    };
    is_of(context, inner.base.context, "attr.pd")?;
    if let Some(thread) = thread {
        is_of(context, thread.base.context, "attr.td")?;
        thread.uses.begin();
    }
    inner.uses.begin();
    let base = ibv_pd { context, handle: inner.base.handle };
    Ok(Box::new(Pd { base, uses: Uses::default(), parent_of: Some((attr.pd, attr.td)) }))
}
