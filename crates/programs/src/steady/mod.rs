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
//! and square roots of doubles, for which IEEE 754 defines the rounding, and cube roots of `libm`, which
//! makes them of these. So runs with one seed end at one virtual time on every machine.

mod ending;
mod lead;
mod means;
mod overload;
mod pace;
mod quantile;
mod tail;
mod trend;
mod warm;

pub use doorbell_systems::series::{Batch, CompletionSeries};
pub use ending::{Course, Ended, Ending, Stop, TURNS, Wanted, Warmed, are_within};
pub use means::{FEWEST, Interval, Means};
pub use overload::{is_overload, lacks_operations, observed};
pub use pace::Pace;
pub use quantile::{is_known, needed, quantile};
pub use trend::Drift;
pub use warm::warm_until;

#[cfg(test)]
mod tests;
