//! The name of a bottleneck's class.

use doorbell_nic::Resource;

/// What is said in place of a resource where nothing completed.
pub(super) const NONE: &str = "none";

/// The name of a bottleneck's class in reports and JSON.
pub fn class_name(class: Option<Resource>) -> &'static str {
    class.map_or(NONE, Resource::name)
}
