//! The functions of a libibverbs that is opened at run time.

use doorbell_abi::{
    ibv_ah, ibv_ah_attr, ibv_context, ibv_cq, ibv_device, ibv_device_attr, ibv_gid_entry, ibv_mr, ibv_pd,
    ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_srq, ibv_srq_init_attr,
};
use libc::{RTLD_LOCAL, RTLD_NODELETE, RTLD_NOW, c_char, c_int, c_void};
use libloading::os::unix;
use std::path::Path;

macro_rules! library {
    ($($name:ident: fn($($argument:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The functions of libibverbs. The man pages describe their arguments and results.
        pub(crate) struct Library {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            /// Opens the library at `path`, or searches for it as the loader does if `path` is a bare name.
            /// The library is never unloaded, because its drivers may leave threads and exit handlers behind.
            ///
            /// # Safety
            /// The library has the functions of rdma-core 44 or later.
            pub(crate) unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
                let flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
                // SAFETY: The caller guarantees that the library is valid. The types match verbs.h. The
                // library stays loaded, so the function pointers stay valid.
                unsafe {
                    let library = unix::Library::open(Some(path), flags)?;
                    Ok(Library { $($name: *library.get(stringify!($name))?,)* })
                }
            }
        }
    };
}

library! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list: fn(*mut *mut ibv_device);
    ibv_get_device_name: fn(*mut ibv_device) -> *const c_char;
    ibv_open_device: fn(*mut ibv_device) -> *mut ibv_context;
    ibv_close_device: fn(*mut ibv_context) -> c_int;
    ibv_query_device: fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    ibv_query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    _ibv_query_gid_table: fn(*mut ibv_context, *mut ibv_gid_entry, usize, u32, usize) -> isize;
    ibv_alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd: fn(*mut ibv_pd) -> c_int;
    ibv_reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    ibv_dereg_mr: fn(*mut ibv_mr) -> c_int;
    ibv_create_cq: fn(*mut ibv_context, c_int, *mut c_void, *mut c_void, c_int) -> *mut ibv_cq;
    ibv_destroy_cq: fn(*mut ibv_cq) -> c_int;
    ibv_create_srq: fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
    ibv_destroy_srq: fn(*mut ibv_srq) -> c_int;
    ibv_create_ah: fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
    ibv_destroy_ah: fn(*mut ibv_ah) -> c_int;
    ibv_create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_destroy_qp: fn(*mut ibv_qp) -> c_int;
    ibv_modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    ibv_query_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
}
