//! Maps shared memory of peers, so that plain loads and stores can access it. A peer's program shares such
//! memory itself, for example by shmget(2) or memfd_create(2).
//!
//! Peers do not announce such memory. On the first access to a peer's region, this process asks the kernel
//! which memory object the peer has mapped at the region's addresses (`maps`). So no record of a peer can
//! make this process map anything but memory of that peer.
//!
//! This process maps only memory that cannot disappear:
//! - System V segments, because they never change their size;
//! - memfds that are sealed with `F_SEAL_SHRINK`, if the peer still has a file descriptor for them.
//!
//! Any other file, for example of shm_open(3), may be truncated at any time, even by a program that means no
//! harm. An access to a mapping of this file would then kill this process with SIGBUS. If this process sealed
//! the file, it would restrict the program that owns the file. So memory of any other file is accessed like
//! private memory.

use super::member::FabricMember;
use super::registry::Registry;
use crate::memory::maps::{self, MapsOf};
use crate::memory::regions::{Place, find_in};
use crate::memory::segment::Segment;
use crate::sync::{lock, thread_id};
use doorbell_launch::process_start::other_thread;
use rustix::fs::{SealFlags, fcntl_get_seals};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

const PAGE: usize = 4096;

/// Shared memory, mapped in this process.
#[derive(Debug)]
struct Mapping {
    base: *mut u8,
    len: usize,
    source: Source,
}

// SAFETY: the memory is shared with other processes in any case. Only copies of payload and atomics access
// it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Identifies the shared memory of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// The System V segment with this number.
    SystemV(i32),
    /// The memfd with this inode number.
    Memfd(u64),
}

/// The place of a peer's region in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FoundMapping {
    source: Source,
    /// Offset from the beginning of the shared memory.
    at: usize,
}

/// A peer's region as mapped in this process.
#[derive(Clone, Debug)]
pub(crate) struct View {
    mapping: Arc<Mapping>,
    at: usize,
}

impl View {
    /// Address of the region's byte at `offset`. The caller has checked that `offset` lies within the region.
    pub(super) fn address(&self, offset: u64) -> *mut u8 {
        self.mapping.base.wrapping_add(self.at).wrapping_add(offset as usize)
    }
}

/// The views of one peer's regions that this process has looked up.
#[derive(Debug)]
pub(crate) struct Views {
    /// The peer, its slot, and the registry of both.
    member: FabricMember,
    slot: u32,
    registry: &'static Registry,
    /// The peer's number among all peers that this process has had.
    number: u64,
    known: Mutex<KnownViews>,
}

#[derive(Debug, Default)]
struct KnownViews {
    /// Views by the slots of their regions; `None` for a region that cannot be mapped here.
    views: HashMap<usize, (Place, Option<View>)>,
    mappings: HashMap<Source, Weak<Mapping>>,
    /// The addresses of the peer's last mapping that was found not to be shared memory. Regions within these
    /// addresses are not looked up, because many regions of a peer may lie in one heap. If the peer has
    /// replaced the mapping by shared memory, these regions are still accessed like private memory.
    private: Range<u64>,
}

impl Views {
    /// The views of the regions of `member`, which was found in this slot.
    pub(crate) fn of(slot: u32, member: FabricMember, registry: &'static Registry) -> Views {
        // A counter: it orders nothing.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Views { member, slot, registry, number: NEXT.fetch_add(1, Relaxed), known: Mutex::default() }
    }

    /// The peer's number among all peers that this process has had.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The view of a region; `None` if the region cannot be mapped here. The region is looked up if it is new
    /// or has changed.
    fn find(&self, segment: &Segment, place: &Place) -> Option<View> {
        let mut known = lock(&self.known);
        if let Some((then, view)) = known.views.get(&place.slot())
            && then == place
        {
            return view.clone();
        }
        // No file of an exited process is opened (`Registry::is_alive`).
        let view = match self.registry.has_ended(self.slot, &self.member) {
            true => None,
            false => known.look(&self.member, segment, place),
        };
        known.views.insert(place.slot(), (*place, view.clone()));
        view
    }

    #[cold]
    fn entry(&self, segment: &Segment, place: &Place) -> Option<Viewed> {
        Some((self.number, *place, self.find(segment, place)))
    }

    /// Unmaps all memory that is not in use.
    pub(crate) fn forget(&self) {
        *lock(&self.known) = KnownViews::default();
    }
}

