//! The outcome of a run of verbs or of a system.

use super::bottleneck::Bottleneck;
use super::kinds::{OfClass, OfKind};
use super::lift::{Advice, GroupLift, Lift, OperationTime, TogetherLift};
use super::quantiles::Quantile;
use super::raw::RawRun;
use super::shown::{Certainty, MeasuredTime};
use super::uses::{Cache, Latency, Pcie, PhaseTime, SentAgain, UncoreUse, Utilization, hash_text};
use crate::asked::SystemWorkload;
use crate::run_error::SimulateError;
use doorbell_nic::Resource;
use doorbell_programs::steady::Ended;
use doorbell_programs::worker::ThreadResult;
use doorbell_schema::{Duration, Until};
use doorbell_sim::Meter;
use doorbell_systems::config::{Clients, Timing};
use doorbell_verbs::{RunError, Span};
use doorbell_workload::{Resolved, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The outcome of a run of verbs or of a system. Its JSON is a [`VerbsJson`](super::VerbsJson) or a
/// [`SystemJson`](super::SystemJson).
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Operations per second of all machines after the warm-up, in millions; 0 if nothing completed. For
    /// verbs: completed operations (for SEND: received messages). For systems: operations that clients saw
    /// completed.
    pub mops: f64,
    /// Confidence intervals of the rate and the latencies.
    pub interval: Certainty,
    /// The measured time.
    pub measured: MeasuredTime,
    /// If no operation completed: the reasons for which threads waited.
    pub waits: Option<String>,
    /// Latencies of operations, from start to end. For verbs: from post to the poll that finds the
    /// completion, of signalled operations.
    pub latency_ns: Latency,
    /// Quantiles of the latencies, lowest first: those with at least 100 latencies on each side.
    pub quantiles: Vec<Quantile>,
    /// Messages dropped because no RECV was posted, over the whole run.
    pub dropped: u64,
    /// Retransmissions of reliable connections.
    pub sent_again: SentAgain,
    /// Bottleneck of the run.
    pub bottleneck: Bottleneck,
    /// Gain from more of each resource; empty unless requested.
    pub lift: Vec<Lift>,
    /// Resources that limit the rate together; `None` if one alone does, or if not requested.
    pub together: Option<TogetherLift>,
    /// Changed options or parameters with a higher rate, best first; `None` unless requested.
    pub advice: Option<Vec<Advice>>,
    /// Utilization of each resource.
    pub resources: Vec<Utilization>,
    /// Hits and misses of each cache of the NICs.
    pub caches: Vec<Cache>,
    /// PCIe traffic of each machine.
    pub pcie: Vec<Pcie>,
    /// Number of simulator events, over the whole run.
    pub events: u64,
    /// Hash over all simulator events in order, as 16 hexadecimal digits. Many JSON readers cannot hold it as
    /// a number.
    pub event_hash: String,
    /// Wall-clock seconds of the whole run.
    pub wall_seconds: f64,
    /// Resources whose increase cannot change the run at all. Not part of the JSON.
    pub without_effect: Vec<Resource>,
    /// Results that only verbs or only systems have.
    pub of: OutcomeOf,
}

/// The kind of the run, and the results that only this kind has.
#[derive(Clone, Debug, PartialEq)]
pub enum OutcomeOf {
    /// Results of a verbs workload.
    Verbs(Box<OfVerbs>),
    /// Results of a system.
    System(Box<OfSystem>),
}

/// Results that only a run of verbs has.
#[derive(Clone, Debug, PartialEq)]
pub struct OfVerbs {
    /// The workload with all of its options resolved.
    pub workload: Resolved,
    /// Number of operations that completed in the measured time. With completions in lumps, the rate is not
    /// this number over the time, because the last lumps are incomplete.
    pub completed: u64,
    /// Rate per machine in millions per second, by the machine that saw the completion (for SEND: received
    /// the message).
    pub mops_per_machine: Vec<f64>,
    /// Results of each thread class, in the order of the workload; empty without classes.
    pub classes: Vec<OfClass>,
    /// Results of each item of a mix, in its order. Empty without a mix. For threads in classes, each class
    /// has its own.
    pub kinds: Vec<OfKind>,
    /// Gain from more of the limiting resource on each machine group alone; empty if machines are alike.
    pub group_lift: Vec<GroupLift>,
    /// Parts of an operation's latency, if latency is the bottleneck; `None` unless requested.
    pub operation_time: Option<OperationTime>,
    /// Number of send work requests, over the whole run.
    pub work_requests: u64,
}

