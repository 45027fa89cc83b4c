//! Locks on bytes of a file (`F_OFD_SETLK` of fcntl(2)). A lock belongs to an open file description. The lock
//! ends at the latest when the last process with this description exits, for whatever reason. No process
//! waits for a lock, because the holder may be stopped. The calls use libc, because std and rustix lock whole
//! files only.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

fn flock(kind: libc::c_int, bytes: Range<u64>) -> libc::flock {
    // SAFETY: integers, which may be zero.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as _;
    range.l_whence = libc::SEEK_SET as _;
    (range.l_start, range.l_len) = (bytes.start as _, (bytes.end - bytes.start) as _);
    range
}

/// Whether these bytes are locked through another open file description.
pub(crate) fn is_locked(file: &File, bytes: Range<u64>) -> io::Result<bool> {
    let mut range = flock(libc::F_WRLCK, bytes);
    // SAFETY: a file of our own, and a struct that the call fills in.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut range) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(range.l_type != libc::F_UNLCK as libc::c_short)
}

/// Acquires a lock on these bytes for this open file description; `false` if the lock of another description
/// excludes it. Only an exclusive lock excludes a shared lock.
pub(crate) fn lock(file: &File, bytes: Range<u64>, is_shared: bool) -> io::Result<bool> {
    let range = flock(if is_shared { libc::F_RDLCK } else { libc::F_WRLCK }, bytes);
    // SAFETY: a file of our own, and a struct that lives.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// Releases the lock on these bytes.
pub(crate) fn unlock(file: &File, bytes: Range<u64>) -> io::Result<()> {
    let range = flock(libc::F_UNLCK, bytes);
    // SAFETY: a file of our own, and a struct that lives.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
