//! Copiers. While a thread copies bytes from or to the memory of a process, its copier shows this in a copy
//! record. A copier has one record, which lies in the segment (the shared memory) of that process. So a
//! process that revokes access to its memory can wait until no copy runs (`memory/copies.rs`).

use super::peer::Peer;
use super::spare_copies::SpareCopies;
use crate::memory::copies::{self, CopyFence};
use crate::memory::records::CopyRecord;
use crate::memory::segment::Segment;
use crate::point::{Point, reach};
use std::mem::forget;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// This process as a holder of copy records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyHolder {
    /// The number that identifies this process in copy records; not 0.
    pub(super) number: u32,
    /// Whether this process has registered for `global_fence`. Then membarrier(2), called by another process,
    /// acts as a fence in all threads of this process.
    pub(super) takes_fence: bool,
}

/// Marks copies from and to the memory of one process. Only one thread at a time may use a copier. If the
/// copier belongs to a send or receive queue, the queue's lock ensures that. Other copiers belong to one
/// thread.
#[derive(Debug)]
pub(crate) struct Copier {
    at: CopiedProcess,
    index: usize,
    record: *const CopyRecord,
    fence: CopyFence,
}

/// The process whose memory a copier's copies read or write.
#[derive(Debug)]
enum CopiedProcess {
    This(&'static SpareCopies),
    Peer(Arc<Peer>),
}

// SAFETY: the record consists of atomics. `at` keeps the segment of a peer mapped. The segment of this
// process is never unmapped.
unsafe impl Send for Copier {}
// SAFETY: as above.
unsafe impl Sync for Copier {}

impl CopiedProcess {
    fn spare(&self) -> &SpareCopies {
        match self {
            CopiedProcess::This(spare) => spare,
            CopiedProcess::Peer(peer) => &peer.spare_copies,
        }
    }
}

impl Copier {
    /// A copier for memory of this process. `None` if all copy records are in use.
    pub(super) fn own(
        (segment, spare): (&'static Segment, &'static SpareCopies),
        holder: CopyHolder,
        is_gone: impl Fn(u32) -> bool,
    ) -> Option<Arc<Copier>> {
        Copier::new(segment, CopiedProcess::This(spare), holder, is_gone)
    }

    /// A copier for memory of a peer. `None` if all copy records of the peer are in use.
    pub(super) fn at(
        peer: &Arc<Peer>,
        holder: CopyHolder,
        is_gone: impl Fn(u32) -> bool,
    ) -> Option<Arc<Copier>> {
        Copier::new(&peer.segment, CopiedProcess::Peer(peer.clone()), holder, is_gone)
    }

    fn new(
        segment: &Segment,
        at: CopiedProcess,
        holder: CopyHolder,
        is_gone: impl Fn(u32) -> bool,
    ) -> Option<Arc<Copier>> {
        let index = at.spare().take().or_else(|| copies::take(segment, holder.number, is_gone))?;
        let record = std::ptr::from_ref(segment.copy(index)?);
        // Relaxed: the owner stores the flag before any other process can find the segment.
        let has_fence = segment.copies().has_fence.load(Relaxed) != 0;
        let fence = if has_fence && holder.takes_fence { CopyFence::Light } else { CopyFence::Full };
        Some(Arc::new(Copier { at, index, record, fence }))
    }

    /// Whether the copier is for memory of this peer.
    pub(crate) fn is_at(&self, peer: &Arc<Peer>) -> bool {
        matches!(&self.at, CopiedProcess::Peer(own) if Arc::ptr_eq(own, peer))
    }

    /// Marks that a copy runs, until the result is dropped. The caller must check after this call, not
    /// before, that the copy is allowed: then a process that revokes the right waits for the copy, or the
    /// check fails.
    #[inline(always)]
    pub(crate) fn begin(self: &Arc<Self>) -> Copying<'_> {
        self.record().begin(self.fence);
        reach(Point::CopyBegun);
        Copying(self)
    }

    fn end(&self) {
        reach(Point::CopyEnding);
        self.record().end();
    }

    #[inline(always)]
    fn record(&self) -> &CopyRecord {
        // SAFETY: the record lies in the segment of a peer, which `self.at` keeps mapped, or in the segment
        // of this process, which is never unmapped.
        unsafe { &*self.record }
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.at.spare().give_back(self.index);
    }
}

/// The mark that a copy runs. Dropping the value removes the mark.
#[derive(Debug)]
pub(crate) struct Copying<'a>(&'a Arc<Copier>);

impl Copying<'_> {
    /// Converts the mark into a value that borrows nothing. The copy still counts as running.
    pub(crate) fn keep(self) -> KeptCopying {
        let kept = KeptCopying(self.0.clone());
        forget(self);
        kept
    }
}

impl Drop for Copying<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.end();
    }
}

/// As [`Copying`], but borrows nothing.
#[derive(Debug)]
pub(crate) struct KeptCopying(Arc<Copier>);

impl Drop for KeptCopying {
    fn drop(&mut self) {
        self.0.end();
    }
}