/// Results that only a run of a system has.
#[derive(Clone, Debug, PartialEq)]
pub struct OfSystem {
    /// The system with its parameters.
    pub workload: SystemWorkload,
    /// Data moved by operations, in GB per second. `None` if the system has no such result, or nothing
    /// completed.
    pub gb_per_s: Option<f64>,
    /// Mean number of replies that the server posts at a time; `None` if it posts none.
    pub replies_per_post: Option<f64>,
    /// GETs of evicted keys, as a share of all operations.
    pub missed: f64,
    /// Share of operations answered without payload.
    pub header_only: f64,
    /// Retries per operation: torn and stale reads, and locks that another client held or took over.
    pub again: f64,
    /// Fairness among clients that compete; `None` if clients do not compete, or nothing completed.
    pub served: Option<Served>,
    /// Uncore counters of each machine; empty if caches have no sizes.
    pub uncore: Vec<UncoreUse>,
    /// Time that threads spent per phase, for systems that distinguish phases.
    pub phases: Vec<PhaseTime>,
}

/// Fairness among clients that compete.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    /// Operations of the client with the fewest, relative to the mean client.
    pub least: f64,
    /// Operations of the client with the most, relative to the mean client.
    pub most: f64,
    /// Number of clients that completed no operation. The latency does not cover them.
    pub never: u64,
}

impl Served {
    /// Fairness, from the numbers of completed operations of all clients; `None` if no operation completed.
    pub(crate) fn of(done: impl Iterator<Item = u64> + Clone) -> Option<Served> {
        let (all, clients) = (done.clone().sum::<u64>(), done.clone().count());
        let part = |done: Option<u64>| done.unwrap_or(0) as f64 * clients as f64 / all as f64;
        let never = done.clone().filter(|done| *done == 0).count() as u64;
        (all > 0).then(|| Served { least: part(done.clone().min()), most: part(done.max()), never })
    }
}

/// If operations take at least this many nanoseconds, their latency is more precise than their rate. Shorter
/// operations complete often enough for a precise rate.
const FINE: f64 = 200.0;

/// A measurement that the wall-clock time cut short is no result if fewer operations completed.
const FEWEST: f64 = 10.0;

/// Number of operations that a thread counts: received messages for SENDs, and completions for other verbs.
fn of_thread(thread: &ThreadResult) -> u64 {
    thread.completed + thread.received
}

/// Number of operations that completed.
fn completed(run: &RawRun) -> u64 {
    run.threads.iter().map(|(_, thread)| of_thread(thread)).sum()
}

/// Operations per second in millions, by machine.
pub(crate) fn rates(w: &Resolved, run: &RawRun) -> Vec<f64> {
    let mut operations = vec![0u64; w.machines as usize];
    for (machine, thread) in &run.threads {
        operations[*machine as usize] += of_thread(thread);
    }
    let seconds = run.shown.span().as_secs_f64();
    let all = operations.iter().sum::<u64>() as f64 / seconds / 1e6;
    // The evened rate is divided among machines in proportion to their counted completions.
    let evened = run.shown.evened.filter(|_| all > 0.0).map_or(1.0, |mops| mops / all);
    operations.into_iter().map(|n| n as f64 / seconds / 1e6 * evened).collect()
}

