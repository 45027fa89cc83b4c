//! Error numbers (errno), for verbs that return them and for verbs that set errno.

use libc::c_int;

/// The error number of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

/// Invalid argument.
pub(crate) const EINVAL: Errno = Errno(libc::EINVAL);
/// A queue or a table is full.
pub(crate) const ENOMEM: Errno = Errno(libc::ENOMEM);
/// The object does not exist and may not be created, or the call may be repeated later.
pub(crate) const EAGAIN: Errno = Errno(libc::EAGAIN);

impl Errno {
    /// Returns the number, for verbs that return error numbers. Also sets errno, because programs print `%m`
    /// after such verbs too.
    pub(crate) fn returned(self) -> c_int {
        self.set();
        self.0
    }

    /// Sets the thread's errno.
    pub(crate) fn set(self) {
        // SAFETY: the thread's own errno.
        unsafe { *libc::__errno_location() = self.0 }
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Errno {
        let told = if error.kind() == std::io::ErrorKind::FileTooLarge { libc::EFBIG } else { libc::EIO };
        Errno(error.raw_os_error().unwrap_or(told))
    }
}
