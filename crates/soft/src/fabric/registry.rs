//! Where the processes of one user find each other.
//!
//! One file in a directory that only this user may enter. It holds a slot for each process; the
//! slot's number is part of the process's QP numbers. A process has its slot's bytes locked as long
//! as it lives, and nobody waits for a lock, as who has it may be stopped. The file is never mapped,
//! so that nothing done to it can crash a reader.

use super::locks;
use crate::descriptors::Private;
use crate::identity::{Identity, Place};
use crate::memory::segment::layout;
use crate::point::{Point, reach};
use doorbell_launch::process_start::ProcessStart;
use doorbell_launch::qp_numbers::PROCESSES;
use doorbell_launch::sealed::check_file_size;
use doorbell_launch::trust::check_private;
use doorbell_launch::trust::user;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bytes of a slot in the file: process, segment's file descriptor, start time, and a sum of these, by which half a
/// slot is told from a whole one.
const SLOT_BYTES: u64 = 24;
/// Where a byte for each slot is, behind them: whether its process may have QPs in multicast groups. Who sends to those looks
/// at such processes alone.
const IN_GROUPS_AT: u64 = PROCESSES as u64 * SLOT_BYTES;

/// A process that uses the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Process number; 0 where the slot is free.
    pub(crate) pid: u32,
    /// Its file descriptor of its segment.
    pub(crate) fd: u32,
    /// When it started, in clock ticks since boot; of a member without a process number a random one.
    pub(crate) start_time: u64,
}

/// Process number of a member that is found by its slot and a random number alone: no process has it.
const NO_PID: u32 = u32::MAX;

impl Member {
    /// A member of a fabric whose processes do not know each other's numbers.
    fn joined() -> io::Result<Member> {
        let mut random = [0; 8];
        // SAFETY: room for as many bytes.
        match unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) } {
            8 => Ok(Member { pid: NO_PID, fd: 0, start_time: u64::from_ne_bytes(random) }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether its process is known by its number.
    pub(crate) fn has_pid(&self) -> bool {
        self.pid != NO_PID
    }

    /// The number of its process; 0 where that means nothing here.
    pub(crate) fn number(&self) -> u32 {
        if self.has_pid() { self.pid } else { 0 }
    }

    /// The member that process `pid` is, if it lives.
    pub(crate) fn of(pid: u32, fd: u32) -> io::Result<Option<Member>> {
        let found = ProcessStart::of(pid)?;
        Ok(found.map(|ProcessStart { pid, start_time }| Member { pid, fd, start_time }))
    }

    /// Whether it is this very process that still runs.
    ///
    /// # Errors
    /// If that cannot be found out: it must not be taken for dead then.
    pub(crate) fn is_alive(&self) -> io::Result<bool> {
        ProcessStart { pid: self.pid, start_time: self.start_time }.is_alive()
    }

    fn to_bytes(self) -> [u8; SLOT_BYTES as usize] {
        let mut bytes = [0; SLOT_BYTES as usize];
        bytes[..4].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.fd.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.start_time.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.sum().to_ne_bytes());
        bytes
    }

    /// The member that a slot tells, if it tells one.
    fn from_bytes(bytes: [u8; SLOT_BYTES as usize]) -> Option<Member> {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let member = Member { pid: word(0), fd: word(4), start_time: long(8) };
        (member.pid != 0 && member.sum() == long(16)).then_some(member)
    }

    fn sum(&self) -> u64 {
        let ids = u64::from(self.pid) | u64::from(self.fd) << 32;
        // Fibonacci hashing, of each word by itself.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        (ids.wrapping_mul(FACTOR) ^ self.start_time).wrapping_mul(FACTOR)
    }
}

const FREE: Member = Member { pid: 0, fd: 0, start_time: 0 };

