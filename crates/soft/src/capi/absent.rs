//! Functions that this device does not support.

use super::{object_or_null, status};
use crate::causes::{NO_FUNCTION, NO_OBJECT};
use libc::{c_int, c_void};

/// Stands for functions that only drivers call, and for functions of other devices. Fails with `ENOSYS`.
pub unsafe extern "C" fn not_implemented() -> c_int {
    status("a private function", Err(NO_FUNCTION.bare()))
}

/// Does nothing. Stands for functions without a result that drivers call while they are loaded.
pub unsafe extern "C" fn ignored() {}

/// Stands for functions that create objects which this device does not have. Fails with `EOPNOTSUPP`.
pub unsafe extern "C" fn no_object() -> *mut c_void {
    object_or_null::<c_void>("a function", Err(NO_OBJECT.bare()))
}
