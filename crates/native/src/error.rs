//! Converts errors of libibverbs to `VerbsError`.

use doorbell_verbs::VerbsError;
use libc::c_int;

/// The error of the function `what` with this errno. The errno may have either sign.
pub(crate) fn refused(what: &'static str, errno: c_int) -> VerbsError {
    let errno = errno.saturating_abs();
    let text = || format!("{what} failed: {}", std::io::Error::from_raw_os_error(errno));
    match errno {
        libc::EINVAL => VerbsError::Invalid(text()),
        libc::ENOMEM => VerbsError::NoRoom(text()),
        libc::EOPNOTSUPP | libc::ENOSYS => VerbsError::Unsupported(text()),
        libc::ENODEV => VerbsError::NoDevice(text()),
        _ => VerbsError::Errno { what, errno },
    }
}

/// The error of the function `what`, with the cause in this thread's errno.
pub(crate) fn last_refusal(what: &'static str) -> VerbsError {
    refused(what, std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// The outcome of the function `what`, which returned 0 or an errno.
pub(crate) fn outcome(what: &'static str, errno: c_int) -> Result<(), VerbsError> {
    if errno == 0 { Ok(()) } else { Err(refused(what, errno)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errno_decides_the_kind_of_refusal() {
        assert!(matches!(refused("v", libc::EINVAL), VerbsError::Invalid(_)));
        assert!(matches!(refused("v", -libc::ENOMEM), VerbsError::NoRoom(_)));
        assert!(matches!(refused("v", libc::ENOSYS), VerbsError::Unsupported(_)));
        assert!(matches!(refused("v", libc::ENODEV), VerbsError::NoDevice(_)));
        assert_eq!(refused("v", -libc::EPERM), VerbsError::Errno { what: "v", errno: libc::EPERM });
        assert_eq!(outcome("v", 0), Ok(()));
    }
}
