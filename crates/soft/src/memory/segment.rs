//! The segment: the memory that a process shares with its peers. A segment holds records, queues, and the
//! program buffers of the arena.
//!
//! A segment is a file of several areas. The owner maps and uses each area from its first byte up to a length
//! that the header records. Peers map at most that length.

use super::records::*;
use crate::sync::lock;
use doorbell_launch::say::say;
use doorbell_launch::sealed::{self, InCore, PAGE, Part, Remapper, STEP};
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, Once};

/// The areas after the header, in the order of the file.
#[derive(Clone, Copy, Debug)]
enum Area {
    Mrs,
    Qps,
    Causes,
    Rqs,
    Srqs,
    Cqs,
    Copies,
    Heap,
    Arena,
}

const AREAS: [Area; 9] = [
    Area::Mrs,
    Area::Qps,
    Area::Causes,
    Area::Rqs,
    Area::Srqs,
    Area::Cqs,
    Area::Copies,
    Area::Heap,
    Area::Arena,
];

/// Bytes of the heap, which holds queues, and of the arena, which holds program buffers.
const HEAP_BYTES: u64 = 32 << 30;
pub(crate) const ARENA_BYTES: u64 = 256 << 30;

// Offset of the first record in an area. Records do not begin at a page boundary, because buffers usually do.
// A processor first compares a load with outstanding stores by their offsets within pages. So a load of a
// record at a page boundary would wait for the program's stores to the first bytes of a buffer.
const RECORDS_AT: u64 = 2048;

/// Bytes of the header, and the offsets of the records in the header.
const HEADER_BYTES: u64 = STEP;
const ATOMIC_AT: u64 = PAGE + RECORDS_AT;
const GROUPS_AT: u64 = ATOMIC_AT + (ATOMIC_LOCKS * size_of::<LockRecord>()) as u64;
const COPIES_AT: u64 = GROUPS_AT + (GROUPS * size_of::<GroupRecord>()) as u64;
const _: () = assert!(COPIES_AT + size_of::<CopiesRecord>() as u64 <= HEADER_BYTES);

impl Area {
    /// The maximum size of the area in bytes.
    const fn most(self) -> u64 {
        let records = match self {
            Area::Mrs => MRS * size_of::<MrRecord>(),
            Area::Qps => QPS * size_of::<QpRecord>(),
            Area::Causes => QPS * size_of::<CauseRecord>(),
            Area::Rqs => QPS * size_of::<RqRecord>(),
            Area::Srqs => SRQS * size_of::<RqRecord>(),
            Area::Cqs => CQS * size_of::<CqRecord>(),
            Area::Copies => COPIES * size_of::<CopyRecord>(),
            Area::Heap => return HEAP_BYTES,
            Area::Arena => return ARENA_BYTES,
        };
        (RECORDS_AT + records as u64).next_multiple_of(STEP)
    }

    /// Offset of the area in the segment.
    const fn at(self) -> u64 {
        let (mut at, mut before) = (HEADER_BYTES, 0);
        while before < self as usize {
            at += AREAS[before].most();
            before += 1;
        }
        at
    }
}

const HEAP_AT: u64 = Area::Heap.at();
/// Offset of the arena in the segment.
pub(crate) const ARENA_AT: u64 = Area::Arena.at();
const SEGMENT_BYTES: u64 = ARENA_AT + ARENA_BYTES;

/// Version of the shared layout. Increment it when an entry of the registry or of a segment changes its
/// meaning but not its size.
const LAYOUT: u32 = 7;

/// The layout as text. Two processes can use each other's segments only if their texts are equal.
pub(crate) fn layout() -> String {
    format!("doorbell layout {LAYOUT}, {HEAP_AT:#x}, {} {}\n", size_of::<RqSlot>(), size_of::<CqRing>())
}

/// The first bytes of a segment.
#[repr(C)]
struct Header {
    /// Bytes that the owner uses of each area.
    used: [AtomicU64; AREAS.len()],
}

