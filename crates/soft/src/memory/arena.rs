//! The arena, which allocates program buffers in this process's segment, the memory that peers can map.
//!
//! If the launcher sets `SHARED_BUFFERS`, page-aligned allocations of the program come from the arena. Peers
//! access these buffers by plain loads and stores. All other allocations come from the C library.
//!
//! A buffer must keep its address. So the arena reserves a range of addresses, and makes them accessible as
//! buffers need them. When a range is used up, the arena reserves another range, to which it maps the next
//! bytes of the segment.

use super::segment::{ARENA_AT, ARENA_BYTES, Segment};
use crate::sync::lock;
use doorbell_launch::sealed::{PAGE, Reserve};
use doorbell_launch::variables::SHARED_BUFFERS;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

/// Freed pieces of at least this many bytes return their pages to the kernel.
const GIVE_BACK: u64 = 64 << 10;
/// Bytes of the first address range. For each further range, the arena asks for at least twice as many.
const FIRST_RANGE: u64 = 64 << 20;

/// This process's segment and its file.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) file: File,
    pub(crate) segment: Segment,
    /// The first address range of the arena; `None` when the arena uses it.
    first: Mutex<Option<Reserve>>,
}

impl Own {
    fn create() -> std::io::Result<Own> {
        let (file, segment) = Segment::create()?;
        let first = Mutex::new(Some(Reserve::new(&file, ARENA_AT, FIRST_RANGE)?));
        Ok(Own { file, segment, first })
    }
}

/// This process's segment; null until it is created. Release publishes the segment to the threads that load
/// the pointer by Acquire. The child of a fork(2) sets null while it has only one thread, so that change
/// needs no ordering. The Acquire of a change from null has no use.
static OWN: AtomicPtr<Own> = AtomicPtr::new(std::ptr::null_mut());

/// Returns this process's segment, which is created at the first call and never freed.
pub(crate) fn own() -> std::io::Result<&'static Own> {
    let known = OWN.load(Acquire);
    if !known.is_null() {
        // SAFETY: the pointer was stored below. Its box is never freed.
        return Ok(unsafe { &*known });
    }
    let created = Own::create()?;
    at_fork();
    let made = Box::into_raw(Box::new(created));
    match OWN.compare_exchange(std::ptr::null_mut(), made, AcqRel, Acquire) {
        // SAFETY: the box was leaked just above.
        Ok(_) => Ok(unsafe { &*made }),
        Err(other) => {
            // SAFETY: no other thread has seen `made`. Another thread leaked `other`.
            unsafe {
                drop(Box::from_raw(made));
                Ok(&*other)
            }
        }
    }
}

/// Whether the launcher asked for shared program buffers.
fn wanted() -> bool {
    static WANTED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os(SHARED_BUFFERS).is_some_and(|value| value == "1"))
}

/// The allocator's state and its spinlock. The handlers of pthread_atfork(3) hold the lock across fork(2), so
/// that a child never inherits a lock that another thread of its parent holds.
struct ArenaState {
    /// Whether a thread holds the lock. Acquired by Acquire and released by Release, so that the holder
    /// sees the pieces as the last holder left them.
    taken: AtomicBool,
    pieces: std::cell::UnsafeCell<Pieces>,
}

// SAFETY: only the holder of the lock `taken` accesses `pieces`.
unsafe impl Sync for ArenaState {}

struct Pieces {
    /// The address ranges, newest last. Only the newest range can make more addresses accessible.
    ranges: Vec<Reserve>,
    /// The lowest address of the newest range that was never part of an allocation.
    next: u64,
    /// Lengths of the allocated pieces, by address. `free` has the lengths of the free pieces.
    used: BTreeMap<u64, u64>,
    free: BTreeMap<u64, u64>,
}

impl Pieces {
    const fn none() -> Pieces {
        Pieces { ranges: Vec::new(), next: 0, used: BTreeMap::new(), free: BTreeMap::new() }
    }
}

static STATE: ArenaState =
    ArenaState { taken: AtomicBool::new(false), pieces: std::cell::UnsafeCell::new(Pieces::none()) };

