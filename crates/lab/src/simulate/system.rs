//! Runs a system in virtual time.

use super::audit;
use super::steered::{show_latencies, steered, stopped, watched};
use crate::asked::SystemWorkload;
use crate::nearest;
use crate::results::{
    Cache, OfSystem, Outcome, OutcomeOf, Pcie, PhaseTime, SentAgain, Served, Shown, UncoreUse, Utilization,
    hash_text, used_by_operations,
};
use crate::run_error::SimulateError;
use crate::watch::Watch;
use doorbell_nic::Profile;
use doorbell_programs::steady::Stop;
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_systems::{Interval, Measured, site};
use doorbell_verbs::RunError;
use std::time::Instant;

/// Runs a system once. Its bottleneck is the nearest bound.
pub(crate) fn run_once(
    profile: &Profile,
    w: &SystemWorkload,
    stop: &Stop,
    watch: &dyn Watch,
) -> Result<Outcome, SimulateError> {
    let begun = Instant::now();
    let wanted = w.wanted();
    let measurement = wanted.measurement();
    let config = SimConfig { seed: w.timing().seed, window: wanted.window(), ..SimConfig::new(w.machines()) };
    let mut cluster = SimCluster::new(profile, watched(config, stop));
    let interval = site::Course::Fixed(Interval::shared(wanted.begin, measurement.clone()));
    let (ended, course) =
        steered(&mut cluster, wanted.clone(), &measurement, stop, watch, |cluster| w.run(cluster, interval));
    // If the run stopped before anything was measured, its threads have no results.
    if course.stopped || matches!(ended, Err(site::SiteError::Run(RunError::Interrupted))) {
        return Err(stopped(stop));
    }
    let site::SiteEnded { server: servers, clients: all } = ended?.expect("all machines are in this process");
    let mut clients = Measured::default();
    all.iter().for_each(|client| clients.add(client));
    let served = w.competes().then(|| Served::of(all.iter().map(|client| client.done))).flatten();
    let mut everybody = servers.clone();
    everybody.add(&clients);
    drop(all);
    let m = cluster.metrics();
    if let Some(what) = audit::fault_of_devices(&m) {
        return Err(SimulateError::Fault(what));
    }
    let shown = Shown::of(&measurement, &wanted, &course);
    show_latencies(watch, &measurement, &shown);
    let share = |n: u64| n as f64 / clients.done.max(1) as f64;
    let resources: Vec<Utilization> = m.resources.iter().map(Utilization::from).collect();
    let mops = clients.done as f64 / shown.span().as_secs_f64() / 1e6;
    let of = OfSystem {
        workload: w.clone(),
        gb_per_s: w.moved_bytes().filter(|_| mops > 0.0).map(|bytes| mops * bytes as f64 / 1e3),
        replies_per_post: (servers.posts > 0).then(|| servers.replies as f64 / servers.posts as f64),
        missed: share(clients.missed),
        header_only: share(clients.header_only),
        again: share(clients.again),
        served,
        uncore: m.uncore.iter().map(UncoreUse::from).collect(),
        phases: PhaseTime::of(&everybody),
    };
    Ok(Outcome {
        mops,
        interval: shown.certainty.clone(),
        measured: shown.measured.clone(),
        waits: shown.waits.clone(),
        latency_ns: shown.latency,
        quantiles: shown.quantiles.clone(),
        dropped: m.dropped,
        sent_again: SentAgain::from(&m.sent_again),
        bottleneck: nearest::of_system(profile, w, &used_by_operations(w, &resources), &m, (mops, &shown)),
        lift: Vec::new(),
        together: None,
        advice: None,
        resources,
        caches: m.caches.iter().map(Cache::from).collect(),
        pcie: m.pcie.iter().map(Pcie::from).collect(),
        events: m.events,
        event_hash: hash_text(m.event_hash),
        wall_seconds: begun.elapsed().as_secs_f64(),
        without_effect: m.without_effect,
        of: OutcomeOf::System(Box::new(of)),
    })
}
