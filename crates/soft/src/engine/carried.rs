//! *Carried* payloads: payloads of at most `CARRIED_BYTES` that wait in the receive queue, in the slot of
//! their RECV. The receiver copies such a payload to the RECV's buffers when it polls the completion.
//!
//! Until then, the buffers do not have the payload. But a later READ of the QP must see the payload, and the
//! payload must not overwrite the bytes of a later WRITE. So the sender keeps a list of the carried payloads
//! and their buffers. Before a request touches a buffer in this list, the sender *places* the buffer's
//! payload and all earlier payloads: it copies each payload to its buffers. This is rare, because nearly all
//! programs use other memory for RECVs than for READs and WRITEs.

use crate::memory::segment::Segment;
use crate::rings::recvs::Receipt;

/// `CarriedSends::push` removes finished parts only if the list has at least this many parts.
const FEW: usize = 64;

/// A part of a payload that belongs in one buffer of a RECV.
#[derive(Clone, Copy, Debug)]
pub(super) struct CarriedPart {
    /// Address of the part's first byte in the receiver's process.
    pub(super) host: u64,
    pub(super) len: u32,
    /// lkey of the buffer.
    pub(super) key: u32,
    /// Offset of the part in the payload, in bytes.
    pub(super) from: u32,
}

/// A part of a message that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentPart {
    pub(super) part: CarriedPart,
    /// The number of the receiver's process, and the [`Receipt`], which names the RECV that the message took.
    process: u64,
    pub(super) receipt: Receipt,
}

/// The messages of a QP whose payload may not be in place yet, in the order of sending.
#[derive(Debug)]
pub(super) struct CarriedSends {
    sent: Vec<SentPart>,
    /// The parts of a message that is about to be sent.
    begun: Vec<CarriedPart>,
    /// All parts lie between these addresses.
    first: u64,
    end: u64,
    /// When `sent` has this many parts, `push` removes the parts that the receiver has placed.
    most: usize,
}

impl Default for CarriedSends {
    fn default() -> CarriedSends {
        CarriedSends { sent: Vec::new(), begun: Vec::new(), first: u64::MAX, end: 0, most: FEW }
    }
}

impl SentPart {
    fn touches(&self, host: u64, len: u64) -> bool {
        let own = self.part.host;
        host < own.saturating_add(self.part.len.into()) && own < host.saturating_add(len)
    }
}

impl CarriedSends {
    /// Whether the `len` bytes at `host` overlap the buffer of a payload that may not be in place yet.
    /// Compares only addresses, so the buffer may be in another process.
    #[inline(always)]
    pub(super) fn touches(&self, host: u64, len: u64) -> bool {
        host < self.end && self.first < host.saturating_add(len) && self.has_part_in(host, len)
    }

    #[inline(never)]
    fn has_part_in(&self, host: u64, len: u64) -> bool {
        self.sent.iter().any(|sent| sent.touches(host, len))
    }

    /// Begins a message: empties the list `begun`.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.begun.clear();
    }

    /// Adds a part of the begun message to the list `begun`.
    #[inline(always)]
    pub(super) fn add(&mut self, part: CarriedPart) {
        self.begun.push(part);
    }

    /// Adds the parts of the begun message to the list of sent parts, because the message's RECV is complete.
    /// `to` is the receiver's process: its number and its segment.
    pub(super) fn commit(&mut self, to: (u64, &Segment), receipt: Receipt) {
        for nth in 0..self.begun.len() {
            self.push(to, receipt, self.begun[nth]);
        }
    }

    /// Adds a part of a message to the list of sent parts. The arguments are as for `commit`.
    #[inline(always)]
    pub(super) fn push(&mut self, to: (u64, &Segment), receipt: Receipt, part: CarriedPart) {
        if self.sent.len() >= self.most {
            self.remove_placed(to);
        }
        self.sent.push(SentPart { part, process: to.0, receipt });
        self.first = self.first.min(part.host);
        self.end = self.end.max(part.host.saturating_add(part.len.into()));
    }

    /// Removes the parts of messages to this process, if the process has already taken the completion of the
    /// message.
    #[cold]
    fn remove_placed(&mut self, (process, segment): (u64, &Segment)) {
        let is_placed = |sent: &SentPart| sent.process == process && sent.receipt.is_taken(segment);
        match self.sent.last().is_some_and(|sent| sent.receipt.is_in_turn()) {
            // The receive queue has one sender, so its messages are taken in the order of sending.
            true => {
                let placed = self.sent.iter().rposition(is_placed).map_or(0, |last| last + 1);
                self.sent.drain(..placed);
            }
            false => self.sent.retain(|sent| !is_placed(sent)),
        }
        self.find_bounds();
        self.most = (2 * self.sent.len()).max(FEW);
    }

    fn find_bounds(&mut self) {
        let ends = |sent: &SentPart| sent.part.host.saturating_add(sent.part.len.into());
        self.first = self.sent.iter().map(|sent| sent.part.host).min().unwrap_or(u64::MAX);
        self.end = self.sent.iter().map(ends).max().unwrap_or(0);
    }

    /// The number of parts to place before a request touches these bytes of the process. Counts parts for
    /// other processes, too.
    fn until(&self, process: u64, host: u64, len: u64) -> usize {
        let is_there = |sent: &SentPart| sent.process == process && sent.touches(host, len);
        self.sent.iter().rposition(is_there).map_or(0, |last| last + 1)
    }

    /// The parts to place before a request touches the `len` bytes at `host` of this process, in the order of
    /// sending. Removes the parts that the process has already placed itself.
    pub(super) fn parts_before(&mut self, to: (u64, &Segment), host: u64, len: u64) -> Vec<SentPart> {
        self.remove_placed(to);
        let until = self.until(to.0, host, len);
        self.sent[..until].iter().filter(|sent| sent.process == to.0).copied().collect()
    }

    /// Removes the first `count` parts of messages to this process, because the sender has placed them.
    pub(super) fn remove_first(&mut self, process: u64, count: usize) {
        let mut left = count;
        self.sent.retain(|sent| {
            let goes = left > 0 && sent.process == process;
            left -= usize::from(goes);
            !goes
        });
        self.find_bounds();
    }
}
