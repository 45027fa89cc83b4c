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
use crate::refused::{Asked, Called, explain_in_use, forget_in_use, made, refused, refused_sizes, worked};
use doorbell_transport::{Cause, Refused};
use libc::c_int;

/// Converts a result for C functions that return 0 or an errno. Explains an error of the call.
fn status(call: &'static str, result: Result<(), Refused>) -> c_int {
    silent_status(result.inspect_err(|error| refused(Called::verbs(call), error)))
}

/// Converts a result for C functions that return 0 or an errno. Explains an error unless the program repeats
/// the call with smaller values.
fn tried(asked: Asked, result: Result<(), Refused>) -> c_int {
    match &result {
        Ok(()) => worked(asked),
        Err(error) => refused_sizes(asked, error),
    }
    silent_status(result)
}

/// Converts the result of a function that destroys the object at this address. The only error is that other
/// objects use the object.
fn destroyed<T>(call: &'static str, object: *mut T, result: Result<(), Refused>) -> c_int {
    match &result {
        Ok(()) => forget_in_use(object.addr()),
        Err(error) => explain_in_use(Called::verbs(call), object.addr(), error),
    }
    silent_status(result)
}

/// Converts a result for C functions that return 0 or an errno, without an explanation. Queries and events
/// fail in the normal course of a program.
fn silent_status(result: Result<(), Refused>) -> c_int {
    result.err().map_or(0, |error| Errno(error.errno()).returned())
}

/// Converts a result for C functions that return 0, or -1 with `errno` set. Explains an error of the call.
fn minus_one(call: &'static str, result: Result<(), Refused>) -> c_int {
    silent_minus_one(result.inspect_err(|error| refused(Called::verbs(call), error)))
}

/// Converts a result for C functions that return 0, or -1 with `errno` set, without an explanation.
fn silent_minus_one(result: Result<(), Refused>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            Errno(error.errno()).set();
            -1
        }
    }
}

/// Converts a result for C functions that return an object, or null with `errno` set. Explains an error of
/// the call.
fn object_or_null<T>(call: &'static str, result: Result<Box<T>, Refused>) -> *mut T {
    silent_object(result.inspect_err(|error| refused(Called::verbs(call), error)))
}

/// Converts a result for C functions that return an object, or null with `errno` set. Explains an error
/// unless the program repeats the call with smaller values.
fn made_or_null<T>(asked: Asked, result: Result<Box<T>, Refused>) -> *mut T {
    match &result {
        Ok(_) => worked(asked),
        Err(error) => refused_sizes(asked, error),
    }
    silent_object(result)
}

/// The errno of a call that fails for the reason `cause` in the normal course of a program, unless the
/// operating system has determined another errno. Sets errno, and allocates no memory.
fn silent_errno(cause: &Cause, error: Option<Errno>) -> c_int {
    error.unwrap_or(Errno(cause.errno)).returned()
}

fn silent_object<T>(result: Result<Box<T>, Refused>) -> *mut T {
    match result {
        Ok(object) => {
            made();
            Box::into_raw(object)
        }
        Err(error) => {
            Errno(error.errno()).set();
            std::ptr::null_mut()
        }
    }
}
