//! The bottleneck of a workload.

use super::class_in_json;
use super::class_name::class_name;
use doorbell_nic::Resource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bottleneck of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bottleneck {
    /// Class of the bottleneck, such as `nic-tx-pu`; `none` if no operation completed.
    #[serde(with = "class_in_json")]
    #[schemars(with = "String")]
    pub class: Option<Resource>,
    /// Description in words, with the evidence.
    pub text: String,
    /// Number of the machine group with the limiting resource, in the workload's order. Only if machines
    /// differ and reruns were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
}

impl Bottleneck {
    /// Name of the class in reports and JSON.
    pub fn class_name(&self) -> &'static str {
        class_name(self.class)
    }
}
