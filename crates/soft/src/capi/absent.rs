//! Functions that this device does not support.

use crate::errno::EOPNOTSUPP;
use libc::{c_int, c_void};

/// Stands for functions that only drivers call, and for functions of other devices.
pub unsafe extern "C" fn not_implemented() -> c_int {
    crate::errno::Errno(libc::ENOSYS).returned()
}

/// Does nothing. Stands for functions without a result that drivers call when they are loaded.
pub unsafe extern "C" fn ignored() {}

/// Stands for functions that create objects which this device does not have.
pub unsafe extern "C" fn no_object() -> *mut c_void {
    EOPNOTSUPP.set();
    std::ptr::null_mut()
}
