//! The memory of a cluster's machines, and the checks of accesses to it.

use doorbell_verbs::{Mem, PageSize, VerbsError};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An allocation: memory of one machine, mapped as long as its [`ClusterMemory`] exists.
#[derive(Clone, Copy)]
struct Allocation {
    machine: u32,
    base: *mut u8,
    len: u64,
}

// SAFETY: The pointer is dereferenced only through `access`, which allows concurrent use.
unsafe impl Send for Allocation {}

/// A mapping of this process, unmapped on drop.
struct Mapping {
    start: *mut c_void,
    len: usize,
}

// SAFETY: The pointer is used only to unmap the mapping on drop.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `map` created the mapping, and no user of an address within it exists any more (see
        // `ClusterMemory`). Unmapping a whole mapping does not fail. If it did, the memory would stay mapped.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}

#[derive(Default)]
struct Tables {
    allocations: Vec<Allocation>,
    mappings: Vec<Mapping>,
}

/// All allocations of a cluster. Allocations are only added. They are freed together when the cluster and the
/// last thread's [`View`] have been dropped. A thread's view is dropped after all memory regions of the
/// thread.
#[derive(Default)]
pub(crate) struct ClusterMemory(Mutex<Tables>);

/// Maps `len` zeroed bytes at a multiple of `page`.
fn map(len: u64, page: PageSize) -> Option<(Mapping, *mut u8)> {
    let page = usize::try_from(page.bytes()).ok()?;
    let len = usize::try_from(len).ok()?.checked_next_multiple_of(page)?;
    let mapped = len.checked_add(page)?;
    // SAFETY: This creates a new anonymous mapping at an address that the kernel chooses.
    let start = unsafe {
        mmap_anonymous(ptr::null_mut(), mapped, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE).ok()?
    };
    let mapping = Mapping { start, len: mapped };
    let skip = start.addr().next_multiple_of(page) - start.addr();
    // SAFETY: `skip` is less than a page, and the mapping is longer than `len` by a page.
    let base = unsafe { start.cast::<u8>().add(skip) };
    if page > 4096 {
        // SAFETY: The range is within the mapping. The call is a hint, which kernels without huge pages
        // refuse.
        let _ = unsafe { madvise(base.cast(), len, Advice::LinuxHugepage) };
    }
    Some((mapping, base))
}

impl ClusterMemory {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates `len` zeroed bytes for `machine`.
    pub(crate) fn alloc(&self, machine: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        if len == 0 {
            return Err(VerbsError::Invalid("an allocation needs at least 1 byte, got 0".into()));
        }
        let no_room = || VerbsError::NoRoom(format!("the machine cannot map {len} bytes"));
        let (mapping, base) = map(len, page).ok_or_else(no_room)?;
        let mut tables = self.tables();
        let number = u32::try_from(tables.allocations.len()).map_err(|_| no_room())?;
        tables.mappings.push(mapping);
        tables.allocations.push(Allocation { machine, base, len });
        Ok(Mem::new(number, base.addr() as u64, len))
    }
}

/// One thread's view of a cluster's memory: a copy of the table. A lookup that finds no allocation renews the
/// copy.
pub(crate) struct View {
    memory: Arc<ClusterMemory>,
    machine: u32,
    known: RefCell<KnownAllocations>,
}

#[derive(Default)]
struct KnownAllocations {
    allocations: Vec<Allocation>,
    /// Allocations of the view's machine, sorted by address.
    sorted: Vec<Allocation>,
}

impl KnownAllocations {
    /// Whether the `len` bytes at `addr` lie within one allocation of the machine.
    fn covers(&self, addr: u64, len: u64) -> bool {
        let after = self.sorted.partition_point(|a| a.base.addr() as u64 <= addr);
        after.checked_sub(1).is_some_and(|at| {
            let offset = addr - self.sorted[at].base.addr() as u64;
            offset <= self.sorted[at].len && len <= self.sorted[at].len - offset
        })
    }
}

impl View {
    /// The view of a thread of `machine`.
    pub(crate) fn new(memory: Arc<ClusterMemory>, machine: u32) -> View {
        View { memory, machine, known: RefCell::default() }
    }

    fn renew(&self) {
        let allocations = self.memory.tables().allocations.clone();
        let mut sorted: Vec<_> = allocations.iter().filter(|a| a.machine == self.machine).copied().collect();
        sorted.sort_by_key(|a| a.base.addr());
        *self.known.borrow_mut() = KnownAllocations { allocations, sorted };
    }

    /// Allocates memory for this view's machine.
    pub(crate) fn alloc(&self, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.memory.alloc(self.machine, len, page)
    }

    fn allocation(&self, number: u32) -> Option<Allocation> {
        let known = |view: &View| view.known.borrow().allocations.get(number as usize).copied();
        known(self).or_else(|| {
            self.renew();
            known(self)
        })
    }

