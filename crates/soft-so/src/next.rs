//! Finds the original functions that this library interposes, in the libraries behind it.

use libc::c_void;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// The oldest version of glibc's symbols on x86-64. dlsym(3) without a version does not find functions that
/// glibc keeps only for old programs.
const OLDEST: &CStr = c"GLIBC_2.2.5";

/// A function's definition in the next library that has it: the C library or a library of the program.
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
        // SAFETY: the name and the version are C strings.
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

/// The next library's function of this name, as a function pointer of this type.
macro_rules! next {
    ($name:expr, fn($($t:ty),*) $(-> $r:ty)?) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new($name);
        // The macro is used only in `unsafe` blocks. It is sound because the C library's function of this
        // name has the given type. `C-unwind` lets a thread's cancellation unwind through the call.
        std::mem::transmute::<*mut libc::c_void, unsafe extern "C-unwind" fn($($t),*) $(-> $r)?>(NEXT.get())
    }};
}

pub(crate) use next;
