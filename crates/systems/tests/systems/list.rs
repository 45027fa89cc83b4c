//! The list of checks for devices where time is real.

use crate::common::cluster;
use doorbell_sim::SimCluster;
use doorbell_systems::{System, Visit, visit_all};
use doorbell_systems_suite::{Scale, checks, run_all};
use doorbell_verbs::{Span, Time};
use std::collections::BTreeSet;

/// The list also passes in virtual time.
#[test]
fn the_list_of_checks_passes() {
    let end = Time::START + Scale::SMALL.patience + Span::from_ms(10);
    let mut make = |machines| cluster("cib", machines, |config| config.end = end);
    let list = checks();
    let report = run_all(&list, &mut make, None, &Scale::SMALL, &mut |result| println!("{result}"));
    assert!(report.failed().is_empty(), "{report}");
    assert_eq!(report.counts().0, list.len());
}

#[test]
fn every_system_is_checked_as_it_is_deployed() {
    struct Names(BTreeSet<String>);
    impl Visit for Names {
        fn visit<S: System>(&mut self) {
            self.0.insert(format!("systems/deployed/{}", S::NAME));
        }
    }
    let mut systems = Names(BTreeSet::new());
    visit_all(&mut systems);
    let names: Vec<String> = checks::<SimCluster>().iter().map(|check| check.name().to_owned()).collect();
    let unique: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(names.len(), unique.len(), "two checks have the same name: {names:?}");
    let deployed = |name: &&String| name.starts_with("systems/deployed/");
    assert_eq!(unique.iter().filter(deployed).cloned().collect::<BTreeSet<_>>(), systems.0);
}

#[test]
fn a_shape_names_parameters_that_the_system_has() {
    struct Named;
    impl Visit for Named {
        fn visit<S: System>(&mut self) {
            let shape = S::usual().shape();
            let cores = shape.cores.iter().map(|(key, _)| *key);
            let datagram = shape.datagram.map(|(key, _)| key);
            let held_back = shape.held_back.map(|(key, _)| key);
            let needs_sizes = shape.needs_sizes.map(|(key, _)| key);
            for key in cores.chain(datagram).chain(held_back).chain(needs_sizes) {
                assert!(S::fields().iter().any(|field| field.key == key), "{} has no {key}", S::NAME);
            }
        }
    }
    visit_all(&mut Named);
}