impl KnownViews {
    fn look(&mut self, peer: &FabricMember, segment: &Segment, place: &Place) -> Option<View> {
        let pid = peer.pid;
        let bytes = place.host..place.host.checked_add(place.region.len)?;
        if self.private.start <= bytes.start && bytes.end <= self.private.end {
            return None;
        }
        let device = crate::memory::arena::own().ok()?.file.metadata().ok()?.dev();
        let there = maps::mapping_at(MapsOf::Process(pid), bytes.start).ok()??;
        let Some(found) = shared(&there, device, &bytes) else {
            self.private = there.bytes.clone();
            return None;
        };
        let mapping = match self.mappings.get(&found.source).and_then(Weak::upgrade) {
            Some(mapping) => mapping,
            None => {
                self.drop_stale(segment);
                let thread = other_thread(pid).unwrap_or(pid);
                Arc::new(match found.source {
                    Source::SystemV(id) => Mapping::attach(thread, id)?,
                    Source::Memfd(inode) => Mapping::of_memfd(thread, device, inode)?,
                })
            }
        };
        let end = u64::try_from(found.at).ok()?.checked_add(place.region.len)?;
        // If the peer is alive now, all results above belong to the peer and not to a process that reuses its
        // PID.
        if end > mapping.len as u64 || !peer.is_alive().unwrap_or(false) {
            return None;
        }
        self.mappings.insert(found.source, Arc::downgrade(&mapping));
        Some(View { mapping, at: found.at })
    }

    /// Drops the views of regions that no longer exist.
    fn drop_stale(&mut self, segment: &Segment) {
        self.views
            .retain(|_, (place, view)| view.is_none() || find_in(segment, place.key) == Ok(Some(*place)));
        self.mappings.retain(|_, mapping| mapping.strong_count() > 0);
    }
}

impl Mapping {
    /// Attaches System V segment `id`. Thread `thread` must share its IPC namespace with this thread.
    fn attach(thread: u32, id: i32) -> Option<Mapping> {
        let namespace = |thread: &str| std::fs::read_link(format!("/proc/{thread}/ns/ipc")).ok();
        if namespace("thread-self")? != namespace(&thread.to_string())? {
            return None;
        }
        // This and the other System V calls use libc, because rustix lacks them.
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        if base as isize == -1 {
            return None;
        }
        // Dropping the mapping detaches the segment.
        let mut mapping = Mapping { base: base.cast(), len: 0, source: Source::SystemV(id) };
        // SAFETY: integers, which may be zero; shmctl fills the struct in.
        let size = unsafe {
            let mut about: libc::shmid_ds = std::mem::zeroed();
            if libc::shmctl(id, libc::IPC_STAT, &mut about) != 0 {
                return None;
            }
            about.shm_segsz
        };
        mapping.len = size.checked_next_multiple_of(PAGE)?;
        Some(mapping.left_out())
    }

    /// Maps the memfd with this inode number, if thread `thread` has it open and it cannot shrink.
    fn of_memfd(thread: u32, device: u64, inode: u64) -> Option<Mapping> {
        let is_it = |file: &std::fs::Metadata| file.is_file() && (file.dev(), file.ino()) == (device, inode);
        let path = std::fs::read_dir(format!("/proc/{thread}/fd"))
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| std::fs::metadata(path).is_ok_and(|about| is_it(&about)))?;
        let file: File =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path).ok()?;
        let seals = fcntl_get_seals(&file).ok()?;
        // The size is read after the seals, because a file with the seal cannot shrink any more.
        let about = file.metadata().ok().filter(is_it)?;
        let len = usize::try_from(about.len()).ok()?;
        if !seals.contains(SealFlags::SHRINK) || len == 0 {
            return None;
        }
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe { mmap(std::ptr::null_mut(), len, protection, flags, &file, 0) }.ok()?;
        Some(Mapping { base: base.cast(), len, source: Source::Memfd(inode) }.left_out())
    }

    /// Excludes the mapping from core dumps, because the memory belongs to the peer.
    fn left_out(self) -> Mapping {
        // SAFETY: the pages belong to this mapping, and their content stays. If the call fails, core dumps
        // contain the pages.
        let _ = unsafe { madvise(self.base.cast(), self.len, Advice::LinuxDontDump) };
        self
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping; no address in it is used without a `View`.
        unsafe {
            match self.source {
                Source::SystemV(_) => drop(libc::shmdt(self.base.cast())),
                Source::Memfd(_) => drop(munmap(self.base.cast(), self.len)),
            }
        };
    }
}

/// A view of the word at this address of this process, if it lies in a System V segment.
pub(super) fn of_own_system_v(addr: u64) -> Option<View> {
    let device = crate::memory::arena::own().ok()?.file.metadata().ok()?.dev();
    let there = maps::mapping_at(MapsOf::ThisProcess, addr).ok()??;
    match shared(&there, device, &(addr..addr + 8))? {
        FoundMapping { source: Source::SystemV(id), at } => {
            Some(View { mapping: Arc::new(Mapping::attach(thread_id(), id)?), at })
        }
        FoundMapping { source: Source::Memfd(_), .. } => None,
    }
}

/// The shared memory behind the mapping `there`; `None` unless the mapping contains all of `bytes`, is
/// writable and shared, and is a System V segment or a memfd. `device` is the device of memfds.
fn shared(there: &maps::Mapping, device: u64, bytes: &Range<u64>) -> Option<FoundMapping> {
    let (mapped, inode) = (&there.bytes, there.inode);
    if !there.is_writable() || !there.is_shared || there.device != device {
        return None;
    }
    if bytes.start < mapped.start || bytes.end > mapped.end {
        return None;
    }
    let source = if there.name.starts_with("/SYSV") {
        Source::SystemV(i32::try_from(inode).ok()?)
    } else if there.name.starts_with("/memfd:") {
        Source::Memfd(inode)
    } else {
        return None;
    };
    let at = there.offset.checked_add(bytes.start - mapped.start)?;
    Some(FoundMapping { source, at: usize::try_from(at).ok()? })
}

