//! The device file of rdma_cm: C library calls on its descriptors.

use super::minus_one;
use crate::cm;
use crate::device;
use crate::errno::Errno;
use libc::{c_int, c_void, size_t, ssize_t};

/// Whether a descriptor belongs to the device file.
#[inline(always)]
pub fn is_channel(fd: c_int) -> bool {
    cm::is_channel(fd)
}

/// The descriptors of the device file with numbers from `fd` on.
pub fn channels_from(fd: c_int) -> impl Iterator<Item = c_int> {
    cm::channels_from(fd)
}

/// Like open(2) of the device file.
pub fn open(flags: c_int) -> c_int {
    cm::open(flags).unwrap_or_else(|errno| minus_one(Err(errno)))
}

/// Like write(2) to a descriptor of the device file. `None` if the command asks for an event and there is
/// none.
pub unsafe fn write(fd: c_int, bytes: *const c_void, len: size_t) -> Option<ssize_t> {
    // SAFETY: the caller's bytes, and pointers in them.
    match unsafe { cm::write(fd, bytes as u64, len) } {
        Ok(is_done) => is_done.then_some(len as ssize_t),
        Err(errno) => Some(minus_one(Err(errno)) as ssize_t),
    }
}

/// Major and minor number of the device file, as stat(2) reports them.
pub fn device_numbers() -> (u32, u32) {
    device::cm_numbers()
}

/// Forgets a descriptor. The caller is about to close it.
pub fn closing(fd: c_int) {
    cm::closing(fd);
}

/// Completes dup(2) and similar calls: returns `to`, now a copy of a descriptor of the device file, or an
/// error.
pub fn copied(from: c_int, to: c_int) -> c_int {
    if to < 0 || cm::copied(from, to) {
        return to;
    }
    // SAFETY: just made; nothing else uses it.
    unsafe { libc::close(to) };
    minus_one(Err(Errno(libc::EMFILE)))
}
