//! Error numbers (errno), for verbs that return them and for verbs that set errno.

use doorbell_verbs::VerbsError;
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
/// Another object still uses the object.
pub(crate) const EBUSY: Errno = Errno(libc::EBUSY);
/// No object has this key.
pub(crate) const ENOENT: Errno = Errno(libc::ENOENT);
/// The object does not allow this use.
pub(crate) const EPERM: Errno = Errno(libc::EPERM);
/// The object does not contain these bytes.
pub(crate) const EFAULT: Errno = Errno(libc::EFAULT);
/// The file descriptor is not one of this context.
pub(crate) const EBADF: Errno = Errno(libc::EBADF);
/// This device does not support the operation.
pub(crate) const EOPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);

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

impl From<VerbsError> for Errno {
    fn from(error: VerbsError) -> Errno {
        match error {
            VerbsError::Invalid(_) => EINVAL,
            VerbsError::NoRoom(_) => ENOMEM,
            VerbsError::Unsupported(_) => EOPNOTSUPP,
            VerbsError::NoDevice(_) => Errno(libc::ENODEV),
            VerbsError::Errno { errno, .. } => Errno(errno),
        }
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Errno {
        let told = if error.kind() == std::io::ErrorKind::FileTooLarge { libc::EFBIG } else { libc::EIO };
        Errno(error.raw_os_error().unwrap_or(told))
    }
}
