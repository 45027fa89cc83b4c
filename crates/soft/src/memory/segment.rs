//! The memory that a process shares: its records, its queues, and program buffers that were allocated there.

use super::records::*;
use crate::sync::lock;
use doorbell_launch::sealed::Sealed;
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

// Records do not begin where a page begins, as buffers do. A processor first compares a load with outstanding
// stores by their offsets within pages. A record that is read right after a program wrote the first bytes of
// its buffer would wait for those stores.
const MR_AT: u64 = 4096 + 2048;
const QP_AT: u64 = MR_AT + (MRS * size_of::<MrRecord>()) as u64;
const RQ_AT: u64 = QP_AT + (QPS * size_of::<QpRecord>()) as u64;
const CQ_AT: u64 = RQ_AT + (RQS * size_of::<RqRecord>()) as u64;
const ATOMIC_AT: u64 = CQ_AT + (CQS * size_of::<CqRecord>()) as u64;
const CAUSE_AT: u64 = ATOMIC_AT + (ATOMIC_LOCKS * size_of::<LockRecord>()) as u64;
const GROUPS_AT: u64 = CAUSE_AT + (QPS * size_of::<CauseRecord>()) as u64;
const DOMAINS_AT: u64 = GROUPS_AT + (GROUPS * size_of::<GroupRecord>()) as u64;
const ESTABLISHED_AT: u64 = DOMAINS_AT + (RQS * size_of::<AtomicU64>()) as u64;
const COPIES_AT: u64 = ESTABLISHED_AT + (QPS * size_of::<AtomicU32>()) as u64;
const COPY_AT: u64 = COPIES_AT + size_of::<CopiesRecord>() as u64;
const HEAP_AT: u64 = COPY_AT + (COPIES * size_of::<CopyRecord>()) as u64;

/// Increment this when an entry of the registry or of a segment changes its meaning but not its size.
const LAYOUT: u32 = 5;

/// The layout as text. Processes understand each other's segments only if their texts are equal.
pub(crate) fn layout() -> String {
    format!("doorbell layout {LAYOUT}, {HEAP_AT:#x}, {} {}\n", size_of::<RqSlot>(), size_of::<CqRing>())
}

/// Offset of the arena, which holds program buffers.
pub(crate) const ARENA_AT: u64 = 8 << 30;
/// Bytes of address space for the arena. Pages exist once they are touched.
pub(crate) const ARENA_BYTES: u64 = 256 << 30;
const SEGMENT_BYTES: u64 = ARENA_AT + ARENA_BYTES;
/// Bytes of a peer's arena that are mapped at first. Further bytes are mapped when they are used, so that the
/// address space suffices for many peers.
const FIRST_OF_ARENA: u64 = 64 << 20;

/// A mapped segment. A process keeps its own segment mapped as long as it lives, and a peer's segment as long
/// as it uses the peer.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The mapping from the first byte on, at least up to the arena's first page.
    first: Sealed,
    /// Bytes of the arena that are mapped at `arena`.
    room: AtomicU64,
    arena: AtomicPtr<u8>,
    /// Later mappings of the arena, each longer than the ones before, which may still be in use.
    more: Mutex<Vec<Sealed>>,
}

/// Why bytes of the arena cannot be reached.
#[derive(Debug)]
pub(crate) enum Unmapped {
    /// The bytes are not in the arena.
    Outside,
    /// The bytes cannot be mapped.
    Refused(io::Error),
}

impl Segment {
    /// Creates an empty segment. It cannot be shrunk, so that no access to it can fail later.
    pub(crate) fn create() -> io::Result<(File, Segment)> {
        let (file, mapped) = Sealed::create(c"doorbell", SEGMENT_BYTES)?;
        Ok((file, Segment::new(mapped, ARENA_BYTES)))
    }

    /// Opens another process's segment. It is refused if it does not have the right size or is not sealed.
    pub(crate) fn open(file: &File) -> io::Result<Segment> {
        let first = Sealed::open(file, SEGMENT_BYTES, ARENA_AT + FIRST_OF_ARENA)?;
        Ok(Segment::new(first, FIRST_OF_ARENA))
    }

    fn new(first: Sealed, room: u64) -> Segment {
        // SAFETY: the arena's first bytes are mapped.
        let arena = AtomicPtr::new(unsafe { first.base().add(ARENA_AT as usize) });
        Segment { first, room: AtomicU64::new(room), arena, more: Mutex::default() }
    }

    /// Address of the first byte.
    pub(crate) fn base(&self) -> *mut u8 {
        self.first.base()
    }

    /// The record of type `T` at offset `at`. `T` holds only atomics.
    fn record<T>(&self, at: u64) -> &T {
        debug_assert!(
            at + size_of::<T>() as u64 <= SEGMENT_BYTES && at.is_multiple_of(align_of::<T>() as u64)
        );
        // SAFETY: within the mapping, which lives as long as `self`; aligned; atomics take any bytes.
        unsafe { &*self.base().add(at as usize).cast::<T>() }
    }

    /// The record of memory region `index`.
    pub(crate) fn mr(&self, index: usize) -> Option<&MrRecord> {
        (index < MRS).then(|| self.record(MR_AT + (index * size_of::<MrRecord>()) as u64))
    }

    /// The record of QP `index`.
    pub(crate) fn qp(&self, index: usize) -> Option<&QpRecord> {
        (index < QPS).then(|| self.record(QP_AT + (index * size_of::<QpRecord>()) as u64))
    }

    /// The record of the reason why QP `index` is in Err.
    pub(crate) fn cause(&self, index: usize) -> Option<&CauseRecord> {
        (index < QPS).then(|| self.record(CAUSE_AT + (index * size_of::<CauseRecord>()) as u64))
    }

