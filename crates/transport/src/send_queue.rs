//! The ring of send work requests.

use doorbell_verbs::{SendFlags, SendOp, SendWr, Sge, UdDest, VerbsError};

/// A send work request in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendEntry {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) dest: Option<UdDest>,
    pub(crate) flags: SendFlags,
    /// Bytes of the message, or of the result.
    pub(crate) len: u32,
    num_sge: u32,
    /// PSN of the first packet, once the work request is started.
    pub(crate) first_psn: u32,
    /// Number of PSNs, once the work request is started.
    pub(crate) packets: u32,
}

impl SendEntry {
    const EMPTY: SendEntry = SendEntry {
        wr_id: 0,
        op: SendOp::Send,
        dest: None,
        flags: SendFlags::empty(),
        len: 0,
        num_sge: 0,
        first_psn: 0,
        packets: 0,
    };

    /// Whether its answer carries data.
    pub(crate) fn returns_data(&self) -> bool {
        self.op.opcode().returns_data()
    }
}

/// A send work request as a NIC reads it from the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWqe<'a> {
    /// Id of the work request.
    pub wr_id: u64,
    /// The verb.
    pub op: SendOp,
    /// Local data.
    pub sges: &'a [Sge],
    /// Flags.
    pub flags: SendFlags,
    /// Destination; UD only.
    pub dest: Option<UdDest>,
    /// Sum of the SGE lengths in bytes.
    pub len: u32,
}

/// A ring with flat storage. A position counts all work requests that were ever posted. The slot of a
/// position is the position modulo the depth.
///
/// Most queues never fill up. If the depth is a power of two, the storage starts small and grows when it is
/// full. The slots in use are consecutive, so no two of these slots are equal modulo the size of the storage.
#[derive(Clone, Debug)]
pub(crate) struct SendQueue {
    /// Has one entry for each allocated slot.
    entries: Box<[SendEntry]>,
    /// `max_sge` per entry.
    sges: Box<[Sge]>,
    max_sge: u32,
    /// The storage index of a slot is the slot's bits in this mask. If the depth is not a power of two, all
    /// slots are allocated, and the mask has all bits.
    mask: u32,
    depth: u32,
    /// Oldest position whose slot is in use.
    freed: u64,
    /// First position that the NIC does not see yet.
    pub(crate) visible: u64,
    /// First position not yet posted.
    posted: u64,
}

impl SendQueue {
    /// Most SGEs of an entry.
    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    pub(crate) fn new(depth: u32, max_sge: u32) -> SendQueue {
        let (room, mask) = if depth.is_power_of_two() { (0, 0) } else { (depth as usize, u32::MAX) };
        SendQueue {
            entries: vec![SendEntry::EMPTY; room].into(),
            sges: vec![Sge::default(); room * max_sge as usize].into(),
            max_sge,
            mask,
            depth,
            freed: 0,
            visible: 0,
            posted: 0,
        }
    }

    /// The slot of a position.
    pub(crate) fn slot(&self, position: u64) -> usize {
        let depth = u64::from(self.depth);
        let mask = depth.wrapping_sub(1);
        // A division costs more than the rest of the look-up, and depths are mostly powers of two.
        (if depth & mask == 0 { position & mask } else { position % depth }) as usize
    }

    /// The storage index of a slot.
    #[inline]
    fn place(&self, slot: usize) -> usize {
        slot & self.mask as usize
    }

    /// Doubles the storage, or allocates the first entry.
    #[cold]
    fn grow(&mut self) {
        let (old, old_sges) = (std::mem::take(&mut self.entries), std::mem::take(&mut self.sges));
        let room = (2 * old.len()).max(1);
        let max_sge = self.max_sge as usize;
        let old_mask = std::mem::replace(&mut self.mask, room as u32 - 1) as usize;
        self.entries = vec![SendEntry::EMPTY; room].into();
        self.sges = vec![Sge::default(); room * max_sge].into();
        for position in self.freed..self.posted {
            let slot = self.slot(position);
            let (from, to) = (slot & old_mask, self.place(slot));
            self.entries[to] = old[from];
            let sges = &old_sges[from * max_sge..][..max_sge];
            self.sges[to * max_sge..][..max_sge].copy_from_slice(sges);
        }
    }