impl Outcome {
    /// The outcome of a run of verbs with this bottleneck.
    pub(crate) fn of_verbs(w: &Resolved, run: &RawRun, bottleneck: Bottleneck) -> Outcome {
        let mops_per_machine = rates(w, run);
        let (m, mops) = (&run.metrics, mops_per_machine.iter().sum());
        let resources = m.resources.iter().map(Utilization::from).collect();
        let of = OfVerbs {
            workload: w.clone(),
            completed: completed(run),
            mops_per_machine,
            classes: OfClass::all(w, run, mops),
            kinds: match &run.classes[..] {
                [all] if !w.has_classes() => OfKind::all(w, all, mops, run.shown.latency.mean.is_some()),
                _ => Vec::new(),
            },
            group_lift: Vec::new(),
            operation_time: None,
            work_requests: m.accounts.ended,
        };
        Outcome {
            mops,
            interval: run.shown.certainty.clone(),
            measured: run.shown.measured.clone(),
            waits: run.shown.waits.clone(),
            latency_ns: run.shown.latency,
            quantiles: run.shown.quantiles.clone(),
            dropped: m.dropped,
            sent_again: SentAgain::from(&m.sent_again),
            bottleneck,
            lift: Vec::new(),
            together: None,
            advice: None,
            resources,
            caches: m.caches.iter().map(Cache::from).collect(),
            pcie: m.pcie.iter().map(Pcie::from).collect(),
            events: m.events,
            event_hash: hash_text(m.event_hash),
            wall_seconds: run.wall_seconds,
            without_effect: m.without_effect.clone(),
            of: OutcomeOf::Verbs(Box::new(of)),
        }
    }

    /// In words, the window or the load that the latencies belong to.
    pub fn latency_with(&self) -> String {
        match &self.of {
            OutcomeOf::Verbs(of) => of_loop(&of.workload),
            OutcomeOf::System(of) => {
                let Clients { outstanding, windows, .. } = *of.workload.clients();
                let think = Some(of.workload.think()).filter(|think| think.span() > Span::ZERO);
                let between = think.map(|think| format!(", and {think} between operations"));
                match of.workload.rate() {
                    Some(_) => from_due(outstanding, "client"),
                    None if windows => {
                        format!("windows of {outstanding} per client{}", between.unwrap_or_default())
                    }
                    None => format!("{outstanding} outstanding per client{}", between.unwrap_or_default()),
                }
            }
        }
    }

    /// The percentile that was requested, and the maximum of the virtual time.
    pub(super) fn end(&self) -> (Option<Until>, Duration) {
        match &self.of {
            OutcomeOf::Verbs(of) => (of.workload.until, of.workload.max_time),
            OutcomeOf::System(of) => {
                let Timing { until, max_time, .. } = of.workload.timing();
                (*until, *max_time)
            }
        }
    }

    /// Results that only a run of verbs has.
    ///
    /// # Panics
    /// If this is the outcome of a system.
    pub fn verbs(&self) -> &OfVerbs {
        let OutcomeOf::Verbs(of) = &self.of else { panic!("verbs were asked for") };
        of
    }

    /// Results that only a run of a system has.
    ///
    /// # Panics
    /// If this is the outcome of a verbs workload.
    pub fn system(&self) -> &OfSystem {
        let OutcomeOf::System(of) = &self.of else { panic!("a system was asked for") };
        of
    }

    /// Rate in millions per second for comparisons of reruns, with the half-width of its interval. A single
    /// client with one operation at a time completes few operations in the measured time. For such a client
    /// the rate comes from the mean latency, which is more precise than the count.
    pub(crate) fn rate(&self) -> (f64, Option<f64>) {
        match self.mean_alone() {
            Some(ns) => (1e3 / ns, self.interval.latency_ns.map(|half| 1e3 / ns * half / ns)),
            None => self.told_rate(),
        }
    }

    /// Mean latency of a system with a single client and one operation at a time; `None` for other outcomes.
    fn mean_alone(&self) -> Option<f64> {
        let OutcomeOf::System(of) = &self.of else { return None };
        let Clients { clients, outstanding, .. } = of.workload.clients();
        let alone = (*clients, *outstanding) == (1, 1);
        self.latency_ns.mean.filter(|mean| alone && *mean >= FINE)
    }

