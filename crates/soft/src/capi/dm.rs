//! Device memory (ibv_alloc_dm(3)). It is ordinary memory of this process, in the arena that peers map.

use super::object::{Uses, is_of};
use super::object_or_null;
use crate::device::MAX_DM;
use crate::errno::{EINVAL, ENOMEM, Errno};
use crate::memory::copy::Piece;
use crate::memory::transfer::{self, Far};
use doorbell_abi::{ibv_alloc_dm_attr, ibv_context, ibv_dm, ibv_mr, ibv_pd};
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
    fn at(&self, offset: u64, len: usize) -> Result<*mut u8, Errno> {
        let offset = usize::try_from(offset).map_err(|_| EINVAL)?;
        if offset > self.length || len > self.length - offset {
            return Err(EINVAL);
        }
        Ok(self.memory.wrapping_add(offset))
    }

    /// The address of the `len` bytes from `offset` on, for a copy. Fails with `EINVAL` if they exceed the
    /// allocation, or if `offset` or `len` is not a multiple of [`WORD`].
    fn words_at(&self, offset: u64, len: usize) -> Result<*mut u8, Errno> {
        if !offset.is_multiple_of(WORD as u64) || !len.is_multiple_of(WORD) {
            return Err(EINVAL);
        }
        self.at(offset, len)
    }
}

pub(crate) unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    // SAFETY: the caller's struct.
    object_or_null(alloc(context, unsafe { &*attr })).cast()
}

fn alloc(context: *mut ibv_context, attr: &ibv_alloc_dm_attr) -> Result<Box<Dm>, Errno> {
    if attr.comp_mask != 0 || attr.length == 0 || attr.log_align_req > 12 {
        return Err(EINVAL);
    }
    if attr.length as u64 > MAX_DM {
        return Err(ENOMEM);
    }
    let memory = crate::memory::arena::alloc_own(attr.length).ok_or(ENOMEM)?;
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
    if let Err(busy) = unsafe { (*pointer.cast::<Dm>()).uses.check_none() } {
        return busy.returned();
    }
    // SAFETY: device memory of ours, not used after this.
    let dm = unsafe { Box::from_raw(pointer.cast::<Dm>()) };
    crate::memory::arena::free(dm.memory);
    0
}

unsafe extern "C" fn memcpy_to_dm(
    pointer: *mut ibv_dm,
    offset: u64,
    from: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: device memory of ours; the caller's buffer has as many bytes.
    unsafe {
        match (*pointer.cast::<Dm>()).words_at(offset, len) {
            Ok(to) => {
                copy(from.cast::<u8>(), to, len);
                0
            }
            Err(errno) => errno.returned(),
        }
    }
}

unsafe extern "C" fn memcpy_from_dm(to: *mut c_void, pointer: *mut ibv_dm, offset: u64, len: usize) -> c_int {
    // SAFETY: as above.
    unsafe {
        match (*pointer.cast::<Dm>()).words_at(offset, len) {
            Ok(from) => {
                copy(from, to.cast::<u8>(), len);
                0
            }
            Err(errno) => errno.returned(),
        }
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
        match is_of((*pd).context, dm.base.context).and_then(|()| dm.at(offset, len)) {
            Ok(memory) => super::mr::register_dm(pd, (memory.cast(), len), access, &dm.uses),
            Err(errno) => object_or_null::<ibv_mr>(Err(errno)),
        }
    }
}