/// A queue's cache of the peers' regions that it used last. A hit takes no lock.
#[derive(Debug, Default)]
pub(crate) struct ViewCache([Option<Viewed>; 4]);

/// A peer's number, a region of the peer, and the region's view if it is mapped here.
type Viewed = (u64, Place, Option<View>);

impl ViewCache {
    /// The address of the byte at `offset` of a peer's region; `None` if the region is not mapped here. The
    /// address is valid until the cache is used again. The caller has checked that `offset` lies within the
    /// region.
    #[inline(always)]
    pub(crate) fn address(
        &mut self,
        views: &Views,
        segment: &Segment,
        place: &Place,
        offset: u64,
    ) -> Option<*mut u8> {
        let entry = &mut self.0[place.slot() % 4];
        let known = matches!(entry, Some((number, then, _)) if *number == views.number && then == place);
        if !known {
            *entry = views.entry(segment, place);
        }
        entry.as_ref()?.2.as_ref().map(|view| view.address(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::process::Process;
    use crate::memory::objects::HostMemory;
    use doorbell_transport::Region;
    use doorbell_verbs::AccessFlags;
    use rustix::fs::{MemfdFlags, fcntl_add_seals, memfd_create};
    use std::time::{Duration, Instant};

    const DEVICE: u64 = 1;

    #[test]
    fn no_memory_of_an_exited_process_is_looked_up() {
        let process = Process::current().expect("this process can use the device");
        // Memory that a peer could map.
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create(c"test", flags).expect("a file"));
        file.set_len(PAGE as u64).expect("its size");
        fcntl_add_seals(&file, SealFlags::SHRINK).expect("a seal");
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe { mmap(std::ptr::null_mut(), PAGE, protection, MapFlags::SHARED, &file, 0) };
        let addr = base.expect("a mapping") as u64;
        let bytes = addr..addr + PAGE as u64;
        let object = maps::check(bytes, maps::Wanted { write: true, atomics: true }).expect("it is mapped");
        let region = Region { pd: 1, addr, len: PAGE as u64, access: AccessFlags::all() };
        let key = process.regions.register(process.segment, region, HostMemory { addr, object });
        let place = find_in(process.segment, key.expect("a region")).expect("a record").expect("a region");
        // A member with this process's PID, and a lock that ends.
        let folder = tempfile::tempdir().expect("a folder");
        let open = || {
            let opened = Registry::open_in(folder.path().to_owned(), false);
            opened.expect("it is there").expect("nobody removes it")
        };
        let (one, other): (Registry, &'static Registry) = (open(), Box::leak(Box::new(open())));
        let slot = one.join(3).expect("there is one");
        let member = other.find(slot).expect("it can be read").expect("it was written");
        let finds = || Views::of(slot, member, other).find(process.segment, &place).is_some();
        assert!(finds(), "the member has its lock");
        drop(one);
        // A child of another test inherits the lock, and holds it until it executes its program.
        let begin = Instant::now();
        while finds() {
            assert!(begin.elapsed() < Duration::from_secs(60), "the memory of an exited process is found");
            std::thread::yield_now();
        }
    }

    fn found(rights: &str, device: &str, name: &str) -> Option<FoundMapping> {
        let line = format!("7f00-9f00 {rights} 00002000 {device} 65538                      {name}");
        let mapping = maps::parse(&line).expect("a mapping");
        assert_eq!(shared(&mapping, DEVICE, &(0x7eff..0x7f10)), None, "begins before");
        assert_eq!(shared(&mapping, DEVICE, &(0x8000..0x9f01)), None, "ends behind");
        shared(&mapping, DEVICE, &(0x8000..0x9f00))
    }

    #[test]
    fn shared_memory_is_told_from_other_mappings() {
        let at = 0x2100;
        let system_v = Some(FoundMapping { source: Source::SystemV(65538), at });
        assert_eq!(found("rw-s", "00:01", "/SYSV00000000 (deleted)"), system_v);
        assert_eq!(found("rw-s", "00:01", "/SYSV0000162e"), system_v);
        let memfd = Some(FoundMapping { source: Source::Memfd(65538), at });
        assert_eq!(found("rwxs", "00:01", "/memfd:x (deleted)"), memfd);
        for (rights, device, name) in [
            ("rw-p", "00:01", "/SYSV00000000 (deleted)"),
            ("r--s", "00:01", "/SYSV00000000 (deleted)"),
            ("rw-s", "00:0f", "/SYSV00000000 (deleted)"),
            ("rw-s", "00:01", "/dev/zero (deleted)"),
            ("rw-s", "fe:00", "/tmp/SYSV"),
            ("rw-p", "00:00", ""),
        ] {
            assert_eq!(found(rights, device, name), None, "{rights} {device} {name}");
        }
    }
}
