//! What a simulation of a system says.

use super::lift::{Advice, Bottleneck, Lift, TogetherLift};
use super::shown::{Certainty, MeasuredTime};
use super::uses::{Cache, Latency, Pcie, PhaseTime, SentAgain, UncoreUse, Utilization, rate};
use crate::asked::SystemWorkload;
use doorbell_sim::Meter;
use doorbell_systems::config::Clients;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the JSON of a [`SystemOutcome`]; fields are only ever added.
pub const SYSTEM_SCHEMA: u32 = 1;

/// Result of a simulated system, in the form of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemOutcome {
    /// Version of this JSON.
    pub schema: u32,
    /// What was run.
    pub workload: SystemWorkload,
    /// Operations that clients saw done, per second, in millions.
    #[serde(with = "rate")]
    #[schemars(with = "Option<f64>")]
    pub mrps: f64,
    /// Bytes that operations moved, in GB per second; absent where the system moves none that are asked for, or nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gb_per_s: Option<f64>,
    /// Mean number of replies that the server posted at a time; `None` where it posts none.
    pub replies_per_post: Option<f64>,
    /// How sure the rate and the mean latency are.
    pub interval: Certainty,
    /// From when to when was measured.
    pub measured: MeasuredTime,
    /// Where no operation completed: what threads waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// From the start of an operation to its end.
    pub latency_ns: Latency,
    /// Share of GETs, among all operations, whose key had been evicted.
    pub missed: f64,
    /// Share of operations answered without payload.
    pub header_only: f64,
    /// Torn and stale reads, and locks that others held or took over, per operation.
    pub again: f64,
    /// How evenly clients were served that compete; absent where they do not, or nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
    /// Messages dropped for want of a RECV, whole run.
    pub dropped: u64,
    /// What reliable connections had to send again.
    pub sent_again: SentAgain,
    /// What limits the rate.
    pub bottleneck: Bottleneck,
    /// What more of each resource brings; empty unless asked for.
    pub lift: Vec<Lift>,
    /// Resources that limit the rate together; absent where one alone does, or it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<TogetherLift>,
    /// Other parameters with which the rate is higher, best first; absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<Advice>>,
    /// Use of each resource.
    pub resources: Vec<Utilization>,
    /// Hits and misses of each cache of the NICs.
    pub caches: Vec<Cache>,
    /// PCIe traffic of each machine.
    pub pcie: Vec<Pcie>,
    /// What the uncore of each machine counted; none where caches have no size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncore: Vec<UncoreUse>,
    /// What threads spent their time on, where the system tells it apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseTime>,
    /// Events of the simulator, whole run.
    pub events: u64,
    /// Hash over all of them in order, 16 hexadecimal digits.
    pub event_hash: String,
    /// Wall-clock seconds of the run.
    pub wall_seconds: f64,
}

/// How evenly clients that compete were served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    /// Operations of the client that saw fewest done, by those of a client on average.
    pub least: f64,
    /// Operations of the client that saw most done, by those of a client on average.
    pub most: f64,
}

impl Served {
    /// Of operations that each client saw done; `None` where none did.
    pub(crate) fn of(done: impl Iterator<Item = u64> + Clone) -> Option<Served> {
        let (all, clients) = (done.clone().sum::<u64>(), done.clone().count());
        let part = |done: Option<u64>| done.unwrap_or(0) as f64 * clients as f64 / all as f64;
        (all > 0).then(|| Served { least: part(done.clone().min()), most: part(done.max()) })
    }
}

/// Latencies from this on, in nanoseconds, tell more than rates: of shorter operations enough complete to be counted as finely.
const FINE: f64 = 200.0;

impl SystemOutcome {
    /// Of the use of resources that which operations depend on.
    pub(crate) fn of_operations(w: &SystemWorkload, all: &[Utilization]) -> Vec<Utilization> {
        let beside = w.beside().map(Meter::core);
        let is_beside = |r: &Utilization| r.machine == 0 && Some(r.meter) == beside;
        all.iter().filter(|r| !is_beside(r)).copied().collect()
    }

    /// Its rate in millions per second, as reruns are compared by. One client with one operation at a time does few in
    /// the time that is measured; its latency tells the same, and finer than their number.
    pub(crate) fn rate(&self) -> f64 {
        self.mean_alone().map_or(self.mrps, |ns| 1e3 / ns)
    }

    /// How sure that is: half of its interval.
    pub(crate) fn rate_half(&self) -> Option<f64> {
        match self.mean_alone() {
            Some(ns) => self.interval.latency_ns.map(|half| 1e3 / ns * half / ns),
            None => self.interval.mops,
        }
    }

    /// The mean latency of one client with one operation at a time.
    fn mean_alone(&self) -> Option<f64> {
        let Clients { clients, outstanding, .. } = self.workload.clients();
        let alone = (*clients, *outstanding) == (1, 1);
        self.latency_ns.mean.filter(|mean| alone && *mean >= FINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_by_what_is_even() {
        let of = |done: &[u64]| Served::of(done.iter().copied());
        assert_eq!(of(&[3, 3, 3]), Some(Served { least: 1.0, most: 1.0 }));
        assert_eq!(of(&[0, 2, 4, 2]), Some(Served { least: 0.0, most: 2.0 }));
        assert_eq!((of(&[0, 0]), of(&[])), (None, None));
    }
}
