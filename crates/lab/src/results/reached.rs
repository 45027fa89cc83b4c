//! Whether an open loop completes the operations that are due.

use super::outcome::{Outcome, OutcomeOf};

/// The rate of an open loop counts as reached if at least this share of the due operations completes.
const REACHED: f64 = 0.95;

/// In a short run, chance explains missing operations of an open loop up to so many standard deviations of a
/// Poisson process.
const DEVIATIONS: f64 = 3.0;

/// Whether a run completes all operations that are due, apart from chance. `due` is their number per second;
/// `None` in a closed loop. The rate is in millions per second, with the half-width of its interval.
pub(crate) fn is_reached(due: Option<u64>, (mops, half): (f64, Option<f64>), seconds: f64) -> bool {
    let Some(due) = due.map(|due| due as f64 / 1e6) else { return false };
    let operations = |mops: f64| mops * 1e6 * seconds;
    let missing = operations(due - mops);
    let by_chance =
        missing <= DEVIATIONS * operations(due).sqrt() && half.is_none_or(|half| mops + half >= due);
    mops >= REACHED * due || by_chance
}

impl Outcome {
    /// Whether this is an open loop that completes all operations that are due. Then its rate is the given
    /// one, and no increase of a resource raises it.
    pub(crate) fn has_given_rate(&self) -> bool {
        let due: Option<u64> = match &self.of {
            OutcomeOf::Verbs(of) => {
                let classes = of.workload.classes();
                classes.iter().map(|class| class.workload.open_loop().map(|(_, rate)| rate)).sum()
            }
            OutcomeOf::System(of) => of.workload.rate(),
        };
        let seconds = self.measured.duration.span().as_secs_f64();
        self.completed() && !self.interval.overload && is_reached(due, self.told_rate(), seconds)
    }
}
