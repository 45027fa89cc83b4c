//! Evaluates the observations of a run: the end of the warm-up, and confidence intervals of means and
//! percentiles.
//!
//! Terms:
//! - A *series* has the completed operations of a run in order of time.
//! - A *batch* is a part of the series. All batches of a series cover equally long times.
//! - A *joined batch* consists of several consecutive batches.
//! - The *rest* is the part of the series after the warm-up.
//!
//! Method:
//! 1. The MSER rule determines the end of the warm-up: the mean of the rest has the least standard error
//!    (White, "An effective truncation heuristic for bias reduction in simulation output", 1997).
//! 2. Batches of the rest are joined as long as neighbours depend on each other. Von Neumann's ratio shows
//!    whether they do.
//! 3. The interval of a mean is Student's interval over the joined batches. A mean latency is a ratio of
//!    sums.
//!
//! Decisions depend on virtual times and counts alone. They use only additions, multiplications, divisions
//! and square roots of doubles, for which IEEE 754 defines the rounding. So runs with one seed end at one
//! virtual time on every machine.

mod ending;
mod lead;
mod means;
mod quantile;
mod warm;

pub use doorbell_systems::series::{Batch, CompletionSeries};
pub use ending::{Course, Ended, Ending, Stop, TURNS, Wanted, Warmed, are_within};
pub use means::{Interval, Means};
pub use quantile::{is_known, quantile};
pub use warm::warm_until;

#[cfg(test)]
mod tests;
