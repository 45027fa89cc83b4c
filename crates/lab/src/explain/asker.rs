//! What reruns are asked for by, and what is made of their results.

use crate::plan::Run;
use crate::results::{Gain, Outcome};
use doorbell_nic::More;

/// Makes runs, each with what it is called: what each gave, or nothing where somebody stopped it.
pub(super) type Asker<'a, E> = dyn FnMut(&[(String, Run)]) -> Result<Vec<Option<Outcome>>, E> + 'a;

/// What is rerun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// A tenth more of each resource: which of them sets the rate. Papers' claims are judged by it.
    Tenths,
    /// Twice the number of what is counted, too; and several resources together.
    Whole,
}

/// What more of something brings, if its rerun was not stopped.
pub(super) type Lifted = (More, Option<Gain>);

/// What a run's rate gains on that of another.
pub(super) fn gain(base: &Outcome, ran: &Outcome) -> Gain {
    Gain::between(base.rate(), ran.rate())
}