fn with_pieces<T>(f: impl FnOnce(&mut Pieces) -> T) -> T {
    take_lock();
    // SAFETY: this thread holds the lock. `f` allocates no memory of this arena, so it does not come here
    // again.
    let result = f(unsafe { &mut *STATE.pieces.get() });
    STATE.taken.store(false, Release);
    result
}

fn take_lock() {
    while STATE.taken.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
        std::thread::yield_now();
    }
}

/// Allocates `size` bytes of shared memory, aligned to `align`. `None` if the launcher did not ask for shared
/// buffers, or if the arena has no space. Also `None` if `size` is 0, or if `align` is less than a page or no
/// power of two.
pub fn alloc(align: usize, size: usize) -> Option<*mut u8> {
    if (align as u64) < PAGE || size == 0 || !align.is_power_of_two() || !wanted() {
        return None;
    }
    place(align, size)
}

/// Allocates `size` zeroed bytes of shared memory, aligned to a page, even if the launcher did not ask for
/// shared buffers.
pub(crate) fn alloc_own(size: usize) -> Option<*mut u8> {
    let memory = place(PAGE as usize, size)?;
    // SAFETY: the piece was just allocated, and has at least this size.
    unsafe { memory.write_bytes(0, size) };
    Some(memory)
}

fn place(align: usize, size: usize) -> Option<*mut u8> {
    let own = own().ok()?;
    let len = (size as u64).checked_next_multiple_of(PAGE)?;
    Some(with_pieces(|pieces| pieces.take(own, &KNOWN, len, align as u64))? as *mut u8)
}

impl Pieces {
    /// Allocates a piece in the file of `own`, and returns its address. New address ranges are added to
    /// `known`.
    fn take(&mut self, own: &Own, known: &KnownRanges, len: u64, align: u64) -> Option<u64> {
        if let Some(taken) = self.take_free(len, align).or_else(|| self.take_new(own, len, align)) {
            return Some(taken);
        }
        // Two attempts, because the first range may be too short.
        (0..2).find_map(|_| {
            self.begin_range(own, known, len.checked_add(align)?)?;
            self.take_new(own, len, align)
        })
    }

    /// Allocates a piece from freed addresses.
    fn take_free(&mut self, len: u64, align: u64) -> Option<u64> {
        let fits = |(&at, &room): (&u64, &u64)| {
            let start = at.checked_next_multiple_of(align)?;
            (start.checked_add(len)? <= at + room).then_some((at, room, start))
        };
        let (at, room, start) = self.free.iter().find_map(fits)?;
        self.free.remove(&at);
        if start > at {
            self.free.insert(at, start - at);
        }
        let end = at + room;
        if end > start + len {
            self.free.insert(start + len, end - start - len);
        }
        self.used.insert(start, len);
        Some(start)
    }

    /// Allocates a piece from never-used addresses of the newest range.
    fn take_new(&mut self, own: &Own, len: u64, align: u64) -> Option<u64> {
        let range = self.ranges.last_mut()?;
        let start = self.next.checked_next_multiple_of(align)?;
        let bytes = start.checked_add(len)?.checked_sub(range.base())?;
        if bytes > range.most() {
            return None;
        }
        range.grow(bytes).ok()?;
        own.segment.show_arena(range.at() + range.open());
        if start > self.next {
            self.free.insert(self.next, start - self.next);
        }
        self.next = start + len;
        self.used.insert(start, len);
        Some(start)
    }

    /// Adds an address range for at least `len` bytes. Only the first range may be shorter.
    fn begin_range(&mut self, own: &Own, known: &KnownRanges, len: u64) -> Option<()> {
        if !known.has_room() {
            return None;
        }
        let least = len.checked_add(PAGE)?.checked_next_multiple_of(PAGE)?;
        let range = match self.ranges.last_mut() {
            None => lock(&own.first).take()?,
            Some(last) => {
                let left = (ARENA_AT + ARENA_BYTES).checked_sub(last.at() + last.open())?;
                let most = least.max(2 * last.most()).min(left);
                if least > most {
                    return None;
                }
                // `behind` releases the addresses after the open ones. The program may soon use them for
                // other memory.
                known.set_bytes(last.open());
                let next = last.behind(most, least, own.segment.remapper());
                let next = next.inspect_err(|_| known.set_bytes(last.most())).ok()?;
                let end = last.base() + last.open();
                if end > self.next {
                    self.free.insert(self.next, end - self.next);
                }
                next
            }
        };
        known.add(&range);
        self.next = range.base();
        self.ranges.push(range);
        Some(())
    }

