//! The registry, in which the processes of one user find each other.
//!
//! The registry is a file in the fabric's folder. It has a *slot* for each process, with the data by which
//! peers find the process. The slot's number is part of the process's QP numbers. A process with many QPs has
//! several slots.
//!
//! A process locks the bytes of its slots until it exits. No process waits for such a lock, because the
//! holder may be stopped. The file is never mapped, because a reader of a mapping would crash if another
//! process truncated the file.

use super::folder::{FabricFolder, in_own};
use super::locks;
use super::member::{FREE, FabricMember, MemberSlot};
use crate::descriptors::Private;
use crate::identity::Identity;
use crate::memory::records::Slots;
use crate::point::{Point, reach};
use doorbell_launch::qp_numbers::PROCESSES;
use doorbell_launch::sealed::check_file_size;
use rustix::fs::{AtFlags, symlinkat, unlinkat};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use zerocopy::IntoBytes;

/// Bytes of a slot in the file.
const SLOT_BYTES: u64 = size_of::<MemberSlot>() as u64;
/// Offset of the marks in the file, behind the slots. Each slot has a mark of one byte. The mark is nonzero
/// if the slot's process may have QPs in multicast groups. Senders to groups read only the segments of marked
/// processes.
const IN_GROUPS_AT: u64 = PROCESSES as u64 * SLOT_BYTES;

/// The opened registry of this process's fabric.
#[derive(Debug)]
pub(crate) struct Registry {
    file: Private<File>,
    folder: FabricFolder,
    is_joined: bool,
    /// Number of the slot at the beginning of the file.
    first: u32,
}

impl Registry {
    /// Opens the registry of this process's fabric and creates it if it is missing.
    pub(crate) fn open() -> io::Result<Registry> {
        in_own(Registry::open_in)
    }

    /// Opens the registry in a fabric's folder; `None` if another process is removing the folder.
    pub(super) fn open_in(path: PathBuf, is_joined: bool) -> io::Result<Option<Registry>> {
        let Some(folder) = FabricFolder::keep(path)? else { return Ok(None) };
        let file = Private::new(folder.registry()?)?;
        let first = Identity::own().first(PROCESSES as u32);
        Ok(Some(Registry { file, folder, is_joined, first }))
    }

    /// Whether the fabric may have processes of other PID namespaces.
    pub(crate) fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// The fabric's folder. Members that listen have sockets in it, named by their slots.
    pub(crate) fn folder(&self) -> &File {
        self.folder.opened()
    }

    /// Takes a slot for this process. `fd` is the file descriptor of its segment.
    pub(crate) fn join(&self, fd: u32) -> io::Result<u32> {
        let me = match self.is_joined {
            true => FabricMember::joined()?,
            false => FabricMember::of(std::process::id(), fd)?.ok_or_else(|| {
                io::Error::other("/proc/self/stat does not contain the start time of this process")
            })?,
        };
        let slot = self.take_slot(&Slots::default(), |slot| FabricMember { first_slot: slot, ..me })?;
        slot.ok_or_else(|| {
            io::Error::other(format!(
                "the device is already used by {PROCESSES} processes, the most it allows; processes with many \
                 QPs count several times"
            ))
        })
    }

    /// Takes a further slot for this process; `None` if no slot is free. `me` is the entry in the process's
    /// first slot, and `own` are the slots that the process has.
    pub(crate) fn join_again(&self, me: FabricMember, own: &Slots) -> io::Result<Option<u32>> {
        let place = own.all().count() as u32;
        self.take_slot(own, |_| FabricMember { place, ..me })
    }

