//! CoNEXT'13, 4.1: whether the server, the client or both lose time by the NIC's accesses.

use super::runs::{self, CLUSTER, TABLE_3, phase_us, touch, us};
use crate::experiment::percent_more;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_systems::Phase;
use doorbell_systems::touch::{Mode, Reading, Scanned, Touch};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "sides",
    paper: "conext13",
    title: "cost of touching sent data at the server, of reading received data at the client, and of both",
    claims: &["conext13-s41-who-pays"],
    runs: Runs::Touch,
    run,
};

/// Losses above this many percent are significant, because the paper's runs deviate by less.
const THERE: f64 = 5.0;

/// Modes of server and client. With NoTouch, a side scans a separate buffer. With Touch, it scans the buffer
/// that the NIC accesses.
const CASES: [(Mode, Reading); 4] = [
    (Mode::NoTouch, Reading::NoTouch),
    (Mode::Touch, Reading::NoTouch),
    (Mode::NoTouch, Reading::Touch),
    (Mode::Touch, Reading::Touch),
];

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let case = |(mode, client_scan)| Touch { client_scan, ..touch(mode, Scanned::Read, TABLE_3) };
    let asked = CASES.map(case);
    let on = runs::systems(ctx, ctx.profile(CLUSTER), "sides", &asked);
    let off = runs::systems(ctx, &runs::without_prefetchers(ctx), "sides", &asked);
    let (on, off) = (on?, off?);
    let [server, client, both] = [1, 2, 3].map(|i| percent_more(us(&on[0]), us(&on[i])));
    let cold = |all: &[doorbell_lab::Outcome]| {
        percent_more(phase_us(&all[0], Phase::ClientScan), phase_us(&all[2], Phase::ClientScan))
    };
    let holds = server > THERE && client > THERE && both > server.max(client);
    let seen = format!(
        "256 kB, Read Scans: the server's buffer touched {server:.1}% more time, the client's {client:.1}%, both {both:.1}%"
    );
    let check = Check::statement("conext13-s41-who-pays", CLUSTER, holds, seen).note(format!(
        "the client's pass over received data takes {:.0}% more time than over a warm buffer, without \
         prefetchers {:.0}%",
        cold(&on),
        cold(&off)
    ));
    Ok(Findings { checks: vec![check], ..Findings::default() })
}