/// A mapped segment. A process keeps its own segment mapped as long as it lives, and a peer's segment as long
/// as it uses the peer.
#[derive(Debug)]
pub(crate) struct Segment {
    areas: [Part; AREAS.len()],
    header: Part,
    remapper: Remapper,
    is_own: bool,
    /// The owner's slots in the registry, as far as this process knows them.
    pub(crate) slots: Slots,
}

/// The reason why bytes of a segment cannot be accessed.
#[derive(Debug)]
pub(crate) enum Unmapped {
    /// The owner does not use the bytes.
    Outside,
    /// The bytes cannot be mapped.
    Refused(io::Error),
}

impl Segment {
    /// Creates an empty segment. No process can shrink its file, so accesses to mapped bytes cannot fail
    /// later.
    pub(crate) fn create() -> io::Result<(File, Segment)> {
        let file = sealed::create(c"doorbell", SEGMENT_BYTES)?;
        let segment = Segment::map(&file, true)?;
        Ok((file, segment))
    }

    /// Opens another process's segment. Fails if the file has the wrong size or is not sealed against
    /// shrinking.
    pub(crate) fn open(file: &File) -> io::Result<Segment> {
        sealed::check(file, SEGMENT_BYTES)?;
        Segment::map(file, false)
    }

    fn map(file: &File, is_own: bool) -> io::Result<Segment> {
        let in_core = if is_own { InCore::Yes } else { InCore::No };
        let header = Part::new(file, 0, HEADER_BYTES, in_core)?;
        let mut areas = Vec::with_capacity(AREAS.len());
        for area in AREAS {
            areas.push(match (area, is_own) {
                // The owner maps its buffers at other addresses (`arena.rs`).
                (Area::Arena, true) => Part::new(file, area.at(), PAGE, InCore::No)?,
                // Mapped in full, because peers claim records here too, and cannot extend the area.
                (Area::Copies, true) => Part::new(file, area.at(), area.most(), InCore::No)?,
                (_, true) => Part::new(file, area.at(), STEP, in_core)?,
                (_, false) => Part::new(file, area.at(), used(&header, area).max(PAGE), in_core)?,
            });
        }
        let areas = areas.try_into().expect("a part for each area");
        let segment =
            Segment { areas, header, remapper: Remapper::of(file)?, is_own, slots: Slots::default() };
        if is_own {
            AREAS.into_iter().for_each(|area| segment.show_used(area, segment.areas[area as usize].room()));
        }
        Ok(segment)
    }

    /// The remapper, which makes further mappings of the segment's file.
    pub(crate) fn remapper(&self) -> &Remapper {
        &self.remapper
    }

    /// Publishes that the owner uses the first `bytes` bytes of an area, which the owner has mapped.
    fn show_used(&self, area: Area, bytes: u64) {
        // Release, for the Acquire in `used`. The owner stores the length before anything that leads peers to
        // these bytes.
        header(&self.header).used[area as usize].fetch_max(bytes, Release);
    }

    /// Publishes that the owner uses the arena up to byte `end` of the segment.
    pub(crate) fn show_arena(&self, end: u64) {
        self.show_used(Area::Arena, end - ARENA_AT);
    }

    /// The object of type `T` at byte `from` of an area. The owner extends the area's used part if necessary.
    /// A peer gets `None` if the owner does not use these bytes. `T` consists of atomics, and has at most a
    /// page. `from` must be aligned for `T`.
    #[inline(always)]
    fn object<T>(&self, area: Area, from: u64) -> Option<&T> {
        debug_assert!(from.is_multiple_of(align_of::<T>() as u64) && size_of::<T>() as u64 <= PAGE);
        let part = &self.areas[area as usize];
        // The difference is not negative, because a part has at least a page.
        if from <= part.room() - size_of::<T>() as u64 {
            // SAFETY: the object is aligned, and lies within a mapping that lives as long as `self`. Atomics
            // are valid for any bytes.
            return Some(unsafe { &*part.base().add(from as usize).cast::<T>() });
        }
        // SAFETY: as above, within the extended mapping.
        self.extend(area, from, size_of::<T>() as u64).map(|object| unsafe { object.cast::<T>().as_ref() })
    }

