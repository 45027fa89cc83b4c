//! Names of points of a sweep.

use doorbell_lab::sweep::{Point, Sweep};

pub(super) fn name(sweep: &Sweep, point: &Point) -> String {
    name_of(sweep, |option| point.value(option))
}

/// Name of a point with these values of the swept options.
pub(super) fn name_of(sweep: &Sweep, value: impl Fn(&str) -> String) -> String {
    let each = sweep.over.iter().map(|axis| format!("{}={}", axis.option, value(&axis.option)));
    each.collect::<Vec<_>>().join(" ")
}
