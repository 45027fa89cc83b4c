//! Interposes dlopen(3), so that programs which load a libibverbs by another name or by a path get this
//! library.
//!
//! For the usual name `libibverbs.so.1`, the loader already finds this library, because it is loaded. Python
//! wheels contain a libibverbs under another name (`libibverbs-1a2b3c4d.so.1.14.44.0`), and some programs
//! give the path of the system's libibverbs. This module replaces such names and no others. The C library's
//! dlopen uses its caller's run path and link-map namespace. So `dlopen` here ends with a jump, which keeps
//! the program as the caller.

use crate::next::Next;
use libc::c_char;
use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_void};

/// The name by which the loader finds this library, which is already loaded.
const OWN: &CStr = c"libibverbs.so.1";

/// The arguments of the jump to the next `dlopen`.
#[repr(C)]
struct Led {
    name: *const c_char,
    function: *mut c_void,
}

/// Chooses the library to load. Returns the two words in rax and rdx (System V ABI for x86-64, 3.2.3).
unsafe extern "C" fn lead(name: *const c_char) -> Led {
    static NEXT: Next = Next::new(c"dlopen");
    // SAFETY: dlopen(3) takes a string or null.
    let is_libibverbs = !name.is_null() && is_libibverbs(unsafe { CStr::from_ptr(name) }.to_bytes());
    Led { name: if is_libibverbs { OWN.as_ptr() } else { name }, function: NEXT.get() }
}

/// Whether a path's file name is a libibverbs: `libibverbs`, an optional `-` and hash as in wheels, `.so`,
/// and either no version or version 1.
fn is_libibverbs(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let Some(rest) = name.strip_prefix(b"libibverbs") else { return false };
    let rest = rest.strip_prefix(b"-").unwrap_or(rest);
    let hash = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    matches!(rest[hash..].strip_prefix(b".so"), Some(version) if matches!(version, b"" | b".1") || version.starts_with(b".1."))
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void {
    naked_asm!(
        "push rsi",
        "call {lead}",
        "pop rsi",
        "mov rdi, rax",
        "jmp rdx",
        lead = sym lead,
    )
}
