//! Joins, as in Figures 16 and 17. The paper leaves several settings open. They were chosen once for both
//! figures, before there was a result (docs/cluster21.md):
//!
//! - A tuple is a key and a payload of 8 bytes.
//! - Each machine has two executors, one at each socket.
//! - The standalone join has one thread.
//! - Without NUMA-awareness all memory of a machine is at its first socket, as if one thread had set it up.

use super::cluster::CLUSTER;
use crate::experiment::Ctx;
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_systems::System;
use doorbell_systems::config::Timing;
use doorbell_systems::join::Join;
use doorbell_systems::shuffle::Placement;
use doorbell_verbs::Span;

/// Tuples of a relation in a run. They represent the paper's 16 million tuples.
pub(super) const SAMPLE: u64 = 1 << 15;
/// Tuples of a relation in the paper, at its usual size.
pub(super) const REAL: u64 = 16_000_000;
/// Entries of a post.
pub(super) const BATCH: u32 = 16;
/// Executors of the join with all optimisations.
pub(super) const EXECUTORS: u32 = 16;

/// Upper bound of an executor's time for a tuple. Only warm-up and measured time depend on it.
const SLOW: Span = Span::from_ns(600);

#[derive(Clone, Copy, Debug)]
pub(super) struct JoinPoint {
    pub(super) executors: u32,
    pub(super) batch: u32,
    /// Whether memory is at the executors' sockets.
    pub(super) aware: bool,
    /// Factor on the size of the paper's relations.
    pub(super) times: u64,
    pub(super) sample: u64,
}

impl JoinPoint {
    /// One thread of one machine.
    pub(super) const STANDALONE: JoinPoint =
        JoinPoint { executors: 1, batch: 1, aware: true, times: 1, sample: SAMPLE };

    /// A join with all optimisations: posts of 16 entries, and memory at the executors' sockets.
    pub(super) const fn of(executors: u32) -> JoinPoint {
        JoinPoint { executors, batch: BATCH, ..JoinPoint::STANDALONE }
    }

    /// This join without optimisations.
    pub(super) const fn native(self) -> JoinPoint {
        JoinPoint { batch: 1, aware: false, ..self }
    }

    fn workload(self) -> SystemWorkload {
        let JoinPoint { executors, batch, aware, times, sample } = self;
        let mut join = Join {
            tuples: sample * times,
            keys: sample * times,
            real_tuples: REAL * times,
            batch_entries: batch,
            placement: if aware { Placement::Own } else { Placement::First },
            ..Join::usual()
        };
        join.clients.clients = executors;
        let once = SLOW * (2 * sample * times / u64::from(executors));
        join.timing = Timing::of(once, once * 2);
        join.into()
    }

    /// Seconds of a join of the paper's relations. The mean latency is the time of a join of the sample, and
    /// it is scaled to the paper's size.
    fn seconds(self, what: &str, outcome: &Outcome) -> Result<f64, NotYet> {
        let mean_ns = outcome.latency_ns.mean.ok_or_else(|| {
            let measured = outcome.measured.duration;
            NotYet::Nothing(format!("{what}: no join of {} executors ended in {measured}", self.executors))
        })?;
        Ok(mean_ns / 1e9 * REAL as f64 / self.sample as f64)
    }
}

/// Seconds that joins of the paper's relations take.
pub(super) fn seconds<const N: usize>(
    ctx: &Ctx<'_>,
    what: &str,
    points: [JoinPoint; N],
) -> Result<[f64; N], NotYet> {
    let all = points.map(JoinPoint::workload);
    let outcomes = ctx.timed(CLUSTER, what, &all)?;
    let mut seconds = [0.0; N];
    for ((seconds, point), outcome) in seconds.iter_mut().zip(points).zip(&outcomes) {
        *seconds = point.seconds(what, outcome)?;
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_lab::Control;

    #[test]
    fn joins_are_measured_whole_to_any_precision() {
        let ctx = Ctx::new(false, Control::quiet()).unwrap().with_precision("3%".parse().unwrap());
        let point = JoinPoint::of(EXECUTORS).native();
        assert_eq!(seconds(&ctx, "fig17", [point]), Err(NotYet::Wanted));
        let wanted = ctx.known.wanted();
        let join = wanted[0].as_system().expect("a join is a system");
        let slowest = SLOW * (2 * SAMPLE / u64::from(EXECUTORS));
        let duration = join.timing().duration.expect("it is said").span();
        assert!(duration >= slowest * 2, "one of the slowest fits whole, whenever it begins");
    }
}
