//! The functions of libibverbs.so.1 under their C names. The man pages document their arguments and results.
//!
//! # Safety
//! C code calls these functions. The caller ensures that pointers point to the types that verbs.h declares,
//! and that this library created the objects and has not destroyed them. No function panics.
#![allow(clippy::missing_safety_doc, reason = "said once, above")]
#![allow(missing_docs, reason = "the man pages document them")]

pub mod absent;
pub mod ah;
mod building;
pub mod cm;
pub mod cq;
pub mod cq_ex;
pub mod device;
pub mod dm;
mod domain;
pub mod event;
mod handle;
pub mod marshall;
pub mod mcast;
pub mod mr;
pub mod mw;
pub mod object;
pub mod qp;
pub mod qp_ex;
pub mod query;
pub mod srq;
pub mod text;
mod wr;
mod xrc;

use crate::errno::Errno;
use libc::c_int;

/// Converts a result for C functions that return 0 or an errno.
fn status(result: Result<(), Errno>) -> c_int {
    result.err().map_or(0, Errno::returned)
}

/// Converts a result for C functions that return 0, or -1 with `errno` set.
fn minus_one(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => {
            errno.set();
            -1
        }
    }
}

/// Converts a result for C functions that return an object, or null with `errno` set.
fn object_or_null<T>(result: Result<Box<T>, Errno>) -> *mut T {
    match result {
        Ok(object) => Box::into_raw(object),
        Err(errno) => {
            errno.set();
            std::ptr::null_mut()
        }
    }
}
