//! Interposes the allocator functions of the C library, so that page-aligned allocations come from shared
//! memory. Also interposes shmget(2), for programs that insist on huge pages.
//!
//! The loader may find another allocator before this library, for example by LD_PRELOAD inside the run. This
//! library's own calls must then reach that allocator: the C library's free(3) must not get memory from the
//! other allocator's malloc(3).

use crate::next::{Next, next};
use doorbell_soft::memory::arena;
use libc::{c_int, c_void};
use std::arch::naked_asm;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Exports functions of the allocator, each as a jump in assembly. If the exported functions had bodies, the
/// compiler could inline them into this library's own calls of the exported names (link-time optimisation).
macro_rules! export {
    ($($symbol:ident($($argument:ty),*) $(-> $result:ty)? => $function:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $symbol($(_: $argument),*) $(-> $result)? {
            naked_asm!("jmp {function}", function = sym $function)
        }
    )*};
}

export! {
    memalign(usize, usize) -> *mut c_void => memalign_here;
    aligned_alloc(usize, usize) -> *mut c_void => aligned_alloc_here;
    posix_memalign(*mut *mut c_void, usize, usize) -> c_int => posix_memalign_here;
    valloc(usize) -> *mut c_void => valloc_here;
    free(*mut c_void) => free_here;
    realloc(*mut c_void, usize) -> *mut c_void => realloc_here;
    malloc_usable_size(*mut c_void) -> usize => malloc_usable_size_here;
}

unsafe extern "C" fn memalign_here(align: usize, size: usize) -> *mut c_void {
    match arena::alloc(align, size) {
        Some(pointer) => pointer.cast(),
        // SAFETY: the caller's arguments are passed on.
        None => unsafe { next!(c"memalign", fn(usize, usize) -> *mut c_void)(align, size) },
    }
}

unsafe extern "C" fn aligned_alloc_here(align: usize, size: usize) -> *mut c_void {
    match arena::alloc(align, size) {
        Some(pointer) => pointer.cast(),
        // SAFETY: the caller's arguments are passed on.
        None => unsafe { next!(c"aligned_alloc", fn(usize, usize) -> *mut c_void)(align, size) },
    }
}

unsafe extern "C" fn posix_memalign_here(to: *mut *mut c_void, align: usize, size: usize) -> c_int {
    match arena::alloc(align, size) {
        Some(pointer) => {
            // SAFETY: the variable belongs to the caller.
            unsafe { to.write(pointer.cast()) };
            0
        }
        // SAFETY: the caller's arguments are passed on.
        None => unsafe {
            next!(c"posix_memalign", fn(*mut *mut c_void, usize, usize) -> c_int)(to, align, size)
        },
    }
}

unsafe extern "C" fn valloc_here(size: usize) -> *mut c_void {
    match arena::alloc(4096, size) {
        Some(pointer) => pointer.cast(),
        // SAFETY: the caller's arguments are passed on.
        None => unsafe { next!(c"valloc", fn(usize) -> *mut c_void)(size) },
    }
}

unsafe extern "C" fn free_here(pointer: *mut c_void) {
    static NEXT: Next = Next::new(c"free");
    static IS_SOUGHT: AtomicBool = AtomicBool::new(false);
    if arena::free(pointer.cast()) {
        return;
    }
    // The search for the next `free` can call this function again: dlsym(3) frees the text of an earlier
    // error, which AddressSanitizer leaves. That inner call leaks the text, because the next `free` is not
    // known yet.
    if NEXT.is_known() || !IS_SOUGHT.swap(true, Relaxed) {
        // SAFETY: the caller's argument is passed on, to a function of this type.
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(NEXT.get())(pointer) }
    }
}

unsafe extern "C" fn realloc_here(pointer: *mut c_void, size: usize) -> *mut c_void {
    let Some(old) = arena::size(pointer.cast()) else {
        // SAFETY: the caller's arguments are passed on.
        return unsafe { next!(c"realloc", fn(*mut c_void, usize) -> *mut c_void)(pointer, size) };
    };
    // SAFETY: the new allocation has room for `size` bytes, or is null. The old allocation has `old` bytes.
    unsafe {
        let new = libc::malloc(size);
        if !new.is_null() {
            std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), new.cast::<u8>(), old.min(size));
            free_here(pointer);
        }
        new
    }
}

unsafe extern "C" fn malloc_usable_size_here(pointer: *mut c_void) -> usize {
    match arena::size(pointer.cast()) {
        Some(size) => size,
        // SAFETY: the caller's argument is passed on.
        None => unsafe { next!(c"malloc_usable_size", fn(*mut c_void) -> usize)(pointer) },
    }
}

/// shmget(2) that falls back to usual pages if the system has no huge pages left or denies them to this user.
#[unsafe(no_mangle)]
unsafe extern "C" fn shmget(key: libc::key_t, size: usize, flags: c_int) -> c_int {
    /// The bits of `flags` that hold the logarithm of the huge page size (shmget(2)).
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
