//! The numbers that identify a NIC, and its age.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The numbers by which programs tell kinds of NICs apart, as ibv_query_device(3) gives them. No computation
/// uses them, so they are not parameters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceId {
    /// The vendor: its IEEE OUI on InfiniBand and RoCE, the vendor of the PCI device on iWARP.
    pub vendor_id: u32,
    /// The vendor's number for this kind of NIC: the PCI device ID.
    pub vendor_part_id: u32,
    /// Source of the numbers.
    pub source: String,
}

/// The year in which a maker announced a NIC, or in which a paper proposed it. No computation uses the year.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Announced {
    /// The year.
    pub year: u16,
    /// Source of the year.
    pub source: String,
}
