//! The state of a QP's receiving side.

use crate::psn;
use doorbell_verbs::Sge;

/// An atomic that was carried out or is in progress. The responder keeps it, so that a duplicate request is
/// answered but not executed again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedAtomic {
    pub(crate) psn: u32,
    /// The previous value of the word; `None` while in progress.
    pub(crate) original: Option<u64>,
}

/// The message whose packets are arriving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Inbound {
    /// No message: the next packet begins one.
    #[default]
    Idle,
    /// A SEND. `received` bytes of it have arrived.
    Send { received: u32 },
    /// A WRITE of `total` bytes. The remaining `left` bytes go to the addresses from `va` on.
    Write { va: u64, rkey: u32, left: u32, total: u32 },
}

/// State of the receiving side. The fields that each request needs come first.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Responder {
    /// PSN expected next.
    pub(crate) epsn: u32,
    /// Messages completed, 24 bits.
    pub(crate) msn: u32,
    /// Whether a NAK was already sent for the expected PSN. The packet with this PSN is missing or has found
    /// no RECV.
    pub(crate) nak_sent: bool,
    /// Attribute `max_dest_rd_atomic`.
    pub(crate) rd_atomic: u8,
    pub(crate) next_atomic: u8,
    pub(crate) inbound: Inbound,
    /// `wr_id` of the RECV that a SEND of several packets has taken. If this SEND breaks off on UC, the next
    /// message gets this RECV.
    pub(crate) held: Option<u64>,
    /// SGEs of the RECV in `held`.
    pub(crate) held_sges: Vec<Sge>,
    /// Empty until the first atomic arrives. Then it has `rd_atomic` entries.
    pub(crate) atomics: Vec<Option<SavedAtomic>>,
}

impl Responder {
    pub(crate) fn connect(&mut self, rq_psn: u32, max_dest_rd_atomic: u8) {
        self.clear();
        self.epsn = rq_psn;
        self.resize(max_dest_rd_atomic);
    }

    /// Changes the number of atomics that are kept.
    pub(crate) fn resize(&mut self, max_dest_rd_atomic: u8) {
        self.rd_atomic = max_dest_rd_atomic;
        if !self.atomics.is_empty() {
            self.atomics.resize(usize::from(max_dest_rd_atomic), None);
        }
        if usize::from(self.next_atomic) >= self.atomics.len() {
            self.next_atomic = 0;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.epsn = 0;
        self.msn = 0;
        self.nak_sent = false;
        self.inbound = Inbound::Idle;
        self.held = None;
        self.atomics.clear();
        self.rd_atomic = 0;
        self.next_atomic = 0;
    }

    /// Gives up the message in progress. Returns the `wr_id` of the RECV that the message held, if any.
    pub(crate) fn abandon_held(&mut self) -> Option<u64> {
        self.inbound = Inbound::Idle;
        self.held.take()
    }

    pub(crate) fn message_done(&mut self) {
        self.inbound = Inbound::Idle;
        self.msn = psn::add(self.msn, 1);
    }

    pub(crate) fn saved_atomic(&self, psn: u32) -> Option<&SavedAtomic> {
        self.atomics.iter().flatten().find(|a| a.psn == psn)
    }
}
