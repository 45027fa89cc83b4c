//! Interposes dlopen(3), because a program may ask by it for a libibverbs of its own.
//!
//! The loader finds this library by the names of libibverbs, because it is loaded already. Wheels bring a
//! libibverbs under another name (`libibverbs-1a2b3c4d.so.1.14.44.0`), and some programs name the system's by
//! its path. Both get this library. Nothing else changes. The C library uses the run path and the namespace
//! of its caller, so the caller must stay visible: `dlopen` ends with a jump to the next `dlopen`.

use crate::next::Next;
use libc::c_char;
use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_void};

/// The name by which the loader finds this library, because it is loaded.
const OWN: &CStr = c"libibverbs.so.1";

/// The arguments of the jump to the next `dlopen`.
#[repr(C)]
struct Led {
    name: *const c_char,
    function: *mut c_void,
}

/// Chooses the library to load. The two words are returned in rax and rdx (System V ABI, 3.2.3).
unsafe extern "C" fn lead(name: *const c_char) -> Led {
    static NEXT: Next = Next::new(c"dlopen");
    // SAFETY: a string unless it is null.
    let is_libibverbs = !name.is_null() && is_libibverbs(unsafe { CStr::from_ptr(name) }.to_bytes());
    Led { name: if is_libibverbs { OWN.as_ptr() } else { name }, function: NEXT.get() }
}

/// Whether the file name of a path is a libibverbs: `libibverbs`, perhaps a `-` and the hash that wheels put
/// there, `.so`, and no version or a version 1.
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
