//! Interposes the allocator functions of the C library, so that page-aligned allocations come from shared
//! memory. Interposes shmget(2) for programs that insist on huge pages.

use crate::next::{Next, next};
use doorbell_soft::memory::arena;
use libc::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[unsafe(no_mangle)]
unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match arena::alloc(align, size) {
        Some(pointer) => pointer.cast(),
        // SAFETY: the caller's arguments are passed on.
        None => unsafe { next!(c"memalign", fn(usize, usize) -> *mut c_void)(align, size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    match arena::alloc(align, size) {
        Some(pointer) => pointer.cast(),
        // SAFETY: the caller's arguments are passed on.
        None => unsafe { next!(c"aligned_alloc", fn(usize, usize) -> *mut c_void)(align, size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, align: usize, size: usize) -> c_int {
    match arena::alloc(align, size) {
        Some(pointer) => {
            // SAFETY: the caller's variable.
            unsafe { to.write(pointer.cast()) };
            0
        }
        // SAFETY: the caller's arguments are passed on.
        None => unsafe {
            next!(c"posix_memalign", fn(*mut *mut c_void, usize, usize) -> c_int)(to, align, size)
        },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    match arena::alloc(4096, size) {
        Some(pointer) => pointer.cast(),
        // SAFETY: the caller's arguments are passed on.
        None => unsafe { next!(c"valloc", fn(usize) -> *mut c_void)(size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(pointer: *mut c_void) {
    static NEXT: Next = Next::new(c"free");
    static IS_SOUGHT: AtomicBool = AtomicBool::new(false);
    if arena::free(pointer.cast()) {
        return;
    }
    // While dlsym(3) looks for `free`, it frees the text of an earlier error. AddressSanitizer leaves such an
    // error. That text is not freed: the next `free` is not known yet.
    if NEXT.is_known() || !IS_SOUGHT.swap(true, Relaxed) {
        // SAFETY: the caller's argument is passed on, to a function of this type.
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(NEXT.get())(pointer) }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    let Some(old) = arena::size(pointer.cast()) else {
        // SAFETY: the caller's arguments are passed on.
        return unsafe { next!(c"realloc", fn(*mut c_void, usize) -> *mut c_void)(pointer, size) };
    };
    // SAFETY: the new allocation has room for `size` bytes, or is null. The old allocation has `old` bytes.
    unsafe {
        let new = libc::malloc(size);
        if !new.is_null() {
            std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), new.cast::<u8>(), old.min(size));
            free(pointer);
        }
        new
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(pointer: *mut c_void) -> usize {
    match arena::size(pointer.cast()) {
        Some(size) => size,
        // SAFETY: the caller's argument is passed on.
        None => unsafe { next!(c"malloc_usable_size", fn(*mut c_void) -> usize)(pointer) },
    }
}

/// Creates a segment of huge pages. Creates one of usual pages if the system has no huge pages left or denies
/// them to this user.
#[unsafe(no_mangle)]
unsafe extern "C" fn shmget(key: libc::key_t, size: usize, flags: c_int) -> c_int {
    /// The bits of `flags` that give the size of huge pages, as its power of two (shmget(2)).
    const SIZE: c_int = libc::MAP_HUGE_MASK << libc::MAP_HUGE_SHIFT;
    // SAFETY: the caller's arguments are passed on.
    let get = |flags| unsafe { next!(c"shmget", fn(libc::key_t, usize, c_int) -> c_int)(key, size, flags) };
    let got = get(flags);
    let is_refused =
        || matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOMEM | libc::EPERM));
    if got == -1 && flags & libc::SHM_HUGETLB != 0 && is_refused() {
        return get(flags & !(libc::SHM_HUGETLB | SIZE));
    }
    got
}
