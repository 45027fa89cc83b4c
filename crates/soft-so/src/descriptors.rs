//! Interposes functions of the C library that take a descriptor. The functions emulate rdma_cm's device
//! file.
//!
//! A program's descriptor of the device file is an epoll(7) descriptor. The descriptor is readable while an
//! event is pending, so poll(2) and similar calls need no interposed function. The kernel refuses read(2) and
//! write(2) on an epoll descriptor. For all other descriptors, an interposed function tests one bit and
//! passes the call on.

use crate::files::{Room, c_name};
use crate::next::next;
use doorbell_soft::capi::cm;
use libc::{c_char, c_int, c_long, c_uint, c_void, size_t, ssize_t};

fn fail(errno: c_int) -> c_int {
    // SAFETY: errno belongs to this thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the caller's arguments are passed on, or the bytes are the caller's. A thread may be cancelled
    // while it waits, but no value of this function needs to be dropped.
    unsafe {
        if !cm::is_channel(fd) {
            return next!(c"write", fn(c_int, *const c_void, size_t) -> ssize_t)(fd, bytes, len);
        }
        let poll = next!(c"poll", fn(*mut libc::pollfd, libc::nfds_t, c_int) -> c_int);
        let mut has_waited = false;
        loop {
            if let Some(written) = cm::write(fd, bytes, len) {
                // If another thread has closed the descriptor, the command fails. A kernel call that already
                // waits keeps its file, which gets no more events. So a call that has waited here waits
                // forever.
                let is_closed = written < 0 && !cm::is_channel(fd);
                return match (is_closed, has_waited) {
                    (false, _) => written,
                    (true, false) => fail(libc::EBADF) as ssize_t,
                    (true, true) => poll(std::ptr::null_mut(), 0, -1) as ssize_t,
                };
            }
            let flags = libc::fcntl(fd, libc::F_GETFL);
            if flags >= 0 && flags & libc::O_NONBLOCK != 0 {
                return fail(libc::EAGAIN) as ssize_t;
            }
            let mut event = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            if poll(&mut event, 1, -1) < 0 {
                return -1;
            }
            has_waited = true;
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn read(fd: c_int, to: *mut c_void, room: size_t) -> ssize_t {
    // The kernel's device file does not support read(2), so the kernel returns this error too.
    if cm::is_channel(fd) {
        return fail(libc::EINVAL) as ssize_t;
    }
    // SAFETY: the caller's arguments are passed on.
    unsafe { next!(c"read", fn(c_int, *mut c_void, size_t) -> ssize_t)(fd, to, room) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if cm::is_channel(fd) {
        cm::closing(fd);
    }
    // SAFETY: the caller's argument is passed on.
    unsafe { next!(c"close", fn(c_int) -> c_int)(fd) }
}

/// Forgets the device file's descriptors from `first` to `last`, which are about to be closed.
fn closing(first: c_uint, last: c_uint) {
    let Ok(first) = c_int::try_from(first) else { return };
    cm::channels_from(first).take_while(|fd| *fd as c_uint <= last).for_each(cm::closing);
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 && first <= last {
        closing(first, last);
    }
    // SAFETY: the caller's arguments are passed on.
    unsafe { next!(c"close_range", fn(c_uint, c_uint, c_int) -> c_int)(first, last, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn closefrom(first: c_int) {
    closing(first.max(0) as c_uint, c_uint::MAX);
    // SAFETY: the caller's argument is passed on.
    unsafe { next!(c"closefrom", fn(c_int))(first) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: the caller's argument is passed on.
    let copy = unsafe { next!(c"dup", fn(c_int) -> c_int)(fd) };
    if cm::is_channel(fd) { cm::copied(fd, copy) } else { copy }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup2(from: c_int, to: c_int) -> c_int {
    // SAFETY: the caller's arguments are passed on.
    renew(from, to, || unsafe { next!(c"dup2", fn(c_int, c_int) -> c_int)(from, to) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's arguments are passed on.
    renew(from, to, || unsafe { next!(c"dup3", fn(c_int, c_int, c_int) -> c_int)(from, to, flags) })
}

/// Makes `to` a copy of `from` by the call `dup`. Forgets `to` if it was a descriptor of the device file.
fn renew(from: c_int, to: c_int, dup: impl FnOnce() -> c_int) -> c_int {
    let (from_is, to_is) = (cm::is_channel(from), cm::is_channel(to));
    let copy = dup();
    if copy < 0 || from == to {
        return copy;
    }
    if to_is {
        cm::closing(to);
    }
    if from_is { cm::copied(from, copy) } else { copy }
}

/// Defines fcntl(2) under the given names. The third argument may be absent, a number or a pointer. The
/// calling convention passes all three in one register.
macro_rules! fcntl {
    ($($name:ident $symbol:literal)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(fd: c_int, command: c_int, argument: c_long) -> c_int {
            // SAFETY: the caller's arguments are passed on.
            let result = unsafe { next!($symbol, fn(c_int, c_int, c_long) -> c_int)(fd, command, argument) };
            match command {
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC if cm::is_channel(fd) => cm::copied(fd, result),
                _ => result,
            }
        }
    )*};
}

fcntl! { fcntl c"fcntl" fcntl64 c"fcntl64" }

/// Changes the result of fstat(2) so that a descriptor of the device file looks like a character device.
///
/// # Safety
/// `to` is the caller's struct. It is filled in if `result` is 0.
unsafe fn told(fd: c_int, result: c_int, to: *mut libc::stat) -> c_int {
    if result == 0 && cm::is_channel(fd) {
        let (major, minor) = cm::device_numbers();
        // SAFETY: the caller passes its struct, which the call has filled in.
        unsafe {
            (*to).st_mode = libc::S_IFCHR | 0o666;
            (*to).st_rdev = libc::makedev(major, minor);
        }
    }
    result
}

/// Defines functions of the fstat(2) family: `name(parameter before the descriptor)`.
macro_rules! fstat {
    ($($symbol:literal $name:ident($($before:ident: $b:ty)?);)*) => {$(
        #[unsafe(export_name = $symbol)]
        unsafe extern "C-unwind" fn $name($($before: $b,)? fd: c_int, to: *mut libc::stat) -> c_int {
            // SAFETY: the caller's arguments are passed on. Functions with and without 64 in their names use
            // equal structs.
            unsafe {
                let result = next!(c_name!($symbol), fn($($b,)? c_int, *mut libc::stat) -> c_int)($($before,)? fd, to);
                told(fd, result, to)
            }
        }
    )*};
}

// Programs that were built with glibc before 2.33 call the functions with the parameter `version`.
fstat! {
    "fstat" fstat();
    "fstat64" fstat64();
    "__fxstat" fxstat(version: c_int);
    "__fxstat64" fxstat64(version: c_int);
}

macro_rules! fstatat {
    ($($symbol:literal $name:ident($($before:ident: $b:ty)?);)*) => {$(
        #[unsafe(export_name = $symbol)]
        unsafe extern "C-unwind" fn $name(
            $($before: $b,)? at: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int,
        ) -> c_int {
            let mut room = Room::new();
            // SAFETY: the caller's arguments are passed on, except for a redirected path. Functions with and
            // without 64 in their names use equal structs.
            unsafe {
                let led = room.path(path);
                let result = next!(c_name!($symbol), fn($($b,)? c_int, *const c_char, *mut libc::stat, c_int) -> c_int)(
                    $($before,)? at, led, to, flags,
                );
                if flags & libc::AT_EMPTY_PATH != 0 && is_empty(path) { told(at, result, to) } else { result }
            }
        }
    )*};
}

fstatat! {
    "fstatat" fstatat();
    "fstatat64" fstatat64();
    "__fxstatat" fxstatat(version: c_int);
    "__fxstatat64" fxstatat64(version: c_int);
}

/// Whether a path is null or empty, which AT_EMPTY_PATH allows.
///
/// # Safety
/// `path` is a string or null.
unsafe fn is_empty(path: *const c_char) -> bool {
    // SAFETY: a string has a first byte.
    path.is_null() || unsafe { *path } == 0
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn statx(
    at: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut libc::statx,
) -> c_int {
    let mut room = Room::new();
    // SAFETY: the caller's arguments are passed on, except for a redirected path. The struct is filled in if
    // the result is 0.
    unsafe {
        let led = room.path(path);
        let result = next!(c"statx", fn(c_int, *const c_char, c_int, c_uint, *mut libc::statx) -> c_int)(
            at, led, flags, mask, to,
        );
        if result == 0 && flags & libc::AT_EMPTY_PATH != 0 && is_empty(path) && cm::is_channel(at) {
            (*to).stx_mode = (libc::S_IFCHR | 0o666) as u16;
            ((*to).stx_rdev_major, (*to).stx_rdev_minor) = cm::device_numbers();
        }
        result
    }
}
