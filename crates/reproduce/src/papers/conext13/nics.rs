//! CoNEXT'13, 2.1: losses with another NIC on the same host.

use super::runs::{self, CLUSTER, SCANS, TABLE_3, touch};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::Profile;
use doorbell_systems::touch::Mode;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "nics",
    paper: "conext13",
    title: "losses with another NIC on the same host",
    claims: &["conext13-m-netteffect"],
    runs: Runs::Touch,
    run,
};

/// Losses within this many percentage points count as equal.
const SAME: f64 = 3.0;

/// A NIC of the previous generation: PCIe 1.0, and twice the time for each message and packet. The only
/// published property of the paper's other NIC is its eight lanes of PCIe 1.0. The rest is assumed.
fn other(ctx: &Ctx<'_>) -> Profile {
    let mut profile = ctx.profile(CLUSTER).clone();
    profile.device.pcie.lane_bytes_per_s /= 2;
    let device = &mut profile.device;
    for twice in [&mut device.tx.send, &mut device.tx.extra_packet, &mut device.rx.packet] {
        *twice = *twice * 2;
    }
    profile
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let scans = SCANS.map(|(scan, _)| touch(Mode::Touch, scan, TABLE_3));
    let one = runs::pairs(ctx, ctx.profile(CLUSTER), "nics", &scans);
    let another = runs::pairs(ctx, &other(ctx), "nics", &scans);
    let (one, another) = (one?, another?);
    let losses: Vec<(f64, f64)> = one.iter().zip(&another).map(|(a, b)| (a.loss(), b.loss())).collect();
    let holds = losses.iter().all(|(one, another)| (one - another).abs() <= SAME);
    let seen = SCANS
        .iter()
        .zip(&losses)
        .map(|((_, name), (one, another))| format!("{name} {one:.1}% and {another:.1}%"));
    let seen = seen.collect::<Vec<_>>().join(", ");
    let check = Check::statement("conext13-m-netteffect", CLUSTER, holds, seen)
        .note("256 kB; the other NIC has half the PCIe bandwidth, and takes twice the time for messages and packets");
    Ok(Findings { checks: vec![check], ..Findings::default() })
}