    /// Maps `len` bytes of an area from byte `from` on, and returns the address of byte `from`.
    #[cold]
    #[inline(never)]
    fn extend(&self, area: Area, from: u64, len: u64) -> Option<NonNull<u8>> {
        match self.reach(area, from.checked_add(len)?) {
            // SAFETY: `reach` has mapped this byte.
            Ok(()) => NonNull::new(unsafe { self.areas[area as usize].base().add(from as usize) }),
            Err(Unmapped::Outside) => None,
            Err(Unmapped::Refused(error)) => {
                static ONCE: Once = Once::new();
                ONCE.call_once(|| {
                    let whose = if self.is_own { "this process's own" } else { "a peer's" };
                    say(format_args!("queues in {whose} memory cannot be mapped: {error}"));
                });
                None
            }
        }
    }

    /// Maps an area at least up to byte `end`. If this process is the owner, the area's used part grows
    /// accordingly.
    #[cold]
    fn reach(&self, area: Area, end: u64) -> Result<(), Unmapped> {
        let part = &self.areas[area as usize];
        let bytes = match self.is_own {
            true => part.next_size(end).min(area.most()),
            false => used(&self.header, area),
        };
        if end > bytes {
            return Err(Unmapped::Outside);
        }
        part.grow(bytes, &self.remapper).map_err(Unmapped::Refused)?;
        if self.is_own {
            self.show_used(area, bytes);
        }
        Ok(())
    }

    /// The record with this index in an area of records.
    #[inline(always)]
    fn record<T>(&self, area: Area, index: usize) -> Option<&T> {
        self.object(area, RECORDS_AT + (index * size_of::<T>()) as u64)
    }

    /// The record at this offset of the header.
    fn in_header<T>(&self, at: u64) -> &T {
        debug_assert!(at + size_of::<T>() as u64 <= HEADER_BYTES);
        // SAFETY: the record lies within the mapping, which lives as long as `self`. It is aligned, because
        // the offsets and sizes of all records in the header are. Atomics are valid for any bytes.
        unsafe { &*self.header.base().add(at as usize).cast::<T>() }
    }

    /// The record of memory region `index`.
    #[inline(always)]
    pub(crate) fn mr(&self, index: usize) -> Option<&MrRecord> {
        self.record(Area::Mrs, index)
    }

    /// The index of the owner's QP with this number.
    #[inline(always)]
    pub(crate) fn index_of(&self, qpn: u32) -> usize {
        self.slots.index_of(qpn) as usize
    }

    /// The record of QP `index`.
    #[inline(always)]
    pub(crate) fn qp(&self, index: usize) -> Option<&QpRecord> {
        self.record(Area::Qps, index)
    }

    /// The record of the reason why QP `index` is in Err.
    pub(crate) fn cause(&self, index: usize) -> Option<&CauseRecord> {
        self.record(Area::Causes, index)
    }

    /// The record of attachment `index` to a multicast group.
    pub(crate) fn group(&self, index: usize) -> Option<&GroupRecord> {
        (index < GROUPS).then(|| self.in_header(GROUPS_AT + (index * size_of::<GroupRecord>()) as u64))
    }

    /// The XRC domain of receive queue `index`. For an XRC target QP, which has no receive queue, `index` is
    /// the QP's. 0 stands for no domain.
    pub(crate) fn domain(&self, index: usize) -> Option<&AtomicU64> {
        Some(&self.rq(index)?.domain)
    }

    /// The last generation of QP `index` whose program got `IBV_EVENT_COMM_EST`, because a message arrived
    /// before the program moved the QP to Rts.
    pub(crate) fn established(&self, index: usize) -> Option<&AtomicU32> {
        Some(&self.rq(index)?.taken.0.established)
    }

    /// The record of the copy records in use.
    pub(crate) fn copies(&self) -> &CopiesRecord {
        self.in_header(COPIES_AT)
    }

    /// Copy record `index`.
    pub(crate) fn copy(&self, index: usize) -> Option<&CopyRecord> {
        self.record(Area::Copies, index)
    }

    /// The record of receive queue `index`.
    #[inline(always)]
    pub(crate) fn rq(&self, index: usize) -> Option<&RqRecord> {
        match index.checked_sub(QPS) {
            None => self.record(Area::Rqs, index),
            Some(srq) => self.record(Area::Srqs, srq),
        }
    }

