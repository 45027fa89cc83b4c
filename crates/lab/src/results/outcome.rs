//! What a simulation says.

use super::{
    Advice, Bottleneck, Certainty, GroupLift, Lift, MeasuredTime, OfClass, OfKind, OperationTime,
    TogetherLift,
};
use crate::explain;
use crate::programs::ThreadResult;
use crate::simulate::Run;
use crate::simulate::SimulateError;
use crate::steady::{Batch, Ended, Series, is_known};
use crate::systems::SystemOutcome;
use doorbell_nic::{NicCache, Part, Resource, counted};
use doorbell_sim::{CacheUse, PcieUse, ResourceUse, Uncore};
use doorbell_systems::{Latencies, Measured, Phase, Spent};
use doorbell_verbs::RunError;
use doorbell_workload::Resolved;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Version of the JSON of an [`Outcome`]; fields are only ever added.
pub const SCHEMA: u32 = 2;

/// Rates in JSON: null where nothing completed, as nothing is known of them then.
pub(crate) mod rate {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(rate: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        (*rate > 0.0).then_some(*rate).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(0.0))
    }
}

/// Result of a simulated workload, in the form of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Version of this JSON.
    pub schema: u32,
    /// The workload as resolved.
    pub workload: Resolved,
    /// Completed operations (SEND: messages received) per second over all machines, in millions,
    /// after the warm-up.
    #[serde(with = "rate")]
    #[schemars(with = "Option<f64>")]
    pub mops: f64,
    /// Operations that completed in the measured time, as they were counted. Where completions come in lumps the
    /// rate is not this over the time: what the last lumps are of was not over.
    pub completed: u64,
    /// How sure the rate and the latencies are.
    pub interval: Certainty,
    /// From when to when was measured.
    pub measured: MeasuredTime,
    /// Where no operation completed: what threads waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// The same by the machine that saw the completion (SEND: that received).
    pub mops_per_machine: Vec<f64>,
    /// Messages dropped for want of a RECV, whole run.
    pub dropped: u64,
    /// What reliable connections had to send again.
    pub sent_again: SentAgain,
    /// From post to completion seen, of signalled operations.
    pub latency_ns: Latency,
    /// The operations of each class of threads, in their order; empty where there are no classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<OfClass>,
    /// The operations of each item of a mix, in its order; empty where all are alike, or in classes, which say it then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<OfKind>,
    /// What limits the rate.
    pub bottleneck: Bottleneck,
    /// What more of each resource brings; empty unless asked for.
    pub lift: Vec<Lift>,
    /// Resources that limit the rate together; absent where one alone does, or it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<TogetherLift>,
    /// What more of the resource that limits the rate brings on the machines of one group alone, for each group;
    /// empty where machines are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_lift: Vec<GroupLift>,
    /// Where too little is outstanding, and it was asked for: what the time of an operation consists of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_time: Option<OperationTime>,
    /// Other options with which the rate is higher, best first; absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<Advice>>,
    /// Use of each resource.
    pub resources: Vec<Utilization>,
    /// Hits and misses of each cache of the NICs.
    pub caches: Vec<Cache>,
    /// PCIe traffic of each machine.
    pub pcie: Vec<Pcie>,
    /// Send work requests, whole run.
    pub verbs: u64,
    /// Events of the simulator, whole run.
    pub events: u64,
    /// Hash over all of them in order, 16 hexadecimal digits: as a number it would be more than the
    /// numbers of many JSON readers hold.
    pub event_hash: String,
    /// Wall-clock seconds, whole run.
    pub wall_seconds: f64,
}

/// What requesters of reliable connections had to send again, and why; whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentAgain {
    /// RNR NAKs: a SEND found no RECV, and waited.
    pub rnr_naks: u64,
    /// Times that no answer came in time.
    pub timeouts: u64,
    /// Packets sent again.
    pub packets: u64,
}

impl From<&doorbell_sim::SentAgain> for SentAgain {
    fn from(of: &doorbell_sim::SentAgain) -> SentAgain {
        SentAgain { rnr_naks: of.rnr_naks, timeouts: of.timeouts, packets: of.packets }
    }
}

impl SentAgain {
    /// In words, if there is anything to tell.
    pub fn words(&self) -> Option<String> {
        let packets = counted(self.packets, "packet");
        let (naks, timeouts) = (counted(self.rnr_naks, "RNR NAK"), counted(self.timeouts, "time-out"));
        (*self != SentAgain::default()).then(|| format!("{packets}, after {naks} and {timeouts}"))
    }
}

/// Latencies in nanoseconds, of which all but the mean are cut to whole ones; `None` where no operation completed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The least, to three digits.
    pub min: Option<u64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p999: Option<u64>,
}

