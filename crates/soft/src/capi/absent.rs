//! What this device does not have.

use crate::errno::EOPNOTSUPP;
use doorbell_abi::{ibv_pd, ibv_qp};
use libc::{c_int, c_void};

/// Stands for functions that only drivers call, and for those that other devices have.
pub unsafe extern "C" fn not_implemented() -> c_int {
    crate::errno::Errno(libc::ENOSYS).returned()
}

/// Does nothing, for functions without a result that drivers call when they are loaded.
pub unsafe extern "C" fn ignored() {}

/// Stands for functions that return an object of a kind that this device does not have.
pub unsafe extern "C" fn no_object() -> *mut c_void {
    EOPNOTSUPP.set();
    std::ptr::null_mut()
}

pub(crate) unsafe extern "C" fn alloc_mw(_pd: *mut ibv_pd, _kind: u32) -> *mut c_void {
    EOPNOTSUPP.set();
    std::ptr::null_mut()
}

pub(crate) unsafe extern "C" fn bind_mw(_qp: *mut ibv_qp, _mw: *mut c_void, _bind: *mut c_void) -> c_int {
    EOPNOTSUPP.returned()
}

pub(crate) unsafe extern "C" fn dealloc_mw(_mw: *mut c_void) -> c_int {
    EOPNOTSUPP.returned()
}
