//! Another process that uses the device.
//!
//! This process gets a file of a peer by pidfd_getfd(2), which copies the peer's descriptor. The second
//! choice is to open the path /proc/PID/fd/N, for two reasons. The kernel removes an exited process from
//! /proc during the wait4(2) of the parent, and accesses to the process's files there prolong this call. A
//! path may also lead to a process that reuses the PID.
//!
//! For both, the kernel checks rights of ptrace(2): `PTRACE_MODE_ATTACH` for the copy, as for
//! process_vm_writev(2), and `PTRACE_MODE_READ` for the path. Security modules such as Yama may deny the
//! former alone. So the path is used if the kernel refuses the copy.

use super::link::{Link, Met};
use super::mapping::Views;
use super::member::FabricMember;
use super::registry::Registry;
use super::spare_copies::SpareCopies;
use crate::memory::records::EventRecord;
use crate::memory::segment::Segment;
use crate::sync::lock;
use doorbell_launch::process_start::other_thread;
use doorbell_launch::trust::user;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Resource, getrlimit, pidfd_getfd, pidfd_open};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
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
    /// pidfd that reports the peer's exit at once. `None` if a process cannot open pidfds here, or if pidfds
    /// would take too many file descriptors.
    process: Mutex<Option<OwnedFd>>,
    /// Whether the kernel has refused to copy a descriptor of the peer. It is then not asked again, because
    /// Yama logs each refusal. A flag that orders nothing.
    pub(crate) refuses_copies: AtomicBool,
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
        let file = open_segment(process.as_ref(), &member)?;
        let segment = segment_of(&file)?;
        // If `member` still runs now, the pidfd and the file that were opened by its PID belong to `member`
        // and not to a process that reuses the PID.
        if registry.has_ended(slot, &member) || !member.is_alive()? {
            return Err(Errno::SRCH.into());
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
        let (views, process) = (Views::of(slot, member, registry), Mutex::new(process));
        let (spare_copies, refuses_copies) = (SpareCopies::default(), AtomicBool::new(false));
        let dead = AtomicBool::new(false);
        Peer { slot, member, segment, views, link, spare_copies, process, refuses_copies, registry, dead }
    }

    /// Creates a peer from the answer of the process in this slot. The segment must belong to this user.
    pub(crate) fn met(
        slot: u32,
        member: FabricMember,
        met: Met,
        registry: &'static Registry,
    ) -> io::Result<Peer> {
        let segment = segment_of(&met.segment)?;
        let process = met.process.filter(leaves_room);
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
        self.open_pipe(fd)?.write_all(&event.to_bytes())
    }

    /// Opens a pipe of the peer for writing, without blocking.
    ///
    /// # Errors
    /// `ESRCH` if the peer has exited. `EINVAL` if the file is no pipe of this user.
    fn open_pipe(&self, fd: u32) -> io::Result<File> {
        if let Some(copy) = self.copy(fd)?.map(File::from) {
            check_pipe(&copy.metadata()?)?;
            // The copy shares the peer's flags, so a write to it might block. Therefore the file is opened
            // again, by the path of this process's own descriptor. That fails if the copy has taken the last
            // free descriptor.
            if let Ok(pipe) = open_to_write(&format!("/proc/thread-self/fd/{}", copy.as_raw_fd())) {
                return Ok(pipe);
            }
        }
        if self.is_dead() || self.has_ended() {
            return Err(Errno::SRCH.into());
        }
        let path = path_of(&self.member, fd);
        // To open another file, such as a device, might have an effect.
        check_pipe(&std::fs::metadata(&path)?)?;
        open_to_write(&path)
    }

    /// A copy of the peer's descriptor `fd`. `None` if only a path may lead to the file.
    ///
    /// # Errors
    /// As [`copy_of`].
    pub(crate) fn copy(&self, fd: u32) -> io::Result<Option<OwnedFd>> {
        if self.refuses_copies.load(Relaxed) {
            return Ok(None);
        }
        let process = self.process();
        let Some(process) = process.as_ref() else { return Ok(None) };
        let copy = copy_of(process, self.member.pid, fd)?;
        let is_refused = copy.as_ref().is_err_and(|error| *error != Errno::BADF);
        self.refuses_copies.store(is_refused, Relaxed);
        Ok(copy.ok())
    }
}

/// The path to the file behind a descriptor of a process.
fn path_of(member: &FabricMember, fd: u32) -> String {
    format!("/proc/{}/fd/{fd}", other_thread(member.pid).unwrap_or(member.pid))
}

