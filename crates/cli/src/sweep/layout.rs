//! The columns of a sweep, which follow from its request.

use crate::report;
use doorbell_lab::sweep::{Axis, Sweep};
use doorbell_lab::{Workload, keys};
use serde_json::Value;
use std::collections::BTreeMap;

/// The swept options, and the further columns that a sweep has.
#[derive(Clone)]
pub(super) struct SweepLayout {
    /// The swept options.
    pub(super) over: Vec<Axis>,
    /// Whether some points are to measure p99.9.
    pub(super) with_p999: bool,
    /// Whether points have a load.
    pub(super) has_loads: bool,
}

impl SweepLayout {
    /// The columns of a sweep over these options. All points share the options in `workload`.
    pub(super) fn new(over: Vec<Axis>, workload: &BTreeMap<String, Value>) -> SweepLayout {
        let with_p999 = values(Workload::until.key, &over, workload).any(report::asks_for_p999);
        let has_loads = values(keys::LOAD, &over, workload).next().is_some();
        SweepLayout { over, with_p999, has_loads }
    }

    /// The columns of a finished sweep.
    pub(super) fn of(sweep: &Sweep) -> SweepLayout {
        SweepLayout::new(sweep.over.clone(), &sweep.workload)
    }

    /// Whether the number of QPs is swept, so that the table shows the QPs of a NIC.
    pub(super) fn is_over_qps(&self) -> bool {
        self.over.iter().any(|axis| axis.option == Workload::qps.key)
    }
}

/// The values of an option at all points.
fn values<'a>(
    key: &'a str,
    over: &'a [Axis],
    workload: &'a BTreeMap<String, Value>,
) -> impl Iterator<Item = &'a Value> {
    let swept = over.iter().filter(move |axis| axis.option == key).flat_map(|axis| &axis.values);
    swept.chain(workload.get(key))
}
