//! The simulator as a verbs device: the conformance suite and the sample programs, on each profile.

use crate::common::profiles::offering_all;
use doorbell_conformance::{CheckResult, Report, run, samples};
use doorbell_sim::{SimCluster, SimConfig};

fn check(
    what: &str,
    suite: impl Fn(&mut dyn FnMut(u32) -> SimCluster, &mut dyn FnMut(&CheckResult)) -> Report,
) {
    for profile in offering_all() {
        let name = &profile.name;
        let report =
            suite(&mut |machines| SimCluster::new(&profile, SimConfig::new(machines)), &mut |check| {
                println!("{name}: {check}");
            });
        assert!(report.failed().is_empty(), "{what} on {name}: {:?}", report.failed());
    }
}

#[test]
fn samples_run_in_virtual_time() {
    check("samples", |make, each| samples::run_all(make, None, each));
}

#[test]
fn the_simulator_conforms() {
    check("suite", |make, each| run(make, None, each));
}
