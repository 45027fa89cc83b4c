//! Latencies of a run, and the utilization of its machines.

use doorbell_nic::{NicCache, Part, Resource, counted};
use doorbell_programs::steady::{Batch, CompletionSeries, is_known};
use doorbell_sim::{CacheUse, Meter, NoMeter, PcieUse, ResourceUse, Uncore};
use doorbell_systems::{Latencies, Measured, Phase, Spent};
use hdrhistogram::Histogram;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Retransmissions by requesters of reliable connections and their causes, over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentAgain {
    /// Number of RNR NAKs: a SEND found no RECV and waited.
    pub rnr_naks: u64,
    /// Number of timeouts without an answer.
    pub timeouts: u64,
    /// Number of packets that were sent again.
    pub packets: u64,
}

impl From<&doorbell_sim::SentAgain> for SentAgain {
    fn from(of: &doorbell_sim::SentAgain) -> SentAgain {
        SentAgain { rnr_naks: of.rnr_naks, timeouts: of.timeouts, packets: of.packets }
    }
}

impl SentAgain {
    /// Retransmissions in words; `None` if there are none.
    pub fn words(&self) -> Option<String> {
        let packets = counted(self.packets, "packet");
        let (naks, timeouts) = (counted(self.rnr_naks, "RNR NAK"), counted(self.timeouts, "time-out"));
        (*self != SentAgain::default()).then(|| format!("{packets}, after {naks} and {timeouts}"))
    }
}

/// Latencies in nanoseconds; `None` if no latency is given. All but the mean are truncated to whole
/// nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Number of latencies.
    #[serde(default)]
    pub count: u64,
    /// Minimum, to three digits.
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

/// Utilization of a resource within the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "UtilizationJson", try_from = "UtilizationJson")]
pub struct Utilization {
    /// The resource.
    pub meter: Meter,
    /// The machine of the resource.
    pub machine: u32,
    /// Share of the time in which the resource was busy, 0 to 1.
    pub utilization: f64,
}

impl Utilization {
    /// Class of the resource as a possible bottleneck.
    pub const fn class(&self) -> Resource {
        self.meter.part().resource()
    }
}

/// Utilization of a resource within the measured time.
#[derive(Serialize, Deserialize, JsonSchema)]
struct UtilizationJson {
    /// Name of the resource.
    name: String,
    /// Number of the machine.
    machine: u32,
    /// Share of the time in which the resource was busy, 0 to 1.
    utilization: f64,
    /// Class of the resource as a possible bottleneck.
    class: Resource,
    /// Part of the machine that the resource is.
    part: Part,
}

impl From<Utilization> for UtilizationJson {
    fn from(of: Utilization) -> UtilizationJson {
        let Utilization { meter, machine, utilization } = of;
        let (class, part) = (of.class(), meter.part());
        UtilizationJson { name: meter.to_string(), machine, utilization, class, part }
    }
}

impl TryFrom<UtilizationJson> for Utilization {
    type Error = NoMeter;

    fn try_from(json: UtilizationJson) -> Result<Utilization, NoMeter> {
        let UtilizationJson { name, machine, utilization, .. } = json;
        Ok(Utilization { meter: name.parse()?, machine, utilization })
    }
}

impl JsonSchema for Utilization {
    fn schema_name() -> Cow<'static, str> {
        "Utilization".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        UtilizationJson::json_schema(generator)
    }
}

/// Lookups in a NIC cache within the measured time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// The cache.
    #[serde(rename = "name")]
    pub cache: NicCache,
    /// Number of the machine.
    pub machine: u32,
    /// Lookups that found their entry.
    pub hits: u64,
    /// Lookups that fetched their entry over PCIe.
    pub misses: u64,
}

