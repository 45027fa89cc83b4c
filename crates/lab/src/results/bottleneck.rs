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
    /// Whether the bottleneck is only likely: the run is not settled, or reruns were not made and may find
    /// another class. Otherwise absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_confirmed: bool,
    /// Number of the machine group with the limiting resource, in the workload's order. Only if machines
    /// differ and reruns were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
}

impl Bottleneck {
    /// A bottleneck with its description.
    pub(crate) fn found(class: Resource, text: String) -> Bottleneck {
        Bottleneck { class: Some(class), text, not_confirmed: false, group: None }
    }

    /// A bottleneck that reruns may refute. The description gets a note.
    pub(crate) fn not_confirmed(class: Resource, text: String) -> Bottleneck {
        let text = format!("{text} (not confirmed by reruns)");
        Bottleneck { not_confirmed: true, ..Bottleneck::found(class, text) }
    }

    /// This bottleneck, as one that reruns may refute.
    pub(crate) fn unconfirmed(self) -> Bottleneck {
        match self.class {
            Some(class) if !self.not_confirmed => Bottleneck::not_confirmed(class, self.text),
            _ => self,
        }
    }

    /// This bottleneck, of a run that is not settled. The description gets a note.
    pub(crate) fn unsettled(self) -> Bottleneck {
        match self.class {
            Some(_) if !self.not_confirmed => {
                let text = format!("{} (not confirmed, because the run is not settled)", self.text);
                Bottleneck { text, not_confirmed: true, ..self }
            }
            _ => self,
        }
    }

    /// No bottleneck, because no operation completed.
    pub(crate) fn none(text: String) -> Bottleneck {
        Bottleneck { class: None, text, not_confirmed: false, group: None }
    }

    /// Text for a table: the class, with a note if it is not confirmed.
    pub fn in_table(&self) -> String {
        let note = if self.not_confirmed { ", not confirmed" } else { "" };
        format!("{}{note}", self.class_name())
    }

    /// Name of the class in reports and JSON.
    pub fn class_name(&self) -> &'static str {
        class_name(self.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_note_says_that_a_bottleneck_is_not_confirmed() {
        let link = || Bottleneck::found(Resource::LinkBandwidth, "most used".into());
        assert_eq!(link().in_table(), "ib-bw");
        let unsettled = link().unsettled();
        assert_eq!(unsettled.in_table(), "ib-bw, not confirmed");
        assert_eq!(unsettled.text, "most used (not confirmed, because the run is not settled)");
        assert_eq!(unsettled.clone().unconfirmed(), unsettled);
        let unconfirmed = link().unconfirmed();
        assert_eq!(unconfirmed.clone().unsettled(), unconfirmed);
        let none = Bottleneck::none("no operation completed".into());
        assert_eq!(none.clone().unsettled(), none);
    }
}
