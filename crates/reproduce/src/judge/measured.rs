//! How far the model agrees with measurements that no paper prints.

use super::accuracy::{self, Accuracy};
use crate::data::measurements::{self, MeasurementReport, Role};
use schemars::JsonSchema;
use serde::Serialize;

/// A set of measurements that no paper prints, compared with the model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredReport {
    /// Name of the set.
    pub set: String,
    /// Introduction: the origin and the purpose of the set.
    pub about: String,
    /// All measurements of the set.
    pub measurements: Vec<MeasurementReport>,
    /// Agreement of the measurements that are run, by role.
    pub accuracy: Vec<Accuracy>,
}

impl MeasuredReport {
    /// The report of a whole set.
    pub(crate) fn of(name: &str, measurements: Vec<MeasurementReport>) -> MeasuredReport {
        let of_role = |role: Role| {
            let errors = measurements.iter().filter(|m| m.role == role).filter_map(|m| m.error);
            accuracy::of_errors(role.name(), errors.map(f64::abs))
        };
        let accuracy = [Role::Usable, Role::Checking].map(of_role).into();
        MeasuredReport {
            set: name.to_owned(),
            about: measurements::about(name).into(),
            measurements,
            accuracy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::measurements::{Measurement, What};

    fn swarm() -> impl Iterator<Item = (&'static Measurement, Role)> {
        measurements::of_set("rc-swarm")
    }

    #[test]
    fn errors_are_of_what_is_run_and_not_exempt() {
        let found = |(m, role): (&Measurement, Role)| {
            let simulated = if m.cluster == "cx3" { 1.5 * m.mops } else { 0.95 * m.mops };
            let is_run = !matches!(m.what, What::NotRun(_));
            MeasurementReport::of(m, role, is_run.then(|| (simulated, String::new())))
        };
        let report = MeasuredReport::of("rc-swarm", swarm().map(found).collect());
        assert_eq!(report.measurements.len(), swarm().count());
        for group in &report.accuracy {
            let of = report.measurements.iter().filter(|m| m.role.name() == group.group);
            let run: Vec<&MeasurementReport> = of.filter(|m| m.simulated.is_some()).collect();
            let near = run.iter().filter(|m| m.error.is_some_and(|e| (e + 0.05).abs() < 1e-9)).count();
            assert_eq!((group.numbers, group.hold), (run.len(), near), "{group:?}");
            assert!(group.largest_error.is_some_and(|e| (e - 0.5).abs() < 1e-9), "{group:?}");
        }
        let groups: Vec<&str> = report.accuracy.iter().map(|a| a.group.as_str()).collect();
        assert_eq!(groups, ["usable", "checking"]);
    }
}