/// Copies descriptor `fd` of process `pid` (pidfd_getfd(2)). `process` is its pidfd. The inner result is an
/// error if only a path may lead to the file: the kernel is older than Linux 5.6, refuses the copy, or finds
/// no such descriptor (`EBADF`), or the main thread has ended (`ESRCH`).
///
/// # Errors
/// `ESRCH` if the process has exited. `EMFILE`, `ENFILE` or `ENOMEM` if this process cannot open a file now.
fn copy_of(process: &OwnedFd, pid: u32, fd: u32) -> rustix::io::Result<Result<OwnedFd, Errno>> {
    // A peer may state any number.
    let Ok(fd) = RawFd::try_from(fd) else { return Ok(Err(Errno::BADF)) };
    match pidfd_getfd(process, fd, PidfdGetfdFlags::empty()) {
        Err(Errno::SRCH) if other_thread(pid).is_some() => Ok(Err(Errno::SRCH)),
        Err(error @ (Errno::SRCH | Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error),
        copy => Ok(copy),
    }
}

/// Opens the file of a process's segment. `process` is the process's pidfd, if there is one.
fn open_segment(process: Option<&OwnedFd>, member: &FabricMember) -> io::Result<File> {
    let copy = process.map(|process| copy_of(process, member.pid, member.fd)).transpose()?;
    match copy.and_then(Result::ok) {
        Some(copy) => Ok(copy.into()),
        None => OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(path_of(member, member.fd)),
    }
}

/// Opens the pipe at a path for writing, without blocking. Fails with `EINVAL` if the file is no pipe of this
/// user.
fn open_to_write(path: &str) -> io::Result<File> {
    let pipe = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    // Another file may have got the descriptor's number since the caller checked the file.
    check_pipe(&pipe.metadata()?)?;
    Ok(pipe)
}

/// Checks that a file is a pipe of this user; `EINVAL` if not.
fn check_pipe(about: &Metadata) -> io::Result<()> {
    let is_pipe = about.file_type().is_fifo() && about.uid() == user();
    if is_pipe { Ok(()) } else { Err(Errno::INVAL.into()) }
}

/// Opens the segment in a file. The file must belong to this user.
fn segment_of(file: &File) -> io::Result<Segment> {
    match file.metadata()?.uid() == user() {
        true => Segment::open(file),
        false => Err(Errno::PERM.into()),
    }
}

/// Opens a pidfd; `None` if that is impossible, or if too few file descriptors would be left for the program.
///
/// Only `ESRCH` is about the process. `ENOSYS` comes from a kernel without pidfds, and from valgrind(1), which
/// does not know them. A seccomp(2) filter of a sandbox may answer any other number, for example `EPERM`.
///
/// # Errors
/// `ESRCH` if the process has exited.
fn open_process(pid: u32) -> io::Result<Option<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => Ok(leaves_room(&process).then_some(process)),
        Err(Errno::SRCH) => Err(Errno::SRCH.into()),
        Err(error) if doorbell_launch::say::broken("n-pidfd") => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Whether the number of this file descriptor is below half of `RLIMIT_NOFILE`, so that the other half is
/// left to the program.
fn leaves_room(file: &OwnedFd) -> bool {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // The kernel gives the lowest free number, so this number shows how many are in use.
    (file.as_raw_fd() as u64) < most / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena;
    use std::process::{Command, Stdio};

    #[test]
    fn a_segment_is_opened_by_a_pidfd_or_by_a_path() {
        let own = arena::own().expect("a segment");
        let member = FabricMember::of(std::process::id(), own.file.as_raw_fd() as u32);
        let member = member.expect("it can be read").expect("this process runs");
        let process = open_process(member.pid).expect("this process runs").expect("a pidfd");
        assert!(copy_of(&process, member.pid, member.fd).expect("this process runs").is_ok(), "by its pidfd");
        let id = |file: &File| file.metadata().map(|about| (about.dev(), about.ino())).expect("its numbers");
        for process in [Some(&process), None] {
            let opened = open_segment(process, &member).expect("it is open");
            assert_eq!(id(&opened), id(&own.file), "{process:?}");
            Segment::open(&opened).expect("a segment");
        }
        // Only the path tells that the process has no such descriptor.
        let none = FabricMember { fd: u32::MAX, ..member };
        let error = open_segment(Some(&process), &none).expect_err("no descriptor");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn no_file_of_an_exited_process_is_opened_by_its_pidfd() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat is installed");
        let member = FabricMember::of(child.id(), 0).expect("it can be read").expect("it waits for input");
        let process = open_process(member.pid).expect("it runs").expect("a pidfd");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let error = open_segment(Some(&process), &member).expect_err("the process has exited");
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH), "a path was opened");
    }
}