    fn give_back(&mut self, at: u64) -> Option<u64> {
        let len = self.used.remove(&at)?;
        let (mut start, mut end) = (at, at + len);
        if let Some((&before, &room)) = self.free.range(..at).next_back()
            && before + room == at
            && !self.begins_range(at)
        {
            self.free.remove(&before);
            start = before;
        }
        if !self.begins_range(end)
            && let Some(room) = self.free.remove(&end)
        {
            end += room;
        }
        self.free.insert(start, end - start);
        Some(len)
    }

    /// Whether an address range begins at `at`. Two ranges may be adjacent, but no piece may extend over
    /// both.
    fn begins_range(&self, at: u64) -> bool {
        self.ranges.iter().any(|range| range.base() == at)
    }
}

/// The address ranges of the arenas of this process and of its ancestors. Any call of the program may read
/// them, without a lock. Only the holder of the allocator's lock changes them, so it loads them Relaxed.
struct KnownRanges {
    len: AtomicUsize,
    /// Number of the ancestors' ranges, which come first in `ranges`. Allocations in these ranges are never
    /// freed. Relaxed: it changes only in the child of a fork(2), while the child has one thread.
    inherited: AtomicUsize,
    ranges: [KnownRange; MOST_RANGES],
}

/// Maximum number of ranges of a process and its ancestors. Each range of a process is at least twice as long
/// as the previous one, unless the kernel refuses that many addresses.
const MOST_RANGES: usize = 256;

struct KnownRange {
    base: AtomicU64,
    bytes: AtomicU64,
    /// Offset of the range in the segment.
    at: AtomicU64,
}

impl KnownRange {
    const fn none() -> KnownRange {
        KnownRange { base: AtomicU64::new(0), bytes: AtomicU64::new(0), at: AtomicU64::new(0) }
    }
}

static KNOWN: KnownRanges = KnownRanges::none();

impl KnownRanges {
    const fn none() -> KnownRanges {
        KnownRanges {
            len: AtomicUsize::new(0),
            inherited: AtomicUsize::new(0),
            ranges: [const { KnownRange::none() }; MOST_RANGES],
        }
    }

    fn has_room(&self) -> bool {
        self.len.load(Relaxed) < MOST_RANGES
    }

    /// Adds a range. The caller holds the allocator's lock. If the table is full, the range is not added, and
    /// nothing may be allocated in it.
    fn add(&self, range: &Reserve) {
        let len = self.len.load(Relaxed);
        let Some(known) = self.ranges.get(len) else { return };
        known.base.store(range.base(), Relaxed);
        known.bytes.store(range.most(), Relaxed);
        known.at.store(range.at(), Relaxed);
        // Release: a thread that loads the new length also sees the range.
        self.len.store(len + 1, Release);
    }

    /// Sets the length of the newest range. Relaxed: the store precedes the munmap(2) of the released
    /// addresses. A thread gets such an address only from a later call of the kernel.
    fn set_bytes(&self, bytes: u64) {
        if let Some(known) = self.ranges.get(self.len.load(Relaxed).wrapping_sub(1)) {
            known.bytes.store(bytes, Relaxed);
        }
    }

    /// Marks all ranges as inherited. The child of a fork(2) calls this.
    fn inherit(&self) {
        self.inherited.store(self.len.load(Relaxed), Relaxed);
    }

    /// The index of the range that contains these bytes, and the offset of the first byte in the segment.
    #[inline]
    fn find(&self, addr: u64, len: u64) -> Option<(usize, u64)> {
        // Acquire, for the Release in `add`: this thread sees all ranges below the loaded length.
        let known = &self.ranges[..self.len.load(Acquire)];
        known.iter().enumerate().find_map(|(number, range)| {
            let from = addr.checked_sub(range.base.load(Relaxed))?;
            let is_in = from.checked_add(len)? <= range.bytes.load(Relaxed);
            is_in.then(|| (number, range.at.load(Relaxed) + from))
        })
    }

