//! Queries of devices and ports.

use super::{silent_minus_one, silent_status, status};
use crate::causes::{ECE, GID_FLAGS, GID_INDEX, GID_TABLE, PKEY, PKEY_INDEX, PORT, SYSFS_FILE};
use crate::device::{self, GidType};
use doorbell_abi::{ibv_context, ibv_device_attr, ibv_device_attr_ex, ibv_gid, ibv_gid_entry, ibv_port_attr};
use doorbell_transport::Refused;
use libc::{c_char, c_int, c_void};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `IBV_PORT_DOWN`, and the physical state `Polling` of a port without a cable.
const PORT_DOWN: u32 = 1;
const POLLING: u8 = 2;

/// Bytes of `struct ibv_port_attr` that the exported symbol `ibv_query_port` writes. Programs get the later
/// fields through the inline function of verbs.h, which calls an operation of the context.
const OLD_PORT_ATTR: usize = 48;

pub unsafe extern "C" fn ibv_query_device(_context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: the caller's struct.
    unsafe { attr.write(device::attributes()) };
    0
}

pub(crate) unsafe extern "C" fn query_device_ex(
    _context: *mut ibv_context,
    _input: *const c_void,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    let own = device::attributes_ex();
    // SAFETY: the caller's struct has `size` bytes; ours has its own.
    unsafe { copy_prefix(&own, attr.cast(), size) };
    0
}

/// Copies as much of `from` as fits in `size` bytes, and clears the rest of these bytes.
///
/// # Safety
/// `to` has `size` bytes.
unsafe fn copy_prefix<T>(from: &T, to: *mut u8, size: usize) {
    let known = size.min(size_of::<T>());
    // SAFETY: vouched for by the caller.
    unsafe {
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(from).cast::<u8>(), to, known);
        to.add(known).write_bytes(0, size - known);
    }
}

pub unsafe extern "C" fn ibv_query_port(
    _context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: the caller's struct has at least the old length.
    unsafe { write_port(port, attr, OLD_PORT_ATTR) }
}

pub(crate) unsafe extern "C" fn query_port_op(
    _context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    // SAFETY: the caller's struct has `size` bytes.
    unsafe { write_port(port, attr, size) }
}

unsafe fn write_port(port: u8, attr: *mut ibv_port_attr, size: usize) -> c_int {
    if port != device::PORT {
        return silent_status(Err(PORT.of([&port])));
    }
    let mut own = device::port();
    if crate::watch::port::is_down() {
        (own.state, own.phys_state) = (PORT_DOWN, POLLING);
    }
    // SAFETY: vouched for by the caller.
    unsafe { copy_prefix(&own, attr.cast(), size) };
    0
}

/// An entry of the GID table.
fn gid(port: u32, index: i64) -> Result<ibv_gid_entry, Refused> {
    let found = usize::try_from(index).ok().and_then(|index| device::gids().get(index));
    match found {
        Some((gid, kind)) if port == u32::from(device::PORT) => Ok(ibv_gid_entry {
            gid: ibv_gid { raw: gid.0 },
            gid_index: index as u32,
            port_num: port,
            gid_type: *kind as u32,
            ndev_ifindex: device::interface(),
        }),
        _ => Err(GID_INDEX.of([&index, &port, &device::gids().len()])),
    }
}

pub unsafe extern "C" fn ibv_query_gid(
    _context: *mut ibv_context,
    port: u8,
    index: c_int,
    to: *mut ibv_gid,
) -> c_int {
    // SAFETY: the caller's struct.
    silent_minus_one(gid(port.into(), index.into()).map(|entry| unsafe { to.write_unaligned(entry.gid) }))
}

pub unsafe extern "C" fn _ibv_query_gid_ex(
    _context: *mut ibv_context,
    port: u32,
    index: u32,
    to: *mut ibv_gid_entry,
    flags: u32,
    size: usize,
) -> c_int {
    let entry = if flags == 0 { gid(port, index.into()) } else { Err(GID_FLAGS.of([&flags])) };
    // SAFETY: the caller's struct has `size` bytes.
    silent_status(entry.map(|entry| unsafe { copy_prefix(&entry, to.cast(), size) }))
}

