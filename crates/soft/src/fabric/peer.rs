//! Another process that uses the device.

use super::mapping::Views;
use super::registry::Member;
use crate::memory::segment::Segment;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering::*};

/// A process, and its segment.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its number among the processes that use the device.
    pub(crate) slot: u32,
    pub(crate) member: Member,
    pub(crate) segment: Segment,
    pub(crate) views: Views,
    process: OwnedFd,
    dead: AtomicBool,
}

/// Whose memory something lies in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner<'a> {
    /// This process.
    This,
    /// Another.
    Peer(&'a Peer),
}

impl Peer {
    /// Opens the segment of `member`, in this slot, which must be of this user.
    pub(crate) fn open(slot: u32, member: Member) -> io::Result<Peer> {
        // SAFETY: takes numbers only; the result is a new file descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, member.pid, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        let process = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(format!("/proc/{}/fd/{}", member.pid, member.fd))?;
        // SAFETY: takes nothing, cannot fail.
        if file.metadata()?.uid() != unsafe { libc::geteuid() } {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let segment = Segment::open(&file)?;
        // From here on the number is known to mean this process: it was still running after the
        // file descriptor for it had been opened.
        if !member.is_alive()? {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(Peer { slot, member, segment, views: Views::of(member), process, dead: AtomicBool::new(false) })
    }

    /// A file descriptor that becomes readable when the process ends.
    pub(crate) fn process_fd(&self) -> RawFd {
        self.process.as_raw_fd()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    pub(crate) fn set_dead(&self) {
        self.dead.store(true, Relaxed);
        self.views.forget();
    }

    /// Writes to a pipe of the process. `fd` is from its segment: what it names is looked at
    /// before it is opened.
    pub(crate) fn write_to_pipe(&self, fd: u32, bytes: &[u8]) -> io::Result<()> {
        let path = format!("/proc/{}/fd/{fd}", self.member.pid);
        if !std::fs::metadata(&path)?.file_type().is_fifo() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut pipe: File =
            OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
        pipe.write_all(bytes)
    }
}
