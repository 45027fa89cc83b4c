//! The receive queue of a QP, or an SRQ.

use doorbell_verbs::{RecvWr, Sge, VerbsError};

/// A posted RECV.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvWqe<'a> {
    /// Id of the work request.
    pub(crate) wr_id: u64,
    /// Buffers of the message.
    pub(crate) sges: &'a [Sge],
}

impl RecvWqe<'_> {
    /// Bytes that the RECV can receive.
    pub(crate) fn capacity(&self) -> u64 {
        capacity(self.sges)
    }
}

/// Sum of the SGE lengths in bytes.
pub(crate) fn capacity(sges: &[Sge]) -> u64 {
    sges.iter().map(|s| u64::from(s.length)).sum()
}

/// RECVs in the order of posting. A SEND takes a RECV with the SEND's first packet. A WRITE with immediate
/// takes a RECV with the WRITE's last packet. A RECV that is taken frees its entry.
#[derive(Clone, Debug)]
pub struct RecvQueue {
    pd: u32,
    depth: u32,
    max_sge: u32,
    /// `wr_id` and number of SGEs; allocated at the first RECV.
    entries: Box<[(u64, u32)]>,
    /// `max_sge` per entry.
    sges: Box<[Sge]>,
    head: u32,
    len: u32,
    visible: u32,
}

impl RecvQueue {
    /// An empty queue of protection domain `pd` for `depth` RECVs of at most `max_sge` SGEs.
    pub fn new(pd: u32, depth: u32, max_sge: u32) -> RecvQueue {
        RecvQueue {
            pd,
            depth,
            max_sge,
            entries: Box::default(),
            sges: Box::default(),
            head: 0,
            len: 0,
            visible: 0,
        }
    }

    /// Writes a RECV to the ring. The NIC does not see it before [`RecvQueue::ring`]. Refuses the RECV if the
    /// queue is full or the RECV has too many SGEs.
    pub fn post(&mut self, wr: &RecvWr<'_>) -> Result<(), VerbsError> {
        let sges = wr.sg_list.len();
        if sges > self.max_sge as usize {
            return Err(VerbsError::Invalid(format!(
                "a RECV has {sges} SGEs; at most {} are allowed",
                self.max_sge
            )));
        }
        if self.len == self.depth {
            return Err(VerbsError::NoRoom(format!(
                "the receive queue is full: all {} entries are in use",
                self.depth
            )));
        }
        if self.entries.is_empty() {
            self.make_room();
        }
        let slot = self.slot(self.len);
        self.entries[slot] = (wr.wr_id, sges as u32);
        let first = slot * self.max_sge as usize;
        self.sges[first..first + sges].copy_from_slice(wr.sg_list);
        self.len += 1;
        Ok(())
    }

    #[cold]
    fn make_room(&mut self) {
        self.entries = vec![(0, 0); self.depth as usize].into();
        self.sges = vec![Sge::default(); self.depth as usize * self.max_sge as usize].into();
    }

    /// Makes `n` more posted RECVs visible to the NIC.
    pub fn ring(&mut self, n: u32) {
        self.visible = self.visible.saturating_add(n).min(self.len);
    }

    /// RECVs that a message can take.
    pub fn visible(&self) -> u32 {
        self.visible
    }

    /// RECVs posted and not yet taken.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether no RECV is posted.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Most RECVs that the queue can hold.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Protection domain of the queue and of the lkeys in its SGEs.
    pub fn pd(&self) -> u32 {
        self.pd
    }

    /// The oldest visible RECV.
    pub(crate) fn front(&self) -> Option<RecvWqe<'_>> {
        if self.visible == 0 {
            return None;
        }
        let (wr_id, sges) = self.entries[self.head as usize];
        let first = self.head as usize * self.max_sge as usize;
        Some(RecvWqe { wr_id, sges: &self.sges[first..first + sges as usize] })
    }

    /// Removes the oldest visible RECV.
    pub(crate) fn pop(&mut self) {
        debug_assert!(self.visible > 0);
        self.head = if self.head + 1 == self.depth { 0 } else { self.head + 1 };
        self.len -= 1;
        self.visible -= 1;
    }

    /// Drops all RECVs.
    pub(crate) fn clear(&mut self) {
        self.head = 0;
        self.len = 0;
        self.visible = 0;
    }

    /// The slot `n` entries after the oldest; `n` is at most the depth.
    fn slot(&self, n: u32) -> usize {
        let slot = self.head as usize + n as usize;
        if slot >= self.depth as usize { slot - self.depth as usize } else { slot }
    }
}
