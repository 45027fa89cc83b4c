//! Error numbers (errno), for verbs that return them and for verbs that leave them in errno.

use doorbell_verbs::VerbsError;
use libc::c_int;

/// A refusal, as the errno that libibverbs gives for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

/// Invalid argument.
pub(crate) const EINVAL: Errno = Errno(libc::EINVAL);
/// A queue or a table is full.
pub(crate) const ENOMEM: Errno = Errno(libc::ENOMEM);
/// There is none, and it may not be made. Also for a call that may be tried again.
pub(crate) const EAGAIN: Errno = Errno(libc::EAGAIN);
/// Another object still needs it.
pub(crate) const EBUSY: Errno = Errno(libc::EBUSY);
/// This device does not support it.
pub(crate) const EOPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);

impl Errno {
    /// The number, for verbs that return it. It is left in errno as well: programs print %m in either case.
    pub(crate) fn returned(self) -> c_int {
        self.set();
        self.0
    }

    /// Stores this in the thread's errno, where C code reads it.
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