    pub(crate) fn entry(&self, slot: usize) -> &SendEntry {
        &self.entries[self.place(slot)]
    }

    pub(crate) fn entry_mut(&mut self, slot: usize) -> &mut SendEntry {
        let place = self.place(slot);
        &mut self.entries[place]
    }

    pub(crate) fn sges(&self, slot: usize) -> &[Sge] {
        let place = self.place(slot);
        let first = place * self.max_sge as usize;
        &self.sges[first..first + self.entries[place].num_sge as usize]
    }

    pub(crate) fn wqe(&self, slot: usize) -> SendWqe<'_> {
        let e = self.entry(slot);
        SendWqe { wr_id: e.wr_id, op: e.op, sges: self.sges(slot), flags: e.flags, dest: e.dest, len: e.len }
    }

    /// Writes a checked work request of `len` bytes; returns its slot.
    pub(crate) fn post(&mut self, wr: &SendWr<'_>, len: u32) -> Result<u32, VerbsError> {
        if self.posted - self.freed >= u64::from(self.depth) {
            return Err(VerbsError::NoRoom(format!(
                "the send queue is full: all {} entries are in use",
                self.depth
            )));
        }
        if self.posted - self.freed == self.entries.len() as u64 {
            self.grow();
        }
        let slot = self.slot(self.posted);
        *self.entry_mut(slot) = SendEntry {
            wr_id: wr.wr_id,
            op: wr.op,
            dest: wr.dest,
            flags: wr.flags,
            len,
            num_sge: wr.sg_list.len() as u32,
            first_psn: 0,
            packets: 0,
        };
        let first = self.place(slot) * self.max_sge as usize;
        self.sges[first..first + wr.sg_list.len()].copy_from_slice(wr.sg_list);
        self.posted += 1;
        Ok(slot as u32)
    }

    /// Makes `n` more entries visible.
    pub(crate) fn ring(&mut self, n: u32) {
        self.visible = (self.visible + u64::from(n)).min(self.posted);
    }

    /// Frees the slots up to and including `slot`, if the position of `slot` is before `completed`.
    pub(crate) fn release(&mut self, slot: u32, completed: u64) {
        if slot >= self.depth {
            return;
        }
        let oldest = self.slot(self.freed) as u32;
        let ahead = if slot < oldest { slot + (self.depth - oldest) } else { slot - oldest };
        let position = self.freed + u64::from(ahead);
        if position < completed {
            self.freed = position + 1;
        }
    }

    /// Entries in use.
    pub(crate) fn len(&self) -> u32 {
        (self.posted - self.freed) as u32
    }

    /// Drops all entries.
    pub(crate) fn clear(&mut self) {
        self.freed = 0;
        self.visible = 0;
        self.posted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Posts and releases at most `most` work requests at a time, and checks the entries. Returns the number
    /// of allocated entries.
    fn used(depth: u32, most: u64) -> usize {
        let mut queue = SendQueue::new(depth, 2);
        let (mut posted, mut released) = (0, 0);
        for round in 0..100u64 {
            while posted - released < (1 + round % most).min(depth.into()) {
                let sges =
                    [Sge { addr: posted, length: 1, lkey: 0 }, Sge { addr: posted + 1, length: 2, lkey: 0 }];
                let wr = SendWr::new(posted, SendOp::Send, &sges[..1 + posted as usize % 2]);
                queue.post(&wr, 1).expect("room");
                posted += 1;
            }
            for position in released..posted {
                let wqe = queue.wqe(queue.slot(position));
                assert_eq!((wqe.wr_id, wqe.sges.len()), (position, 1 + position as usize % 2));
                assert_eq!({ wqe.sges[0].addr }, position, "depth {depth}, round {round}");
            }
            queue.release(queue.slot(released) as u32, posted);
            released += 1;
        }
        queue.entries.len()
    }

    #[test]
    fn room_grows_to_what_is_used() {
        for depth in [1, 2, 7, 16, 64] {
            used(depth, 100);
        }
        assert_eq!(used(64, 3), 4);
        assert_eq!(used(64, 1), 1);
        assert_eq!(used(48, 1), 48, "no power of two");
    }
}
