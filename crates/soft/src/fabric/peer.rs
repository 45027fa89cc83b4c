//! Another process that uses the device.

use super::link::{Link, Met};
use super::mapping::Views;
use super::member::FabricMember;
use super::registry::Registry;
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
use std::sync::{Mutex, MutexGuard};

/// A process, and its segment.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its number among the processes that use the device.
    pub(crate) slot: u32,
    pub(crate) member: FabricMember,
    pub(crate) segment: Segment,
    pub(crate) views: Views,
    /// By which its own thread does what this process cannot do to its memory itself. None of those whose memory the
    /// kernel lets this process at.
    pub(crate) link: Option<Link>,
    /// By which it is known at once that the process has ended. None of those for which that would take too many files.
    process: Mutex<Option<OwnedFd>>,
    registry: &'static Registry,
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
    pub(crate) fn open(slot: u32, member: FabricMember, registry: &'static Registry) -> io::Result<Peer> {
        let process = open_process(member.pid)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(format!("/proc/{}/fd/{}", member.pid, member.fd))?;
        let segment = segment_of(&file)?;
        // From here on the number is known to mean this process: it was still running after the
        // file descriptor for it had been opened.
        if !member.is_alive()? {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let (views, dead, process) = (Views::of(member), AtomicBool::new(false), Mutex::new(process));
        Ok(Peer { slot, member, segment, views, link: None, process, registry, dead })
    }

    /// A process that has answered, in this slot.
    pub(crate) fn met(
        slot: u32,
        member: FabricMember,
        met: Met,
        registry: &'static Registry,
    ) -> io::Result<Peer> {
        let segment = segment_of(&met.segment)?;
        let process = Mutex::new(leaves_room(&met.process).then_some(met.process));
        let (views, dead) = (Views::of(member), AtomicBool::new(false));
        Ok(Peer { slot, member, segment, views, link: Some(met.link), process, registry, dead })
    }

    /// A file descriptor that becomes readable when the process ends, if it has one.
    pub(crate) fn process(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        lock(&self.process)
    }

    /// Whether the process is found to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.registry.has_ended(self.slot, &self.member)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    pub(crate) fn set_dead(&self) {
        self.dead.store(true, Relaxed);
        self.views.forget();
        // A QP that is not used any more may have the peer for long.
        *lock(&self.process) = None;
        self.link.iter().for_each(Link::close);
    }

    /// Writes an event to a pipe of the process. `fd` is from its segment: what it names is looked at
    /// before it is opened.
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
        // The number may have come to name something else meanwhile.
        if !is_pipe(&pipe.metadata()?) {
            return Err(refused());
        }
        pipe.write_all(&event.to_bytes())
    }
}

/// The segment in a file, which must be of this user.
fn segment_of(file: &File) -> io::Result<Segment> {
    match file.metadata()?.uid() == user() {
        true => Segment::open(file),
        false => Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
}

/// Opens a process; `None` where that would leave too few files for the program.
fn open_process(pid: u32) -> io::Result<Option<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => Ok(leaves_room(&process).then_some(process)),
        Err(Errno::MFILE | Errno::NFILE) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether as many files are left for the program as are open.
fn leaves_room(file: &OwnedFd) -> bool {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // The kernel gives the lowest number that is free.
    (file.as_raw_fd() as u64) < most / 2
}
