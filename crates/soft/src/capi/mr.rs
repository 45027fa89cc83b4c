//! Protection domains and memory regions.

use super::object::{Pd, Uses, context, is_of, pd, process_of, td};
use super::wr::sges;
use super::{destroyed, made_or_null, object_or_null, status};
use crate::causes::*;
use crate::errno::Errno;
use crate::fabric::process::Process;
use crate::memory::maps;
use crate::memory::objects::{HostMemory, Object};
use crate::memory::records::MRS;
use crate::memory::regions::MAX_PD;
use crate::refused::{Asked, Called, NONE, Size, refused};
use crate::watch::pinning::PinnedPages;
use crate::watch::strict;
use doorbell_abi::{ibv_context, ibv_mr, ibv_pd, ibv_sge};
use doorbell_transport::{KeyError, Refused, Region};
use doorbell_verbs::{AccessFlags, Sge};
use libc::{c_int, c_void};
use std::ptr::null;

/// `IBV_ACCESS_ZERO_BASED`.
pub(super) const ZERO_BASED: u32 = 1 << 5;
/// `IBV_ACCESS_ON_DEMAND`: the memory may be mapped after the registration.
const ON_DEMAND: u32 = 1 << 6;
/// `IBV_ACCESS_MW_BIND`: memory windows may be bound to the region. The region's memory must be writable.
const MW_BIND: u32 = 1 << 4;
/// `IBV_ACCESS_HUGETLB`: without effect here.
const WITHOUT_EFFECT: u32 = 1 << 7;
/// `IBV_ACCESS_OPTIONAL_RANGE`: bits that a device may ignore.
const OPTIONAL: u32 = 0x3ff0_0000;

pub unsafe extern "C" fn ibv_alloc_pd(pointer: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: a context of ours.
    let process = unsafe { context(pointer) }.process;
    let taken = process.pds.take();
    let made = taken.map_err(|errno| at_limit(&PD_LIMIT, errno, [&MAX_PD])).map(|handle| {
        let base = ibv_pd { context: pointer, handle };
        Box::new(Pd { base, uses: Uses::default(), parent_of: None })
    });
    object_or_null("ibv_alloc_pd", made).cast()
}

pub unsafe extern "C" fn ibv_dealloc_pd(pointer: *mut ibv_pd) -> c_int {
    // SAFETY: a PD of ours, not used after this, and the domains in it.
    unsafe {
        let object = pd(pointer);
        let busy = object.uses.check_none(&PD_BUSY);
        if busy.is_ok() {
            match object.parent_of {
                None => process_of((*pointer).context).pds.end(),
                Some((inner, thread)) => {
                    pd(inner).uses.end();
                    if !thread.is_null() {
                        td(thread).uses.end();
                    }
                }
            }
            drop(Box::from_raw(pointer.cast::<Pd>()));
        }
        destroyed("ibv_dealloc_pd", pointer, busy)
    }
}

pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    len: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: passed on.
    unsafe { register_buffer("ibv_reg_mr", pd, (addr, len), addr as u64, access as u32) }
}

pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    len: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: passed on.
    unsafe { register_buffer("ibv_reg_mr_iova", pd, (addr, len), iova, access as u32) }
}

pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    len: usize,
    iova: u64,
    access: u32,
) -> *mut ibv_mr {
    // verbs.h turns these calls into ibv_reg_mr_iova2 if their access is not a constant.
    let call = if iova == addr.addr() as u64 { "ibv_reg_mr" } else { "ibv_reg_mr_iova" };
    // SAFETY: passed on.
    unsafe { register_buffer(call, pd, (addr, len), iova, access) }
}

/// Registers memory of the program, which must not be empty.
unsafe fn register_buffer(
    call: &'static str,
    pd: *mut ibv_pd,
    (addr, len): (*mut c_void, usize),
    iova: u64,
    access: u32,
) -> *mut ibv_mr {
    let same = [pd.addr() as u64, addr.addr() as u64, iova, 0];
    let sizes = [
        Size::new(OF_MR_LENGTH, len as u64),
        Size::new(OF_MR_ACCESS, access),
        Size::new(OF_MR_ADDR, addr.addr() as u64),
        NONE,
        NONE,
    ];
    let asked = Asked { call: Called::verbs(call), same, sizes };
    let made = match len {
        0 => Err(MR_LENGTH.bare()),
        // SAFETY: passed on.
        _ => unsafe { register(pd, addr, len, iova, access, null()) },
    };
    made_or_null(asked, made).cast()
}

