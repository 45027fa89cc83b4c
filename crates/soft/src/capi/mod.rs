//! The functions of libibverbs.so.1, under their names there; the man pages say what they take
//! and return.
//!
//! # Safety
//! The functions here are called by C: pointers are to what verbs.h says, objects are those that
//! this library has made and not destroyed. None of them panics.
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

/// What a function that returns an errno returns.
fn status(result: Result<(), Errno>) -> c_int {
    result.err().map_or(0, Errno::returned)
}

/// What a function that returns -1 and leaves an errno returns.
fn minus_one(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => {
            errno.set();
            -1
        }
    }
}

/// What a function that returns an object returns.
fn object_or_null<T>(result: Result<Box<T>, Errno>) -> *mut T {
    match result {
        Ok(object) => Box::into_raw(object),
        Err(errno) => {
            errno.set();
            std::ptr::null_mut()
        }
    }
}
