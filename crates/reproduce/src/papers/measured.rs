//! Simulation of measurements that no paper prints.

use super::cluster21::reads;
use super::rc_swarm;
use crate::data::measurements::{Measurement, What};
use crate::experiment::Ctx;
use doorbell_lab::NotYet;

/// Simulated rate in millions per second, and the settings that the measurement does not state. `None` if no
/// experiment runs the measurement.
pub(crate) fn found(ctx: &Ctx<'_>, m: &Measurement) -> Result<Option<(f64, String)>, NotYet> {
    match &m.what {
        What::OneQp(_) => reads::found(ctx, m),
        _ => rc_swarm::found(ctx, m),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::measurements;
    use doorbell_lab::Control;

    /// An experiment panics if it asks for an impossible workload. This test asks for the runs of every
    /// measurement.
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
