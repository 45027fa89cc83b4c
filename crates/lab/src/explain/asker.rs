//! Interface to request reruns, and the use of their results.

use crate::plan::Run;
use crate::results::{Gain, Outcome};
use doorbell_nic::More;

/// Makes named runs. Returns the outcome of each; `None` for a run that was interrupted.
pub(super) type Asker<'a, E> = dyn FnMut(&[(String, Run)]) -> Result<Vec<Option<Outcome>>, E> + 'a;

/// Extent of the reruns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// 10% more of each resource, which shows the resource that sets the rate. The judgement of papers'
    /// claims uses this.
    Tenths,
    /// In addition, twice the number of counted resources, and several resources together.
    Whole,
}

/// The gain from more of a resource; `None` if its rerun was stopped.
pub(super) type Lifted = (More, Option<Gain>);

/// Gain in rate of `ran` over `base`.
pub(super) fn gain(base: &Outcome, ran: &Outcome) -> Gain {
    Gain::between(base.rate(), ran.rate())
}
