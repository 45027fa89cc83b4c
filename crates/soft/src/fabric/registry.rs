//! Where the processes of one user find each other.
//!
//! One file in a directory that only this user may enter. It holds a slot for each process; the
//! slot's number is part of the process's QP numbers. The file is read and written under flock(2),
//! never mapped, so that nothing done to it can crash a reader.

use crate::memory::records::PROCESSES;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Names the registry for programs that must not meet others of the same user.
pub(crate) const FABRIC_VARIABLE: &str = "DOORBELL_FABRIC";

/// Where the directories of all users are.
const PLACE: &str = "/dev/shm";

/// Bytes of a slot in the file: process, segment's file descriptor, start time.
const SLOT_BYTES: u64 = 16;

/// A process that uses the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Process number; 0 where the slot is free.
    pub(crate) pid: u32,
    /// Its file descriptor of its segment.
    pub(crate) fd: u32,
    /// When it started, in clock ticks since boot.
    pub(crate) start_time: u64,
}

impl Member {
    /// The member that process `pid` is, if it lives.
    pub(crate) fn of(pid: u32, fd: u32) -> Option<Member> {
        start_time(pid).map(|start_time| Member { pid, fd, start_time })
    }

    /// Whether it is this very process that still runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.pid != 0 && start_time(self.pid) == Some(self.start_time)
    }

    fn to_bytes(self) -> [u8; SLOT_BYTES as usize] {
        let mut bytes = [0; SLOT_BYTES as usize];
        bytes[..4].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.fd.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.start_time.to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; SLOT_BYTES as usize]) -> Member {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let start_time = u64::from(word(8)) | u64::from(word(12)) << 32;
        Member { pid: word(0), fd: word(4), start_time }
    }
}

const FREE: Member = Member { pid: 0, fd: 0, start_time: 0 };

/// When a process started, unless it is gone or waits to be collected by its parent (proc(5)).
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The opened registry of this user.
#[derive(Debug)]
pub(crate) struct Registry {
    file: File,
    path: PathBuf,
}

/// The file, locked until dropped.
struct Locked<'a>(&'a File);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: a file of our own.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

fn lock(file: &File) -> io::Result<Locked<'_>> {
    // SAFETY: a file of our own.
    while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(Locked(file))
}

/// Whether a fabric can have this name.
pub(crate) fn is_fabric_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

