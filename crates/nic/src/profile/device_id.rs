//! What a NIC is called in numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The numbers by which programs tell kinds of NICs apart, as ibv_query_device(3) gives them. Nothing is computed from
/// them, so they are no parameters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceId {
    /// The vendor: of InfiniBand and RoCE its IEEE OUI, of iWARP the vendor of the PCI device.
    pub vendor_id: u32,
    /// The kind of NIC among the vendor's: the number of the PCI device.
    pub vendor_part_id: u32,
    /// Who says so.
    pub source: String,
}