    /// The record of attachment `index` to a multicast group.
    pub(crate) fn group(&self, index: usize) -> Option<&GroupRecord> {
        (index < GROUPS).then(|| self.record(GROUPS_AT + (index * size_of::<GroupRecord>()) as u64))
    }

    /// The XRC domain of receive queue `index`, or of QP `index` if its RECVs are elsewhere. 0 if there is no
    /// domain.
    pub(crate) fn domain(&self, index: usize) -> Option<&AtomicU64> {
        (index < RQS).then(|| self.record(DOMAINS_AT + (index * size_of::<AtomicU64>()) as u64))
    }

    /// The generation of QP `index` for which the program got `IBV_EVENT_COMM_EST`: the peer sent before the
    /// QP was in Rts.
    pub(crate) fn established(&self, index: usize) -> Option<&AtomicU32> {
        (index < QPS).then(|| self.record(ESTABLISHED_AT + (index * size_of::<AtomicU32>()) as u64))
    }

    /// The use of the copy records.
    pub(crate) fn copies(&self) -> &CopiesRecord {
        self.record(COPIES_AT)
    }

    /// Copy record `index`.
    pub(crate) fn copy(&self, index: usize) -> Option<&CopyRecord> {
        (index < COPIES).then(|| self.record(COPY_AT + (index * size_of::<CopyRecord>()) as u64))
    }

    /// The record of receive queue `index`.
    pub(crate) fn rq(&self, index: usize) -> Option<&RqRecord> {
        (index < RQS).then(|| self.record(RQ_AT + (index * size_of::<RqRecord>()) as u64))
    }

    /// The record of CQ `index`.
    pub(crate) fn cq(&self, index: usize) -> Option<&CqRecord> {
        (index < CQS).then(|| self.record(CQ_AT + (index * size_of::<CqRecord>()) as u64))
    }

    /// The lock for atomics on the word at `addr`.
    pub(crate) fn atomic_lock(&self, addr: u64) -> &LockRecord {
        let index = (addr >> 3) as usize % ATOMIC_LOCKS;
        self.record(ATOMIC_AT + (index * size_of::<LockRecord>()) as u64)
    }

    /// The object at offset `at`, if it lies within the heap and is aligned.
    pub(crate) fn in_heap<T>(&self, at: u64) -> Option<&T> {
        let end = at.checked_add(size_of::<T>() as u64)?;
        (at >= HEAP_AT && end <= ARENA_AT && at.is_multiple_of(align_of::<T>() as u64))
            .then(|| self.record(at))
    }

    /// The address of `len` bytes of the arena, which begin at offset `at` of the segment. Maps them if
    /// necessary.
    #[inline(always)]
    pub(crate) fn in_arena(&self, at: u64, len: u64) -> Result<*mut u8, Unmapped> {
        let from = at.checked_sub(ARENA_AT).ok_or(Unmapped::Outside)?;
        let end = from.checked_add(len).ok_or(Unmapped::Outside)?;
        if end > self.room.load(Acquire) {
            self.map_arena(end)?;
        }
        // SAFETY: within the mapping, which is at least as long as the room that was seen before.
        Ok(unsafe { self.arena.load(Acquire).add(from as usize) })
    }

    /// Maps the arena at least up to byte `end`.
    #[cold]
    fn map_arena(&self, end: u64) -> Result<(), Unmapped> {
        if end > ARENA_BYTES {
            return Err(Unmapped::Outside);
        }
        let mut more = lock(&self.more);
        if end <= self.room.load(Acquire) {
            return Ok(());
        }
        let room = end.next_power_of_two();
        let mapped = self.first.map_more(ARENA_AT, room).map_err(Unmapped::Refused)?;
        // A thread that sees the new room also sees the new address.
        self.arena.store(mapped.base(), Release);
        self.room.store(room, Release);
        more.push(mapped);
        Ok(())
    }

    /// Offset in the segment of the `len` bytes at `addr`, if they lie in the arena.
    pub(crate) fn arena_offset(&self, addr: u64, len: u64) -> Option<u64> {
        let at = addr.checked_sub(self.base() as u64)?;
        let end = at.checked_add(len)?;
        (at >= ARENA_AT && end <= SEGMENT_BYTES).then_some(at)
    }
}

/// Allocates pieces of a segment's heap, in powers of two bytes. Freed pieces are reused for their size.
#[derive(Debug)]
pub(crate) struct Heap(Mutex<HeapState>);

#[derive(Debug)]
struct HeapState {
    next: u64,
    free: [Vec<u64>; 64],
}

impl Heap {
    pub(crate) fn new() -> Heap {
        Heap(Mutex::new(HeapState { next: HEAP_AT, free: std::array::from_fn(|_| Vec::new()) }))
    }

    /// Offset of a new piece of at least `bytes` bytes, aligned to 64. It keeps its earlier content.
    pub(crate) fn alloc(&self, bytes: u64) -> Option<u64> {
        let size = bytes.max(64).next_power_of_two();
        let mut state = lock(&self.0);
        if let Some(at) = state.free[size.trailing_zeros() as usize].pop() {
            return Some(at);
        }
        let at = state.next;
        let end = at.checked_add(size).filter(|&end| end <= ARENA_AT)?;
        state.next = end;
        Some(at)
    }

    /// Frees a piece that [`Heap::alloc`] returned for this number of bytes.
    pub(crate) fn free(&self, at: u64, bytes: u64) {
        let size = bytes.max(64).next_power_of_two();
        lock(&self.0).free[size.trailing_zeros() as usize].push(at);
    }
}