/// PCIe traffic of a machine within the measured time, in payload bytes of TLPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pcie {
    /// Number of the machine.
    pub machine: u32,
    /// Bytes written by CPUs to the NIC by MMIO.
    pub mmio_bytes: u64,
    /// Bytes read by the NIC.
    pub dma_read_bytes: u64,
    /// Bytes written by the NIC.
    pub dma_write_bytes: u64,
    /// Cache lines read (PCIeRdCur).
    pub rdcur: u64,
    /// Cache lines written (PCIeItoM).
    pub itom: u64,
}

/// Uncore counters of a machine within the measured time, named as in Intel's manual of the Xeon 7500's
/// uncore (323535).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UncoreUse {
    /// Number of the machine.
    pub machine: u32,
    /// Lines requested by cores and found in the LLC.
    pub llc_hits: u64,
    /// Lines requested by cores and not found in the LLC.
    pub llc_misses: u64,
    /// Lines requested by prefetchers and found in the LLC.
    pub prefetch_hits: u64,
    /// Lines requested by prefetchers and not found in the LLC.
    pub prefetch_misses: u64,
    /// Lines that a prefetcher had fetched from memory before a core requested them.
    pub used_prefetches: u64,
    /// Snoops that the LLC received.
    pub snps: u64,
    /// Snoops that left a line shared, or asked for a snapshot.
    pub snp_hits_remote_rd: u64,
    /// Snoops that took a line away.
    pub snp_hits_remote_rfo: u64,
    /// Write-backs forced by a snoop.
    pub implicit_wbs: u64,
    /// Write-backs of lines that were evicted or flushed.
    pub write_backs: u64,
    /// Share of LLC requests that hit, including requests of prefetchers; `None` without requests.
    pub llc_hit_rate: Option<f64>,
    /// Share of snoops that found their line; `None` without snoops.
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

/// Time that threads spent in a phase of a system within the measured time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseTime {
    /// Name of the phase: `prepare`, `compute`, `respond`, `client-scan`, `tenant-pass`, `post`, `wait`,
    /// `partition`, `build`, `probe`.
    #[schemars(with = "String")]
    pub phase: Phase,
    /// Number of times that the phase ran.
    pub times: u64,
    /// Mean duration in nanoseconds.
    pub mean_ns: f64,
}

impl PhaseTime {
    /// Times of the phases that ran.
    pub(crate) fn of(measured: &Measured) -> Vec<PhaseTime> {
        let all = Phase::ALL.iter().zip(&measured.phases).filter(|(_, spent)| spent.times > 0);
        let time = |(phase, spent): (&Phase, &Spent)| PhaseTime {
            phase: *phase,
            times: spent.times,
            mean_ns: spent.picoseconds as f64 / spent.times as f64 / 1e3,
        };
        all.map(time).collect()
    }
}

impl From<&ResourceUse> for Utilization {
    fn from(r: &ResourceUse) -> Utilization {
        Utilization { meter: r.meter, machine: r.machine, utilization: r.utilization }
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
        Latency { count: 0, min: None, mean: None, p50: None, p99: None, p999: None }
    }
}

impl Latency {
    /// Latencies from a histogram in nanoseconds. The sum in picoseconds gives a more precise mean.
    fn of(all: &Histogram<u32>, picoseconds: u64) -> Latency {
        if all.is_empty() {
            return Latency::none();
        }
        let at = |q: f64| is_known(all, q).then(|| all.value_at_quantile(q));
        let mean = picoseconds as f64 / all.len() as f64 / 1e3;
        let (p50, p99, p999) = (at(0.5), at(0.99), at(0.999));
        Latency { count: all.len(), min: Some(all.min()), mean: Some(mean), p50, p99, p999 }
    }
}

impl From<&Latencies> for Latency {
    fn from(all: &Latencies) -> Latency {
        Latency::of(&all.histogram(), all.sum())
    }
}

impl From<&CompletionSeries> for Latency {
    fn from(series: &CompletionSeries) -> Latency {
        Latency::of(&series.latency(), Batch::all(series.batches()).latency)
    }
}

/// The text form of `event_hash`.
pub(crate) fn hash_text(hash: u64) -> String {
    format!("{hash:016x}")
}