/// A memory region as programs hold it, and the `IBV_ACCESS_*` rights that it was registered with.
#[repr(C)]
struct Mr {
    base: ibv_mr,
    access: u32,
    /// The uses of the device memory that the region lies in; null for other regions. The device memory
    /// cannot be freed before the region is deregistered.
    dm: *const Uses,
    /// The pages that a NIC's driver would pin, in strict mode.
    pinned: Option<PinnedPages>,
}

/// The lkey of a region, and whether memory windows may be bound to it. No window may be bound to a
/// zero-based region, because the region's addresses are not the addresses of its memory.
///
/// # Safety
/// A region of ours.
pub(super) unsafe fn for_windows(mr: *mut ibv_mr) -> (u32, bool) {
    // SAFETY: vouched for by the caller.
    let Mr { base, access, .. } = unsafe { &*mr.cast::<Mr>() };
    (base.lkey, access & MW_BIND != 0 && access & ZERO_BASED == 0)
}

unsafe fn register(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    len: usize,
    iova: u64,
    access: u32,
    dm: *const Uses,
) -> Result<Box<Mr>, Refused> {
    // SAFETY: a PD of ours and its context.
    let (pd_object, process) = unsafe { (self::pd(pd), process_of((*pd).context)) };
    let (region, host) = checked(pd_object.base.handle, addr, len, iova, access)?;
    let key = process.regions.register(process.segment, region, host);
    let key = key.map_err(|errno| at_limit(&MR_LIMIT, errno, [&(MRS - 1)]))?;
    pd_object.uses.begin();
    let context = pd_object.base.context;
    let base = ibv_mr { context, pd, addr, length: len, handle: key, lkey: key, rkey: key };
    // SAFETY: the uses of device memory of ours, or null.
    if let Some(uses) = unsafe { dm.as_ref() } {
        uses.begin();
    }
    let pinned = if dm.is_null() { pinned(addr, len, access) } else { None };
    Ok(Box::new(Mr { base, access, dm, pinned }))
}

/// The region that these arguments describe, and its memory. Fails if the arguments are invalid, or if the
/// memory cannot be registered with these rights.
fn checked(
    pd: u32,
    addr: *mut c_void,
    len: usize,
    iova: u64,
    access: u32,
) -> Result<(Region, HostMemory), Refused> {
    let rights = AccessFlags::from_bits_truncate(access);
    let known = AccessFlags::all().bits() | ZERO_BASED | ON_DEMAND | MW_BIND | WITHOUT_EFFECT | OPTIONAL;
    let remote_writes = rights.intersects(AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC);
    if access & !known != 0 {
        return Err(MR_ACCESS_BITS.of([&Hex(access & !known)]));
    }
    if remote_writes && !rights.contains(AccessFlags::LOCAL_WRITE) {
        return Err(MR_ACCESS_LOCAL.of([&Hex(access)]));
    }
    if (addr as u64).checked_add(len as u64).is_none() {
        return Err(MR_ADDR_END.of([&Hex(addr.addr() as u64), &len]));
    }
    let object = match access & ON_DEMAND {
        0 => {
            // The kernel (ib_umem_get) requires writable memory for regions that may be written.
            let write = rights.contains(AccessFlags::LOCAL_WRITE) || access & MW_BIND != 0;
            let atomics = rights.contains(AccessFlags::REMOTE_ATOMIC);
            let bytes = addr as u64..addr as u64 + len as u64;
            let found = maps::check(bytes, maps::Wanted { write, atomics });
            found.map_err(|errno| unreadable(errno, addr, len, access))?
        }
        _ => Object::Unknown,
    };
    let start = if access & ZERO_BASED != 0 { 0 } else { iova };
    let host = HostMemory { addr: addr as u64, object };
    Ok((Region { pd, addr: start, len: len as u64, access: rights }, host))
}

/// The pages of a region that a NIC's driver would pin. It pins none of a region with on-demand paging.
fn pinned(addr: *mut c_void, len: usize, access: u32) -> Option<PinnedPages> {
    let writers = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
    let write = access & (writers.bits() | MW_BIND) != 0;
    let bytes = addr as u64..addr as u64 + len as u64;
    if access & ON_DEMAND == 0 { PinnedPages::new(&bytes, write) } else { None }
}

