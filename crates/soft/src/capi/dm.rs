//! Device memory (ibv_alloc_dm(3)). It is ordinary memory of this process, in the arena that peers map.

use super::object::{Uses, is_of};
use super::{destroyed, made_or_null, object_or_null, status};
use crate::causes::*;
use crate::device::MAX_DM;
use crate::memory::copy::Piece;
use crate::memory::transfer::{self, Far};
use crate::refused::{Asked, Called, NONE, Size};
use doorbell_abi::{ibv_alloc_dm_attr, ibv_context, ibv_dm, ibv_mr, ibv_pd};
use doorbell_transport::Refused;
use libc::{c_int, c_void};

/// Copies whole words in order, as a NIC accesses its memory.
///
/// # Safety
/// Both ranges are mapped.
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    let piece = Piece { addr: from as u64, len };
    // The copy cannot fail, because both ranges are mapped here.
    let _ = transfer::write(&[piece], Far::Mapped(to));
}

/// Offset and length of a copy to or from device memory are multiples of this many bytes.
const WORD: usize = 4;

/// An allocation of device memory.
#[repr(C)]
struct Dm {
    base: ibv_dm,
    memory: *mut u8,
    length: usize,
    /// Counts the regions in this memory.
    uses: Uses,
}

impl Dm {
    /// The address of the `len` bytes from `offset` on. Fails with `EINVAL` if they exceed the allocation.
    fn at(&self, offset: u64, len: usize) -> Result<*mut u8, Refused> {
        let within = usize::try_from(offset).ok().filter(|at| *at <= self.length && len <= self.length - at);
        let at = within.ok_or_else(|| DM_RANGE.of([&offset, &len, &self.length]))?;
        Ok(self.memory.wrapping_add(at))
    }

    /// The address of the `len` bytes from `offset` on, for a copy. Fails with `EINVAL` if they exceed the
    /// allocation, or if `offset` or `len` is not a multiple of [`WORD`].
    fn words_at(&self, offset: u64, len: usize) -> Result<*mut u8, Refused> {
        if !offset.is_multiple_of(WORD as u64) || !len.is_multiple_of(WORD) {
            return Err(DM_WORDS.of([&offset, &len]));
        }
        self.at(offset, len)
    }
}

pub(crate) unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    // SAFETY: the caller's struct.
    let attr = unsafe { &*attr };
    let same = [context.addr() as u64, 0, 0, 0];
    let sizes = [
        Size::new(OF_DM_LENGTH, attr.length as u64),
        Size::new(OF_DM_ALIGN, attr.log_align_req),
        NONE,
        NONE,
        NONE,
    ];
    made_or_null(Asked { call: Called::verbs("ibv_alloc_dm"), same, sizes }, alloc(context, attr)).cast()
}

fn alloc(context: *mut ibv_context, attr: &ibv_alloc_dm_attr) -> Result<Box<Dm>, Refused> {
    if attr.comp_mask != 0 {
        return Err(DM_MASK.of([&attr.comp_mask]));
    }
    if attr.length == 0 {
        return Err(DM_LENGTH.bare());
    }
    if attr.log_align_req > 12 {
        return Err(DM_ALIGN.of([&attr.log_align_req]));
    }
    if attr.length as u64 > MAX_DM {
        return Err(DM_SIZE.of([&attr.length, &MAX_DM]));
    }
    let memory = crate::memory::arena::alloc_own(attr.length).ok_or_else(|| DM_ROOM.of([&attr.length]))?;
    let base = ibv_dm {
        context,
        memcpy_to_dm: Some(memcpy_to_dm),
        memcpy_from_dm: Some(memcpy_from_dm),
        comp_mask: 0,
        handle: 0,
    };
    Ok(Box::new(Dm { base, memory, length: attr.length, uses: Uses::default() }))
}

pub(crate) unsafe extern "C" fn free_dm(pointer: *mut ibv_dm) -> c_int {
    // SAFETY: device memory of ours.
    if let Err(busy) = unsafe { (*pointer.cast::<Dm>()).uses.check_none(&DM_BUSY) } {
        return destroyed("ibv_free_dm", pointer, Err(busy));
    }
    // SAFETY: device memory of ours, not used after this.
    let dm = unsafe { Box::from_raw(pointer.cast::<Dm>()) };
    crate::memory::arena::free(dm.memory);
    destroyed("ibv_free_dm", pointer, Ok(()))
}

unsafe extern "C" fn memcpy_to_dm(
    pointer: *mut ibv_dm,
    offset: u64,
    from: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: device memory of ours; the caller's buffer has as many bytes.
    unsafe {
        let to = (*pointer.cast::<Dm>()).words_at(offset, len);
        status("ibv_memcpy_to_dm", to.map(|to| copy(from.cast::<u8>(), to, len)))
    }
}

unsafe extern "C" fn memcpy_from_dm(to: *mut c_void, pointer: *mut ibv_dm, offset: u64, len: usize) -> c_int {
    // SAFETY: as above.
    unsafe {
        let from = (*pointer.cast::<Dm>()).words_at(offset, len);
        status("ibv_memcpy_from_dm", from.map(|from| copy(from, to.cast::<u8>(), len)))
    }
}

pub(crate) unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    pointer: *mut ibv_dm,
    offset: u64,
    len: usize,
    access: u32,
) -> *mut ibv_mr {
    // SAFETY: device memory and a PD of ours.
    unsafe {
        let dm = &*pointer.cast::<Dm>();
        match is_of((*pd).context, dm.base.context, "dm").and_then(|()| dm.at(offset, len)) {
            Ok(memory) => super::mr::register_dm(pd, (memory.cast(), len), access, &dm.uses),
            Err(refused) => object_or_null::<ibv_mr>("ibv_reg_dm_mr", Err(refused)),
        }
    }
}
