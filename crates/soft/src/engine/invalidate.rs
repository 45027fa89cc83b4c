//! SEND with invalidate: the message takes a memory window of its receiver's back, before that hears of it.

use super::refusal::Refusal;
use super::responder::{Caches, Message, Responder};
use crate::fabric::peer::Owner;
use crate::memory::windows::{invalidate_in, is_bound_by};
use doorbell_transport::{Fault, Keys};

impl Responder<'_> {
    /// Receives a SEND with invalidate. An rkey of no window that the QP has bound is an error of access, and takes no RECV.
    #[cold]
    pub(super) fn receive_invalidating(
        &self,
        caches: &mut Caches,
        message: &Message<'_>,
        rkey: u32,
    ) -> Result<(), Refusal> {
        // Who was asked to receive it already may have invalidated the window, which is no fault then.
        if self.has_asked(message).is_none() && !is_bound_by(self.segment, rkey, self.qpn) {
            return Err(Fault::Access.into());
        }
        self.receive(caches, message)
    }

    /// The window is bound no more: a RECV is taken for the message.
    #[cold]
    pub(super) fn invalidate(&self, rkey: u32) {
        match self.owner {
            Owner::This => {
                let pd = self.pd();
                // Where the owner has done so itself meanwhile, nothing is left to do.
                let _ = self.process.regions.invalidate(self.segment, pd, rkey);
            }
            Owner::Peer(_) => {
                if let Some(record) = Keys::slot_of(rkey).and_then(|slot| self.segment.mr(slot)) {
                    invalidate_in(record, rkey);
                }
            }
        }
    }
}
