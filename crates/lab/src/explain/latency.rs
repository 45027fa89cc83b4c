//! Parts of an operation's latency.

use crate::plan::Run;
use crate::results::{OperationTime, Outcome, TimePart};
use doorbell_workload::limits::least_way;

/// The parts of an operation's latency without load, and its waiting time. `None` for a mix and for thread
/// classes, because their operations have different parts. Also `None` if the latency is unknown.
pub(super) fn operation_time(base: &Outcome, run: &Run) -> Option<OperationTime> {
    let w = run.as_verbs()?;
    w.only_operation()?;
    let mean = base.latency_ns.mean?;
    let way = least_way(&run.profiles, w).into_iter();
    let mut parts: Vec<TimePart> = way.map(|of| TimePart { part: of.part, ns: of.ns }).collect();
    parts.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    let least_ns: f64 = parts.iter().map(|part| part.ns).sum();
    Some(OperationTime { parts, least_ns, waiting_ns: (mean - least_ns).max(0.0) })
}

/// The largest part, in words.
pub(super) fn largest(time: &OperationTime) -> Option<String> {
    let first = time.parts.first()?;
    let all = time.least_ns + time.waiting_ns;
    let share = |ns: f64| format!("{:.0}%", ns / all * 100.0);
    Some(match time.waiting_ns > first.ns {
        true => format!(
            "waiting is {} of its {all:.0} ns, for resources that are not busy enough to be named or for an \
             idle QP, then {} {}",
            share(time.waiting_ns),
            first.part,
            share(first.ns)
        ),
        false => format!(
            "{} is {} of its {all:.0} ns, waiting {}",
            first.part,
            share(first.ns),
            share(time.waiting_ns)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_nic::LatencyPart;

    #[test]
    fn the_largest_part_is_named() {
        let part = |part, ns| TimePart { part, ns };
        let time = |waiting_ns| OperationTime {
            parts: vec![part(LatencyPart::Pcie, 600.0), part(LatencyPart::Core, 200.0)],
            least_ns: 800.0,
            waiting_ns,
        };
        assert_eq!(largest(&time(200.0)).unwrap(), "PCIe is 60% of its 1000 ns, waiting 20%");
        assert_eq!(
            largest(&time(1200.0)).unwrap(),
            "waiting is 60% of its 2000 ns, for resources that are not busy enough to be named or for an \
             idle QP, then PCIe 30%"
        );
    }
}