    fn is_inherited(&self, number: usize) -> bool {
        number < self.inherited.load(Relaxed)
    }
}

/// The offset of these `len` bytes in this process's segment; `None` if they do not lie in its arena.
pub(crate) fn offset_of(addr: u64, len: u64) -> Option<u64> {
    let (number, at) = KNOWN.find(addr, len)?;
    (!KNOWN.is_inherited(number)).then_some(at)
}

/// The process whose arena contains a piece: this process or an ancestor.
enum PieceOf {
    Own,
    Ancestor,
}

#[inline]
fn owner(pointer: *mut u8) -> Option<PieceOf> {
    // Each piece begins at a page boundary.
    if !(pointer as u64).is_multiple_of(PAGE) {
        return None;
    }
    let (number, _) = KNOWN.find(pointer as u64, 1)?;
    Some(if KNOWN.is_inherited(number) { PieceOf::Ancestor } else { PieceOf::Own })
}

/// Frees an allocation; `false` if it does not come from an arena. An ancestor's allocation stays.
pub fn free(pointer: *mut u8) -> bool {
    match owner(pointer) {
        None => false,
        Some(PieceOf::Ancestor) => true,
        Some(PieceOf::Own) => {
            let at = pointer as u64;
            if let Some(len) = with_pieces(|pieces| pieces.used.get(&at).copied()) {
                if len >= GIVE_BACK {
                    // If madvise(2) fails, for example for locked memory, the kernel keeps the pages. SAFETY:
                    // these are pages of the allocation, which the program no longer uses.
                    let _ = unsafe { madvise(pointer.cast(), len as usize, Advice::LinuxRemove) };
                }
                with_pieces(|pieces| pieces.give_back(at));
            }
            true
        }
    }
}

/// Size of the allocation at an address in bytes; 0 for an ancestor's allocation. `None` if the address does
/// not come from an arena.
pub fn size(pointer: *mut u8) -> Option<usize> {
    let at = pointer as u64;
    match owner(pointer)? {
        PieceOf::Own => Some(with_pieces(|pieces| pieces.used.get(&at).copied()).unwrap_or(0) as usize),
        PieceOf::Ancestor => Some(0),
    }
}

fn at_fork() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    });
}

extern "C" fn before_fork() {
    take_lock();
}

extern "C" fn in_parent() {
    STATE.taken.store(false, Release);
}

