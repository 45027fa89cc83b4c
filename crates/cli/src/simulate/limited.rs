//! What supports a result and what limits it, for people.

use crate::explained;
use crate::extrapolation::Told;
use doorbell_lab::Outcome;

/// What supports a result, its bottleneck, and what more of each resource brings.
pub(super) fn limited(told: &Told<'_, Outcome>) -> String {
    let Outcome { bottleneck, lift, together, .. } = told.result;
    let lifts = explained::lifts(lift, together.as_ref());
    let (class, text) = (bottleneck.class_name(), &bottleneck.text);
    format!("{}\nBottleneck: {class}\n  {text}\n{lifts}", told.text())
}