/// The error for memory that cannot be registered.
fn unreadable(errno: Errno, addr: *mut c_void, len: usize, access: u32) -> Refused {
    match errno {
        Errno(libc::EFAULT) => MR_MEMORY.of([&Hex(addr.addr() as u64), &len, &Hex(access)]),
        Errno(number) => MR_MAPS.of([&std::io::Error::from_raw_os_error(number)]).with_errno(number),
    }
}

pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: a region of ours, not used after this.
    unsafe {
        let process = process_of((*mr).context);
        if process.regions.has_windows(process.segment, (*mr).lkey) {
            return destroyed("ibv_dereg_mr", mr, Err(MR_BUSY.bare()));
        }
        strict::deregistered((*mr).lkey);
        if let Some(revoked) = process.regions.deregister(process.segment, (*mr).lkey) {
            process.settle(revoked, "ibv_dereg_mr(3)");
        }
        pd((*mr).pd).uses.end();
        let object = Box::from_raw(mr.cast::<Mr>());
        if let Some(uses) = object.dm.as_ref() {
            uses.end();
        }
    }
    destroyed("ibv_dereg_mr", mr, Ok(()))
}

/// `IBV_REREG_MR_CHANGE_TRANSLATION`, `_PD`, `_ACCESS`.
const CHANGE_TRANSLATION: c_int = 1;
const CHANGE_PD: c_int = 2;
const CHANGE_ACCESS: c_int = 4;
/// `IBV_REREG_MR_ERR_INPUT`, `IBV_REREG_MR_ERR_CMD`.
const ERR_INPUT: c_int = -1;
const ERR_CMD: c_int = -4;

/// Explains a refused change of a region, sets errno, and returns `result`.
fn not_changed(result: c_int, error: &Refused) -> c_int {
    refused(Called::verbs("ibv_rereg_mr"), error);
    Errno(error.errno()).set();
    result
}

pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    new_pd: *mut ibv_pd,
    addr: *mut c_void,
    len: usize,
    access: c_int,
) -> c_int {
    let all = CHANGE_TRANSLATION | CHANGE_PD | CHANGE_ACCESS;
    if flags & !all != 0 || flags == 0 {
        return not_changed(ERR_INPUT, &REREG_FLAGS.of([&flags]));
    }
    if flags & CHANGE_PD != 0 && new_pd.is_null() {
        return not_changed(ERR_INPUT, &REREG_PD.bare());
    }
    if flags & CHANGE_TRANSLATION != 0 && (addr.is_null() || len == 0) {
        return not_changed(ERR_INPUT, &REREG_ADDR.of([&Hex(addr.addr() as u64), &len]));
    }
    // SAFETY: a region of ours; the PD is ours too if it is needed.
    unsafe {
        let mr = &mut *mr.cast::<Mr>();
        let region = &mut mr.base;
        let process = process_of(region.context);
        if flags & CHANGE_PD != 0
            && let Err(foreign) = is_of(region.context, (*new_pd).context, "pd")
        {
            return not_changed(ERR_CMD, &foreign);
        }
        // The kernel refuses to change a region of device memory.
        if !mr.dm.is_null() {
            return not_changed(ERR_CMD, &REREG_DM.bare());
        }
        let Some(old) = process.regions.find(region.lkey) else {
            return not_changed(ERR_INPUT, &REREG_KEY.of([&region.lkey]));
        };
        if process.regions.has_windows(process.segment, region.lkey) {
            return not_changed(ERR_INPUT, &MR_BUSY.bare());
        }
        let to_pd = if flags & CHANGE_PD != 0 { new_pd } else { region.pd };
        let (addr, len, iova) = if flags & CHANGE_TRANSLATION != 0 {
            (addr, len, addr as u64)
        } else {
            (region.addr, region.length, old.region.addr)
        };
        let access = if flags & CHANGE_ACCESS != 0 { access as u32 } else { mr.access };
        let handle = pd(to_pd).base.handle;
        let changed = if flags == CHANGE_PD {
            Ok((Region { pd: handle, ..old.region }, HostMemory { addr: old.host, object: old.object }))
        } else {
            checked(handle, addr, len, iova, access)
        };
        let replace = |(new, host)| {
            let replaced = process.regions.replace(process.segment, region.lkey, new, host);
            replaced.map_err(|errno| REREG_KEY.of([&region.lkey]).with_errno(errno.0))
        };
        match changed.and_then(replace) {
            Ok(revoked) => process.settle(revoked, "ibv_rereg_mr(3)"),
            Err(error) => return not_changed(ERR_CMD, &error),
        }
        pd(to_pd).uses.begin();
        pd(region.pd).uses.end();
        *region = ibv_mr { pd: to_pd, addr, length: len, ..*region };
        mr.access = access;
        mr.pinned = None;
        mr.pinned = pinned(addr, len, access);
    }
    0
}