    /// The address of the first byte of `mem`, after checking that `mem` is mapped and belongs to this
    /// machine.
    pub(crate) fn base(&self, mem: Mem) -> Result<*mut u8, VerbsError> {
        let allocation = self
            .allocation(mem.allocation())
            .ok_or_else(|| VerbsError::Invalid("this cluster did not allocate the memory".into()))?;
        if allocation.machine != self.machine {
            return Err(VerbsError::Invalid(format!(
                "the memory belongs to machine {}, but a thread of machine {} uses it",
                allocation.machine, self.machine
            )));
        }
        let (start, len) = (mem.start(), mem.len());
        let within = start <= allocation.len && len <= allocation.len - start;
        if !within || mem.addr(0) != allocation.base.addr() as u64 + start {
            return Err(VerbsError::Invalid("the memory is not within an allocation of this cluster".into()));
        }
        // SAFETY: `start` is within the allocation, so it fits a usize.
        Ok(unsafe { allocation.base.add(start as usize) })
    }

    /// The address of the `len` bytes at `offset` of `mem`.
    ///
    /// # Panics
    /// If the bytes do not lie within `mem`, or if this machine has no such memory.
    pub(crate) fn pointer(&self, mem: Mem, offset: u64, len: u64) -> *mut u8 {
        let within = mem.locate(offset, len) - mem.start();
        let base = self.base(mem).unwrap_or_else(|refusal| panic!("{refusal}"));
        // SAFETY: `locate` checked that `within` lies in `mem`, and `base` checked that `mem` is mapped.
        unsafe { base.add(within as usize) }
    }

    /// Whether the `len` bytes at virtual address `addr` lie within an allocation of this machine.
    pub(crate) fn covers(&self, addr: u64, len: u64) -> bool {
        let covers = || self.known.borrow().covers(addr, len);
        covers() || {
            self.renew();
            covers()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View::new(Arc::default(), 0)
    }

    fn refusal(view: &View, mem: Mem) -> String {
        view.base(mem).unwrap_err().to_string()
    }

    #[test]
    fn memory_is_aligned_and_zeroed() {
        let view = view();
        for page in [PageSize::Small, PageSize::Huge] {
            let mem = view.alloc(page.bytes() + 1, page).unwrap();
            assert!(mem.addr(0).is_multiple_of(page.bytes()));
            let mut last = [1];
            // SAFETY: `pointer` checked the range.
            unsafe { crate::access::load(view.pointer(mem, page.bytes(), 1), &mut last) };
            assert_eq!(last, [0]);
        }
    }

    #[test]
    fn forged_memory_is_refused() {
        let view = view();
        let mem = view.alloc(4096, PageSize::Small).unwrap();
        assert!(view.base(mem.slice(8, 16)).is_ok());
        assert_eq!(
            refusal(&view, Mem::new(1, mem.addr(0), 1)),
            "invalid: this cluster did not allocate the memory"
        );
        let as_such = "invalid: the memory is not within an allocation of this cluster";
        assert_eq!(refusal(&view, Mem::new(0, mem.addr(0), 4097)), as_such);
        assert_eq!(refusal(&view, Mem::new(0, mem.addr(1), 8)), as_such);
    }

    #[test]
    fn memory_of_another_machine_is_refused() {
        let view = view();
        let other = view.memory.alloc(1, 64, PageSize::Small).unwrap();
        assert_eq!(
            refusal(&view, other),
            "invalid: the memory belongs to machine 1, but a thread of machine 0 uses it"
        );
        assert!(!view.covers(other.addr(0), 64));
    }

    #[test]
    #[should_panic = "access to bytes 60..68 of a memory of 64 bytes"]
    fn access_outside_of_a_memory_panics() {
        let view = view();
        let mem = view.alloc(64, PageSize::Small).unwrap();
        view.pointer(mem, 60, 8);
    }

    #[test]
    fn addresses_are_covered_to_the_byte() {
        let view = view();
        let first = view.alloc(4096, PageSize::Small).unwrap();
        assert!(view.covers(first.addr(0), 4096));
        // Allocated after the view first copied the table.
        let mem = view.alloc(100, PageSize::Small).unwrap();
        assert!(view.covers(mem.addr(0), 100));
        assert!(view.covers(mem.addr(100), 0));
        assert!(!view.covers(mem.addr(1), 100));
        assert!(!view.covers(mem.addr(0) - 1, 2));
        assert!(!view.covers(0, 1));
        assert!(!view.covers(u64::MAX, u64::MAX));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let view = view();
        assert!(matches!(view.alloc(0, PageSize::Small), Err(VerbsError::Invalid(_))));
        assert!(matches!(view.alloc(u64::MAX, PageSize::Huge), Err(VerbsError::NoRoom(_))));
    }
}
