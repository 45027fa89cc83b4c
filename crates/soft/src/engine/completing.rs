//! The completion of a work request that is being carried out.

use crate::fabric::peer::Owner;
use crate::rings::recvs::Receipt;

/// The completion of a request, at its place in a CQ.
///
/// The responder may answer as soon as it sees the request. The answer may arrive before the posting thread
/// goes on. So the completion gets its place in the CQ before the responder can see anything of the request.
pub(crate) trait Completing {
    /// Gives the completion its place, behind the completions of RECVs that have arrived. Called before the
    /// responder can see the request. `recv` is the RECV that the message takes, and its owner. A second call
    /// only sets the RECV.
    fn enter(&self, recv: Option<(Owner<'_>, Receipt)>);

    /// Moves the completion behind the completions of RECVs that have arrived since it got its place. Returns
    /// whether any RECV has arrived.
    fn move_back(&self) -> bool;
}

/// A request without a completion in this process.
pub(crate) struct NoCompletion;

impl Completing for NoCompletion {
    fn enter(&self, _: Option<(Owner<'_>, Receipt)>) {}

    fn move_back(&self) -> bool {
        false
    }
}

/// The completion of a request with several receivers. It gets no receipt, because the receipt of one
/// receiver does not show that the request is done.
pub(crate) struct OfMany<'a>(pub(crate) &'a dyn Completing);

impl Completing for OfMany<'_> {
    fn enter(&self, _: Option<(Owner<'_>, Receipt)>) {
        self.0.enter(None);
    }

    fn move_back(&self) -> bool {
        self.0.move_back()
    }
}
