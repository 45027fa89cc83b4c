//! The metered parts of a machine, which can be busy, and the caches of its NIC.

use crate::Resource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A part of a machine that is busy or idle. If a machine has several such parts, or several devices, reports
/// add a number to the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A core.
    Core,
    /// MMIOs on the PCIe link to the NIC.
    PcieMmio,
    /// Completions of the NIC's reads on the PCIe link to the NIC.
    PcieReadCompletions,
    /// The PCIe link to the host: DMA writes and read requests.
    PcieToHost,
    /// The sending units, on average.
    SendingUnits,
    /// The sending unit of the QP that has one for the longest time.
    BusiestSendingUnit,
    /// The pipeline of the sending units.
    SendingPipeline,
    /// The receiving units, on average.
    ReceivingUnits,
    /// The receiving unit of the flow that has one for the longest time.
    BusiestReceivingUnit,
    /// The lock for atomics that is held for the longest time.
    BusiestLock,
    /// A port's link, sending.
    PortOut,
    /// A port's link, receiving.
    PortIn,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 12] = [
        Part::Core,
        Part::PcieMmio,
        Part::PcieReadCompletions,
        Part::PcieToHost,
        Part::SendingUnits,
        Part::BusiestSendingUnit,
        Part::SendingPipeline,
        Part::ReceivingUnits,
        Part::BusiestReceivingUnit,
        Part::BusiestLock,
        Part::PortOut,
        Part::PortIn,
    ];

    /// The resource that limits a workload when this part is always busy.
    pub const fn resource(self) -> Resource {
        match self {
            Part::Core => Resource::Cpu,
            Part::PcieMmio => Resource::MmioBandwidth,
            Part::PcieReadCompletions => Resource::DmaBandwidth,
            Part::PcieToHost => Resource::DmaWriteBandwidth,
            Part::SendingUnits | Part::BusiestSendingUnit => Resource::TxUnits,
            Part::SendingPipeline => Resource::TxPipeline,
            Part::ReceivingUnits | Part::BusiestReceivingUnit => Resource::RxUnits,
            Part::BusiestLock => Resource::AtomicLocks,
            Part::PortOut | Part::PortIn => Resource::LinkBandwidth,
        }
    }
}

/// A part of the machines that takes a step of an unloaded operation's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum LatencyPart {
    /// A core: the call, and the poll.
    #[serde(rename = "core")]
    Core,
    /// The PCIe link, and the memory behind it.
    #[serde(rename = "PCIe")]
    Pcie,
    /// A sending unit of a NIC.
    #[serde(rename = "sending unit")]
    SendingUnit,
    /// A receiving unit of a NIC.
    #[serde(rename = "receiving unit")]
    ReceivingUnit,
    /// A port's link: the serialization time of the packets.
    #[serde(rename = "link")]
    Link,
    /// Cables and switch: the propagation delay between two ports.
    #[serde(rename = "cables and switch")]
    Cables,
}

impl LatencyPart {
    /// The part's name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            LatencyPart::Core => "core",
            LatencyPart::Pcie => "PCIe",
            LatencyPart::SendingUnit => "sending unit",
            LatencyPart::ReceivingUnit => "receiving unit",
            LatencyPart::Link => "link",
            LatencyPart::Cables => "cables and switch",
        }
    }
}

impl fmt::Display for LatencyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A cache of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicCache {
    /// QP contexts, as requester.
    QpRequester,
    /// QP contexts, as responder.
    QpResponder,
    /// Address translations.
    Translation,
    /// WQEs.
    Wqe,
    /// WQEs of requests in flight, when answers complete them.
    WqeInFlight,
}

impl NicCache {
    /// The cache's name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            NicCache::QpRequester => "qp-requester",
            NicCache::QpResponder => "qp-responder",
            NicCache::Translation => "translation",
            NicCache::Wqe => "wqe",
            NicCache::WqeInFlight => "wqe-in-flight",
        }
    }

    /// The resource that limits a workload when this cache is too small.
    pub const fn resource(self) -> Resource {
        match self {
            NicCache::Wqe | NicCache::WqeInFlight => Resource::WqeCache,
            NicCache::QpRequester | NicCache::QpResponder => Resource::QpContextCache,
            NicCache::Translation => Resource::TranslationCache,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_have_one_name() {
        for cache in [
            NicCache::QpRequester,
            NicCache::QpResponder,
            NicCache::Translation,
            NicCache::Wqe,
            NicCache::WqeInFlight,
        ] {
            let written = toml::Value::try_from(cache).unwrap();
            assert_eq!(written.as_str(), Some(cache.name()));
        }
    }
}
