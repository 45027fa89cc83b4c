//! How well a run knows its answer: what it showed by spans of time, where its warm-up ends, how sure its means are.
//!
//! The warm-up ends where MSER says (White, "An effective truncation heuristic for bias reduction in simulation
//! output", 1997): what is left of the series has the least standard error of its mean. The rest is cut into
//! batches of equal length; as long as their means depend on each other, by von Neumann's ratio, batches are
//! joined. The interval of a mean is Student's over the batches, that of a mean latency by the ratio of sums.
//!
//! Decisions rest on virtual times and counts, by additions, multiplications, divisions and square roots of doubles
//! alone, which IEEE 754 rounds in one way: the same seed comes to the same end on every machine.

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
