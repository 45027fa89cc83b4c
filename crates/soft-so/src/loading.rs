//! dlopen(3), as far as a program asks by it for a libibverbs of its own.
//!
//! By the names of the library the loader finds this one, as it is loaded already. Wheels bring one along under another name
//! (`libibverbs-1a2b3c4d.so.1.14.44.0`), and some programs name the system's by its path: both get this one. Nothing else is
//! changed, and the caller stays who it was, whose run path and namespace decide what the C library loads: so the call is
//! gone on with by a jump.

use crate::next::Next;
use libc::c_char;
use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_void};

/// The name by which this library is found, as it is loaded.
const OWN: &CStr = c"libibverbs.so.1";

/// What a call is gone on with.
#[repr(C)]
struct Led {
    name: *const c_char,
    function: *mut c_void,
}

/// Two words are returned in rax and rdx (System V ABI, 3.2.3).
unsafe extern "C" fn lead(name: *const c_char) -> Led {
    static NEXT: Next = Next::new(c"dlopen");
    // SAFETY: a string, where there is one.
    let is_libibverbs = !name.is_null() && is_libibverbs(unsafe { CStr::from_ptr(name) }.to_bytes());
    Led { name: if is_libibverbs { OWN.as_ptr() } else { name }, function: NEXT.get() }
}

/// Whether a path is that of a libibverbs, by its file's name: `libibverbs`, a `-` and the hash that wheels put there or none, `.so`,
/// and nothing or a version 1.
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
