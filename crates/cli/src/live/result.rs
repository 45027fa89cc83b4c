//! JSON output of live runs.

use doorbell_lab::{Latency, SystemWorkload};
use doorbell_live::Threads;
use doorbell_systems::touch::Touch;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

/// Version of the JSON. Later versions only add fields.
pub(super) const SCHEMA: u32 = 1;
/// If this field is not given, the system runs once with each of its values.
pub(super) const IN_TURN: &str = Touch::stack.key;
/// Results of live runs, as JSON output.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Live {
    pub(super) schema: u32,
    pub(super) machine: Machine,
    pub(super) device: LiveDevice,
    pub(super) runs: Vec<Run>,
}

/// The machine that was measured. The results are its own, not a profile's.
#[derive(Serialize, JsonSchema)]
pub(super) struct Machine {
    pub(super) processor: String,
    pub(super) processors: usize,
    pub(super) kernel: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Device")]
pub(super) struct LiveDevice {
    pub(super) name: String,
    pub(super) library: PathBuf,
}

/// One run.
#[derive(Serialize, JsonSchema)]
pub(super) struct Run {
    pub(super) workload: SystemWorkload,
    /// Operations that clients saw completed in the measured time.
    pub(super) done: u64,
    pub(super) mrps: f64,
    pub(super) latency_ns: Latency,
    pub(super) missed: f64,
    pub(super) header_only: f64,
    pub(super) again: f64,
    #[serde(flatten)]
    pub(super) threads: Threads,
}

impl Machine {
    pub(super) fn this() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Machine {
            processor: model.map_or("unknown", |(_, model)| model).to_owned(),
            processors: doorbell_lab::cores(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}
