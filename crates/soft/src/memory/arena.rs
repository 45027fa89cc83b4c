//! The arena: program buffers in the segment that this process shares.
//!
//! If the launcher asks for it, page-aligned allocations of the program come from the arena. Peers access
//! these buffers by plain loads and stores. Other allocations come from the C library, as without the arena.
//!
//! A buffer stays at its address. So the arena has addresses in reserve, and opens them as buffers need them.
//! When they are used up, it takes a further range of addresses, for the bytes of the segment that follow.

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
/// Bytes of the first range of addresses. Each further range has twice as many as the one before.
const FIRST_RANGE: u64 = 64 << 20;

/// This process's segment and its file.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) file: File,
    pub(crate) segment: Segment,
    /// The first addresses of the arena, until the arena begins.
    first: Mutex<Option<Reserve>>,
}

impl Own {
    fn create() -> std::io::Result<Own> {
        let (file, segment) = Segment::create()?;
        let first = Mutex::new(Some(Reserve::new(&file, ARENA_AT, FIRST_RANGE)?));
        Ok(Own { file, segment, first })
    }
}

static OWN: AtomicPtr<Own> = AtomicPtr::new(std::ptr::null_mut());

/// This process's segment, created on first use and never freed.
pub(crate) fn own() -> std::io::Result<&'static Own> {
    let known = OWN.load(Acquire);
    if !known.is_null() {
        // SAFETY: set below from a leaked box.
        return Ok(unsafe { &*known });
    }
    let created = Own::create()?;
    at_fork();
    let made = Box::into_raw(Box::new(created));
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
    /// The ranges of addresses, the newest last. Only the newest one can open more addresses.
    ranges: Vec<Reserve>,
    /// The first address of the newest range that was never allocated.
    next: u64,
    /// Lengths by address, here and in `free`.
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
    let len = (size as u64).checked_next_multiple_of(PAGE)?;
    Some(with_pieces(|pieces| pieces.take(own, &KNOWN, len, align as u64))? as *mut u8)
}

impl Pieces {
    /// The address of a new piece. The file of `own` has it, and `known` gets new ranges of addresses.
    fn take(&mut self, own: &Own, known: &KnownRanges, len: u64, align: u64) -> Option<u64> {
        if let Some(taken) = self.take_free(len, align).or_else(|| self.take_new(own, len, align)) {
            return Some(taken);
        }
        // The first range may be too short.
        (0..2).find_map(|_| {
            self.begin_range(own, known, len.checked_add(align)?)?;
            self.take_new(own, len, align)
        })
    }

    /// A piece at addresses that were freed.
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

    /// A piece at addresses of the newest range that were never used.
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

