//! The stages of a run's traced operations: their means, and the operation of median time.

use doorbell_sim::{KeptPath, OperationStage, PathStage};
use doorbell_verbs::Span;
use schemars::JsonSchema;
use serde::Serialize;

/// The side of an operation to which a stage belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StageSide {
    /// The machine that began the operation: the requester, or the client of a system.
    Requester,
    /// Another machine: the responder, or the server of a system.
    Responder,
    /// The links and the switch.
    Network,
}

/// The mean of a stage over all operations.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MeanStage {
    /// The stage.
    #[serde(skip)]
    pub of: OperationStage,
    /// Name of the stage, as in a trace.
    pub stage: &'static str,
    /// Side of the stage.
    pub side: StageSide,
    /// Mean time of the stage, in nanoseconds. If an operation has several stages of this name on this side,
    /// the time is their sum.
    pub mean_ns: f64,
    /// Share of the operation's mean time. The shares of all stages add up to 1.
    pub share: f64,
}

/// A stage of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TimedStage {
    /// The stage.
    #[serde(skip)]
    pub of: OperationStage,
    /// Name of the stage, as in a trace.
    pub stage: &'static str,
    /// Side of the stage.
    pub side: StageSide,
    /// Number of the machine; absent for the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<u32>,
    /// Begin of the stage in nanoseconds, counted from the begin of the operation. The previous stage ends at
    /// this time.
    pub from_ns: f64,
    /// End of the stage in nanoseconds, counted from the begin of the operation.
    pub to_ns: f64,
}

/// One operation with its stages.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TypicalOperation {
    /// Verbs and sizes of the operation's work requests.
    pub work_requests: String,
    /// Number of the machine that began the operation.
    pub machine: u32,
    /// Time of the operation in nanoseconds.
    pub time_ns: f64,
    /// Stages in order, without gaps.
    pub stages: Vec<TimedStage>,
}

/// The stages of a run's traced operations.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Breakdown {
    /// Number of operations behind the means.
    pub operations: u64,
    /// Traced operations that are not behind the means, because they did not complete, or posted a message
    /// again.
    pub left_out: u64,
    /// Mean time of an operation in nanoseconds.
    pub mean_ns: f64,
    /// Number of latencies in an operation's time: 2 if a latency is half a round trip.
    pub latencies: u32,
    /// Stages, in the order in which they first occur.
    pub stages: Vec<MeanStage>,
    /// The operation of median time. Of an even number of operations, it is the shorter one of the two in the
    /// middle.
    pub typical: TypicalOperation,
}

fn ns(span: Span) -> f64 {
    span.as_ps() as f64 / 1e3
}

fn time(path: &KeptPath) -> Span {
    path.stages.iter().map(|stage| stage.to - stage.from).fold(Span::ZERO, |all, one| all + one)
}

fn side(path: &KeptPath, stage: &PathStage) -> StageSide {
    match stage.machine {
        None => StageSide::Network,
        Some(machine) if machine == path.machine => StageSide::Requester,
        Some(_) => StageSide::Responder,
    }
}

impl TypicalOperation {
    fn of(path: &KeptPath) -> TypicalOperation {
        let begin = path.stages[0].from;
        let timed = |stage: &PathStage| TimedStage {
            of: stage.stage,
            stage: stage.stage.name(),
            side: side(path, stage),
            machine: stage.machine,
            from_ns: ns(stage.from - begin),
            to_ns: ns(stage.to - begin),
        };
        TypicalOperation {
            work_requests: path.name.clone(),
            machine: path.machine,
            time_ns: ns(time(path)),
            stages: path.stages.iter().map(timed).collect(),
        }
    }
}

impl Breakdown {
    /// The stages of these paths; `None` without a path. `left_out` operations have no path. A path's time
    /// has `latencies` latencies.
    pub fn of(paths: &[KeptPath], left_out: u64, latencies: u32) -> Option<Breakdown> {
        let mut order: Vec<&KeptPath> = paths.iter().collect();
        order.sort_by_key(|path| time(path));
        let typical = *order.get(order.len().saturating_sub(1) / 2)?;
        let mut sums: Vec<(OperationStage, StageSide, Span)> = Vec::new();
        for path in std::iter::once(&typical).chain(&order) {
            for stage in &path.stages {
                let (of, side) = (stage.stage, side(path, stage));
                if !sums.iter().any(|sum| (sum.0, sum.1) == (of, side)) {
                    sums.push((of, side, Span::ZERO));
                }
            }
        }
        for path in paths {
            for stage in &path.stages {
                let of = (stage.stage, side(path, stage));
                let sum = sums.iter_mut().find(|sum| (sum.0, sum.1) == of).expect("each stage has a sum");
                sum.2 += stage.to - stage.from;
            }
        }
        let all = sums.iter().fold(Span::ZERO, |all, sum| all + sum.2);
        let operations = paths.len() as f64;
        let stages = sums.into_iter().map(|(of, side, sum)| MeanStage {
            of,
            stage: of.name(),
            side,
            mean_ns: ns(sum) / operations,
            share: ns(sum) / ns(all),
        });
        Some(Breakdown {
            operations: paths.len() as u64,
            left_out,
            mean_ns: ns(all) / operations,
            latencies,
            stages: stages.collect(),
            typical: TypicalOperation::of(typical),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_verbs::Time;

    /// A path of stages, each with its machine and its length in nanoseconds.
    fn path(stages: &[(OperationStage, Option<u32>, u64)]) -> KeptPath {
        let mut at = Time::START + Span::from_us(7);
        let stages = stages.iter().map(|&(stage, machine, length)| {
            let from = at;
            at += Span::from_ns(length);
            PathStage { stage, machine, from, to: at }
        });
        KeptPath { name: "READ 8 B".into(), machine: 1, stages: stages.collect() }
    }

    #[test]
    fn shares_add_up_and_the_typical_operation_is_the_median() {
        use OperationStage::{Link, Poll, Post, SendingUnit};
        let paths = [
            path(&[(Post, Some(1), 10), (Link, None, 300), (SendingUnit, Some(0), 100)]),
            path(&[(Post, Some(1), 10), (Link, None, 100), (SendingUnit, Some(1), 60), (Poll, Some(1), 30)]),
            path(&[(Post, Some(1), 10), (Link, None, 100), (SendingUnit, Some(0), 100)]),
        ];
        let all = Breakdown::of(&paths, 4, 1).unwrap();
        assert_eq!((all.operations, all.left_out, all.mean_ns), (3, 4, 820.0 / 3.0));
        assert_eq!(all.typical.time_ns, 210.0);
        assert_eq!((all.typical.stages[1].from_ns, all.typical.stages[1].to_ns), (10.0, 110.0));
        let rows: Vec<_> = all.stages.iter().map(|s| (s.of, s.side, (s.mean_ns * 3.0).round())).collect();
        let wanted = [
            (Post, StageSide::Requester, 30.0),
            (Link, StageSide::Network, 500.0),
            (SendingUnit, StageSide::Responder, 200.0),
            (SendingUnit, StageSide::Requester, 60.0),
            (Poll, StageSide::Requester, 30.0),
        ];
        assert_eq!(rows, wanted);
        assert!((all.stages.iter().map(|s| s.share).sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(Breakdown::of(&[], 4, 1).is_none());
    }
}
