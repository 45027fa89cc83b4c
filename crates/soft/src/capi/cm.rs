//! C library calls on the device file of rdma_cm and its descriptors.

use crate::cm::causes::OF_BIND_ADDR;
use crate::cm::{self, CmCall, CmWritten};
use crate::device;
use crate::errno::Errno;
use crate::refused::{Asked, Called, NONE, Size, refused, refused_sizes, worked};
use doorbell_abi::cm::command;
use doorbell_transport::Refused;
use libc::{c_int, c_void, size_t, ssize_t};
use std::os::fd::{FromRawFd, OwnedFd};

/// Whether a descriptor belongs to the device file.
#[inline(always)]
pub fn is_channel(fd: c_int) -> bool {
    cm::is_channel(fd)
}

/// The open descriptors of the device file, from number `fd` on.
pub fn channels_from(fd: c_int) -> impl Iterator<Item = c_int> {
    cm::channels_from(fd)
}

/// Sets errno, and returns the result of a failed call.
fn failed(errno: Errno) -> c_int {
    errno.set();
    -1
}

/// Opens the device file, with the result of open(2).
pub fn open(flags: c_int) -> c_int {
    cm::open(flags).unwrap_or_else(failed)
}

/// Carries out the command in `bytes`, with the result of write(2) to a descriptor of the device file. `None`
/// if the command requests an event and no event is available.
pub unsafe fn write(fd: c_int, bytes: *const c_void, len: size_t) -> Option<ssize_t> {
    // SAFETY: the caller's bytes, and pointers in them.
    let CmWritten { call, result } = unsafe { cm::write(fd, bytes as u64, len) };
    if let Some(call) = call {
        explain(call, &result);
    }
    match result {
        Ok(is_done) => is_done.then_some(len as ssize_t),
        Err(error) => Some(failed(Errno(error.errno())) as ssize_t),
    }
}

/// Explains a refused command, unless the program repeats it until it works.
fn explain(call: CmCall, result: &Result<bool, Refused>) {
    let (number, call) = (call.number, Called::rdmacm(call.name));
    // Programs try other ports and addresses until rdma_bind_addr(3) works.
    let asked = |addr: u64| Asked {
        call,
        same: [0; 4],
        sizes: [Size::new(OF_BIND_ADDR, addr), NONE, NONE, NONE, NONE],
    };
    match (number, result) {
        (command::BIND_IP, Ok(_)) => worked(asked(0)),
        (command::BIND_IP, Err(_)) if doorbell_launch::say::broken("r-bind") => {}
        (command::BIND_IP, Err(error)) => refused_sizes(asked(1), error),
        (_, Err(error)) => refused(call, error),
        (_, Ok(_)) => {}
    }
}

/// Major and minor number of the device file, as stat(2) reports them.
pub fn device_numbers() -> (u32, u32) {
    device::cm_numbers()
}

/// Forgets a descriptor that the caller is about to close.
pub fn closing(fd: c_int) {
    cm::closing(fd);
}

/// Completes dup(2) and similar calls. `from` is a descriptor of the device file, and `to` is the result of
/// the call. Returns `to`; -1 with `EMFILE` if the number of `to` is too high.
pub fn copied(from: c_int, to: c_int) -> c_int {
    if to < 0 || cm::copied(from, to) {
        return to;
    }
    // SAFETY: the descriptor was just created, and nothing else uses it.
    drop(unsafe { OwnedFd::from_raw_fd(to) });
    failed(Errno(libc::EMFILE))
}
