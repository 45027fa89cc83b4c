//! CLUSTER'21, Table II and III: the machines, as the profile states them. Of Table II, only the latencies
//! are here. The bandwidths are measured in runs ([`super::tab2_bandwidth`]).

use super::cluster::CLUSTER;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab2",
    paper: "cluster21",
    title: "the machines, as the profile has them, and the latencies of their memory",
    claims: &[
        "cluster21-hw-sockets",
        "cluster21-hw-cores-per-socket",
        "cluster21-hw-ghz",
        "cluster21-hw-l3",
        "cluster21-hw-ports",
        "cluster21-tab2-local-lat",
        "cluster21-tab2-remote-lat",
        "cluster21-tab2-lat-43",
        "cluster21-s2-numa-latency",
    ],
    runs: Runs::None,
    run,
};

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let profile = ctx.profile(CLUSTER);
    let sockets = profile.sockets.expect("its hosts have two");
    let ns = |span: doorbell_verbs::Span| span.as_ps() as f64 / 1e3;
    let (local, remote) = (ns(profile.host.dram), ns(profile.host.dram + sockets.hop));
    let numbers = [
        ("cluster21-hw-sockets", f64::from(sockets.count)),
        ("cluster21-hw-cores-per-socket", f64::from(profile.host.cores)),
        ("cluster21-hw-ghz", profile.host.clock_hz as f64 / 1e9),
        ("cluster21-hw-l3", sockets.llc as f64 / f64::from(1 << 20)),
        ("cluster21-hw-ports", f64::from(profile.device.link.ports)),
        ("cluster21-tab2-local-lat", local),
        ("cluster21-tab2-remote-lat", remote),
        // The paper's own sentence swaps the two sockets.
        ("cluster21-tab2-lat-43", (1.0 - local / remote) * 100.0),
        ("cluster21-s2-numa-latency", (remote / local - 1.0) * 100.0),
    ];
    let checks = numbers.map(|(id, number)| Check::number(id, CLUSTER, number)).into();
    Ok(Findings { checks, ..Findings::default() })
}