    /// The record of CQ `index`.
    #[inline(always)]
    pub(crate) fn cq(&self, index: usize) -> Option<&CqRecord> {
        self.record(Area::Cqs, index)
    }

    /// The lock for atomics on the word at `addr`.
    pub(crate) fn atomic_lock(&self, addr: u64) -> &LockRecord {
        let index = (addr >> 3) as usize % ATOMIC_LOCKS;
        self.in_header(ATOMIC_AT + (index * size_of::<LockRecord>()) as u64)
    }

    /// The object at offset `at` of the segment; `None` if `at` is not aligned, or not in the used part of
    /// the heap.
    #[inline]
    pub(crate) fn in_heap<T>(&self, at: u64) -> Option<&T> {
        // An offset before the heap wraps around to a value beyond the heap's end.
        let from = at.wrapping_sub(HEAP_AT);
        if at.is_multiple_of(align_of::<T>() as u64) { self.object(Area::Heap, from) } else { None }
    }

    /// The offset in the segment of an object that [`Segment::in_heap`] returned.
    pub(crate) fn heap_offset<T>(&self, object: &T) -> Option<u64> {
        Some(HEAP_AT + self.areas[Area::Heap as usize].offset_of(std::ptr::from_ref(object).cast())?)
    }

    /// The address of `len` bytes of a peer's arena, from offset `at` of the segment on. Maps the bytes if
    /// necessary.
    #[inline(always)]
    pub(crate) fn in_arena(&self, at: u64, len: u64) -> Result<*mut u8, Unmapped> {
        let from = at.checked_sub(ARENA_AT).ok_or(Unmapped::Outside)?;
        let end = from.checked_add(len).ok_or(Unmapped::Outside)?;
        let arena = &self.areas[Area::Arena as usize];
        if end > arena.room() {
            self.reach(Area::Arena, end)?;
        }
        // SAFETY: the byte lies within the mapping, which is at least as long as the room that was loaded
        // before.
        Ok(unsafe { arena.base().add(from as usize) })
    }
}

fn header(header: &Part) -> &Header {
    // SAFETY: the header's mapping begins with this struct, is aligned, and lives as long as the part.
    // Atomics are valid for any bytes.
    unsafe { &*header.base().cast::<Header>() }
}

/// Bytes of an area that its owner uses, in whole pages. Any process of this user may have written the
/// number, so it is limited to the area's size.
fn used(header: &Part, area: Area) -> u64 {
    // Acquire, for the Release in `show_used`: a process that was led to a byte of the area loads a length
    // that includes this byte.
    self::header(header).used[area as usize].load(Acquire).min(area.most()) & !(PAGE - 1)
}

/// Allocates pieces of a segment's heap. The size of a piece is a power of two, at least 64 bytes. Freed
/// pieces are reused for pieces of equal size. Pieces smaller than a page share pages with pieces of equal
/// size, so that no large piece lies between them.
#[derive(Debug)]
pub(crate) struct Heap {
    segment: &'static Segment,
    state: Mutex<HeapState>,
}

#[derive(Debug)]
struct HeapState {
    /// Offset of the first byte that was never allocated.
    next: u64,
    /// For each size below a page, the unused rest of the last page with pieces of this size. The index is
    /// the binary logarithm of the size.
    pages: [Range<u64>; PAGE.trailing_zeros() as usize],
    free: [Vec<u64>; 64],
}

impl Heap {
    pub(crate) fn new(segment: &'static Segment) -> Heap {
        // Pieces do not begin at page boundaries, for the reason given at `RECORDS_AT`.
        let next = HEAP_AT + RECORDS_AT;
        let (pages, free) = (std::array::from_fn(|_| 0..0), std::array::from_fn(|_| Vec::new()));
        Heap { segment, state: Mutex::new(HeapState { next, pages, free }) }
    }

    /// Allocates a piece of at least `bytes` bytes, and returns its offset in the segment, a multiple of 64.
    /// The piece keeps its earlier content.
    pub(crate) fn alloc(&self, bytes: u64) -> Option<u64> {
        Some(self.alloc_piece(bytes)?.0)
    }

