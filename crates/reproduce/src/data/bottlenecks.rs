//! Limits of a rate, as papers name them and as runs show them.

use doorbell_lab::class_name;
use doorbell_nic::Resource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// A limit of a rate, as a paper names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PaperLimit {
    /// One of the model's resources.
    Resource(Resource),
    /// A class of limits that is not one resource of the model.
    Other(PaperClass),
}

/// Limits in papers that are not a single resource of the model: several resources, or a resource that is not
/// modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PaperClass {
    /// Any part of the NIC.
    Nic,
    /// A processing unit of the NIC.
    #[serde(rename = "nic-pu")]
    NicUnit,
    /// A cache of the NIC.
    NicCache,
    /// The NIC for small payloads, then the link's bandwidth.
    #[serde(rename = "nic-then-ib-bw")]
    NicThenLink,
    /// The NIC's gathering of several SGEs.
    NicSglGather,
    /// Cache coherence between cores.
    Coherence,
    /// The number of DMAs.
    DmaCount,
    /// Memory.
    Dram,
    /// The latency of the network.
    NetworkRtt,
}

impl fmt::Display for PaperLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PaperLimit::Resource(resource) => resource.name(),
            PaperLimit::Other(PaperClass::Nic) => "nic",
            PaperLimit::Other(PaperClass::NicUnit) => "nic-pu",
            PaperLimit::Other(PaperClass::NicCache) => "nic-cache",
            PaperLimit::Other(PaperClass::NicThenLink) => "nic-then-ib-bw",
            PaperLimit::Other(PaperClass::NicSglGather) => "nic-sgl-gather",
            PaperLimit::Other(PaperClass::Coherence) => "coherence",
            PaperLimit::Other(PaperClass::DmaCount) => "dma-count",
            PaperLimit::Other(PaperClass::Dram) => "dram",
            PaperLimit::Other(PaperClass::NetworkRtt) => "network-rtt",
        })
    }
}

/// A limit of a rate, as reruns show it. The resource is `None` if no operation completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedLimit {
    /// The limit of one run.
    One(Option<Resource>),
    /// The limits for small and for large payloads.
    Transition {
        /// Limit for small payloads.
        small: Option<Resource>,
        /// Limit for large payloads.
        large: Option<Resource>,
    },
}

/// Whether the resource is part of the NIC.
fn is_of_nic(class: Option<Resource>) -> bool {
    class.is_some_and(Resource::is_of_nic)
}

impl fmt::Display for ObservedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ObservedLimit::One(class) => f.write_str(class_name(class)),
            ObservedLimit::Transition { small, large } => {
                let small = if is_of_nic(small) { "nic" } else { class_name(small) };
                write!(f, "{small}-then-{}", class_name(large))
            }
        }
    }
}

/// Limit that the paper names and limit that Doorbell observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BottleneckPair {
    /// Class that the paper names; empty if it names none.
    #[serde(serialize_with = "or_empty")]
    #[schemars(with = "String")]
    pub paper: Option<PaperLimit>,
    /// Class observed by reruns; empty if nothing was simulated.
    #[serde(serialize_with = "or_empty")]
    #[schemars(with = "String")]
    pub observed: Option<ObservedLimit>,
}

fn or_empty<T: fmt::Display, S: Serializer>(limit: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match limit {
        Some(limit) => serializer.collect_str(limit),
        None => serializer.serialize_str(""),
    }
}

impl BottleneckPair {
    /// Whether the observed limit is the limit that the paper names. `None` if either limit is missing.
    pub fn agree(&self) -> Option<bool> {
        let is_unit = |class| matches!(class, Some(Resource::TxUnits | Resource::RxUnits));
        Some(match (self.paper?, self.observed?) {
            (PaperLimit::Resource(paper), ObservedLimit::One(class)) => class == Some(paper),
            (PaperLimit::Other(PaperClass::Nic), ObservedLimit::One(class)) => is_of_nic(class),
            (PaperLimit::Other(PaperClass::Nic), ObservedLimit::Transition { small, .. }) => is_of_nic(small),
            (PaperLimit::Other(PaperClass::NicUnit), ObservedLimit::One(class)) => is_unit(class),
            (PaperLimit::Other(PaperClass::NicCache), ObservedLimit::One(class)) => {
                class.is_some_and(Resource::is_cache)
            }
            (PaperLimit::Other(PaperClass::NicThenLink), ObservedLimit::Transition { small, large }) => {
                is_of_nic(small) && large == Some(Resource::LinkBandwidth)
            }
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper(text: &str) -> Option<PaperLimit> {
        let limit = serde_json::from_value(text.into());
        (!text.is_empty()).then(|| limit.unwrap_or_else(|error| panic!("{text}: {error}")))
    }

    #[test]
    fn bottlenecks_agree() {
        let one = |resource| Some(ObservedLimit::One(Some(resource)));
        let then = |small, large| Some(ObservedLimit::Transition { small: Some(small), large: Some(large) });
        for (text, observed, agree) in [
            ("dma-bw", one(Resource::DmaBandwidth), Some(true)),
            ("dma-bw", one(Resource::MmioBandwidth), Some(false)),
            ("nic", one(Resource::TxUnits), Some(true)),
            ("nic", one(Resource::LinkBandwidth), Some(false)),
            ("nic-pu", one(Resource::RxUnits), Some(true)),
            ("nic-pu", one(Resource::AtomicLocks), Some(false)),
            ("nic-cache", one(Resource::WqeCache), Some(true)),
            ("nic-lock", one(Resource::AtomicLocks), Some(true)),
            ("nic-then-ib-bw", then(Resource::RxUnits, Resource::LinkBandwidth), Some(true)),
            ("nic-then-ib-bw", then(Resource::Cpu, Resource::LinkBandwidth), Some(false)),
            ("nic-then-ib-bw", one(Resource::TxUnits), Some(false)),
            ("dram", one(Resource::Cpu), Some(false)),
            ("cpu", Some(ObservedLimit::One(None)), Some(false)),
            ("", one(Resource::Cpu), None),
            ("cpu", None, None),
        ] {
            let pair = BottleneckPair { paper: paper(text), observed };
            assert_eq!(pair.agree(), agree, "{text} {observed:?}");
            let json = serde_json::to_value(&pair).expect("it is JSON");
            assert_eq!(json["paper"], text);
        }
        assert_eq!(then(Resource::RxUnits, Resource::LinkBandwidth).unwrap().to_string(), "nic-then-ib-bw");
        assert_eq!(then(Resource::Cpu, Resource::LinkBandwidth).unwrap().to_string(), "cpu-then-ib-bw");
    }
}
