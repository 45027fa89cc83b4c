//! What a run gave, be it of verbs or of a system.

use super::lift::{Bottleneck, Lift, OperationTime, TogetherLift};
use super::outcome::Outcome;
use super::shown::MeasuredTime;
use super::system_outcome::SystemOutcome;
use super::uses::{Cache, Latency, Utilization};
use crate::run_error::SimulateError;
use doorbell_nic::Resource;
use doorbell_programs::steady::Ended;
use doorbell_verbs::RunError;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a run was of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Of {
    /// A workload of verbs.
    Verbs(Box<Outcome>),
    /// A system.
    System(Box<SystemOutcome>),
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    pub(crate) of: Of,
    /// Resources of which more would have changed nothing at all.
    pub(crate) without_effect: Vec<Resource>,
}

impl Ran {
    /// Its rate, in millions per second.
    pub(crate) fn rate(&self) -> f64 {
        match &self.of {
            Of::Verbs(outcome) => outcome.mops,
            Of::System(outcome) => outcome.rate(),
        }
    }

    /// Why it ended.
    pub(crate) fn ended(&self) -> Ended {
        self.measured().ended
    }

    /// It, unless somebody stopped it: what was measured by then is not comparable.
    pub(crate) fn unless_interrupted(self) -> Result<Ran, SimulateError> {
        match self.ended() {
            Ended::Interrupted => Err(SimulateError::Run(RunError::Interrupted)),
            _ => Ok(self),
        }
    }

    /// A machine in words.
    pub(crate) fn machine_name(&self, machine: u32) -> String {
        match &self.of {
            Of::Verbs(outcome) => outcome.workload.machine_name(machine),
            Of::System(_) => format!("machine {machine}"),
        }
    }

    /// How sure that is: half of its interval; `None` where that is not known.
    pub(crate) fn rate_half(&self) -> Option<f64> {
        match &self.of {
            Of::Verbs(outcome) => outcome.interval.mops,
            Of::System(outcome) => outcome.rate_half(),
        }
    }

    /// Its rate as it is told, in millions per second, with half of its interval.
    pub(crate) fn told_rate(&self) -> (f64, Option<f64>) {
        match &self.of {
            Of::Verbs(outcome) => (outcome.mops, outcome.interval.mops),
            Of::System(outcome) => (outcome.mrps, outcome.interval.mops),
        }
    }

    /// Latencies.
    pub(crate) fn latency_ns(&self) -> Latency {
        match &self.of {
            Of::Verbs(outcome) => outcome.latency_ns,
            Of::System(outcome) => outcome.latency_ns,
        }
    }

    /// Why the measured time does not tell the rate in the long run, if it does not.
    pub(crate) fn unsettled(&self) -> Option<&String> {
        let interval = match &self.of {
            Of::Verbs(outcome) => &outcome.interval,
            Of::System(outcome) => &outcome.interval,
        };
        interval.unsettled.as_ref()
    }

    /// Whether anything completed.
    pub(crate) fn completed(&self) -> bool {
        let waits = match &self.of {
            Of::Verbs(outcome) => &outcome.waits,
            Of::System(outcome) => &outcome.waits,
        };
        waits.is_none()
    }

    /// From when to when it was measured.
    pub(crate) fn measured(&self) -> &MeasuredTime {
        match &self.of {
            Of::Verbs(outcome) => &outcome.measured,
            Of::System(outcome) => &outcome.measured,
        }
    }

    /// The use of resources that operations depend on.
    pub(crate) fn used(&self) -> Vec<Utilization> {
        match &self.of {
            Of::Verbs(outcome) => outcome.resources.clone(),
            Of::System(outcome) => SystemOutcome::of_operations(&outcome.workload, &outcome.resources),
        }
    }

    /// The look-ups in caches.
    pub(crate) fn caches(&self) -> &[Cache] {
        match &self.of {
            Of::Verbs(outcome) => &outcome.caches,
            Of::System(outcome) => &outcome.caches,
        }
    }

    /// The same with what reruns have shown.
    pub(crate) fn with(
        &self,
        bottleneck: Bottleneck,
        lift: Vec<Lift>,
        together: Option<TogetherLift>,
        operation_time: Option<OperationTime>,
    ) -> Ran {
        let of = match self.of.clone() {
            Of::Verbs(outcome) => {
                Of::Verbs(Box::new(Outcome { bottleneck, lift, together, operation_time, ..*outcome }))
            }
            Of::System(outcome) => {
                Of::System(Box::new(SystemOutcome { bottleneck, lift, together, ..*outcome }))
            }
        };
        Ran { of, without_effect: self.without_effect.clone() }
    }

    /// The outcome of a workload of verbs.
    ///
    /// # Panics
    /// If it was a system.
    pub fn verbs(&self) -> Arc<Outcome> {
        let Of::Verbs(outcome) = &self.of else { panic!("verbs were asked for") };
        Arc::new(Outcome::clone(outcome))
    }

    /// The outcome of a system.
    ///
    /// # Panics
    /// If it was none.
    pub fn system(&self) -> SystemOutcome {
        let Of::System(outcome) = &self.of else { panic!("a system was asked for") };
        SystemOutcome::clone(outcome)
    }
}
