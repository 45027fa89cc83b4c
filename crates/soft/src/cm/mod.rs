//! rdma_cm: does the work of the kernel behind `/dev/infiniband/rdma_cm`, for an unmodified librdmacm.
//!
//! A program writes commands to the descriptor of a channel, and waits for events on this descriptor. Ids
//! find each other by IP addresses and ports within the fabric. A listener has a socket in the fabric's
//! folder, and each rdma_cm connection is a connection to this socket.

mod address;
mod attributes;
pub(crate) mod causes;
mod channel;
mod claims;
mod commands;
mod connection;
mod engine;
mod id;
mod message;
mod multicast;
mod state;
mod user;

use crate::descriptors::Descriptors;
use crate::errno::{EINVAL, Errno};
use crate::queues::{calls, waits};
use channel::Channel;
use commands::Command;
use doorbell_abi::cm::{command, rdma_ucm_cmd_hdr};
use doorbell_transport::Refused;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use state::STATE;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use zerocopy::FromBytes;

/// The descriptors of channels. The child of a fork(2) inherits its parent's descriptors, but commands on
/// them fail there.
static CHANNELS: Descriptors = Descriptors::new();

/// PID of the process to which `CHANNELS` belongs. Relaxed: `open` stores it before it returns the first
/// descriptor. The child of a fork(2) stores it while it has only one thread.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether a descriptor belongs to a channel. The result is `false` in the child of a vfork(2), which shares
/// this memory but has descriptors of its own.
#[inline(always)]
pub(crate) fn is_channel(fd: RawFd) -> bool {
    CHANNELS.has(fd) && is_own()
}

#[inline(never)]
fn is_own() -> bool {
    PROCESS.load(Relaxed) == std::process::id()
}

extern "C" fn in_child() {
    PROCESS.store(std::process::id(), Relaxed);
}

/// The descriptors of all channels with numbers from `fd` on.
pub(crate) fn channels_from(fd: RawFd) -> impl Iterator<Item = RawFd> {
    CHANNELS.from(fd).filter(|_| is_own())
}

/// Opens a new channel, like open(2) of the device file with these flags.
///
/// # Errors
/// As open(2).
pub(crate) fn open(flags: libc::c_int) -> Result<RawFd, Errno> {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // The process joins the fabric before `at_exit` is registered. Exit handlers run in reverse order, so
    // `at_exit` runs before the process leaves the fabric.
    waits::start(crate::fabric::process::Process::current()?);
    calls::use_cm();
    ONCE.call_once(|| {
        PROCESS.store(std::process::id(), Relaxed);
        // SAFETY: functions of this library, which is never unloaded.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
    let mut state = STATE.lock();
    engine::start(&mut state)?;
    state.folder()?;
    let (channel, fd) = Channel::new()?;
    set_flags(&fd, flags);
    if !CHANNELS.add(fd.as_raw_fd()) {
        return Err(Errno(libc::EMFILE));
    }
    state.add_channel(fd.as_raw_fd(), channel);
    Ok(fd.into_raw_fd())
}

/// Applies the flags of open(2) to a new descriptor.
fn set_flags(fd: &OwnedFd, flags: libc::c_int) {
    // Neither call fails for an open descriptor.
    if flags & libc::O_CLOEXEC == 0 {
        let _ = fcntl_setfd(fd, FdFlags::empty());
    }
    if flags & libc::O_NONBLOCK != 0 {
        let _ = fcntl_setfl(fd, OFlags::NONBLOCK);
    }
}

/// Registers `to`, a copy of a channel's descriptor. `false` if the number of `to` is too high; the caller
/// then closes the copy.
pub(crate) fn copied(from: RawFd, to: RawFd) -> bool {
    let is_room = CHANNELS.add(to);
    if is_room {
        STATE.lock().copy(from, to);
    }
    is_room
}

/// Forgets a channel's descriptor, which the caller is about to close.
pub(crate) fn closing(fd: RawFd) {
    CHANNELS.remove(fd);
    STATE.lock().close(fd);
}

/// A command whose errors are explained.
#[derive(Clone, Copy)]
pub(crate) struct CmCall {
    /// Number of the command.
    pub(crate) number: u32,
    /// The function of librdmacm that writes the command.
    pub(crate) name: &'static str,
}

/// The result of a command.
pub(crate) struct CmWritten {
    /// `None` if the errors of the command are not explained.
    pub(crate) call: Option<CmCall>,
    /// `false` if the command requests an event and the channel has none. The errors are those that the
    /// kernel would return.
    pub(crate) result: Result<bool, Refused>,
}

/// Carries out a command that a program passes to write(2).
///
/// # Safety
/// The bytes and the pointers in them belong to the program. They need not be valid.
pub(crate) unsafe fn write(fd: RawFd, at: u64, len: usize) -> CmWritten {
    // SAFETY: as the caller says.
    match unsafe { header(at, len) } {
        Ok(header) => {
            // SAFETY: as the caller says.
            let result = unsafe { carry_out(fd, &header, at) };
            let call = commands::call(header.cmd).map(|name| CmCall { number: header.cmd, name });
            CmWritten { call, result }
        }
        Err(errno) => CmWritten { call: None, result: Err(errno.into()) },
    }
}

const HEADER: usize = size_of::<rdma_ucm_cmd_hdr>();

/// The header of a command.
///
/// # Safety
/// As for [`write()`].
unsafe fn header(at: u64, len: usize) -> Result<rdma_ucm_cmd_hdr, Errno> {
    // The number of the kernel's commands.
    const COMMANDS: u32 = 24;
    if len < HEADER {
        return Err(EINVAL);
    }
    // SAFETY: as the caller says.
    let bytes = unsafe { user::read(at, HEADER) }?;
    let header = rdma_ucm_cmd_hdr::read_from_bytes(&bytes).map_err(|_| EINVAL)?;
    if header.cmd >= COMMANDS || usize::from(header.r#in) > len - HEADER {
        return Err(EINVAL);
    }
    Ok(header)
}

/// # Safety
/// As for [`write()`].
unsafe fn carry_out(fd: RawFd, header: &rdma_ucm_cmd_hdr, at: u64) -> Result<bool, Refused> {
    // SAFETY: as the caller says.
    let body = unsafe { user::read(at + HEADER as u64, header.r#in.into()) }?;
    let mut state = STATE.lock();
    let command = Command { body: &body, room: header.out.into(), channel: state.channel_of(fd)? };
    // SAFETY: as the caller says.
    unsafe {
        match header.cmd {
            command::GET_EVENT => commands::get_event(&mut state, &command),
            other => commands::run(&mut state, other, &command).map(|()| true),
        }
    }
}

extern "C" fn at_exit() {
    STATE.lock().forget_names();
}
