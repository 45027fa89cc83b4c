//! What points of a sweep are called.

use doorbell_lab::sweep::{Point, Sweep};

/// What a point is called.
pub(super) fn name(sweep: &Sweep, point: &Point) -> String {
    name_of(sweep, |option| point.value(option))
}

/// The same of a point with these values of options.
pub(super) fn name_of(sweep: &Sweep, value: impl Fn(&str) -> String) -> String {
    let each = sweep.over.iter().map(|axis| format!("{}={}", axis.option, value(&axis.option)));
    each.collect::<Vec<_>>().join(" ")
}
