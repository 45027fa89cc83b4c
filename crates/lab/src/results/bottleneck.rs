//! The bottleneck of a workload.

use super::class_in_json;
use super::class_name::class_name;
use doorbell_nic::Resource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What limits a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bottleneck {
    /// Its class, as `nic-tx-pu`; none where no operation completed.
    #[serde(with = "class_in_json")]
    #[schemars(with = "String")]
    pub class: Option<Resource>,
    /// In words, with the evidence.
    pub text: String,
    /// Where machines differ, and reruns were asked for: the number of the group whose resource it is, of
    /// those in the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
}

impl Bottleneck {
    /// Its class in reports and JSON.
    pub fn class_name(&self) -> &'static str {
        class_name(self.class)
    }
}