/// The opened registry of this process's fabric.
#[derive(Debug)]
pub(crate) struct Registry {
    file: Private<File>,
    /// Locked (flock(2), shared) by every process of the fabric as long as it lives, however it ends: who may lock it alone
    /// knows that none does, whatever namespace of process numbers they were in.
    alive: Private<File>,
    directory: PathBuf,
    /// The directory itself, by which sockets in it are named.
    folder: Private<File>,
    is_joined: bool,
    /// Number of the process in the file's first slot.
    first: u32,
}

/// Files of a fabric's directory.
const REGISTRY: &str = "members";
const ALIVE: &str = "alive";
/// What the names of rdma_cm's begin with.
pub(crate) const CM_PREFIX: &str = "cm-";
/// What the names of folders begin with of what is shown of the device.
pub(crate) const SHOWN_PREFIX: &str = "shown-";
/// Such a folder that is being removed, so that nobody finds half of one.
const SHOWN_GONE: &str = "shown-gone";

/// How long a process that removes a fabric is waited for by one that begins it.
const PATIENCE: Duration = Duration::from_millis(500);

/// The directory of this process's fabric.
fn directory(place: &Place) -> io::Result<PathBuf> {
    if place.is_joined {
        let folder = place.folder.canonicalize()?;
        check_private(&folder).map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, why))?;
    }
    let path = place.path();
    let found = loop {
        match DirBuilder::new().mode(0o700).create(&path) {
            // Who begins a fabric clears away what has ended.
            Ok(()) => {
                reach(Point::FolderMade);
                sweep(place, &path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match std::fs::symlink_metadata(&path) {
            // It was still empty when another that begins a fabric cleared away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => break found?,
        }
    };
    if !found.is_dir() || found.uid() != user() || found.mode() & 0o077 != 0 {
        let why = format!("{} is not a directory of this user alone (mode 0700)", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(path)
}

/// Removes what processes of other fabrics have left that were killed, all of them.
fn sweep(place: &Place, own: &Path) {
    let entries = std::fs::read_dir(&place.folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if name.starts_with(&place.prefix) && path != own {
            // What cannot be looked at or removed is no worse than before.
            let _ = remove_dead(&path);
        }
    }
}

/// Removes the directory of a fabric, unless a process of the fabric lives.
fn remove_dead(directory: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(directory)?;
    if !found.is_dir() || found.uid() != user() {
        return Ok(());
    }
    match open(&directory.join(ALIVE), OpenOptions::new().read(true)) {
        Ok(alive) => remove_if_unused(directory, &alive),
        // Somebody begins it, or ended before the file was made, or made another one when the last had left.
        Err(error) if error.kind() == io::ErrorKind::NotFound => match std::fs::remove_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => match keep(directory)? {
                Some(alive) => remove_if_unused(directory, &alive),
                None => Ok(()),
            },
            removed => removed,
        },
        Err(error) => Err(error),
    }
}

/// Removes the directory of a fabric, unless a process of the fabric lives.
fn remove_if_unused(directory: &Path, alive: &File) -> io::Result<()> {
    if !try_lock(alive, libc::LOCK_EX)? || alive.metadata()?.nlink() == 0 {
        return Ok(());
    }
    reach(Point::AliveAlone);
    remove_shown(directory)?;
    for file in made_by_processes(directory)? {
        let _ = std::fs::remove_file(file);
    }
    for file in [REGISTRY, ALIVE] {
        match std::fs::remove_file(directory.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => reach(if file == REGISTRY { Point::FileRemoved } else { Point::FilesRemoved }),
        }
    }
    std::fs::remove_dir(directory)
}

/// Removes the folders of what is shown of the device.
fn remove_shown(directory: &Path) -> io::Result<()> {
    let is_shown = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.starts_with(SHOWN_PREFIX)) && path.is_dir()
    };
    let gone = directory.join(SHOWN_GONE);
    for path in std::fs::read_dir(directory)?.flatten().map(|entry| entry.path()).filter(is_shown) {
        // One that was left there is in the way, else this is no error that matters.
        let _ = std::fs::remove_dir_all(&gone);
        let _ = std::fs::rename(path, &gone);
        let _ = std::fs::remove_dir_all(&gone);
    }
    Ok(())
}

/// A process that has no slot, and its file descriptor by which it keeps the fabric's directory: both halves of a number, 0 for
/// none. A child of fork(2) is another process.
static HELD: AtomicU64 = AtomicU64::new(0);

/// Descriptors of it begin here, so that a shell's own are as without.
const LEAST_FD: i32 = 100;

/// Whether this process keeps the fabric's directory, as [`hold`] has it.
pub(crate) fn is_held() -> bool {
    HELD.load(Relaxed) >> 32 == u64::from(std::process::id())
}

/// Keeps the directory of this process's fabric as long as this process lives, made where it is missing, and puts something
/// there.
pub(crate) fn hold(put: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let alive = entered(|directory, _| {
        let Some(alive) = keep(&directory)? else { return Ok(None) };
        put(&directory)?;
        Ok(Some(alive))
    })?;
    // SAFETY: a file of our own.
    let fd = unsafe { libc::fcntl(alive.as_raw_fd(), libc::F_DUPFD_CLOEXEC, LEAST_FD) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let before = HELD.load(Relaxed);
    let held = u64::from(std::process::id()) << 32 | fd as u64;
    if is_held() || HELD.compare_exchange(before, held, Relaxed, Relaxed).is_err() {
        // SAFETY: just made, and nobody else's.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// Gives up what [`hold`] keeps.
fn let_go(directory: &Path) {
    if !is_held() {
        return;
    }
    let held = HELD.swap(0, Relaxed);
    // SAFETY: of a descriptor that the program has closed or replaced nothing is done but to ask what it is.
    let file = unsafe { ManuallyDrop::new(File::from_raw_fd(held as u32 as RawFd)) };
    let file_of = |about: io::Result<Metadata>| about.ok().map(|about| (about.dev(), about.ino()));
    let held = file_of(file.metadata());
    if held.is_some() && held == file_of(std::fs::symlink_metadata(directory.join(ALIVE))) {
        drop(ManuallyDrop::into_inner(file));
    }
}

/// Gives up what [`hold`] keeps, and removes the directory of this process's fabric, unless a process of the fabric lives.
pub(crate) fn leave_held() -> io::Result<()> {
    let directory = Place::own()?.path();
    let_go(&directory);
    remove_dead(&directory)
}

/// What a fabric's processes have made: sockets, named as their slots, and what rdma_cm needs.
fn made_by_processes(directory: &Path) -> io::Result<impl Iterator<Item = PathBuf>> {
    let is_theirs = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.starts_with(CM_PREFIX) || name.parse::<u32>().is_ok())
    };
    Ok(std::fs::read_dir(directory)?.flatten().map(|entry| entry.path()).filter(is_theirs))
}

/// Says in a fabric's file how its processes understand each other, or refuses to join those that do so in another way.
fn check_layout(alive: &File, own: &str) -> io::Result<()> {
    let mut bytes = [0; 100];
    let read = alive.read_at(&mut bytes, 0)?;
    if read == 0 {
        check_file_size(own.len() as u64)?;
        return alive.write_all_at(own.as_bytes(), 0);
    }
    let theirs = String::from_utf8_lossy(&bytes[..read]);
    if theirs == own {
        return Ok(());
    }
    let why = format!(
        "processes of this fabric use a library of another version ({}, this one is of {}): all must use the same, or \
         another fabric",
        theirs.trim(),
        own.trim()
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Opens a file of a fabric's directory: this user's alone, no link to another nor anything else than a file, and closed
/// where the program becomes another one.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = options.mode(0o600).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != user() || found.mode() & 0o077 != 0 {
        let why = format!("{} is not a file of this user alone (mode 0600)", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}

/// Takes a lock of flock(2), if nobody else has one that excludes it.
fn try_lock(file: &File, lock: i32) -> io::Result<bool> {
    // SAFETY: a file of our own.
    if unsafe { libc::flock(file.as_raw_fd(), lock | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) }
}

/// The file that a process locks which keeps a fabric's directory; `None` where somebody removes that.
fn keep(directory: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let alive = open(&directory.join(ALIVE), &mut options)?;
    Ok((try_lock(&alive, libc::LOCK_SH)? && alive.metadata()?.nlink() > 0).then_some(alive))
}

/// Does something in the directory of this process's fabric, made where it is missing; `None` of what is done says that somebody
/// removes it.
fn entered<T>(act: impl Fn(PathBuf, bool) -> io::Result<Option<T>>) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        let place = Place::own()?;
        match act(directory(&place)?, place.is_joined) {
            Ok(Some(done)) => return Ok(done),
            Ok(None) if begin.elapsed() > PATIENCE => {
                let why = "a process that removes this fabric's folder does not go on";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            // The last process to leave has just removed it.
            Ok(None) => std::thread::yield_now(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

impl Registry {
    /// Opens the registry of this process's fabric, making it where it is missing.
    pub(crate) fn open() -> io::Result<Registry> {
        entered(Registry::open_in)
    }

    /// The same in a directory; `None` where somebody removes it.
    fn open_in(directory: PathBuf, is_joined: bool) -> io::Result<Option<Registry>> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let folder = Private::new(OpenOptions::new().read(true).custom_flags(flags).open(&directory)?)?;
        let Some(alive) = keep(&directory)?.map(Private::new).transpose()? else { return Ok(None) };
        reach(Point::AliveLocked);
        check_layout(alive.get(), &layout())?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = Private::new(open(&directory.join(REGISTRY), &mut options)?)?;
        let first = Identity::own().first(PROCESSES as u32);
        Ok(Some(Registry { file, alive, directory, folder, is_joined, first }))
    }

    /// Whether processes of other namespaces are in the fabric.
    pub(crate) fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// The fabric's directory: members that listen have sockets there, named as their slots.
    pub(crate) fn folder(&self) -> &File {
        self.folder.get()
    }

    /// Takes a slot for this process, with this segment.
    pub(crate) fn join(&self, fd: u32) -> io::Result<u32> {
        let me = match self.is_joined {
            true => Member::joined()?,
            false => Member::of(std::process::id(), fd)?
                .ok_or_else(|| io::Error::other("/proc/self/stat does not tell when this process started"))?,
        };
        for place in 0..PROCESSES as u32 {
            let slot = (self.first + place) % PROCESSES as u32;
            if locks::lock(self.file.get(), self.bytes(slot), false)? {
                reach(Point::SlotLocked);
                // Who had the slot before may have been killed.
                self.set_in_groups(slot, false)?;
                self.write(slot, me)?;
                return Ok(slot);
            }
        }
        Err(io::Error::other(format!("{PROCESSES} processes use the device already")))
    }

    /// Gives the slot back. The last process to leave removes the fabric.
    pub(crate) fn leave(&self, slot: u32) -> io::Result<()> {
        self.write(slot, FREE)?;
        self.set_in_groups(slot, false)?;
        reach(Point::SlotFreed);
        let _ = std::fs::remove_file(self.directory.join(slot.to_string()));
        let_go(&self.directory);
        remove_if_unused(&self.directory, self.alive.get())
    }

    /// Whether another process has a lock of a byte of the registry's file.
    pub(crate) fn is_byte_locked(&self, at: u64) -> io::Result<bool> {
        locks::is_locked(self.file.get(), at..at + 1)
    }

    /// Takes this process's lock of a byte, in place of the one that it has, if no other process has one: or none of those
    /// that are to be `alone`, where this is not. It goes with the process.
    pub(crate) fn lock_byte(&self, at: u64, alone: bool) -> io::Result<bool> {
        locks::lock(self.file.get(), at..at + 1, !alone)
    }

    /// Gives this process's lock of a byte back.
    pub(crate) fn unlock_byte(&self, at: u64) -> io::Result<()> {
        locks::unlock(self.file.get(), at..at + 1)
    }

    /// Says whether the process in a slot has QPs in multicast groups.
    pub(crate) fn set_in_groups(&self, slot: u32, is_in: bool) -> io::Result<()> {
        let at = IN_GROUPS_AT + u64::from(self.place(slot));
        // Where nothing was ever said, nothing was said of this slot.
        if !is_in && self.file.get().metadata()?.len() <= at {
            return Ok(());
        }
        check_file_size(at + 1)?;
        self.file.get().write_all_at(&[is_in.into()], at)
    }

    /// The slots whose processes may have QPs in multicast groups.
    pub(crate) fn slots_in_groups(&self) -> io::Result<Vec<u32>> {
        let mut marks = [0; PROCESSES];
        let read = self.file.get().read_at(&mut marks, IN_GROUPS_AT)?;
        let marked = (0..).zip(&marks[..read]).filter(|(_, mark)| **mark != 0);
        Ok(marked.map(|(place, _)| (self.first + place) % PROCESSES as u32).collect())
    }

    /// The process in a slot, if any; it may be dead.
    pub(crate) fn find(&self, slot: u32) -> io::Result<Option<Member>> {
        let mut bytes = [0; SLOT_BYTES as usize];
        match self.file.get().read_exact_at(&mut bytes, self.at(slot)) {
            Ok(()) => Ok(Member::from_bytes(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether this process of a slot lives; what cannot be found out is so.
    pub(crate) fn is_alive(&self, slot: u32, member: &Member) -> bool {
        match member.has_pid() {
            true => member.is_alive().unwrap_or(true),
            false => !self.has_ended(slot, member),
        }
    }

    /// Whether this process of a slot is found to have ended: another has the slot, or none has its lock. Takes no file.
    pub(crate) fn has_ended(&self, slot: u32, member: &Member) -> bool {
        let is_other = self.find(slot).is_ok_and(|found| found.as_ref() != Some(member));
        is_other || locks::is_locked(self.file.get(), self.bytes(slot)).is_ok_and(|locked| !locked)
    }

    /// The how-manyth of the file's slots this is.
    fn place(&self, slot: u32) -> u32 {
        (slot + PROCESSES as u32 - self.first) % PROCESSES as u32
    }

    /// Where in the file a slot begins.
    fn at(&self, slot: u32) -> u64 {
        u64::from(self.place(slot)) * SLOT_BYTES
    }

    /// The bytes of a slot.
    fn bytes(&self, slot: u32) -> Range<u64> {
        self.at(slot)..self.at(slot) + SLOT_BYTES
    }

    fn write(&self, slot: u32, member: Member) -> io::Result<()> {
        let at = self.at(slot);
        check_file_size(at + SLOT_BYTES)?;
        self.file.get().write_all_at(&member.to_bytes(), at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_survives_its_bytes() {
        let member = Member { pid: 77, fd: 5, start_time: 0x1122_3344_5566_7788 };
        assert_eq!(Member::from_bytes(member.to_bytes()), Some(member));
        let mut half = member.to_bytes();
        half[..8].copy_from_slice(&[9; 8]);
        assert_eq!(Member::from_bytes(half), None);
        assert_eq!(Member::from_bytes(FREE.to_bytes()), None);
    }

    #[test]
    fn only_the_same_process_is_alive() {
        let me = Member::of(std::process::id(), 0).expect("it can be read").expect("this process lives");
        let is_alive = |member: Member| member.is_alive().expect("it can be read");
        assert!(is_alive(me));
        assert!(!is_alive(Member { start_time: me.start_time + 1, ..me }));
        assert!(!is_alive(FREE));
    }

    #[test]
    fn another_version_is_refused_in_words() {
        let directory = std::env::temp_dir().join(format!("doorbell-layout-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory can be made");
        let open = || Registry::open_in(directory.clone(), false);
        drop(open().expect("it is there").expect("nobody removes it"));
        open().expect("this version may come").expect("nobody removes it");
        std::fs::write(directory.join(ALIVE), "doorbell layout 1, 0x1").expect("it can be written");
        let error = open().expect_err("another version").to_string();
        assert!(
            error.contains("another version (doorbell layout 1, 0x1, this one is of doorbell layout"),
            "{error}"
        );
        std::fs::remove_dir_all(&directory).expect("it can be removed");
    }

    #[test]
    fn what_was_made_when_all_had_left_goes_too() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("fabric");
        DirBuilder::new().mode(0o700).create(&directory).expect("it can be made");
        let late = [directory.join(format!("{CM_PREFIX}ports")), directory.join("7")];
        late.iter().for_each(|path| std::fs::write(path, "").expect("it can be written"));
        std::fs::create_dir_all(directory.join(format!("{SHOWN_PREFIX}ib/sys"))).expect("it can be made");
        remove_dead(&directory).expect("it can be removed");
        assert!(!directory.exists());
        // But not of somebody who lives.
        DirBuilder::new().mode(0o700).create(&directory).expect("it can be made");
        let alive = keep(&directory).expect("it is there");
        remove_dead(&directory).expect("nothing is wrong");
        assert!(alive.is_some() && directory.join(ALIVE).exists());
    }

    #[test]
    fn a_slot_is_free_when_nobody_has_the_file_open() {
        let directory = std::env::temp_dir().join(format!("doorbell-slots-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory can be made");
        let open =
            || Registry::open_in(directory.clone(), false).expect("it is there").expect("nobody removes it");
        let (one, other) = (open(), open());
        let slot = one.join(3).expect("there is one");
        assert_ne!(other.join(3).expect("there is another"), slot);
        // As one that is killed: it has not given the slot back.
        drop(one);
        assert_eq!(open().join(3).expect("there is one"), slot);
        drop(other);
        std::fs::remove_dir_all(&directory).expect("it can be removed");
    }

    #[test]
    fn a_file_that_is_anothers_or_a_link_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, link) = (directory.path().join("members"), directory.path().join("link"));
        let opened = |path: &Path| open(path, OpenOptions::new().read(true).write(true).create(true));
        drop(opened(&path).expect("it is made"));
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert_eq!(opened(&link).expect_err("a link").raw_os_error(), Some(libc::ELOOP));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o620);
        std::fs::set_permissions(&path, mode).expect("its mode");
        let refused = opened(&path).expect_err("others may write it").to_string();
        assert!(refused.ends_with("is not a file of this user alone (mode 0600)"), "{refused}");
        assert!(open(Path::new("/dev/null"), OpenOptions::new().read(true)).is_err(), "no file");
    }

    proptest::proptest! {
        /// Whatever is in the file, slots are found, taken and given back.
        #[test]
        fn a_file_of_any_bytes_is_read(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let directory = std::env::temp_dir().join(format!("doorbell-registry-{}", std::process::id()));
            std::fs::create_dir_all(&directory).expect("a directory can be made");
            let mut options = OpenOptions::new();
            let file = open(&directory.join(REGISTRY), options.write(true).create(true).truncate(true));
            file.and_then(|file| file.write_all_at(&bytes, 0)).expect("there is room");
            let registry = Registry::open_in(directory.clone(), false).expect("it is there").expect("nobody removes it");
            for slot in 0..PROCESSES as u32 {
                let found = registry.find(slot).expect("it can be read");
                proptest::prop_assert!(found.is_none_or(|member| member.pid != 0));
            }
            let slot = registry.join(3).expect("it can be read");
            let found = registry.find(slot).expect("it can be read");
            proptest::prop_assert_eq!(found, Member::of(std::process::id(), 3).expect("it can be read"));
            registry.leave(slot).expect("it can be written");
            proptest::prop_assert_eq!(registry.find(slot).expect("it can be read"), None);
            proptest::prop_assert!(!directory.exists(), "the last to leave removes it");
        }
    }
}
