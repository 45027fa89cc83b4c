//! The server that scans, over kernel TCP in virtual time.

use doorbell_nic::Profile;
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_systems_suite::{Scale, run_all, touch};
use doorbell_verbs::{Span, Time};

/// A host whose caches have sizes has few cores.
#[test]
fn responses_by_tcp_are_what_their_requests_asked_for() {
    let profile = Profile::named("e7520-t4").unwrap();
    let end = Time::START + Scale::SMALL.patience + Span::from_ms(10);
    let mut make = |machines| SimCluster::new(&profile, SimConfig { end, ..SimConfig::new(machines) });
    let report =
        run_all(&[touch::by_tcp()], &mut make, None, &Scale::SMALL, &mut |result| println!("{result}"));
    assert!(report.failed().is_empty(), "{report}");
}
