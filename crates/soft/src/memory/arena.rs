//! The arena: program buffers in the segment that this process shares.
//!
//! If the launcher asks for it, page-aligned allocations of the program come from the arena. Peers access
//! these buffers by plain loads and stores. Other allocations come from the C library, as without the arena.

use super::segment::{ARENA_AT, ARENA_BYTES, Segment};
use doorbell_launch::variables::SHARED_BUFFERS;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Freed pieces of at least this many bytes return their pages to the kernel.
const GIVE_BACK: u64 = 64 << 10;

/// This process's segment and its file.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) file: File,
    pub(crate) segment: Segment,
}

static OWN: AtomicPtr<Own> = AtomicPtr::new(std::ptr::null_mut());

/// This process's segment, created on first use and never freed.
pub(crate) fn own() -> std::io::Result<&'static Own> {
    let known = OWN.load(Acquire);
    if !known.is_null() {
        // SAFETY: set below from a leaked box.
        return Ok(unsafe { &*known });
    }
    let (file, segment) = Segment::create()?;
    at_fork();
    let made = Box::into_raw(Box::new(Own { file, segment }));
    match OWN.compare_exchange(std::ptr::null_mut(), made, AcqRel, Acquire) {
        // SAFETY: just leaked.
        Ok(_) => Ok(unsafe { &*made }),
        Err(other) => {
            // SAFETY: `made` is still ours; `other` was leaked by another thread.
            unsafe {
                drop(Box::from_raw(made));
                Ok(&*other)
            }
        }
    }
}

/// Whether the launcher asks for shared program buffers.
fn wanted() -> bool {
    static WANTED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os(SHARED_BUFFERS).is_some_and(|value| value == "1"))
}

/// The state of the allocator. It has a lock of its own, because fork(2) must find that lock free.
struct ArenaState {
    taken: AtomicBool,
    pieces: std::cell::UnsafeCell<Pieces>,
}

// SAFETY: only the holder of `taken` reaches `pieces`.
unsafe impl Sync for ArenaState {}

struct Pieces {
    /// Offset of the first byte that was never allocated.
    next: u64,
    /// Lengths by offset, here and in `free`.
    used: BTreeMap<u64, u64>,
    free: BTreeMap<u64, u64>,
}

static STATE: ArenaState = ArenaState {
    taken: AtomicBool::new(false),
    pieces: std::cell::UnsafeCell::new(Pieces {
        next: ARENA_AT,
        used: BTreeMap::new(),
        free: BTreeMap::new(),
    }),
};

/// Address of the parent's segment, in a forked child. The child does not free what was allocated there.
static PARENT_ARENA: AtomicU64 = AtomicU64::new(0);

fn with_pieces<T>(f: impl FnOnce(&mut Pieces) -> T) -> T {
    take_lock();
    // SAFETY: this thread has the lock; `f` allocates nothing that comes from this arena.
    let result = f(unsafe { &mut *STATE.pieces.get() });
    STATE.taken.store(false, Release);
    result
}

fn take_lock() {
    while STATE.taken.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
        std::thread::yield_now();
    }
}

/// `size` bytes aligned to `align` in shared memory. `None` if the allocation does not belong here: it is
/// aligned to less than a page, shared buffers are not wanted, or there is no space.
pub fn alloc(align: usize, size: usize) -> Option<*mut u8> {
    if (align as u64) < PAGE || size == 0 || !align.is_power_of_two() || !wanted() {
        return None;
    }
    place(align, size)
}

/// `size` zeroed bytes in shared memory, aligned to a page. They are there even if program buffers are not
/// shared.
pub(crate) fn alloc_own(size: usize) -> Option<*mut u8> {
    let memory = place(PAGE as usize, size)?;
    // SAFETY: just allocated, of at least this size.
    unsafe { memory.write_bytes(0, size) };
    Some(memory)
}

fn place(align: usize, size: usize) -> Option<*mut u8> {
    let own = own().ok()?;
    let base = own.segment.base();
    // The segment begins at a page, so an offset is aligned to a page exactly if its address is. For larger
    // alignments the address decides.
    let len = (size as u64).checked_next_multiple_of(PAGE)?;
    let at = with_pieces(|pieces| pieces.take(len, align as u64, base as u64))?;
    Some(base.wrapping_add(at as usize))
}

impl Pieces {
    fn take(&mut self, len: u64, align: u64, base: u64) -> Option<u64> {
        let aligned = |at: u64| Some((base + at).checked_next_multiple_of(align)? - base);
        let fits = |(&at, &room): (&u64, &u64)| {
            let start = aligned(at)?;
            (start.checked_add(len)? <= at + room).then_some((at, room, start))
        };
        if let Some((at, room, start)) = self.free.iter().find_map(fits) {
            self.free.remove(&at);
            if start > at {
                self.free.insert(at, start - at);
            }
            let end = at + room;
            if end > start + len {
                self.free.insert(start + len, end - start - len);
            }
            self.used.insert(start, len);
            return Some(start);
        }
        let start = aligned(self.next)?;
        let end = start.checked_add(len).filter(|&end| end <= ARENA_AT + ARENA_BYTES)?;
        if start > self.next {
            self.free.insert(self.next, start - self.next);
        }
        self.next = end;
        self.used.insert(start, len);
        Some(start)
    }