    /// Adds a range of addresses for at least `len` bytes.
    fn begin_range(&mut self, own: &Own, known: &KnownRanges, len: u64) -> Option<()> {
        let least = len.checked_add(PAGE)?.checked_next_multiple_of(PAGE)?;
        let range = match self.ranges.last_mut() {
            None => lock(&own.first).take()?,
            Some(last) => {
                let left = (ARENA_AT + ARENA_BYTES).checked_sub(last.at() + last.open())?;
                let most = least.max(2 * last.most()).min(left);
                if least > most || !known.has_room() {
                    return None;
                }
                // The other addresses are released, and may soon belong to the program.
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

    /// Whether a range of addresses begins here. A piece must not extend over two ranges, which may be next
    /// to each other.
    fn begins_range(&self, at: u64) -> bool {
        self.ranges.iter().any(|range| range.base() == at)
    }
}

/// The ranges of addresses that belong to the arenas of this process and of its ancestors. They are read
/// without a lock, in any call of the program.
struct KnownRanges {
    len: AtomicUsize,
    /// Number of the ancestors' ranges, which come first. Allocations there are never freed.
    inherited: AtomicUsize,
    ranges: [KnownRange; MOST_RANGES],
}

/// The most ranges that a process and its ancestors can have. Each range of a process is at least twice as
/// long as the one before, unless the kernel refuses so many addresses.
const MOST_RANGES: usize = 256;

struct KnownRange {
    base: AtomicU64,
    bytes: AtomicU64,
    /// Offset in the segment.
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

    /// Adds a range. The caller holds the allocator's lock. Without room, the range is not known, so that
    /// nothing may be allocated there.
    fn add(&self, range: &Reserve) {
        let len = self.len.load(Relaxed);
        let Some(known) = self.ranges.get(len) else { return };
        known.base.store(range.base(), Relaxed);
        known.bytes.store(range.most(), Relaxed);
        known.at.store(range.at(), Relaxed);
        // Release: a thread that sees the number sees the range.
        self.len.store(len + 1, Release);
    }

    /// Sets the length of the newest range.
    fn set_bytes(&self, bytes: u64) {
        if let Some(known) = self.ranges.get(self.len.load(Relaxed).wrapping_sub(1)) {
            known.bytes.store(bytes, Relaxed);
        }
    }

    /// Counts all ranges as inherited, in the child of a fork(2).
    fn inherit(&self) {
        self.inherited.store(self.len.load(Relaxed), Relaxed);
    }

    /// The number of the range that contains these bytes, and the offset of the first one in the segment.
    #[inline]
    fn find(&self, addr: u64, len: u64) -> Option<(usize, u64)> {
        // Acquire: the ranges up to this number are seen.
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

/// Offset in this process's segment of `len` bytes, if they lie in the arena.
pub(crate) fn offset_of(addr: u64, len: u64) -> Option<u64> {
    let (number, at) = KNOWN.find(addr, len)?;
    (!KNOWN.is_inherited(number)).then_some(at)
}

/// The arena that the piece at an address belongs to: this process's or an ancestor's.
enum PieceOf {
    Own,
    Ancestor,
}

#[inline]
fn owner(pointer: *mut u8) -> Option<PieceOf> {
    // Each piece begins with a page.
    if !(pointer as u64).is_multiple_of(PAGE) {
        return None;
    }
    let (number, _) = KNOWN.find(pointer as u64, 1)?;
    Some(if KNOWN.is_inherited(number) { PieceOf::Ancestor } else { PieceOf::Own })
}

/// Frees an allocation. `false` if it does not come from an arena.
pub fn free(pointer: *mut u8) -> bool {
    match owner(pointer) {
        None => false,
        Some(PieceOf::Ancestor) => true,
        Some(PieceOf::Own) => {
            let at = pointer as u64;
            if let Some(len) = with_pieces(|pieces| pieces.used.get(&at).copied()) {
                if len >= GIVE_BACK {
                    // If this fails, as for locked memory, the pages stay. SAFETY: pages of the allocation,
                    // which the program does not use any more.
                    let _ = unsafe { madvise(pointer.cast(), len as usize, Advice::LinuxRemove) };
                }
                with_pieces(|pieces| pieces.give_back(at));
            }
            true
        }
    }
}

/// Bytes of the allocation at an address, 0 if it is an ancestor's. `None` if it does not come from an arena.
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
        for range in pieces.ranges.iter().filter(|range| range.open() > 0) {
            let (protection, flags) =
                (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
            // SAFETY: the mapping has the bytes that were there before. They are copied when either process
            // writes.
            let _ = unsafe {
                let to = range.base() as *mut std::ffi::c_void;
                mmap(to, range.open() as usize, protection, flags, &own.file, range.at())
            };
        }
        KNOWN.inherit();
        // The ranges stay mapped.
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
        // Each is longer than the addresses that are left.
        let sizes = [PAGE, FIRST_RANGE, PAGE, 3 * FIRST_RANGE, 8 * FIRST_RANGE, 8 * FIRST_RANGE, PAGE];
        let mut offsets = Vec::new();
        for (n, len) in (1..).zip(sizes) {
            let at = arena.take(len, PAGE).expect("there is room");
            // SAFETY: the first and the last word of the buffer.
            unsafe {
                (at as *mut u64).write_volatile(n);
                ((at + len - 8) as *mut u64).write_volatile(100 + n);
            }
            let (_, offset) = arena.known.find(at, len).expect("it is known");
            let there = peer.in_arena(offset, len).expect("it can be mapped");
            // SAFETY: words within the mapping.
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
        // The rest of a range is used later. Nothing extends over two ranges.
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

    /// Buffers of all ancestors may be freed by a child, which then does nothing.
    #[test]
    fn a_buffer_of_an_ancestor_is_known_in_each_generation() {
        let buffer = place(PAGE as usize, 100).expect("a buffer");
        // SAFETY: the child and the grandchild only allocate and free by this module, and exit.
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