/// Use of a resource within the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Utilization {
    /// Which.
    pub name: String,
    /// Whose.
    pub machine: u32,
    /// Share of time in which it was busy, 0 to 1.
    pub utilization: f64,
    /// Which of the things that can limit a workload it is.
    pub class: Resource,
    /// Which part of the machine it is.
    pub part: Part,
}

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
pub(crate) struct Ran {
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
            Of::System(outcome) => outcome.workload.of_operations(&outcome.resources),
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
    pub(crate) fn verbs(&self) -> Arc<Outcome> {
        let Of::Verbs(outcome) = &self.of else { panic!("verbs were asked for") };
        Arc::new(Outcome::clone(outcome))
    }

    /// The outcome of a system.
    ///
    /// # Panics
    /// If it was none.
    pub(crate) fn system(&self) -> SystemOutcome {
        let Of::System(outcome) = &self.of else { panic!("a system was asked for") };
        SystemOutcome::clone(outcome)
    }
}

/// Look-ups in a cache within the measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// Which.
    #[serde(rename = "name")]
    pub cache: NicCache,
    /// Whose.
    pub machine: u32,
    /// Found.
    pub hits: u64,
    /// Fetched over PCIe.
    pub misses: u64,
}

/// PCIe traffic of a machine within the measurement; payload bytes of TLPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pcie {
    /// Whose.
    pub machine: u32,
    /// CPU to NIC.
    pub mmio_bytes: u64,
    /// Read by the NIC.
    pub dma_read_bytes: u64,
    /// Written by the NIC.
    pub dma_write_bytes: u64,
    /// Cache lines read (PCIeRdCur).
    pub rdcur: u64,
    /// Cache lines written (PCIeItoM).
    pub itom: u64,
}

/// What the uncore of a machine counted within the measurement, by the names of Intel's manual of the Xeon 7500's
/// uncore (323535).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UncoreUse {
    /// Whose.
    pub machine: u32,
    /// Lines that cores asked the LLC for, and it had.
    pub llc_hits: u64,
    /// Lines that cores asked the LLC for, and it had not.
    pub llc_misses: u64,
    /// Lines that prefetchers asked the LLC for, and it had.
    pub prefetch_hits: u64,
    /// Lines that prefetchers asked the LLC for, and it had not.
    pub prefetch_misses: u64,
    /// Lines that a prefetcher had brought from memory before a core asked for them.
    pub used_prefetches: u64,
    /// Snoops that the LLC saw.
    pub snps: u64,
    /// Those that left a line shared, or asked for a snapshot.
    pub snp_hits_remote_rd: u64,
    /// Those that took a line away.
    pub snp_hits_remote_rfo: u64,
    /// Write-backs that a snoop forced.
    pub implicit_wbs: u64,
    /// Write-backs of lines that went for others.
    pub write_backs: u64,
    /// Share of requests that the LLC had, those of prefetchers included; `None` where there were none.
    pub llc_hit_rate: Option<f64>,
    /// Share of snoops that found their line; `None` where there were none.
    pub snoop_hit_rate: Option<f64>,
}

impl From<&(u32, Uncore)> for UncoreUse {
    fn from((machine, u): &(u32, Uncore)) -> UncoreUse {
        UncoreUse {
            machine: *machine,
            llc_hits: u.llc_hits,
            llc_misses: u.llc_misses,
            prefetch_hits: u.prefetch_hits,
            prefetch_misses: u.prefetch_misses,
            used_prefetches: u.used_prefetches,
            snps: u.snps,
            snp_hits_remote_rd: u.remote_rd,
            snp_hits_remote_rfo: u.remote_rfo,
            implicit_wbs: u.implicit_wbs,
            write_backs: u.write_backs,
            llc_hit_rate: u.llc_hit_rate(),
            snoop_hit_rate: u.snoop_hit_rate(),
        }
    }
}

/// What threads spent on a phase of a system within the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseTime {
    /// Which: `prepare`, `compute`, `respond`, `client-scan`, `tenant-pass`, `post`, `wait`, `partition`, `build`, `probe`.
    pub phase: String,
    /// How often.
    pub times: u64,
    /// Nanoseconds each time, on the average.
    pub mean_ns: f64,
}

impl PhaseTime {
    /// Those that were measured.
    pub(crate) fn of(measured: &Measured) -> Vec<PhaseTime> {
        let all = Phase::ALL.iter().zip(&measured.phases).filter(|(_, spent)| spent.times > 0);
        let time = |(phase, spent): (&Phase, &Spent)| PhaseTime {
            phase: phase.name().to_owned(),
            times: spent.times,
            mean_ns: spent.picoseconds as f64 / spent.times as f64 / 1e3,
        };
        all.map(time).collect()
    }
}

