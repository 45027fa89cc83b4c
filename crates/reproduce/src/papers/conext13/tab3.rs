//! CoNEXT'13, Table 3: latencies of 256 kB by mode and scan. The profile and the scan's instructions were set
//! from these four numbers, so none of them is a prediction.

use super::runs::{self, CLUSTER, Pair, TABLE_3, touch, us};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_systems::touch::{Mode, Scanned};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab3",
    paper: "conext13",
    title: "latency of a request for 256 kB, by mode and scan (calibration)",
    claims: &[
        "conext13-tab3-write-notouch",
        "conext13-tab3-write-touch",
        "conext13-tab3-write-loss",
        "conext13-tab3-read-notouch",
        "conext13-tab3-read-touch",
        "conext13-tab3-read-loss",
        "conext13-tab3-order",
        "conext13-tab3-write-gt-read-loss",
    ],
    runs: Runs::Touch,
    run,
};

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let scans = [Scanned::Write, Scanned::Read].map(|scan| touch(Mode::Touch, scan, TABLE_3));
    let found = runs::pairs(ctx, ctx.profile(CLUSTER), "tab3", &scans)?;
    let [write, read] = &found[..] else { unreachable!("two scans") };
    let [stores, loads] = [Scanned::Write, Scanned::Read].map(Scanned::instructions);
    let write_back =
        ctx.profile(CLUSTER).hierarchy.as_ref().map_or(0.0, |h| h.forced_write_back.as_ps() as f64 / 1e3);
    let set = format!(
        "set from it: {stores} instructions for a store (Write NoTouch), {loads} for a load (Read NoTouch), {write_back} ns \
         for a write-back that a snoop forces (Write Touch); Read Touch is left over"
    );
    let latency = |id, outcome| Check::number(id, CLUSTER, us(outcome)).note(set.clone());
    let order = [&write.touch, &read.touch, &write.notouch, &read.notouch].map(us);
    let in_words = order.map(|us| format!("{us:.1}")).join(", ");
    let seen = format!("Write Touch, Read Touch, Write NoTouch, Read NoTouch: {in_words} us");
    let losses = [write, read].map(Pair::loss);
    let both = format!("{:.1}% and {:.1}%", losses[0], losses[1]);
    let greater = losses[0] > losses[1] && losses[1] > 0.0;
    let checks = vec![
        latency("conext13-tab3-write-notouch", &write.notouch),
        latency("conext13-tab3-write-touch", &write.touch),
        Check::number("conext13-tab3-write-loss", CLUSTER, losses[0]),
        latency("conext13-tab3-read-notouch", &read.notouch),
        latency("conext13-tab3-read-touch", &read.touch),
        Check::number("conext13-tab3-read-loss", CLUSTER, losses[1]),
        Check::statement("conext13-tab3-order", CLUSTER, order.is_sorted_by(|a, b| a > b), seen),
        Check::statement("conext13-tab3-write-gt-read-loss", CLUSTER, greater, both),
    ];
    Ok(Findings { checks, ..Findings::default() })
}
