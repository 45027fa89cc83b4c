//! Finds the functions that this library interposes, in the libraries behind it.

use libc::c_void;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// The oldest version of the C library's symbols on x86-64. Functions that remain only for old programs have
/// it.
const OLDEST: &CStr = c"GLIBC_2.2.5";

/// A function of the next library that has it: the C library, or one that a program brings along.
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Whether the function was found already.
    pub(crate) fn is_known(&self) -> bool {
        !self.found.load(Relaxed).is_null()
    }

    /// The function's address. Null if no library has the function.
    pub(crate) fn get(&self) -> *mut c_void {
        let known = self.found.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the names are strings.
        let found = unsafe {
            match libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) {
                usual if !usual.is_null() => usual,
                _ => libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), OLDEST.as_ptr()),
            }
        };
        self.found.store(found, Relaxed);
        found
    }
}

/// The next function of this name and type.
macro_rules! next {
    ($name:expr, fn($($t:ty),*) $(-> $r:ty)?) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new($name);
        // Used in `unsafe` only. It is sound because the C library's function of this name has this type, and
        // so does every call to it. Cancellation may unwind through it.
        std::mem::transmute::<*mut libc::c_void, unsafe extern "C-unwind" fn($($t),*) $(-> $r)?>(NEXT.get())
    }};
}

pub(crate) use next;
