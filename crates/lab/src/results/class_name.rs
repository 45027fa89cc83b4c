//! Names of bottleneck classes.

use doorbell_nic::Resource;

/// Class name of a run in which nothing completed.
pub(super) const NONE: &str = "none";

/// Name of a bottleneck class in reports and JSON.
pub fn class_name(class: Option<Resource>) -> &'static str {
    class.map_or(NONE, Resource::name)
}
