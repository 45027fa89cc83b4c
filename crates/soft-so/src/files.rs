//! Interposes functions of the C library that take a path, and redirects paths of the device's files.
//!
//! The fabric's folder holds the files by which a kernel would present the device (`soft/src/shown.rs`). The
//! functions change only paths. The kernel opens the files, so reads of them cost nothing extra. All
//! functions keep the C library's cancellation points, interruptions and errors. The program does not see the
//! kernel's own RDMA devices.

use crate::next::next;
use doorbell_launch::variables;
use doorbell_soft::capi::cm;
use doorbell_soft::shown;
use libc::{DIR, FILE, c_char, c_int, c_void, mode_t, size_t, ssize_t};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Prefixes of the paths that are redirected to the folder. They cover the classes `infiniband` and
/// `infiniband_*` in sysfs, the device files, and the sysfs entry of rdma_cm.
const SHOWN: [&[u8]; 3] = [b"/sys/class/infiniband", b"/dev/infiniband", b"/sys/class/misc/rdma_cm"];

/// Whether the launcher asks for redirection ([`variables::FOLDER`]).
fn is_led() -> bool {
    static IS_LED: OnceLock<bool> = OnceLock::new();
    *IS_LED.get_or_init(|| std::env::var_os(variables::FOLDER).is_some())
}

/// Finds the folder's path before the program begins. The interposed functions must not allocate, because a
/// signal handler may call them while the program is in its allocator. The first access allocates if the
/// folder does not exist yet.
extern "C" fn find_folder() {
    if is_led() {
        shown::path();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = find_folder;

/// The device file of rdma_cm. The library emulates this file, so the folder's file is not opened.
const RDMA_CM: &CStr = c"/dev/infiniband/rdma_cm";

/// Opens rdma_cm's device file. Returns `None` if `path` names another file.
///
/// # Safety
/// `path` is a string or null.
#[inline]
unsafe fn open_rdma_cm(path: *const c_char, flags: c_int) -> Option<c_int> {
    // SAFETY: both arguments are strings where strcmp(3) is called.
    let is_it = !path.is_null() && unsafe { libc::strcmp(path, RDMA_CM.as_ptr()) } == 0;
    (is_it && is_led()).then(|| cm::open(flags))
}

/// A buffer for a path in the folder.
pub(crate) struct Room(MaybeUninit<[u8; libc::PATH_MAX as usize]>);

impl Room {
    pub(crate) const fn new() -> Room {
        Room(MaybeUninit::uninit())
    }

    /// The path to pass on: a path in the folder if `path` names a file there, otherwise `path`.
    ///
    /// # Safety
    /// `path` is a string or null.
    #[inline]
    pub(crate) unsafe fn path(&mut self, path: *const c_char) -> *const c_char {
        // SAFETY: the path is not null where the byte is read, and a string has a first byte.
        if path.is_null() || unsafe { *path } != b'/' as c_char {
            return path;
        }
        // SAFETY: the path is a string, because it is not null.
        let asked = unsafe { CStr::from_ptr(path) }.to_bytes_with_nul();
        if !SHOWN.iter().any(|shown| asked.starts_with(shown)) {
            return path;
        }
        let folder = if is_led() { shown::folder() } else { None };
        folder.and_then(|folder| self.joined(folder.to_bytes(), asked)).unwrap_or(path)
    }

    /// Joins the path `folder` and the path `asked`. Returns `None` if the result exceeds PATH_MAX.
    fn joined(&mut self, folder: &[u8], asked: &[u8]) -> Option<*const c_char> {
        let room = self.0.as_mut_ptr().cast::<u8>();
        if folder.len() + asked.len() > libc::PATH_MAX as usize {
            return None;
        }
        // SAFETY: the buffer has room for both paths.
        unsafe {
            room.copy_from_nonoverlapping(folder.as_ptr(), folder.len());
            room.add(folder.len()).copy_from_nonoverlapping(asked.as_ptr(), asked.len());
        }
        Some(room.cast())
    }
}

/// Turns a literal into a C string.
macro_rules! c_name {
    ($symbol:literal) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name has no zero"),
        }
    };
}

pub(crate) use c_name;

