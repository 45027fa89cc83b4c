//! Locks of a file's bytes (`F_OFD_SETLK` of fcntl(2)): of whoever has the file open, gone when the last of them ends, however
//! that is. Nobody waits for one, as who has it may be stopped. By libc, as std and rustix lock whole files only.

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

/// Whether somebody has a lock of these bytes, but for who has this file open.
pub(crate) fn is_locked(file: &File, bytes: Range<u64>) -> io::Result<bool> {
    let mut range = flock(libc::F_WRLCK, bytes);
    // SAFETY: a file of our own, and a struct that is filled in.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut range) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(range.l_type != libc::F_UNLCK as libc::c_short)
}

/// Takes the lock of these bytes for whoever has this file open, if nobody else has it; of a shared one, if nobody else has it
/// alone.
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

/// Gives the lock of these bytes up.
pub(crate) fn unlock(file: &File, bytes: Range<u64>) -> io::Result<()> {
    let range = flock(libc::F_UNLCK, bytes);
    // SAFETY: a file of our own, and a struct that lives.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