    /// The reported rate in millions per second, with the half-width of its interval.
    pub(crate) fn told_rate(&self) -> (f64, Option<f64>) {
        (self.mops, self.interval.mops)
    }

    /// Why the run ended.
    pub(crate) fn ended(&self) -> Ended {
        self.measured.ended
    }

    /// The outcome; an error if the run was interrupted, because its measurement is not comparable.
    pub(crate) fn unless_interrupted(self) -> Result<Outcome, SimulateError> {
        match self.ended() {
            Ended::Interrupted => Err(SimulateError::Run(RunError::Interrupted)),
            _ => Ok(self),
        }
    }

    /// The outcome; an error if the wall-clock time was over before more than a few operations had completed.
    /// An outcome without any operation stays, because it says why threads were waiting.
    pub(crate) fn unless_out_of_time(self) -> Result<Outcome, SimulateError> {
        let completed = self.mops * 1e6 * self.measured.duration.span().as_secs_f64();
        match self.ended() {
            Ended::MaxWall if self.completed() && completed < FEWEST => Err(SimulateError::OutOfTime),
            _ => Ok(self),
        }
    }

    /// Name of a machine in messages.
    pub(crate) fn machine_name(&self, machine: u32) -> String {
        match &self.of {
            OutcomeOf::Verbs(of) => of.workload.machine_name(machine),
            OutcomeOf::System(_) => format!("machine {machine}"),
        }
    }

    /// This outcome with reruns. Its bottleneck is not confirmed if a limit of time or an interrupt ended the
    /// run before it settled. A run of given duration has reruns of this duration, so they confirm its
    /// bottleneck.
    pub(crate) fn doubted(self) -> Outcome {
        match self.ended().is_cut_off() && self.interval.may_differ() {
            true => Outcome { bottleneck: self.bottleneck.clone().unsettled(), ..self },
            false => self,
        }
    }

    /// Whether any operation completed.
    pub(crate) fn completed(&self) -> bool {
        self.waits.is_none()
    }

    /// Utilization of the resources that operations depend on.
    pub(crate) fn used(&self) -> Vec<Utilization> {
        match &self.of {
            OutcomeOf::Verbs(_) => self.resources.clone(),
            OutcomeOf::System(of) => used_by_operations(&of.workload, &self.resources),
        }
    }
}

/// The window that the latencies of a verbs workload belong to.
fn of_loop(w: &Resolved) -> String {
    if w.has_classes() {
        return "the window of each class".to_owned();
    }
    let (operations, of) = match w.window() {
        Window::PerThread(operations) => (operations, "thread"),
        Window::PerQp(operations) => (operations, "QP"),
    };
    match (w.open_loop(), w.think()) {
        (Some(_), _) => from_due(operations, of),
        (None, Some(think)) => format!("a window of {operations} per {of}, and {think} between operations"),
        (None, None) => format!("a full window: {operations} outstanding per {of}"),
    }
}

/// The load of an open loop.
fn from_due(outstanding: u32, of: &str) -> String {
    format!("waits from when an operation is due, and at most {outstanding} outstanding per {of}")
}

/// The utilizations in `all` without the core of the server thread that takes no part in operations.
pub(crate) fn used_by_operations(w: &SystemWorkload, all: &[Utilization]) -> Vec<Utilization> {
    let beside = w.beside().map(Meter::core);
    let is_beside = |r: &Utilization| r.machine == 0 && Some(r.meter) == beside;
    all.iter().filter(|r| !is_beside(r)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_by_what_is_even() {
        let of = |done: &[u64]| Served::of(done.iter().copied());
        assert_eq!(of(&[3, 3, 3]), Some(Served { least: 1.0, most: 1.0, never: 0 }));
        assert_eq!(of(&[0, 2, 4, 2]), Some(Served { least: 0.0, most: 2.0, never: 1 }));
        assert_eq!((of(&[0, 0]), of(&[])), (None, None));
    }
}
