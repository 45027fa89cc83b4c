//! SEND with invalidate: the message invalidates a memory window of its receiver before the receiver is
//! notified.

use super::refusal::Refusal;
use super::responder::{Caches, Message, Responder};
use crate::fabric::peer::Owner;
use crate::memory::windows::is_bound_by;
use doorbell_transport::{Fault, Keys};

impl Responder<'_> {
    /// Receives a SEND with invalidate. If the QP has bound no window with this rkey, the SEND causes an
    /// access error and takes no RECV.
    #[cold]
    pub(super) fn receive_invalidating(
        &self,
        caches: &mut Caches,
        message: &Message<'_>,
        rkey: u32,
    ) -> Result<(), Refusal> {
        // If the service thread of the responder's process was asked before to receive this message, the
        // thread may have invalidated the window already. This is no fault.
        if self.has_asked(message).is_none() && !is_bound_by(self.segment, rkey, self.qpn) {
            return Err(Fault::Access.into());
        }
        self.receive(caches, message)
    }

    /// Invalidates the window with this rkey. Called after the message has taken a RECV.
    #[cold]
    pub(super) fn invalidate(&self, rkey: u32) {
        match self.owner {
            Owner::This => {
                // An error means that the program has invalidated the window after it was checked. No copy
                // uses the window now: only the peer that sends this message may use the window, and it has
                // ended its earlier copies.
                let _ = self.process.regions.invalidate(self.segment, self.qpn, rkey);
            }
            Owner::Peer(_) => {
                if let Some(record) = Keys::slot_of(rkey).and_then(|slot| self.segment.mr(slot)) {
                    record.invalidate(rkey);
                }
            }
        }
    }
}