impl From<&ResourceUse> for Utilization {
    fn from(r: &ResourceUse) -> Utilization {
        Utilization {
            name: r.meter.to_string(),
            machine: r.machine,
            utilization: r.utilization,
            class: r.meter.part().resource(),
            part: r.meter.part(),
        }
    }
}

impl From<&CacheUse> for Cache {
    fn from(c: &CacheUse) -> Cache {
        Cache { cache: c.cache, machine: c.machine, hits: c.hits, misses: c.misses }
    }
}

impl From<&PcieUse> for Pcie {
    fn from(p: &PcieUse) -> Pcie {
        let PcieUse { machine, mmio_bytes, dma_read_bytes, dma_write_bytes, rdcur, itom } = *p;
        Pcie { machine, mmio_bytes, dma_read_bytes, dma_write_bytes, rdcur, itom }
    }
}

impl Latency {
    pub(crate) fn none() -> Latency {
        Latency { min: None, mean: None, p50: None, p99: None, p999: None }
    }
}

impl Latency {
    /// Of latencies to the nanosecond, whose sum is known to the picosecond: so is their mean.
    fn of(all: &Histogram<u32>, picoseconds: u64) -> Latency {
        if all.is_empty() {
            return Latency::none();
        }
        let at = |q: f64| is_known(all, q).then(|| all.value_at_quantile(q));
        let mean = picoseconds as f64 / all.len() as f64 / 1e3;
        Latency { min: Some(all.min()), mean: Some(mean), p50: at(0.5), p99: at(0.99), p999: at(0.999) }
    }
}

impl From<&Latencies> for Latency {
    fn from(all: &Latencies) -> Latency {
        Latency::of(&all.histogram(), all.sum())
    }
}

impl From<&Series> for Latency {
    fn from(series: &Series) -> Latency {
        Latency::of(&series.latency(), Batch::all(series.batches()).latency)
    }
}

/// What a thread counted: of SENDs those that it received.
fn of_thread(thread: &ThreadResult) -> u64 {
    thread.completed + thread.received
}

/// Operations that completed.
fn completed(run: &Run) -> u64 {
    run.threads.iter().map(|(_, thread)| of_thread(thread)).sum()
}

/// Operations per second in millions, by machine.
pub(crate) fn rates(w: &Resolved, run: &Run) -> Vec<f64> {
    let mut operations = vec![0u64; w.machines as usize];
    for (machine, thread) in &run.threads {
        operations[*machine as usize] += of_thread(thread);
    }
    let seconds = run.shown.span().as_secs_f64();
    let all = operations.iter().sum::<u64>() as f64 / seconds / 1e6;
    // Each machine's share is that of the completions that came.
    let evened = run.shown.evened.filter(|_| all > 0.0).map_or(1.0, |mops| mops / all);
    operations.into_iter().map(|n| n as f64 / seconds / 1e6 * evened).collect()
}

/// The form of `event_hash`.
pub(crate) fn hash_text(hash: u64) -> String {
    format!("{hash:016x}")
}

impl Outcome {
    /// Its bottleneck is the resource that was busiest, not confirmed.
    pub(crate) fn new(w: &Resolved, run: &Run) -> Outcome {
        let mops_per_machine = rates(w, run);
        let (m, mops) = (&run.metrics, mops_per_machine.iter().sum());
        let resources: Vec<Utilization> = m.resources.iter().map(Utilization::from).collect();
        let bottleneck =
            explain::busiest(&resources, run.shown.waits.is_none(), &|machine| w.machine_name(machine));
        Outcome {
            schema: SCHEMA,
            workload: w.clone(),
            mops,
            completed: completed(run),
            interval: run.shown.certainty.clone(),
            measured: run.shown.measured.clone(),
            waits: run.shown.waits.clone(),
            mops_per_machine,
            dropped: m.dropped,
            sent_again: SentAgain::from(&m.sent_again),
            latency_ns: run.shown.latency,
            classes: OfClass::all(w, run, mops),
            kinds: match &run.classes[..] {
                [all] if !w.has_classes() => OfKind::all(w, all, mops, run.shown.certainty.overload),
                _ => Vec::new(),
            },
            bottleneck,
            lift: Vec::new(),
            together: None,
            group_lift: Vec::new(),
            operation_time: None,
            advice: None,
            resources,
            caches: m.caches.iter().map(Cache::from).collect(),
            pcie: m.pcie.iter().map(Pcie::from).collect(),
            verbs: m.accounts.ended,
            events: m.events,
            event_hash: hash_text(m.event_hash),
            wall_seconds: run.wall_seconds,
        }
    }
}