/// The directory of this user, and of this namespace of process numbers.
fn directory() -> io::Result<PathBuf> {
    // SAFETY: takes nothing, cannot fail.
    let user = unsafe { libc::geteuid() };
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino());
    let mut name = format!("doorbell-{user}-{namespace}");
    if let Ok(fabric) = std::env::var(FABRIC_VARIABLE) {
        if !is_fabric_name(&fabric) {
            let why = format!("{FABRIC_VARIABLE} is {fabric:?}: only letters, digits, - and _ can be in it");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        name.push('-');
        name.push_str(&fabric);
    }
    let path = PathBuf::from(PLACE).join(name);
    let found = loop {
        match DirBuilder::new().mode(0o700).create(&path) {
            // Who begins a fabric clears away what has ended.
            Ok(()) => sweep(&format!("doorbell-{user}-{namespace}"), &path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match std::fs::symlink_metadata(&path) {
            // It was still empty when another that begins a fabric cleared away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => break found?,
        }
    };
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        let why = format!("{} is not a directory of this user alone (mode 0700)", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(path)
}

/// Removes what processes of other fabrics have left that were killed, all of them.
fn sweep(prefix: &str, own: &Path) {
    let entries = std::fs::read_dir(PLACE).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        // A fabric's name follows behind a hyphen: no other namespace's number goes on here.
        let rest = name.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('-'));
        if rest.is_some() && path != own {
            // What cannot be looked at or removed is no worse than before.
            let _ = remove_dead(&path);
        }
    }
}

/// Removes the directory of a fabric, unless a process of the fabric lives.
fn remove_dead(directory: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(directory)?;
    // SAFETY: takes nothing, cannot fail.
    if !found.is_dir() || found.uid() != unsafe { libc::geteuid() } {
        return Ok(());
    }
    let path = directory.join("registry");
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    match OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path) {
        Ok(file) => {
            let registry = Registry { file, path };
            let _locked = lock(&registry.file)?;
            // Where another was faster, a new file may have the name.
            if registry.file.metadata()?.nlink() == 0 { Ok(()) } else { registry.remove_if_unused() }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::remove_dir(directory),
        Err(error) => Err(error),
    }
}

impl Registry {
    /// Opens the registry of this user, making it where it is missing.
    pub(crate) fn open() -> io::Result<Registry> {
        loop {
            let path = directory()?.join("registry");
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
                .open(&path);
            match opened {
                Ok(file) => return Ok(Registry { file, path }),
                // The last process to leave has just removed the directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a slot for this process, with this segment. `None` where the file has been removed
    /// since it was opened.
    pub(crate) fn join(&self, fd: u32) -> io::Result<Option<u32>> {
        let _locked = lock(&self.file)?;
        if self.file.metadata()?.nlink() == 0 {
            return Ok(None);
        }
        let me = Member::of(std::process::id(), fd)
            .ok_or_else(|| io::Error::other("/proc/self/stat does not tell when this process started"))?;
        for slot in 0..PROCESSES as u32 {
            if !self.read(slot)?.is_some_and(|member| member.is_alive()) {
                self.write(slot, me)?;
                return Ok(Some(slot));
            }
        }
        Err(io::Error::other(format!("{PROCESSES} processes use the device already")))
    }

    /// Gives the slot back. The last process to leave removes the file.
    pub(crate) fn leave(&self, slot: u32) -> io::Result<()> {
        let _locked = lock(&self.file)?;
        self.write(slot, FREE)?;
        self.remove_if_unused()
    }

    /// Removes the file and its directory, unless a process of the fabric lives. The file is locked.
    fn remove_if_unused(&self) -> io::Result<()> {
        let slots = self.file.metadata()?.len() / SLOT_BYTES;
        for other in 0..slots.min(PROCESSES as u64) as u32 {
            if self.read(other)?.is_some_and(|member| member.is_alive()) {
                return Ok(());
            }
        }
        std::fs::remove_file(&self.path)?;
        if let Some(directory) = self.path.parent() {
            std::fs::remove_dir(directory)?;
        }
        Ok(())
    }

    /// The process in a slot, if any; it may be dead.
    pub(crate) fn find(&self, slot: u32) -> io::Result<Option<Member>> {
        let _locked = lock(&self.file)?;
        Ok(self.read(slot)?.filter(|member| member.pid != 0))
    }

    fn read(&self, slot: u32) -> io::Result<Option<Member>> {
        let mut bytes = [0; SLOT_BYTES as usize];
        match self.file.read_exact_at(&mut bytes, u64::from(slot) * SLOT_BYTES) {
            Ok(()) => Ok(Some(Member::from_bytes(bytes))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, slot: u32, member: Member) -> io::Result<()> {
        self.file.write_all_at(&member.to_bytes(), u64::from(slot) * SLOT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_survives_its_bytes() {
        let member = Member { pid: 77, fd: 5, start_time: 0x1122_3344_5566_7788 };
        assert_eq!(Member::from_bytes(member.to_bytes()), member);
    }

    #[test]
    fn only_the_same_process_is_alive() {
        let me = Member::of(std::process::id(), 0).expect("this process lives");
        assert!(me.is_alive());
        assert!(!Member { start_time: me.start_time + 1, ..me }.is_alive());
        assert!(!FREE.is_alive());
    }

    proptest::proptest! {
        /// Whatever is in the file, slots are found, taken and given back.
        #[test]
        fn a_file_of_any_bytes_is_read(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let directory = std::env::temp_dir().join(format!("doorbell-registry-{}", std::process::id()));
            std::fs::create_dir_all(&directory).expect("a directory can be made");
            let path = directory.join("registry");
            std::fs::write(&path, &bytes).expect("there is room");
            let file = OpenOptions::new().read(true).write(true).open(&path).expect("it is there");
            let registry = Registry { file, path };
            for slot in 0..16 {
                let found = registry.find(slot).expect("it can be read");
                proptest::prop_assert!(found.is_none_or(|member| member.pid != 0));
            }
            let slot = registry.join(3).expect("it can be read").expect("it has a name");
            let found = registry.find(slot).expect("it can be read");
            proptest::prop_assert_eq!(found, Member::of(std::process::id(), 3));
            registry.leave(slot).expect("it can be written");
            proptest::prop_assert_eq!(registry.find(slot).expect("it can be read"), None);
            let _ = std::fs::remove_dir_all(&directory);
        }
    }
}
