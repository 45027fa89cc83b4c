//! The part of the text report about the basis and the bottleneck of a result.

use crate::explained;
use crate::extrapolation::Told;
use doorbell_lab::Outcome;

/// The basis of a result, its bottleneck, and the gains from more of each resource.
pub(super) fn limited(told: &Told<'_, Outcome>) -> String {
    let Outcome { bottleneck, lift, together, .. } = told.result;
    let lifts = explained::lifts(lift, together.as_ref());
    let (class, text) = (bottleneck.class_name(), &bottleneck.text);
    format!("{}\nBottleneck: {class}\n  {text}\n{lifts}", told.text())
}