    fn give_back(&mut self, at: u64) -> Option<u64> {
        let len = self.used.remove(&at)?;
        let (mut start, mut end) = (at, at + len);
        if let Some((&before, &room)) = self.free.range(..at).next_back()
            && before + room == at
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(room) = self.free.remove(&end) {
            end += room;
        }
        self.free.insert(start, end - start);
        Some(len)
    }
}

/// The arena that an address lies in: this process's or its parent's.
fn position(pointer: *mut u8) -> Option<Position> {
    let within = |base: u64| {
        let at = (pointer as u64).checked_sub(base)?;
        (ARENA_AT..ARENA_AT + ARENA_BYTES).contains(&at).then_some(at)
    };
    let own = OWN.load(Acquire);
    if !own.is_null() {
        // SAFETY: a leaked box.
        let base = unsafe { (*own).segment.base() } as u64;
        if let Some(at) = within(base) {
            return Some(Position::Own(at));
        }
    }
    let parent = PARENT_ARENA.load(Relaxed);
    (parent != 0 && within(parent).is_some()).then_some(Position::Parents)
}

enum Position {
    Own(u64),
    Parents,
}

/// Frees an allocation. `false` if it does not come from an arena.
pub fn free(pointer: *mut u8) -> bool {
    match position(pointer) {
        None => false,
        Some(Position::Parents) => true,
        Some(Position::Own(at)) => {
            if let Some(len) = with_pieces(|pieces| pieces.used.get(&at).copied()) {
                if len >= GIVE_BACK
                    && let Ok(own) = own()
                {
                    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    // If this fails, the pages stay.
                    let _ = fallocate(&own.file, flags, at, len);
                }
                with_pieces(|pieces| pieces.give_back(at));
            }
            true
        }
    }
}

/// Bytes of the allocation at an address, 0 if it is the parent's. `None` if it does not come from an arena.
pub fn size(pointer: *mut u8) -> Option<usize> {
    match position(pointer)? {
        Position::Own(at) => Some(with_pieces(|pieces| pieces.used.get(&at).copied()).unwrap_or(0) as usize),
        Position::Parents => Some(0),
    }
}

fn at_fork() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    });
}

extern "C" fn before_fork() {
    take_lock();
}

extern "C" fn in_parent() {
    STATE.taken.store(false, Release);
}

/// The child keeps its parent's memory as a private copy and begins an arena of its own.
extern "C" fn in_child() {
    crate::sync::forget_thread_id();
    let own = OWN.swap(std::ptr::null_mut(), AcqRel);
    if !own.is_null() {
        // SAFETY: a leaked box.
        let own = unsafe { &*own };
        // SAFETY: the child has one thread, and it has the lock that `before_fork` took.
        let pieces = unsafe { &mut *STATE.pieces.get() };
        let used = pieces.next - ARENA_AT;
        if used > 0 {
            let (protection, flags) =
                (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
            // SAFETY: the mapping has the bytes that were there before. They are copied when either process
            // writes.
            let _ = unsafe {
                let to = own.segment.base().add(ARENA_AT as usize).cast();
                mmap(to, used as usize, protection, flags, &own.file, ARENA_AT)
            };
        }
        PARENT_ARENA.store(own.segment.base() as u64, Relaxed);
        *pieces = Pieces { next: ARENA_AT, used: BTreeMap::new(), free: BTreeMap::new() };
    }
    STATE.taken.store(false, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Pieces {
        Pieces { next: ARENA_AT, used: BTreeMap::new(), free: BTreeMap::new() }
    }

    #[test]
    fn freed_neighbours_become_one_piece() {
        let mut pieces = empty();
        let at: Vec<u64> = (0..3).filter_map(|_| pieces.take(PAGE, PAGE, 0)).collect();
        assert_eq!(at, [ARENA_AT, ARENA_AT + PAGE, ARENA_AT + 2 * PAGE]);
        for n in [0, 2, 1] {
            assert_eq!(pieces.give_back(at[n]), Some(PAGE));
        }
        assert_eq!(pieces.give_back(at[0]), None);
        assert_eq!(pieces.free.len(), 1);
        assert_eq!(pieces.take(3 * PAGE, PAGE, 0), Some(ARENA_AT));
    }

    #[test]
    fn addresses_are_aligned_whatever_the_base() {
        let mut pieces = empty();
        let base = 0x7000_1000;
        for align in [PAGE, 2 << 20, 1 << 16] {
            let at = pieces.take(PAGE, align, base).expect("there is room");
            assert_eq!((base + at) % align, 0);
        }
    }

    #[test]
    fn too_much_is_refused() {
        assert_eq!(empty().take(ARENA_BYTES + PAGE, PAGE, 0), None);
        assert_eq!(empty().take(u64::MAX - PAGE, PAGE, 0), None);
    }

    #[test]
    fn a_forked_child_has_a_number_of_its_own() {
        own().expect("a segment, with which forks are seen");
        let parent = crate::sync::thread_id();
        // SAFETY: the child only compares two numbers and exits.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(crate::sync::thread_id() == parent));
            }
            let mut status = -1;
            libc::waitpid(child, &mut status, 0);
            status
        };
        assert_eq!(status, 0);
    }
}