/// Runs in the child of a fork(2). The child keeps its parent's buffers as private mappings, and later
/// creates its own segment and arena.
extern "C" fn in_child() {
    crate::sync::forget_thread_id();
    let own = OWN.swap(std::ptr::null_mut(), AcqRel);
    if !own.is_null() {
        // SAFETY: the function `own` leaked this box, so it is never freed.
        let own = unsafe { &*own };
        // SAFETY: the child's only thread holds the lock that `before_fork` acquired.
        let pieces = unsafe { &mut *STATE.pieces.get() };
        for range in pieces.ranges.iter().filter(|range| range.open() > 0) {
            let (protection, flags) =
                (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
            // SAFETY: the new mapping replaces the shared mapping of the same bytes. The kernel copies a page
            // when the child writes to it. Until then, the child sees the parent's writes.
            let _ = unsafe {
                let to = range.base() as *mut std::ffi::c_void;
                mmap(to, range.open() as usize, protection, flags, &own.file, range.at())
            };
        }
        KNOWN.inherit();
        // Dropping the ranges would unmap them.
        std::mem::forget(std::mem::replace(pieces, Pieces::none()));
    }
    STATE.taken.store(false, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Arena {
        own: Own,
        known: KnownRanges,
        pieces: Pieces,
    }

    impl Arena {
        fn new() -> Arena {
            Arena {
                own: Own::create().expect("a segment"),
                known: KnownRanges::none(),
                pieces: Pieces::none(),
            }
        }

        fn take(&mut self, len: u64, align: u64) -> Option<u64> {
            self.pieces.take(&self.own, &self.known, len, align)
        }
    }

    #[test]
    fn freed_neighbours_become_one_piece() {
        let mut arena = Arena::new();
        let at: Vec<u64> = (0..3).filter_map(|_| arena.take(PAGE, PAGE)).collect();
        assert_eq!(at[1..], [at[0] + PAGE, at[0] + 2 * PAGE]);
        for n in [0, 2, 1] {
            assert_eq!(arena.pieces.give_back(at[n]), Some(PAGE));
        }
        assert_eq!(arena.pieces.give_back(at[0]), None);
        assert_eq!(arena.pieces.free.len(), 1);
        assert_eq!(arena.take(3 * PAGE, PAGE), Some(at[0]));
    }

    #[test]
    fn addresses_are_aligned() {
        let mut arena = Arena::new();
        for align in [PAGE, 2 << 20, 1 << 16, 256 << 20] {
            let at = arena.take(PAGE, align).expect("there is room");
            assert_eq!(at % align, 0);
        }
    }

    #[test]
    fn too_much_is_refused() {
        let mut arena = Arena::new();
        assert_eq!(arena.take(ARENA_BYTES + PAGE, PAGE), None);
        assert_eq!(arena.take(u64::MAX - PAGE + 1, PAGE), None);
        assert!(arena.take(PAGE, PAGE).is_some());
    }

    #[test]
    fn buffers_in_all_ranges_are_where_peers_look_for_them() {
        let mut arena = Arena::new();
        let peer = Segment::open(&arena.own.file).expect("its segment");
        // Each large size exceeds the addresses that are left in the newest range.
        let sizes = [PAGE, FIRST_RANGE, PAGE, 3 * FIRST_RANGE, 8 * FIRST_RANGE, 8 * FIRST_RANGE, PAGE];
        let mut offsets = Vec::new();
        for (n, len) in (1..).zip(sizes) {
            let at = arena.take(len, PAGE).expect("there is room");
            // SAFETY: these are the first and the last word of the buffer.
            unsafe {
                (at as *mut u64).write_volatile(n);
                ((at + len - 8) as *mut u64).write_volatile(100 + n);
            }
            let (_, offset) = arena.known.find(at, len).expect("it is known");
            let there = peer.in_arena(offset, len).expect("it can be mapped");
            // SAFETY: both words lie within the mapping.
            let read = unsafe {
                (
                    there.cast::<u64>().read_volatile(),
                    there.add(len as usize - 8).cast::<u64>().read_volatile(),
                )
            };
            assert_eq!(read, (n, 100 + n));
            offsets.push(offset..offset + len);
        }
        assert!(arena.pieces.ranges.len() > 3, "{:?}", arena.pieces.ranges);
        offsets.sort_by_key(|range| range.start);
        assert!(offsets.windows(2).all(|two| two[0].end <= two[1].start), "{offsets:?}");
        // The rest of each range is free too, and no free piece extends over two ranges.
        for (at, len) in arena.pieces.used.clone() {
            assert_eq!(arena.pieces.give_back(at), Some(len));
        }
        let free = &arena.pieces.free;
        assert!(free.iter().all(|(at, len)| arena.known.find(*at, *len).is_some()), "{free:?}");
        assert!(peer.in_arena(ARENA_AT + ARENA_BYTES - PAGE, PAGE).is_err(), "the owner does not use it");
        assert!(peer.in_arena(u64::MAX - 8, 64).is_err() && peer.in_arena(0, 64).is_err());
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

    /// A child may free buffers of all its ancestors. These frees do nothing.
    #[test]
    fn a_buffer_of_an_ancestor_is_known_in_each_generation() {
        let buffer = place(PAGE as usize, 100).expect("a buffer");
        // SAFETY: the child and the grandchild only allocate and free through this module, and exit.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                let own = place(PAGE as usize, 100);
                let grandchild = libc::fork();
                if grandchild == 0 {
                    let all = [Some(buffer), own];
                    let are_known =
                        all.iter().all(|buffer| buffer.is_some_and(|at| size(at) == Some(0) && free(at)));
                    libc::_exit(i32::from(!are_known));
                }
                let mut status = -1;
                libc::waitpid(grandchild, &mut status, 0);
                libc::_exit(status);
            }
            let mut status = -1;
            libc::waitpid(child, &mut status, 0);
            status
        };
        assert_eq!(status, 0);
        assert!(size(buffer) == Some(PAGE as usize) && free(buffer));
    }
}