    /// Takes a slot for this process and writes `member(slot)` there; `None` if no slot is free.
    fn take_slot(&self, own: &Slots, member: impl Fn(u32) -> FabricMember) -> io::Result<Option<u32>> {
        for place in 0..PROCESSES as u32 {
            let slot = (self.first + place) % PROCESSES as u32;
            // A lock does not exclude its own holder, so the process's own slots are skipped.
            if !own.has(slot) && locks::lock(self.file.get(), self.bytes(slot), false)? {
                reach(Point::SlotLocked);
                // The previous process in the slot may have been killed.
                self.set_in_groups(slot, false)?;
                self.write(slot, member(slot))?;
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// Frees the slots of this process. The last process to leave removes the fabric.
    pub(crate) fn leave(&self, slots: &[u32]) -> io::Result<()> {
        for slot in slots {
            self.write(*slot, FREE)?;
            self.set_in_groups(*slot, false)?;
        }
        reach(Point::SlotFreed);
        self.folder.leave(slots)
    }

    /// Whether another process holds a lock on a byte of the registry's file.
    pub(crate) fn is_byte_locked(&self, at: u64) -> io::Result<bool> {
        locks::is_locked(self.file.get(), at..at + 1)
    }

    /// Acquires a lock on a byte for this process, in place of any lock that this process holds on the byte.
    /// Returns `false` if the lock of another process excludes the new lock. The lock is exclusive if `alone`
    /// is set, and shared otherwise. It ends when this process exits.
    pub(crate) fn lock_byte(&self, at: u64, alone: bool) -> io::Result<bool> {
        locks::lock(self.file.get(), at..at + 1, !alone)
    }

    /// Releases this process's lock on a byte.
    pub(crate) fn unlock_byte(&self, at: u64) -> io::Result<()> {
        locks::unlock(self.file.get(), at..at + 1)
    }

    /// Creates a symbolic link, so that peers find this process's socket `name` by a further slot of this
    /// process.
    pub(crate) fn link_socket(&self, name: &str, slot: u32) -> io::Result<()> {
        let (folder, link) = (self.folder.opened(), slot.to_string());
        // The previous process in the slot may have been killed.
        let _ = unlinkat(folder, &link, AtFlags::empty());
        Ok(symlinkat(name, folder, &link)?)
    }

    /// Marks whether the process in a slot may have QPs in multicast groups.
    pub(crate) fn set_in_groups(&self, slot: u32, is_in: bool) -> io::Result<()> {
        let at = IN_GROUPS_AT + u64::from(self.place(slot));
        // If the file ends before the slot's byte, nothing was recorded for the slot.
        if !is_in && self.file.get().metadata()?.len() <= at {
            return Ok(());
        }
        check_file_size(at + 1)?;
        self.file.get().write_all_at(&[is_in.into()], at)
    }

    /// The slots of processes that may have QPs in multicast groups.
    pub(crate) fn slots_in_groups(&self) -> io::Result<Vec<u32>> {
        let mut marks = [0; PROCESSES];
        let read = self.file.get().read_at(&mut marks, IN_GROUPS_AT)?;
        let marked = (0..).zip(&marks[..read]).filter(|(_, mark)| **mark != 0);
        Ok(marked.map(|(place, _)| (self.first + place) % PROCESSES as u32).collect())
    }

    /// The process in a slot; `None` if the slot is free or half written. The process may have exited.
    pub(crate) fn find(&self, slot: u32) -> io::Result<Option<FabricMember>> {
        let mut found = FREE.slot();
        match self.file.get().read_exact_at(found.as_mut_bytes(), self.at(slot)) {
            Ok(()) => Ok(found.member()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether `member`, the process in another process's slot, is alive; `true` if that cannot be found out.
    ///
    /// The lock is tested before /proc. The kernel removes an exited process from /proc during the wait4(2)
    /// of the parent. Accesses to the process's files there prolong this call, and callers of `is_alive` ask
    /// repeatedly.
    pub(crate) fn is_alive(&self, slot: u32, member: &FabricMember) -> bool {
        // A child that was created without fork(2)'s handlers may hold the lock of an exited process.
        !self.has_ended(slot, member) && (!member.has_pid() || member.is_alive().unwrap_or(true))
    }

    /// Whether `member`, which was found in a slot, has exited. This is so if the slot now has another
    /// process, or if the slot is not locked. The call opens no file. The answer is wrong for a slot of this
    /// process, because the kernel does not report a process's own lock.
    pub(crate) fn has_ended(&self, slot: u32, member: &FabricMember) -> bool {
        let is_other = self.find(slot).is_ok_and(|found| found.as_ref() != Some(member));
        is_other || locks::is_locked(self.file.get(), self.bytes(slot)).is_ok_and(|locked| !locked)
    }

    /// Index of a slot in the file.
    fn place(&self, slot: u32) -> u32 {
        (slot + PROCESSES as u32 - self.first) % PROCESSES as u32
    }

    /// Offset of a slot in the file.
    fn at(&self, slot: u32) -> u64 {
        u64::from(self.place(slot)) * SLOT_BYTES
    }

    /// Byte range of a slot in the file.
    fn bytes(&self, slot: u32) -> Range<u64> {
        self.at(slot)..self.at(slot) + SLOT_BYTES
    }

    fn write(&self, slot: u32, member: FabricMember) -> io::Result<()> {
        let at = self.at(slot);
        check_file_size(at + SLOT_BYTES)?;
        self.file.get().write_all_at(member.slot().as_bytes(), at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder::{REGISTRY, open};
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn another_version_is_refused_in_words() {
        let directory = std::env::temp_dir().join(format!("doorbell-layout-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory can be made");
        let open = || Registry::open_in(directory.clone(), false);
        drop(open().expect("it is there").expect("nobody removes it"));
        open().expect("this version may come").expect("nobody removes it");
        std::fs::write(directory.join("alive"), "doorbell layout 1, 0x1").expect("it can be written");
        let error = open().expect_err("another version").to_string();
        assert!(
            error.contains(
                "another version of Doorbell's library (doorbell layout 1, 0x1; this process uses \
                 doorbell layout"
            ),
            "{error}"
        );
        std::fs::remove_dir_all(&directory).expect("it can be removed");
    }

    #[test]
    fn a_slot_is_free_when_nobody_has_the_file_open() {
        let directory = std::env::temp_dir().join(format!("doorbell-slots-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory can be made");
        let open =
            || Registry::open_in(directory.clone(), false).expect("it is there").expect("nobody removes it");
        let (one, other) = (open(), open());
        let slot = one.join(3).expect("there is one");
        let first = other.join(3).expect("there is another");
        assert_ne!(first, slot);
        // A process does not take its own slot again.
        let (own, me) = (Slots::default(), FabricMember::of(std::process::id(), 3).expect("it can be read"));
        own.set(0, first);
        let further = other.join_again(me.expect("it runs"), &own).expect("it can be written");
        assert!(further.is_some_and(|further| further != first && further != slot), "{further:?}");
        // Like a killed process, it has not freed its slot.
        drop(one);
        assert_eq!(open().join(3).expect("there is one"), slot);
        drop(other);
        std::fs::remove_dir_all(&directory).expect("it can be removed");
    }

    #[test]
    fn a_process_without_its_lock_is_dead_even_if_its_pid_is_in_use() {
        let directory = tempfile::tempdir().expect("a folder");
        let open = || {
            let opened = Registry::open_in(directory.path().to_owned(), false);
            opened.expect("it is there").expect("nobody removes it")
        };
        let (one, other) = (open(), open());
        let slot = one.join(3).expect("there is one");
        let member = other.find(slot).expect("it can be read").expect("it was written");
        assert!(other.is_alive(slot, &member));
        // A killed process has no lock any more, but keeps its PID until its parent has waited for it.
        drop(one);
        assert!(member.is_alive().expect("it can be read"), "this process runs");
        // A child of another test inherits the lock, and holds it until it executes its program.
        let begin = std::time::Instant::now();
        while other.is_alive(slot, &member) {
            assert!(begin.elapsed() < std::time::Duration::from_secs(60), "/proc was asked, not the lock");
            std::thread::yield_now();
        }
    }

    proptest::proptest! {
        /// With any content of the file, slots are found, taken and freed.
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
            let own = FabricMember::of(std::process::id(), 3).expect("it can be read").expect("it runs");
            proptest::prop_assert_eq!(found, Some(FabricMember { first_slot: slot, ..own }));
            registry.leave(&[slot]).expect("it can be written");
            proptest::prop_assert_eq!(registry.find(slot).expect("it can be read"), None);
            proptest::prop_assert!(!directory.exists(), "the last to leave removes it");
        }
    }
}