/// Defines functions that redirect their path: `name(parameters before it; parameters behind it) -> result`.
macro_rules! lead {
    ($($symbol:literal $name:ident($($before:ident: $b:ty),*; $($behind:ident: $t:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(export_name = $symbol)]
        unsafe extern "C-unwind" fn $name($($before: $b,)* path: *const c_char $(, $behind: $t)*) -> $result {
            let mut room = Room::new();
            // SAFETY: the caller's arguments are passed on, except for a redirected path.
            unsafe {
                let path = room.path(path);
                next!(c_name!($symbol), fn($($b,)* *const c_char $(, $t)*) -> $result)($($before,)* path $(, $behind)*)
            }
        }
    )*};
}

/// Defines functions that open a file: `name(parameters before the path; flags, mode)`. They open rdma_cm's
/// device file themselves and redirect all other paths like `lead!`.
macro_rules! lead_open {
    ($($symbol:literal $name:ident($($before:ident: $b:ty),*; $flags:ident: c_int $(, $behind:ident: $t:ty)?);)*) => {$(
        #[unsafe(export_name = $symbol)]
        unsafe extern "C-unwind" fn $name($($before: $b,)* path: *const c_char, $flags: c_int $(, $behind: $t)?) -> c_int {
            let mut room = Room::new();
            // SAFETY: the caller's arguments are passed on, except for a redirected path.
            unsafe {
                if let Some(opened) = open_rdma_cm(path, $flags) {
                    return opened;
                }
                let path = room.path(path);
                next!(c_name!($symbol), fn($($b,)* *const c_char, c_int $(, $t)?) -> c_int)($($before,)* path, $flags $(, $behind)?)
            }
        }
    )*};
}

// The mode of open(2) may be absent. The functions then pass on the register of the mode unchanged.
lead_open! {
    "open" open(; flags: c_int, mode: mode_t);
    "open64" open64(; flags: c_int, mode: mode_t);
    "__open_2" open_2(; flags: c_int);
    "__open64_2" open64_2(; flags: c_int);
    "openat" openat(at: c_int; flags: c_int, mode: mode_t);
    "openat64" openat64(at: c_int; flags: c_int, mode: mode_t);
    "__openat_2" openat_2(at: c_int; flags: c_int);
    "__openat64_2" openat64_2(at: c_int; flags: c_int);
}

lead! {
    "fopen" fopen(; mode: *const c_char) -> *mut FILE;
    "fopen64" fopen64(; mode: *const c_char) -> *mut FILE;
    "freopen" freopen(; mode: *const c_char, file: *mut FILE) -> *mut FILE;
    "freopen64" freopen64(; mode: *const c_char, file: *mut FILE) -> *mut FILE;
    "opendir" opendir(;) -> *mut DIR;
    "scandir" scandir(; list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int;
    "scandir64" scandir64(; list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int;
    "access" access(; mode: c_int) -> c_int;
    "eaccess" eaccess(; mode: c_int) -> c_int;
    "euidaccess" euidaccess(; mode: c_int) -> c_int;
    "faccessat" faccessat(at: c_int; mode: c_int, flags: c_int) -> c_int;
    "stat" stat(; to: *mut c_void) -> c_int;
    "stat64" stat64(; to: *mut c_void) -> c_int;
    "lstat" lstat(; to: *mut c_void) -> c_int;
    "lstat64" lstat64(; to: *mut c_void) -> c_int;
    // Programs that were built with glibc before 2.33 call the following four functions.
    "__xstat" xstat(version: c_int; to: *mut c_void) -> c_int;
    "__xstat64" xstat64(version: c_int; to: *mut c_void) -> c_int;
    "__lxstat" lxstat(version: c_int; to: *mut c_void) -> c_int;
    "__lxstat64" lxstat64(version: c_int; to: *mut c_void) -> c_int;
    "readlink" readlink(; to: *mut c_char, room: size_t) -> ssize_t;
    "readlinkat" readlinkat(at: c_int; to: *mut c_char, room: size_t) -> ssize_t;
    "__readlink_chk" readlink_chk(; to: *mut c_char, room: size_t, size: size_t) -> ssize_t;
    "__readlinkat_chk" readlinkat_chk(at: c_int; to: *mut c_char, room: size_t, size: size_t) -> ssize_t;
    "realpath" realpath(; to: *mut c_char) -> *mut c_char;
    "__realpath_chk" realpath_chk(; to: *mut c_char, size: size_t) -> *mut c_char;
    "canonicalize_file_name" canonicalize_file_name(;) -> *mut c_char;
    "chdir" chdir(;) -> c_int;
    "getxattr" getxattr(; name: *const c_char, to: *mut c_void, room: size_t) -> ssize_t;
    "lgetxattr" lgetxattr(; name: *const c_char, to: *mut c_void, room: size_t) -> ssize_t;
    "listxattr" listxattr(; to: *mut c_char, room: size_t) -> ssize_t;
    "llistxattr" llistxattr(; to: *mut c_char, room: size_t) -> ssize_t;
}