pub unsafe extern "C" fn _ibv_query_gid_table(
    _context: *mut ibv_context,
    to: *mut ibv_gid_entry,
    room: usize,
    flags: u32,
    size: usize,
) -> isize {
    let count = device::gids().len();
    if flags != 0 {
        return -(silent_status(Err(GID_FLAGS.of([&flags]))) as isize);
    }
    if room < count {
        return -(silent_status(Err(GID_TABLE.of([&room, &count]))) as isize);
    }
    for index in 0..count {
        if let Ok(entry) = gid(device::PORT.into(), index as i64) {
            // SAFETY: the caller's array has `room` entries of `size` bytes.
            unsafe { copy_prefix(&entry, to.cast::<u8>().add(index * size), size) };
        }
    }
    count as isize
}

/// Writes the kind of a GID as `enum ibv_gid_type_sysfs`, which has only two values: 1 for RoCE v2, and 0 for
/// InfiniBand and RoCE v1.
pub unsafe extern "C" fn ibv_query_gid_type(
    _context: *mut ibv_context,
    port: u8,
    index: u32,
    to: *mut u32,
) -> c_int {
    silent_minus_one(gid(port.into(), index.into()).map(|entry| {
        let v2 = entry.gid_type == GidType::RoceV2 as u32;
        // SAFETY: the caller's variable.
        unsafe { to.write(u32::from(v2)) };
    }))
}

pub unsafe extern "C" fn ibv_query_pkey(
    _context: *mut ibv_context,
    port: u8,
    index: c_int,
    to: *mut u16,
) -> c_int {
    if port != device::PORT || index != 0 {
        return silent_minus_one(Err(PKEY_INDEX.of([&index, &port])));
    }
    // SAFETY: the caller's variable.
    unsafe { to.write(device::DEFAULT_PKEY.to_be()) };
    0
}

pub unsafe extern "C" fn ibv_get_pkey_index(_context: *mut ibv_context, port: u8, pkey: u16) -> c_int {
    if port == device::PORT && pkey == device::DEFAULT_PKEY.to_be() {
        return 0;
    }
    silent_minus_one(Err(PKEY.of([&u16::from_be(pkey), &port])))
}

pub unsafe extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// Reads a file of sysfs without its final newline, cut to `room` bytes. Returns the number of bytes.
pub unsafe extern "C" fn ibv_read_sysfs_file(
    directory: *const c_char,
    file: *const c_char,
    to: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: strings.
    let [directory, file] =
        [directory, file].map(|name| OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    let Ok(text) = std::fs::read(Path::new(directory).join(file)) else {
        return silent_minus_one(Err(SYSFS_FILE.bare()));
    };
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let text = &text[..text.len().min(room)];
    // SAFETY: the caller's buffer has `room` bytes.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        if text.len() < room {
            to.add(text.len()).write(0);
        }
    }
    text.len() as c_int
}

pub unsafe extern "C" fn ibv_query_ece(_qp: *mut c_void, _ece: *mut c_void) -> c_int {
    status("ibv_query_ece", Err(ECE.bare()))
}

pub unsafe extern "C" fn ibv_set_ece(_qp: *mut c_void, _ece: *mut c_void) -> c_int {
    status("ibv_set_ece", Err(ECE.bare()))
}

/// Returns 0 for every operation, with and without `IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS`. So the device
/// promises no order of writes, neither for whole messages nor for aligned blocks of 128 bytes.
///
/// The answer holds for all memory that messages of the QP may reach. The library writes shared memory in
/// order (`memory/copy.rs`). But the kernel writes private memory of peers (process_vm_writev(2)), and also
/// the local buffers of a READ from private memory. The kernel promises no order of the bytes of a piece.
/// Only the last word of a WRITE or SEND is always written after all other bytes.
pub unsafe extern "C" fn ibv_query_qp_data_in_order(_qp: *mut c_void, _op: c_int, _flags: u32) -> c_int {
    0
}

pub unsafe extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// Returns `IBV_FORK_UNNEEDED`: memory is not pinned, and remote writes always reach the memory of the
/// process that registered it.
pub unsafe extern "C" fn ibv_is_fork_initialized() -> c_int {
    2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any message may write private memory, and the kernel writes private memory in any order.
    #[test]
    fn no_order_of_data_is_promised() {
        // `IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS` is 1.
        for (op, flags) in (0..8).flat_map(|op| [(op, 0), (op, 1)]) {
            // SAFETY: the QP is not used.
            let promised = unsafe { ibv_query_qp_data_in_order(std::ptr::null_mut(), op, flags) };
            assert_eq!(promised, 0, "operation {op}, flags {flags}");
        }
    }
}
