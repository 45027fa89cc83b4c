//! Which machines post to which.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which machines post to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Machine 0 posts to all other machines.
    Outbound,
    /// All other machines post to machine 0.
    Inbound,
    /// Every machine posts to all other machines.
    AllToAll,
}
