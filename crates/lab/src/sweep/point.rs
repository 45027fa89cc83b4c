//! Points of a sweep.

use crate::load::Loaded;
use crate::plan::Run;
use crate::results::Found;
use doorbell_workload::limits::most_qps;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A point of a sweep, with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Number of the point from 0; the last option of the sweep changes fastest. Points of a search have the
    /// numbers after these.
    pub number: usize,
    /// Values of the swept options.
    pub at: BTreeMap<String, serde_json::Value>,
    /// QPs in use on the NIC that has most of them; absent for systems, and if a machine has several NICs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qps_per_nic: Option<u64>,
    /// Whether payload would fit into WQEs, but is read by DMA, because no option states the choice and DMA
    /// is faster. Rates and latencies jump where this choice changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_dma: bool,
    /// The load of the point's open loop, and its capacity; absent if no load was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Loaded>,
    /// Result of the run.
    #[serde(flatten)]
    pub found: Found,
}

/// Number of QPs in use on the NIC that has most of them; `None` for systems, and if machines have several
/// NICs.
fn qps_per_nic(run: &Run) -> Option<u64> {
    let w = run.as_verbs()?;
    let one_nic = run.profiles.all().all(|profile| profile.adapters() == 1);
    one_nic.then(|| most_qps(w))
}

/// Whether some payload is read by DMA only because DMA is faster.
fn is_by_dma(run: &Run) -> bool {
    let classes = run.as_verbs().map_or_else(Vec::new, |w| w.classes());
    classes.iter().any(|class| class.workload.dma_gain(&run.profiles).is_some())
}

impl Point {
    /// A point, once its run has a result. `states_inline` tells whether an option states if payload is
    /// inline.
    pub(super) fn of(
        number: usize,
        at: BTreeMap<String, serde_json::Value>,
        load: Option<Loaded>,
        (run, states_inline): (&Run, bool),
        found: Found,
    ) -> Point {
        let by_dma = !states_inline && is_by_dma(run);
        Point { number, at, qps_per_nic: qps_per_nic(run), by_dma, load, found }
    }

    /// The value of an option, as users write it.
    pub fn value(&self, key: &str) -> String {
        value(&self.at, key)
    }
}

/// A point without a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// Number of the point, as for a [`Point`].
    pub number: usize,
    /// Values of the swept options.
    pub at: BTreeMap<String, serde_json::Value>,
    /// Why the point has no result, in words; absent if the sweep was cut short before it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Missing {
    /// The value of an option, as users write it.
    pub fn value(&self, key: &str) -> String {
        value(&self.at, key)
    }
}

fn value(at: &BTreeMap<String, serde_json::Value>, key: &str) -> String {
    match at.get(key) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}
