//! Sets of measurements that no paper prints.

use crate::data::measurements::{self, Measurement, MeasurementReport};
use crate::experiment::{Ctx, Findings};
use doorbell_lab::NotYet;

/// Simulated rate in millions per second, and the settings that the measurement does not state. `None` if the
/// experiment does not run the measurement.
type FoundBeside = Result<Option<(f64, String)>, NotYet>;

/// Findings for all measurements of a set. `found` simulates one measurement.
pub(super) fn all_of(
    ctx: &Ctx<'_>,
    set: &str,
    found: fn(&Ctx<'_>, &Measurement) -> FoundBeside,
) -> Result<Findings, NotYet> {
    // The context learns of all runs before the first unknown result returns.
    let all: Vec<_> = measurements::of_set(set).map(|(m, role)| (m, role, found(ctx, m))).collect();
    let report = |(m, role, found)| Ok(MeasurementReport::of(m, role, found?));
    let measured = all.into_iter().map(report).collect::<Result<_, NotYet>>()?;
    Ok(Findings { measured, ..Findings::default() })
}
