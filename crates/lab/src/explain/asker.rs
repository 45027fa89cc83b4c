//! The interface by which an explanation requests reruns.

use crate::plan::Run;
use crate::results::{Gain, Outcome};
use doorbell_nic::More;

/// Makes named runs. Returns the outcome of each; `None` for a run that was interrupted.
pub(super) type Asker<'a, E> = dyn FnMut(&[(String, Run)]) -> Result<Vec<Option<Outcome>>, E> + 'a;

/// Extent of the reruns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// 10% more of each resource. This shows which resource sets the rate. It is the depth for judging claims
    /// of papers.
    Tenths,
    /// In addition, twice as many of each countable resource, and more of several resources together.
    Whole,
}

/// An increase of a resource, and the gain from it; `None` if the rerun was stopped.
pub(super) type Lifted = (More, Option<Gain>);

/// Gain in rate of `ran` over `base`.
pub(super) fn gain(base: &Outcome, ran: &Outcome) -> Gain {
    Gain::between(base.rate(), ran.rate())
}
