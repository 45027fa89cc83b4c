//! The C library's allocator, as far as it must change for page-aligned allocations to come from
//! shared memory.

use doorbell_soft::memory::arena;
use libc::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function of the next library that has it: the C library, or an allocator that a program
/// brings along.
struct Next {
    name: &'static std::ffi::CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static std::ffi::CStr) -> Next {
        Next { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn get(&self) -> *mut c_void {
        let known = self.found.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name is a string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr().cast::<c_char>()) };
        self.found.store(found, Relaxed);
        found
    }
}

macro_rules! next {
    ($name:literal as fn($($t:ty),*) $(-> $r:ty)?) => {{
        static NEXT: Next = Next::new($name);
        // Used in `unsafe` only. It is sound as the C library's function of this name has this type,
        // and every program has it.
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($t),*) $(-> $r)?>(NEXT.get())
    }};
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match arena::alloc(align, size) {
        Some(pointer) => pointer.cast(),
        // SAFETY: passed on.
        None => unsafe { next!(c"memalign" as fn(usize, usize) -> *mut c_void)(align, size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    match arena::alloc(align, size) {
        Some(pointer) => pointer.cast(),
        // SAFETY: passed on.
        None => unsafe { next!(c"aligned_alloc" as fn(usize, usize) -> *mut c_void)(align, size) },
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
        // SAFETY: passed on.
        None => unsafe {
            next!(c"posix_memalign" as fn(*mut *mut c_void, usize, usize) -> c_int)(to, align, size)
        },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    match arena::alloc(4096, size) {
        Some(pointer) => pointer.cast(),
        // SAFETY: passed on.
        None => unsafe { next!(c"valloc" as fn(usize) -> *mut c_void)(size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(pointer: *mut c_void) {
    if !arena::free(pointer.cast()) {
        // SAFETY: passed on.
        unsafe { next!(c"free" as fn(*mut c_void))(pointer) }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    let Some(old) = arena::size(pointer.cast()) else {
        // SAFETY: passed on.
        return unsafe { next!(c"realloc" as fn(*mut c_void, usize) -> *mut c_void)(pointer, size) };
    };
    // SAFETY: room for `size` bytes, or null; the old allocation has `old` of them.
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
        // SAFETY: passed on.
        None => unsafe { next!(c"malloc_usable_size" as fn(*mut c_void) -> usize)(pointer) },
    }
}