    /// Allocates a piece like [`Heap::alloc`], and also returns whether the piece was never used. Such a
    /// piece contains only zeros, and the kernel allocates its pages at the first access.
    pub(crate) fn alloc_piece(&self, bytes: u64) -> Option<(u64, bool)> {
        let size = bytes.max(64).next_power_of_two();
        let order = size.trailing_zeros() as usize;
        let mut state = lock(&self.state);
        let state = &mut *state;
        if let Some(at) = state.free[order].pop() {
            return Some((at, false));
        }
        let Some(page) = state.pages.get_mut(order) else {
            return Some((self.take(&mut state.next, size)?, true));
        };
        if page.is_empty() {
            let at = self.take(&mut state.next, PAGE)?;
            *page = at..at + PAGE;
        }
        page.start += size;
        Some((page.start - size, true))
    }

    /// Takes `size` bytes that were never allocated. `next` is the offset of the first such byte.
    fn take(&self, next: &mut u64, size: u64) -> Option<u64> {
        let at = *next;
        let end = at.checked_add(size)?;
        if end - HEAP_AT > self.segment.areas[Area::Heap as usize].room() {
            self.segment.extend(Area::Heap, at - HEAP_AT, size)?;
        }
        *next = end;
        Some(at)
    }

    /// Frees the piece at offset `at`, which [`Heap::alloc`] returned for this number of bytes.
    pub(crate) fn free(&self, at: u64, bytes: u64) {
        let size = bytes.max(64).next_power_of_two();
        lock(&self.state).free[size.trailing_zeros() as usize].push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_overlap_and_peers_reach_what_is_used() {
        let (file, segment) = Segment::create().expect("a segment");
        let peer = Segment::open(&file).expect("a peer's segment");
        let heap = Heap::new(Box::leak(Box::new(segment)));
        let sizes = [64, 32 << 10, 65, 4096, 100, 3 << 20, 64, 2048, 64];
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for bytes in sizes.into_iter().cycle().take(200) {
            let (at, is_new) = heap.alloc_piece(bytes).expect("there is room");
            assert!(is_new && at.is_multiple_of(64), "{at}");
            let last: &AtomicU64 = peer.in_heap((at + bytes - 8) & !7).expect("it is used");
            assert_eq!(last.swap(1, Relaxed), 0);
            pieces.push((at, bytes));
        }
        pieces.sort_unstable();
        assert!(pieces.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{pieces:?}");
        let (at, bytes) = pieces[7];
        heap.free(at, bytes);
        assert_eq!(heap.alloc_piece(bytes), Some((at, false)));
        // Offsets outside the heap, beyond its used part, or not aligned.
        for at in [HEAP_AT - 8, HEAP_AT + HEAP_BYTES - 8, HEAP_AT + HEAP_BYTES, 0, u64::MAX - 7, at + 1] {
            assert!(peer.in_heap::<AtomicU64>(at).is_none(), "{at:#x}");
        }
    }

    #[test]
    fn peers_reach_records_as_far_as_they_are_used() {
        let (file, segment) = Segment::create().expect("a segment");
        let peer = Segment::open(&file).expect("a peer's segment");
        for index in [0, 1, 5000, MRS - 1] {
            assert_eq!(index < 1000, peer.mr(index).is_some(), "{index}");
        }
        for index in [3, 5000, MRS - 1] {
            segment.mr(index).expect("the owner uses it").key.store(77, Relaxed);
            assert_eq!(peer.mr(index).map(|record| record.key.load(Relaxed)), Some(77), "{index}");
        }
        assert!(segment.mr(MRS + 2000).is_none() && peer.mr(MRS + 2000).is_none());
        // A false length in the header gives no access beyond the area.
        header(&peer.header).used[Area::Qps as usize].store(u64::MAX, Relaxed);
        assert!(peer.qp(QPS - 1).is_some() && peer.qp(QPS + 2000).is_none());
        let all = AREAS.iter().map(|area| (area.at(), area.most()));
        let ends = all.clone().skip(1).map(|(at, _)| at).chain([SEGMENT_BYTES]);
        assert!(all.zip(ends).all(|((at, most), end)| at + most == end));
    }
}
