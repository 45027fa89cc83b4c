//! How well a run knows its answer: a series of batches, the end of the warm-up, and the intervals of means.
//!
//! The warm-up ends by the MSER rule (White, "An effective truncation heuristic for bias reduction in
//! simulation output", 1997): the rest of the series has the least standard error of its mean. The rest is
//! cut into batches of equal length. Batches are joined as long as their means depend on each other by von
//! Neumann's ratio. The interval of a mean is Student's over the batches. The interval of a mean latency uses
//! the ratio of sums.
//!
//! Decisions rest on virtual times and counts. They use only additions, multiplications, divisions and square
//! roots of doubles, which IEEE 754 rounds in one way. A seed therefore leads to one and the same end on
//! every machine.

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
