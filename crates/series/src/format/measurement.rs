//! A series of measurements.

use super::names::{FabricKind, MeasuredUnit, SeriesRole};
use super::workload::MeasuredWorkload;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A series: its setup, and a measured value for each element of its axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// All keys but the arrays.
    pub setup: Setup,
    /// The array of the axis and the array `value`, element by element.
    pub points: Vec<SeriesPoint>,
    /// Other arrays by their keys, such as `peak`, `avg`, `p99` and `mpps`, each as long as `points`. Their
    /// units follow from the tool: Doorbell keeps them and does not use them.
    pub columns: BTreeMap<String, Vec<f64>>,
}

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesPoint {
    /// Element of the axis, in the axis's unit.
    pub x: f64,
    /// Measured value, in the unit of the series.
    pub value: f64,
}

/// Keys of a series. Texts are for readers: no computation uses them, except `id`, `nic` and `host`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Name of the series, unique in its file.
    pub id: String,
    /// Name of the NIC. A profile lists the names of its NIC in `measured_as`.
    pub nic: String,
    /// Link and fabric, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Processors of the hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Distance of the machines, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// Program that measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Options of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
    /// Operation, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// Transport, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Measured quantity, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Unit of the values.
    pub unit: MeasuredUnit,
    /// Statistic of the values, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statistic: Option<String>,
    /// PCIe slot, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_text: Option<String>,
    /// Publication of the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How sure the configuration is, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<String>,
    /// Use of the series: `calibrate` may set parameters of a profile, `check` judges a profile and sets
    /// nothing, `reference` is only shown.
    pub role: SeriesRole,
    /// Reason of the role, if a rule of the file does not give it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role_reason: Option<RoleReason>,
    /// Remarks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Name of the pair of hosts. Series with one name were measured on the same machines.
    pub host: String,
    /// Rate of one link in Gb/s, as vendors name it: 56 for FDR, 100 for EDR.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_gbps: Option<f64>,
    /// Number of links of the NIC that threads use in turn. Absent: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<u32>,
    /// Link layer of the network. Absent: neither InfiniBand nor RoCE, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<FabricKind>,
    /// PCIe slot of the NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie: Option<PcieSlot>,
    /// System of Doorbell that was measured. `workload` then states the known facts about its operations.
    /// Absent: a test of single verbs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<MeasuredSystem>,
    /// Reason why no run can answer the series. Absent: the keys decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// The workload.
    pub workload: MeasuredWorkload,
}

/// PCIe slot of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PcieSlot {
    /// Generation, from 1.
    #[serde(rename = "gen")]
    pub generation: u32,
    /// Lanes. Absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u32>,
    /// Whether generation and lanes follow from the CPU or the card, and no tool printed them. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
}

/// Reason of a series' role, with an explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RoleReason {
    /// Parameters were set from it before the roles of the file were assigned: `calibrate`.
    Known(String),
    /// It was handed out before the other series, so the rule of the file does not count it: `calibrate`.
    Earlier(String),
    /// It is neither used nor checked: `reference`.
    Exempt(String),
}

/// A system that was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredSystem {
    /// Name of the system, as `doorbell simulate --system` has it.
    pub name: String,
    /// Variant of the system's program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Cores of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
}