pub unsafe extern "C" fn ibv_reg_dmabuf_mr(
    _pd: *mut ibv_pd,
    _offset: u64,
    _len: usize,
    _iova: u64,
    _fd: c_int,
    _access: c_int,
) -> *mut ibv_mr {
    object_or_null::<ibv_mr>("ibv_reg_dmabuf_mr", Err(MR_DMABUF.bare()))
}

/// `enum ibv_advise_mr_advice`: PREFETCH, PREFETCH_WRITE, PREFETCH_NO_FAULT.
const PREFETCH_WRITE: u32 = 1;
const LAST_ADVICE: u32 = 2;
/// `IBV_ADVISE_MR_FLAG_FLUSH`.
const ADVISE_FLUSH: u32 = 1;

pub(crate) unsafe extern "C" fn advise_mr(
    pd_pointer: *mut ibv_pd,
    advice: u32,
    flags: u32,
    list: *mut ibv_sge,
    count: u32,
) -> c_int {
    if advice > LAST_ADVICE {
        return status("ibv_advise_mr", Err(ADVICE.of([&advice])));
    }
    if flags & !ADVISE_FLUSH != 0 {
        return status("ibv_advise_mr", Err(ADVICE_FLAGS.of([&flags])));
    }
    // SAFETY: a PD of ours and the caller's list.
    let (pd, process, list) = unsafe {
        let pd = pd(pd_pointer);
        (pd, process_of(pd.base.context), sges(list, count as c_int))
    };
    let advised = list.and_then(|sges| match sges {
        [] => Err(ADVICE_EMPTY.bare()),
        _ => sges.iter().try_for_each(|sge| check_advice(process, pd.base.handle, sge, advice)),
    });
    status("ibv_advise_mr", advised)
}

/// Checks the arguments of advice. Prefetching itself would have no effect here. The errors are those of the
/// driver mlx5, which ibv_advise_mr(3) lists.
fn check_advice(process: &Process, pd: u32, sge: &Sge, advice: u32) -> Result<(), Refused> {
    let Sge { addr, length, lkey } = *sge;
    let place = process.regions.find(lkey).ok_or_else(|| ADVICE_LKEY.of([&lkey]))?;
    let need = if advice == PREFETCH_WRITE { AccessFlags::LOCAL_WRITE } else { AccessFlags::empty() };
    place.check(pd, addr, length.into(), need).map(drop).map_err(|error| match error {
        KeyError::Unknown => ADVICE_LKEY.of([&lkey]),
        KeyError::ProtectionDomain | KeyError::Rights => ADVICE_RIGHTS.of([&lkey, &advice]),
        KeyError::Bounds => ADVICE_BYTES.of([&length, &Hex(addr), &lkey]),
    })
}

/// Registers `len` bytes of device memory as a region that begins at address 0. `uses` are the uses of the
/// device memory. Fails without `IBV_ACCESS_ZERO_BASED` (ibv_reg_dm_mr(3)).
///
/// # Safety
/// A PD and device memory of ours.
pub(super) unsafe fn register_dm(
    pd: *mut ibv_pd,
    (addr, len): (*mut c_void, usize),
    access: u32,
    uses: &Uses,
) -> *mut ibv_mr {
    let made = match access & ZERO_BASED {
        0 => Err(DM_ACCESS.of([&Hex(access)])),
        // SAFETY: passed on.
        _ => unsafe { register(pd, addr, len, 0, access, uses) },
    };
    object_or_null("ibv_reg_dm_mr", made).cast()
}

pub unsafe extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

pub unsafe extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}
