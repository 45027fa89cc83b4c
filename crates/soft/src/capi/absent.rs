//! Functions that this device does not support.

use crate::errno::EOPNOTSUPP;
use libc::{c_int, c_void};

/// Stands for functions that only drivers call, and for functions of other devices. Fails with `ENOSYS`.
pub unsafe extern "C" fn not_implemented() -> c_int {
    crate::errno::Errno(libc::ENOSYS).returned()
}

/// Does nothing. Stands for functions without a result that drivers call while they are loaded.
pub unsafe extern "C" fn ignored() {}

/// Stands for functions that create objects which this device does not have. Fails with `EOPNOTSUPP`.
pub unsafe extern "C" fn no_object() -> *mut c_void {
    EOPNOTSUPP.set();
    std::ptr::null_mut()
}
