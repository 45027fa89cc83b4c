//! Interposes the functions of the C library that take a descriptor, as far as descriptors of rdma_cm's
//! device file need more than the kernel does.
//!
//! Such a descriptor is an epoll(7) descriptor, readable as long as there is an event. A program that waits
//! for it needs nothing of this library, and the kernel refuses to read or write it. For any other
//! descriptor, a function tests one bit and passes the call on.

use crate::files::{Room, c_name};
use crate::next::next;
use doorbell_soft::capi::cm;
use libc::{c_char, c_int, c_long, c_uint, c_void, size_t, ssize_t};

fn fail(errno: c_int) -> c_int {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the caller's arguments are passed on, or the bytes are the caller's. A thread may be cancelled
    // while it waits; no value here needs to be dropped.
    unsafe {
        if !cm::is_channel(fd) {
            return next!(c"write", fn(c_int, *const c_void, size_t) -> ssize_t)(fd, bytes, len);
        }
        let poll = next!(c"poll", fn(*mut libc::pollfd, libc::nfds_t, c_int) -> c_int);
        let mut has_waited = false;
        loop {
            if let Some(written) = cm::write(fd, bytes, len) {
                // Another thread has closed the descriptor meanwhile. A call that has waited still has the
                // kernel's file, which gets no events any more.
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
    // The device file cannot be read, and the epoll(7) descriptor of its events must not be.
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

/// Makes `to` a copy of `from` by `dup`. `to` may be a descriptor of the device file itself.
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

/// The third argument may be absent, a number or a pointer. A register passes it in each case.
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

/// Reports the device file's descriptor as a character device.
///
/// # Safety
/// `to` is the caller's struct. It is filled in if `result` is 0.
unsafe fn told(fd: c_int, result: c_int, to: *mut libc::stat) -> c_int {
    if result == 0 && cm::is_channel(fd) {
        let (major, minor) = cm::device_numbers();
        // SAFETY: as the caller promises.
        unsafe {
            (*to).st_mode = libc::S_IFCHR | 0o666;
            (*to).st_rdev = libc::makedev(major, minor);
        }
    }
    result
}

/// `name(parameter before the descriptor)`
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

// Programs that were built with a C library before 2.33 use the names with a version.
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
            // SAFETY: the caller's arguments are passed on, except for a redirected path. The structs are
            // equal, as above.
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
