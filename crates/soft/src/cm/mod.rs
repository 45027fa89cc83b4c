//! rdma_cm: what the kernel does behind `/dev/infiniband/rdma_cm` for an unmodified librdmacm.
//!
//! A program writes commands to the descriptor of a channel and waits for events there. Ids find each other by addresses and
//! ports within the fabric: who listens has a socket in the fabric's folder, and a connection is one to that.

mod address;
mod attributes;
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
use channel::Channel;
use commands::Command;
use doorbell_abi::cm::{command, rdma_ucm_cmd_hdr};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use state::STATE;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use zerocopy::FromBytes;

/// The descriptors of channels. Those of a parent stay so in the child of a fork(2), where they serve nothing.
static CHANNELS: Descriptors = Descriptors::new();

/// The process that `CHANNELS` are of.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether a descriptor is a channel's. It is none in the child of a vfork(2), which shares this memory and has descriptors of its
/// own.
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

/// All descriptors of channels, from one on.
pub(crate) fn channels_from(fd: RawFd) -> impl Iterator<Item = RawFd> {
    CHANNELS.from(fd).filter(|_| is_own())
}

/// A new channel, as open(2) of the device file with these flags.
///
/// # Errors
/// As open(2).
pub(crate) fn open(flags: libc::c_int) -> Result<RawFd, Errno> {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // This process becomes one of the fabric's first: what was registered last is done first when it ends.
    crate::fabric::process::Process::current()?;
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

/// Has a descriptor the flags that it was opened with.
fn set_flags(fd: &OwnedFd, flags: libc::c_int) {
    // Neither fails of a descriptor that is open.
    if flags & libc::O_CLOEXEC == 0 {
        let _ = fcntl_setfd(fd, FdFlags::empty());
    }
    if flags & libc::O_NONBLOCK != 0 {
        let _ = fcntl_setfl(fd, OFlags::NONBLOCK);
    }
}

/// Another descriptor is a copy of a channel's; `false` where there is no room for it, and it is to be closed.
pub(crate) fn copied(from: RawFd, to: RawFd) -> bool {
    let is_room = CHANNELS.add(to);
    if is_room {
        STATE.lock().copy(from, to);
    }
    is_room
}

/// A descriptor of a channel is about to be closed.
pub(crate) fn closing(fd: RawFd) {
    CHANNELS.remove(fd);
    STATE.lock().close(fd);
}

/// write(2) of a command. `false` where it asks for an event and there is none.
///
/// # Errors
/// As the kernel's.
///
/// # Safety
/// The bytes are the program's, as are the pointers in them. None of them need be there.
pub(crate) unsafe fn write(fd: RawFd, at: u64, len: usize) -> Result<bool, Errno> {
    const HEADER: usize = size_of::<rdma_ucm_cmd_hdr>();
    if len < HEADER {
        return Err(EINVAL);
    }
    // SAFETY: as the caller says.
    let header =
        rdma_ucm_cmd_hdr::read_from_bytes(&unsafe { user::read(at, HEADER) }?).map_err(|_| EINVAL)?;
    // One past the last that the kernel has.
    const COMMANDS: u32 = 24;
    if header.cmd >= COMMANDS {
        return Err(EINVAL);
    }
    let size = usize::from(header.r#in);
    if size > len - HEADER {
        return Err(EINVAL);
    }
    // SAFETY: as the caller says.
    let body = unsafe { user::read(at + HEADER as u64, size) }?;
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
