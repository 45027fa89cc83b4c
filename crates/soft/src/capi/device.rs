//! Devices and contexts.

use super::object::{Context, Subjects};
use super::{minus_one, object_or_null, silent_object};
use crate::causes::{CONTEXT_NULL, DEVICE_FILES, DEVICE_JOIN, DEVICE_NULL};
use crate::counts;
use crate::device;
use crate::errno::Errno;
use crate::fabric::pipe::EventPipe;
use crate::fabric::process::Process;
use crate::queues::waits;
use crate::watch::{faults, port};
use doorbell_abi::{ibv_context, ibv_device, verbs_context};
use doorbell_transport::Refused;
use libc::{c_char, c_int};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};

/// The device, which exists as long as the process. Driver libraries read their own data behind `ibv_device`,
/// and first check which driver the device has (`mlx5dv_is_supported`, `efadv_query_device`). The zeros
/// behind `ibv_device` mean that the device has no driver.
#[repr(C)]
struct Device(ibv_device, [u64; 32]);

// SAFETY: the device is never changed after its creation.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

fn the_device() -> *mut ibv_device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    let device = DEVICE.get_or_init(|| {
        // SAFETY: integers and pointers, which may be zero.
        let mut device: ibv_device = unsafe { std::mem::zeroed() };
        device.node_type = device::NODE_CA;
        device.transport_type = device::TRANSPORT_IB;
        copy_text(&mut device.name, device::NAME);
        copy_text(&mut device.dev_name, device::DEVICE_FILE);
        copy_text(&mut device.dev_path, "/sys/class/infiniband_verbs/uverbs0");
        copy_text(&mut device.ibdev_path, "/sys/class/infiniband/doorbell0");
        Device(device, [0; 32])
    });
    (&raw const device.0).cast_mut()
}

/// Copies a text, cut to leave a terminating zero. `to` is zeroed before.
fn copy_text(to: &mut [c_char], text: &str) {
    let room = to.len() - 1;
    for (to, from) in to[..room].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}

pub unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    // calloc(3) belongs to the free(3) of ibv_free_device_list.
    // SAFETY: room for two pointers, or null.
    let list = unsafe { libc::calloc(2, size_of::<*mut ibv_device>()) }.cast::<*mut ibv_device>();
    if list.is_null() {
        return list;
    }
    // SAFETY: the list has an entry for the device; the count may be null.
    unsafe {
        *list = the_device();
        if let Some(count) = num_devices.as_mut() {
            *count = 1;
        }
    }
    list
}

pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: from ibv_get_device_list.
    unsafe { libc::free(list.cast()) }
}

pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: the device outlives every use.
    unsafe { (&raw const (*device).name).cast() }
}

pub unsafe extern "C" fn ibv_get_device_guid(_device: *mut ibv_device) -> u64 {
    device::guid()
}

pub unsafe extern "C" fn ibv_get_device_index(_device: *mut ibv_device) -> c_int {
    0
}

pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let opened = match open(device) {
        // Another line has the reason.
        Err(error) if *error.cause() == DEVICE_JOIN => silent_object(Err(error)),
        other => object_or_null("ibv_open_device", other),
    };
    if opened.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the object was just created.
    unsafe { &raw mut (*opened).verbs.context }
}

/// The error for a context whose files cannot be opened.
fn no_files(error: std::io::Error) -> Refused {
    DEVICE_FILES.of([&error]).with_errno(Errno::from(error).0)
}

fn open(device: *mut ibv_device) -> Result<Box<Context>, Refused> {
    if device.is_null() {
        return Err(DEVICE_NULL.bare());
    }
    let process = Process::current().map_err(|errno| DEVICE_JOIN.bare().with_errno(errno.0))?;
    waits::start(process);
    counts::tell_at_exit();
    faults::tell_at_exit();
    let async_pipe = Arc::new(EventPipe::new().map_err(no_files)?);
    port::opened(async_pipe.in_record());
    let device_file = std::fs::File::open("/dev/null").map_err(no_files)?;
    // SAFETY: integers, pointers and optional functions, which may be zero.
    let mut verbs: verbs_context = unsafe { std::mem::zeroed() };
    verbs.sz = size_of::<verbs_context>();
    verbs.query_port = Some(super::query::query_port_op);
    verbs.advise_mr = Some(super::mr::advise_mr);
    verbs.reg_dm_mr = Some(super::dm::reg_dm_mr);
    verbs.alloc_dm = Some(super::dm::alloc_dm);
    verbs.free_dm = Some(super::dm::free_dm);
    verbs.alloc_td = Some(super::domain::alloc_td);
    verbs.dealloc_td = Some(super::domain::dealloc_td);
    verbs.alloc_parent_domain = Some(super::domain::alloc_parent_domain);
    verbs.modify_cq = Some(super::cq::modify_cq);
    verbs.query_rt_values = Some(super::cq_ex::query_rt_values);
    verbs.create_cq_ex = Some(super::cq_ex::create_cq_ex);
    verbs.query_device_ex = Some(super::query::query_device_ex);
    verbs.create_qp_ex = Some(super::qp::create_qp_ex);
    verbs.get_srq_num = Some(super::srq::get_srq_num);
    verbs.create_srq_ex = Some(super::srq::create_srq_ex);
    verbs.open_xrcd = Some(super::xrc::open_xrcd);
    verbs.close_xrcd = Some(super::xrc::close_xrcd);
    verbs.open_qp = Some(super::xrc::open_qp);
    let context = &mut verbs.context;
    context.device = device;
    // The device has no command channel, but programs duplicate the channel's descriptor.
    context.cmd_fd = device_file.as_raw_fd();
    context.async_fd = async_pipe.read_fd();
    context.num_comp_vectors = device::COMP_VECTORS;
    context.abi_compat = usize::MAX as *mut _;
    context.mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    let ops = &mut context.ops;
    ops.alloc_mw = Some(super::mw::alloc_mw);
    ops.bind_mw = Some(super::mw::bind_mw);
    ops.dealloc_mw = Some(super::mw::dealloc_mw);
    ops.poll_cq = Some(super::cq::poll_cq);
    ops.req_notify_cq = Some(super::cq::req_notify_cq);
    ops.post_srq_recv = Some(super::srq::post_srq_recv);
    ops.post_send = Some(super::qp::post_send);
    ops.post_recv = Some(super::qp::post_recv);
    Ok(Box::new(Context {
        verbs,
        _device_file: device_file,
        process,
        async_pipe,
        subjects: Subjects::default(),
    }))
}

pub unsafe extern "C" fn ibv_close_device(pointer: *mut ibv_context) -> c_int {
    if pointer.is_null() {
        return minus_one("ibv_close_device", Err(CONTEXT_NULL.bare()));
    }
    // SAFETY: the context was created by `ibv_open_device`, and is closed only once.
    drop(unsafe { Box::from_raw(pointer.byte_sub(offset_of!(verbs_context, context)).cast::<Context>()) });
    0
}
