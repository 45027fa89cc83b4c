//! Measurements that no paper prints, beside the model: what each is found by.

use super::cluster21::reads;
use super::{Ctx, Findings, rc_swarm};
use crate::judge::measurements::{self, Measurement, MeasurementReport, What};
use crate::plan::NotYet;

/// What the model makes of it, in millions per second, and with what that is not stated; `None` where it is not run.
pub(crate) fn found(ctx: &Ctx<'_>, m: &Measurement) -> Result<Option<(f64, String)>, NotYet> {
    match &m.what {
        What::OneQp(of) => Ok(Some((reads::found(ctx, m, *of)?, String::new()))),
        _ => rc_swarm::found(ctx, m),
    }
}

/// All measurements of a set.
pub(super) fn all_of(ctx: &Ctx<'_>, set: &str) -> Result<Findings, NotYet> {
    // All are asked for before the first that is not known ends this.
    let all: Vec<_> = measurements::of_set(set).map(|(m, role)| (m, role, found(ctx, m))).collect();
    let report = |(m, role, found)| Ok(MeasurementReport::of(m, role, found?));
    let measured = all.into_iter().map(report).collect::<Result<_, NotYet>>()?;
    Ok(Findings { measured, ..Findings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Control;

    /// None is refused: an experiment whose workload cannot be panics when it asks for it.
    #[test]
    fn each_measurement_can_be_asked_for() {
        let ctx = Ctx::new(false, Control::quiet()).unwrap();
        for (m, _) in measurements::all() {
            let found = found(&ctx, m);
            let is_run = !matches!(m.what, What::NotRun(_));
            assert_eq!(found == Err(NotYet::Wanted), is_run, "{}: {found:?}", m.id);
        }
    }
}
