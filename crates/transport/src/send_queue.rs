//! The ring of send work requests.

use doorbell_verbs::{SendFlags, SendOp, SendWr, Sge, UdDest, VerbsError};

/// A send work request in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) dest: Option<UdDest>,
    pub(crate) flags: SendFlags,
    /// Bytes of the message, or of the result.
    pub(crate) len: u32,
    num_sge: u32,
    /// PSN of its first packet, once started.
    pub(crate) first_psn: u32,
    /// PSNs it takes, once started.
    pub(crate) packets: u32,
}

impl Entry {
    const EMPTY: Entry = Entry {
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
    /// Of the work request.
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

/// A ring with flat storage. Positions count all work requests ever posted; a slot is a position
/// modulo the depth.
#[derive(Clone, Debug)]
pub(crate) struct SendQueue {
    entries: Box<[Entry]>,
    /// `max_sge` per entry.
    sges: Box<[Sge]>,
    max_sge: usize,
    depth: u64,
    /// Oldest position whose slot is in use.
    freed: u64,
    /// First position that the NIC does not see yet.
    pub(crate) visible: u64,
    /// First position not yet posted.
    posted: u64,
}

impl SendQueue {
    pub(crate) fn new(depth: u32, max_sge: u32) -> SendQueue {
        SendQueue {
            entries: vec![Entry::EMPTY; depth as usize].into(),
            sges: vec![Sge::default(); depth as usize * max_sge as usize].into(),
            max_sge: max_sge as usize,
            depth: u64::from(depth),
            freed: 0,
            visible: 0,
            posted: 0,
        }
    }

    /// The slot of a position.
    pub(crate) fn slot(&self, position: u64) -> usize {
        let mask = self.depth.wrapping_sub(1);
        // A division costs more than the rest of the look-up, and depths are mostly powers of two.
        (if self.depth & mask == 0 { position & mask } else { position % self.depth }) as usize
    }

    pub(crate) fn entry(&self, slot: usize) -> &Entry {
        &self.entries[slot]
    }

    pub(crate) fn entry_mut(&mut self, slot: usize) -> &mut Entry {
        &mut self.entries[slot]
    }

    pub(crate) fn sges(&self, slot: usize) -> &[Sge] {
        let first = slot * self.max_sge;
        &self.sges[first..first + self.entries[slot].num_sge as usize]
    }

    pub(crate) fn wqe(&self, slot: usize) -> SendWqe<'_> {
        let e = &self.entries[slot];
        SendWqe { wr_id: e.wr_id, op: e.op, sges: self.sges(slot), flags: e.flags, dest: e.dest, len: e.len }
    }

    /// Writes a checked work request of `len` bytes; returns its slot.
    pub(crate) fn post(&mut self, wr: &SendWr<'_>, len: u32) -> Result<u32, VerbsError> {
        if self.posted - self.freed >= self.depth {
            return Err(VerbsError::NoRoom(format!(
                "all {} entries of the send queue are in use",
                self.depth
            )));
        }
        let slot = self.slot(self.posted);
        self.entries[slot] = Entry {
            wr_id: wr.wr_id,
            op: wr.op,
            dest: wr.dest,
            flags: wr.flags,
            len,
            num_sge: wr.sg_list.len() as u32,
            first_psn: 0,
            packets: 0,
        };
        let first = slot * self.max_sge;
        self.sges[first..first + wr.sg_list.len()].copy_from_slice(wr.sg_list);
        self.posted += 1;
        Ok(slot as u32)
    }

    /// `n` more entries become visible.
    pub(crate) fn ring(&mut self, n: u32) {
        self.visible = (self.visible + u64::from(n)).min(self.posted);
    }

    /// Frees the slots up to and including `slot`, which must be of a position before `completed`.
    pub(crate) fn release(&mut self, slot: u32, completed: u64) {
        if u64::from(slot) >= self.depth {
            return;
        }
        let oldest = self.slot(self.freed) as u64;
        let ahead = u64::from(slot) + if u64::from(slot) < oldest { self.depth } else { 0 } - oldest;
        let position = self.freed + ahead;
        if position < completed {
            self.freed = position + 1;
        }
    }

    /// Entries in use.
    pub(crate) fn len(&self) -> u32 {
        (self.posted - self.freed) as u32
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.freed = 0;
        self.visible = 0;
        self.posted = 0;
    }
}
