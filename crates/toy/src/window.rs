//! An experiment with the counter over SENDs: how one client's rate grows with its outstanding pings, up to
//! the server's limit.

use crate::ping::Ping;
use doorbell_lab::{Duration, NotYet, Schema, SystemEntry, SystemWorkload};
use doorbell_reproduce::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_systems::System;
use doorbell_verbs::Span;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "window",
    paper: "toy",
    title: "rate of one client of the counter over SENDs, with more and more pings outstanding",
    claims: &["toy-window-gain", "toy-service-time"],
    runs: Runs::Systems,
    run,
};

/// Numbers of outstanding pings.
const WINDOWS: [u32; 4] = [1, 2, 4, 8];

/// One client, and a server that takes a microsecond for a ping.
fn workload(outstanding: u32) -> SystemWorkload {
    let mut ping = Ping::usual();
    (ping.clients.clients, ping.clients.outstanding) = (1, outstanding);
    ping.service = Duration::new(Span::from_us(1));
    let entry = SystemEntry::new::<Ping>();
    SystemWorkload::of(entry.with(&ping.given()).expect("the values of the ping are in their ranges"))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let outcomes = ctx.systems("cib", "window", &WINDOWS.map(workload))?;
    let rates: Vec<f64> = outcomes.iter().map(|outcome| outcome.mops).collect();
    let (first, last) = (rates[0], rates[WINDOWS.len() - 1]);
    let checks = vec![
        Check::number("toy-window-gain", "cib", last / first),
        Check::number("toy-service-time", "cib", last),
    ];
    let curve = Curve {
        experiment: "toy/window".into(),
        name: "one client".into(),
        profile: "cib".into(),
        x: "pings outstanding".into(),
        y: "rate in Mrps".into(),
        points: WINDOWS.map(f64::from).into_iter().zip(rates).collect(),
    };
    Ok(Findings { checks, curves: vec![curve], ..Findings::default() })
}
