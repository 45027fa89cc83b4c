//! Who posts to whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who posts to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Machine 0 posts to the others.
    Outbound,
    /// The others post to machine 0.
    Inbound,
    /// Each posts to all others.
    AllToAll,
}
