//! The resources that can limit a workload.

use crate::Profile;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A resource that can limit a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// The cores: the work of programs, driver and kernel, and the latencies of the cores' caches. If the
    /// profile gives caches sizes, no resource includes the memory behind them or write-backs to it.
    Cpu,
    /// Host-to-device PCIe bandwidth for MMIOs.
    MmioBandwidth,
    /// Host-to-device PCIe bandwidth for read completions.
    DmaBandwidth,
    /// Device-to-host PCIe bandwidth: DMA writes and read requests.
    DmaWriteBandwidth,
    /// Latency of a PCIe transaction.
    PcieLatency,
    /// The NIC's sending units.
    TxUnits,
    /// The pipeline that the NIC's sending units share.
    TxPipeline,
    /// The NIC's receiving units.
    RxUnits,
    /// The NIC's locks for atomics.
    AtomicLocks,
    /// The NIC's cache of WQEs.
    WqeCache,
    /// The NIC's cache of QP contexts.
    QpContextCache,
    /// The NIC's cache of address translations.
    TranslationCache,
    /// READs and atomics that a QP may have outstanding.
    OutstandingReads,
    /// DMA reads that the NIC may have outstanding.
    PcieTags,
    /// Write-combined lines that a core may have in flight.
    WriteCombining,
    /// The link's bandwidth.
    LinkBandwidth,
    /// No resource: too few operations are outstanding to cover the time that each takes.
    Latency,
}

impl Resource {
    /// All resources.
    pub const ALL: [Resource; 17] = [
        Resource::Cpu,
        Resource::MmioBandwidth,
        Resource::DmaBandwidth,
        Resource::DmaWriteBandwidth,
        Resource::PcieLatency,
        Resource::TxUnits,
        Resource::TxPipeline,
        Resource::RxUnits,
        Resource::AtomicLocks,
        Resource::WqeCache,
        Resource::QpContextCache,
        Resource::TranslationCache,
        Resource::OutstandingReads,
        Resource::PcieTags,
        Resource::WriteCombining,
        Resource::LinkBandwidth,
        Resource::Latency,
    ];

    /// Resources that can be made somewhat faster or larger.
    pub const FASTER: [Resource; 14] = [
        Resource::Cpu,
        Resource::MmioBandwidth,
        Resource::DmaBandwidth,
        Resource::DmaWriteBandwidth,
        Resource::PcieLatency,
        Resource::TxUnits,
        Resource::TxPipeline,
        Resource::RxUnits,
        Resource::AtomicLocks,
        Resource::WqeCache,
        Resource::QpContextCache,
        Resource::TranslationCache,
        Resource::LinkBandwidth,
        Resource::Latency,
    ];

    /// Resources that have a number of entries or units. 10% more entries may change nothing.
    pub const COUNTED: [Resource; 9] = [
        Resource::TxUnits,
        Resource::RxUnits,
        Resource::AtomicLocks,
        Resource::WqeCache,
        Resource::QpContextCache,
        Resource::TranslationCache,
        Resource::OutstandingReads,
        Resource::PcieTags,
        Resource::WriteCombining,
    ];

    /// Whether the resource is a cache. A somewhat larger cache may change nothing until everything fits.
    pub const fn is_cache(self) -> bool {
        matches!(self, Resource::WqeCache | Resource::QpContextCache | Resource::TranslationCache)
    }

    /// Whether the resource is part of the NIC itself: its units, pipeline, locks and caches.
    pub const fn is_of_nic(self) -> bool {
        let counted = matches!(self, Resource::TxUnits | Resource::RxUnits | Resource::AtomicLocks);
        counted || self.is_cache() || matches!(self, Resource::TxPipeline)
    }

    /// Whether machines of this profile have the resource. Some resources belong to optional sections.
    pub fn is_of(self, profile: &Profile) -> bool {
        match self {
            Resource::TxPipeline => profile.device.pipeline.is_some(),
            _ => true,
        }
    }

    /// The resource's name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::MmioBandwidth => "mmio-bw",
            Resource::DmaBandwidth => "dma-bw",
            Resource::DmaWriteBandwidth => "dma-write-bw",
            Resource::PcieLatency => "pcie-rtt",
            Resource::TxUnits => "nic-tx-pu",
            Resource::TxPipeline => "nic-pipeline",
            Resource::RxUnits => "nic-rx-pu",
            Resource::AtomicLocks => "nic-lock",
            Resource::WqeCache => "nic-wqe-cache",
            Resource::QpContextCache => "nic-qp-cache",
            Resource::TranslationCache => "nic-mtt-cache",
            Resource::OutstandingReads => "rd-atomic",
            Resource::PcieTags => "pcie-tags",
            Resource::WriteCombining => "wc-buffers",
            Resource::LinkBandwidth => "ib-bw",
            Resource::Latency => "latency",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Resource {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for Resource {
    fn schema_name() -> Cow<'static, str> {
        "Resource".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Resource::ALL.map(Resource::name) })
    }
}

impl<'de> Deserialize<'de> for Resource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Resource, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = Resource::ALL.into_iter().find(|resource| resource.name() == name);
        found.ok_or_else(|| D::Error::custom(format!("`{name}` is not a resource")))
    }
}
