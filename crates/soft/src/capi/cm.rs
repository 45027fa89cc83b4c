//! The device file of rdma_cm: what calls of the C library with its descriptors do.

use super::minus_one;
use crate::cm;
use crate::device;
use crate::errno::Errno;
use libc::{c_int, c_void, size_t, ssize_t};

/// Whether a descriptor is one of the device file.
#[inline(always)]
pub fn is_channel(fd: c_int) -> bool {
    cm::is_channel(fd)
}

/// All of these, from one number on.
pub fn channels_from(fd: c_int) -> impl Iterator<Item = c_int> {
    cm::channels_from(fd)
}

/// As open(2) of the device file.
pub fn open(flags: c_int) -> c_int {
    cm::open(flags).unwrap_or_else(|errno| minus_one(Err(errno)))
}

/// As write(2) to such a descriptor; none where it asks for an event and there is none.
pub unsafe fn write(fd: c_int, bytes: *const c_void, len: size_t) -> Option<ssize_t> {
    // SAFETY: the caller's bytes, and pointers in them.
    match unsafe { cm::write(fd, bytes as u64, len) } {
        Ok(is_done) => is_done.then_some(len as ssize_t),
        Err(errno) => Some(minus_one(Err(errno)) as ssize_t),
    }
}

/// Numbers of the device file, as stat(2) tells them.
pub fn device_numbers() -> (u32, u32) {
    device::cm_numbers()
}

/// A descriptor is about to be closed.
pub fn closing(fd: c_int) {
    cm::closing(fd);
}

/// What dup(2) and its like return: `to`, now a copy of such a descriptor, or an error.
pub fn copied(from: c_int, to: c_int) -> c_int {
    if to < 0 || cm::copied(from, to) {
        return to;
    }
    // SAFETY: just made, and nobody else's.
    unsafe { libc::close(to) };
    minus_one(Err(Errno(libc::EMFILE)))
}
