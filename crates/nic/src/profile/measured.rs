//! The measurements that a profile was set from. Beyond them it extrapolates.

use super::parameter::Parameter;
use crate::{Generation, Pattern};
use doorbell_verbs::{Opcode, QpType};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The measurements that a profile was set from; empty if nothing is known of them.
///
/// TOML: tables `[[measured.verbs]]`, `[[measured.systems]]` and `[measured.machine]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Measurements of verbs.
    #[serde(default)]
    pub verbs: Vec<VerbsMeasured>,
    /// Measurements of systems.
    #[serde(default)]
    pub systems: Vec<SystemMeasured>,
    /// The machine that the measurements support. It is only read, because the profile's own parameters and
    /// [`super::Difference`] state it for reports.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub machine: Option<MeasuredMachine>,
}

/// The machine that measurements support, in the terms of a profile. A profile with another value differs
/// from the measured machine, whichever file or option gives the value.
///
/// TOML: the table `[measured.machine]`, with a table of values for each section.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MeasuredMachine {
    /// The layouts of its NIC.
    pub generation: Generation,
    /// Values of all parameters by section and key, each in its unit; a flag is 0 or 1.
    #[serde(flatten)]
    pub values: BTreeMap<String, BTreeMap<String, f64>>,
}

/// A measurement of a verb, with the ranges that its source states. Unstated ranges are absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerbsMeasured {
    /// The publication, and the place in it.
    pub source: String,
    /// Ids of its claims, as parameters name them.
    #[serde(default)]
    pub claims: Vec<String>,
    /// Ids of its runs in `papers/rc-swarm.toml` or `papers/cluster21-reads.toml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// Verb, without immediate.
    #[serde(deserialize_with = "without_immediate")]
    #[schemars(with = "String")]
    pub verb: Opcode,
    /// Transport.
    #[schemars(with = "String")]
    pub transport: QpType,
    /// Whether the verb accesses memory on the responder's NIC.
    #[serde(default, skip_serializing_if = "is_false")]
    pub device_memory: bool,
    /// Whether all READs or WRITEs access one address of the responder.
    #[serde(default, skip_serializing_if = "is_false")]
    pub one_address: bool,
    /// Which machines post to which.
    pub pattern: Pattern,
    /// Payloads in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bounds>,
    /// Work requests per doorbell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Bounds>,
    /// Connected QPs that a machine uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qps: Option<Bounds>,
    /// Number of machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<Bounds>,
    /// Threads of each machine that posts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Bounds>,
    /// Operations outstanding per thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Bounds>,
}

/// A measurement of a registered system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemMeasured {
    /// The publication, and the place in it.
    pub source: String,
    /// Ids of its claims, as parameters name them.
    #[serde(default)]
    pub claims: Vec<String>,
    /// Ids of its runs in `papers/rc-swarm.toml` or `papers/cluster21-reads.toml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// Name of the system.
    pub system: String,
    /// Ranges of its numeric parameters.
    #[serde(default)]
    pub within: BTreeMap<String, Bounds>,
    /// Values of its other parameters: names, or `true` and `false`.
    #[serde(default)]
    pub of: BTreeMap<String, Vec<String>>,
}

/// A range from the least to the most, both included.
///
/// TOML: a list of the two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "[u64; 2]", into = "[u64; 2]")]
pub struct Bounds {
    least: u64,
    most: u64,
}

impl TryFrom<[u64; 2]> for Bounds {
    type Error = String;

    fn try_from([least, most]: [u64; 2]) -> Result<Bounds, String> {
        match least <= most {
            true => Ok(Bounds { least, most }),
            false => Err(format!("a range begins at {least}, but ends at {most}")),
        }
    }
}

impl From<Bounds> for [u64; 2] {
    fn from(Bounds { least, most }: Bounds) -> [u64; 2] {
        [least, most]
    }
}

impl Bounds {
    /// The smallest range that includes this one and `other`.
    pub fn with(self, other: Bounds) -> Bounds {
        Bounds { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// The side on which a number lies outside the range, in words; `None` if it lies within.
    pub fn side(self, number: u64) -> Option<&'static str> {
        match number {
            n if n < self.least => Some("below"),
            n if n > self.most => Some("beyond"),
            _ => None,
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.least == self.most {
            true => write!(f, "{}", self.least),
            false => write!(f, "{} to {}", self.least, self.most),
        }
    }
}

/// Whether a switch is off. Files leave it out then.
fn is_false(switch: &bool) -> bool {
    !switch
}

fn without_immediate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Opcode, D::Error> {
    match Opcode::deserialize(deserializer)? {
        Opcode::SendWithImm | Opcode::WriteWithImm => Err(D::Error::custom(
            "verb must be given without \
             immediate",
        )),
        verb => Ok(verb),
    }
}

impl MeasuredMachine {
    /// A machine with these parameters.
    pub(super) fn of(generation: Generation, parameters: &[Parameter]) -> MeasuredMachine {
        let mut values = BTreeMap::<String, BTreeMap<String, f64>>::new();
        for parameter in parameters {
            let (section, key) = parameter.name.split_once('.').unwrap_or(("", &parameter.name));
            values.entry(section.to_owned()).or_default().insert(key.to_owned(), parameter.value);
        }
        MeasuredMachine { generation, values }
    }

    /// The value of a parameter, by section and key.
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        let (section, key) = name.split_once('.')?;
        self.values.get(section)?.get(key).copied()
    }

    /// Names of all parameters.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let of = |(section, values): (&String, &BTreeMap<String, f64>)| {
            values.keys().map(|key| format!("{section}.{key}")).collect::<Vec<_>>()
        };
        self.values.iter().flat_map(of)
    }
}

/// The table `[measured.machine]` of a profile's file.
impl fmt::Display for MeasuredMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[measured.machine]\ngeneration = \"{}\"", self.generation)?;
        for (section, values) in &self.values {
            let values: Vec<String> = values.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            writeln!(f, "{section} = {{ {} }}", values.join(", "))?;
        }
        Ok(())
    }
}

impl Measured {
    /// Whether no measurement is known.
    pub fn is_empty(&self) -> bool {
        self.verbs.is_empty() && self.systems.is_empty()
    }

    /// Ids of the claims of all measurements.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        let of_verbs = self.verbs.iter().flat_map(|m| &m.claims);
        of_verbs.chain(self.systems.iter().flat_map(|m| &m.claims)).map(String::as_str)
    }

    /// Ids of the runs of all measurements, in `papers/rc-swarm.toml` or `papers/cluster21-reads.toml`.
    pub fn runs(&self) -> impl Iterator<Item = &str> {
        let of_verbs = self.verbs.iter().flat_map(|m| &m.runs);
        of_verbs.chain(self.systems.iter().flat_map(|m| &m.runs)).map(String::as_str)
    }
}
