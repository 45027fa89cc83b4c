//! What a run says of its latencies and of what its machines did.

use doorbell_nic::{NicCache, Part, Resource, counted};
use doorbell_programs::steady::{Batch, CompletionSeries, is_known};
use doorbell_sim::{CacheUse, Meter, NoMeter, PcieUse, ResourceUse, Uncore};
use doorbell_systems::{Latencies, Measured, Phase, Spent};
use hdrhistogram::Histogram;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "UtilizationJson", try_from = "UtilizationJson")]
pub struct Utilization {
    /// Which.
    pub meter: Meter,
    /// Whose.
    pub machine: u32,
    /// Share of time in which it was busy, 0 to 1.
    pub utilization: f64,
}

impl Utilization {
    /// Which of the things that can limit a workload it is.
    pub const fn class(&self) -> Resource {
        self.meter.part().resource()
    }
}

/// Use of a resource within the measurement.
#[derive(Serialize, Deserialize, JsonSchema)]
struct UtilizationJson {
    /// Which.
    name: String,
    /// Whose.
    machine: u32,
    /// Share of time in which it was busy, 0 to 1.
    utilization: f64,
    /// Which of the things that can limit a workload it is.
    class: Resource,
    /// Which part of the machine it is.
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

impl From<&CompletionSeries> for Latency {
    fn from(series: &CompletionSeries) -> Latency {
        Latency::of(&series.latency(), Batch::all(series.batches()).latency)
    }
}

/// The form of `event_hash`.
pub(crate) fn hash_text(hash: u64) -> String {
    format!("{hash:016x}")
}
