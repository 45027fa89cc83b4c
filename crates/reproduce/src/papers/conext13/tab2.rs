//! CoNEXT'13, Table 2 and section 2.1: the machines, as the profile states them.

use super::runs::{CLUSTER, TABLE_3, touch};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_systems::System;
use doorbell_systems::touch::{Mode, Scanned};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab2",
    paper: "conext13",
    title: "the machines, as the profile has them",
    claims: &[
        "conext13-hw-cores",
        "conext13-hw-ghz",
        "conext13-hw-l1-size",
        "conext13-hw-l1-lat",
        "conext13-hw-l1-assoc",
        "conext13-hw-l2-size",
        "conext13-hw-l2-lat",
        "conext13-hw-l2-assoc",
        "conext13-hw-llc-size",
        "conext13-hw-llc-lat",
        "conext13-hw-llc-assoc",
        "conext13-hw-line",
        "conext13-hw-dram-lat",
        "conext13-hw-prefetch",
        "conext13-hw-machines",
        "conext13-hw-link",
    ],
    runs: Runs::None,
    run,
};

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let profile = ctx.profile(CLUSTER);
    let caches = profile.hierarchy.as_ref().expect("its caches have sizes");
    let ns = |span: doorbell_verbs::Span| span.as_ps() as f64 / 1e3;
    let kb = |bytes: u64| bytes as f64 / 1024.0;
    let machines = touch(Mode::Touch, Scanned::Write, TABLE_3).shape().machines;
    let numbers = [
        ("conext13-hw-cores", f64::from(profile.host.cores)),
        ("conext13-hw-ghz", profile.host.clock_hz as f64 / 1e9),
        ("conext13-hw-l1-lat", ns(caches.l1_latency)),
        ("conext13-hw-l1-assoc", f64::from(caches.l1_ways)),
        ("conext13-hw-l2-size", kb(caches.l2)),
        ("conext13-hw-l2-lat", ns(caches.l2_latency)),
        ("conext13-hw-l2-assoc", f64::from(caches.l2_ways)),
        ("conext13-hw-llc-size", kb(caches.llc) / 1024.0),
        ("conext13-hw-llc-lat", ns(caches.llc_latency)),
        ("conext13-hw-llc-assoc", f64::from(caches.llc_ways)),
        ("conext13-hw-line", f64::from(profile.host.cache_line)),
        ("conext13-hw-dram-lat", ns(caches.dram_latency)),
        ("conext13-hw-machines", f64::from(machines)),
        (
            "conext13-hw-link",
            f64::from(profile.device.link.ports) * profile.device.link.port_bytes_per_s as f64 * 8.0 / 1e9,
        ),
    ];
    let mut checks: Vec<Check> = numbers.map(|(id, n)| Check::number(id, CLUSTER, n)).into();
    let l1 = Check::number("conext13-hw-l1-size", CLUSTER, kb(caches.l1));
    checks
        .push(l1.note("32 kB of data; this core has another 32 kB of instructions, which are not modelled"));
    let prefetch = format!(
        "next line {}, adjacent line {}, streamer {} lines",
        caches.next_line, caches.adjacent_line, caches.streamer
    );
    checks.push(Check::statement("conext13-hw-prefetch", CLUSTER, caches.next_line, prefetch));
    Ok(Findings { checks, ..Findings::default() })
}
