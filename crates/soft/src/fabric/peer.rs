//! Another process that uses the device.

use super::link::{Link, Met};
use super::mapping::Views;
use super::member::FabricMember;
use super::registry::Registry;
use super::spare_copies::SpareCopies;
use crate::memory::records::EventRecord;
use crate::memory::segment::Segment;
use crate::sync::lock;
use doorbell_launch::trust::user;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, getrlimit, pidfd_open};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};

/// Another process that this process has opened, and its segment.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Number of the peer's slot in the registry.
    pub(crate) slot: u32,
    pub(crate) member: FabricMember,
    pub(crate) segment: Segment,
    pub(crate) views: Views,
    /// Link to the peer's service thread, which accesses the peer's memory for this process. `None` if the
    /// kernel lets this process access that memory itself.
    pub(crate) link: Option<Link>,
    /// Spare copy records in the peer's segment: this process holds them, and no copier uses them.
    pub(super) spare_copies: SpareCopies,
    /// pidfd that reports the peer's exit at once. `None` if the kernel has no pidfds, or if pidfds would
    /// take too many file descriptors.
    process: Mutex<Option<OwnedFd>>,
    registry: &'static Registry,
    /// Whether the process is known to have exited. A flag that orders nothing: a thread that loads an old
    /// value acts as before the exit.
    dead: AtomicBool,
}

/// The process that memory belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner<'a> {
    /// This process.
    This,
    /// Another process.
    Peer(&'a Arc<Peer>),
}

impl Peer {
    /// Opens the segment of `member` in this slot. The segment must belong to this user.
    pub(crate) fn open(slot: u32, member: FabricMember, registry: &'static Registry) -> io::Result<Peer> {
        let process = open_process(member.pid)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(format!("/proc/{}/fd/{}", member.pid, member.fd))?;
        let segment = segment_of(&file)?;
        // If `member` still runs now, the files that were opened by its PID belong to `member` and not to a
        // process that reuses the PID.
        if !member.is_alive()? {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(Peer::with(slot, member, (segment, None), process, registry))
    }

    fn with(
        slot: u32,
        member: FabricMember,
        (segment, link): (Segment, Option<Link>),
        process: Option<OwnedFd>,
        registry: &'static Registry,
    ) -> Peer {
        segment.slots.set(member.place as usize, slot);
        let (views, process) = (Views::of(member), Mutex::new(process));
        let (spare_copies, dead) = (SpareCopies::default(), AtomicBool::new(false));
        Peer { slot, member, segment, views, link, spare_copies, process, registry, dead }
    }

    /// Creates a peer from the answer of the process in this slot. The segment must belong to this user.
    pub(crate) fn met(
        slot: u32,
        member: FabricMember,
        met: Met,
        registry: &'static Registry,
    ) -> io::Result<Peer> {
        let segment = segment_of(&met.segment)?;
        let process = leaves_room(&met.process).then_some(met.process);
        Ok(Peer::with(slot, member, (segment, Some(met.link)), process, registry))
    }

    /// The peer's pidfd, which becomes readable when the peer exits; `None` if this process keeps no pidfd of
    /// the peer.
    pub(crate) fn process(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        lock(&self.process)
    }

    /// Whether the process is known to have exited.
    pub(crate) fn has_ended(&self) -> bool {
        self.registry.has_ended(self.slot, &self.member)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    pub(crate) fn set_dead(&self) {
        self.dead.store(true, Relaxed);
        self.views.forget();
        // The files are closed here, because an unused QP may keep this `Peer` for a long time.
        *lock(&self.process) = None;
        self.link.iter().for_each(Link::close);
    }

    /// Writes an event to a pipe of the peer. `fd` is a file descriptor of the peer. It comes from shared
    /// memory, so the file is checked before it is opened.
    pub(crate) fn write_to_pipe(&self, fd: u32, event: EventRecord) -> io::Result<()> {
        if let Some(link) = &self.link {
            return link.wake(fd, event);
        }
        let path = format!("/proc/{}/fd/{fd}", self.member.pid);
        let is_pipe = |about: &std::fs::Metadata| about.file_type().is_fifo() && about.uid() == user();
        let refused = || io::Error::from_raw_os_error(libc::EINVAL);
        if !is_pipe(&std::fs::metadata(&path)?) {
            return Err(refused());
        }
        let mut pipe: File =
            OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
        // The peer may have opened another file under this number after the check.
        if !is_pipe(&pipe.metadata()?) {
            return Err(refused());
        }
        pipe.write_all(&event.to_bytes())
    }
}

/// Opens the segment in a file. The file must belong to this user.
fn segment_of(file: &File) -> io::Result<Segment> {
    match file.metadata()?.uid() == user() {
        true => Segment::open(file),
        false => Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
}

/// Opens a pidfd; `None` if the kernel has no pidfds, or if too few file descriptors would be left for the
/// program.
fn open_process(pid: u32) -> io::Result<Option<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => Ok(leaves_room(&process).then_some(process)),
        // `ENOSYS` comes from a kernel without pidfds, and from valgrind(1), which does not know them.
        Err(Errno::MFILE | Errno::NFILE | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the number of this file descriptor is below half of `RLIMIT_NOFILE`, so that the other half is
/// left to the program.
fn leaves_room(file: &OwnedFd) -> bool {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // The kernel gives the lowest free number, so this number shows how many are in use.
    (file.as_raw_fd() as u64) < most / 2
}
