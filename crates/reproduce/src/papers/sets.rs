//! Sets of measurements that no paper prints.

use crate::data::measurements::{self, Measurement, MeasurementReport};
use crate::experiment::{Ctx, Findings};
use doorbell_lab::NotYet;

/// What is found for a measurement, and with what that is not stated; `None` where it is not run.
type FoundBeside = Result<Option<(f64, String)>, NotYet>;

/// All measurements of a set, each found by this function.
pub(super) fn all_of(
    ctx: &Ctx<'_>,
    set: &str,
    found: fn(&Ctx<'_>, &Measurement) -> FoundBeside,
) -> Result<Findings, NotYet> {
    // All are asked for before the first that is not known ends this.
    let all: Vec<_> = measurements::of_set(set).map(|(m, role)| (m, role, found(ctx, m))).collect();
    let report = |(m, role, found)| Ok(MeasurementReport::of(m, role, found?));
    let measured = all.into_iter().map(report).collect::<Result<_, NotYet>>()?;
    Ok(Findings { measured, ..Findings::default() })
}
