//! CoNEXT'13, Figure 4 and 3.1: last-level cache hit rates of snoops and of the next scan.

use super::runs::{self, CLUSTER, Pair, TABLE_3, touch};
use crate::experiment::worst;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::UncoreUse;
use doorbell_systems::touch::{Mode, Scanned};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig4",
    paper: "conext13",
    title: "hit rates of snoops and of the next scan, by mode and scan",
    claims: &[
        "conext13-fig4-notouch-llc",
        "conext13-fig4-notouch-snoop",
        "conext13-fig4-touch-snoop",
        "conext13-fig4-touch-llc",
        "conext13-s31-remote-rfo",
        "conext13-s31-e-to-i",
        "conext13-s31-m-writeback",
    ],
    runs: Runs::Touch,
    run,
};

/// "Almost none" means less than this percentage, and "almost all" lacks less than this percentage.
const NEGLIGIBLE: f64 = 3.0;

fn llc(uncore: &UncoreUse) -> f64 {
    uncore.llc_hit_rate.unwrap_or(f64::NAN) * 100.0
}

fn snoops(uncore: &UncoreUse) -> f64 {
    uncore.snoop_hit_rate.unwrap_or(f64::NAN) * 100.0
}

/// `count` in percent of the sent lines.
fn of_sent(count: u64, uncore: &UncoreUse) -> f64 {
    count as f64 / uncore.snps.max(1) as f64 * 100.0
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let scans = [Scanned::Write, Scanned::Read].map(|scan| touch(Mode::Touch, scan, TABLE_3));
    let found = runs::pairs(ctx, ctx.profile(CLUSTER), "fig4", &scans)?;
    let of = |pair: &Pair| [&pair.notouch, &pair.touch].map(|outcome| outcome.system().uncore[0]);
    let [[write_not, write], [read_not, read]] = [of(&found[0]), of(&found[1])];
    let number = |id, n: f64| Check::number(id, CLUSTER, n);
    let both = |id, all: [f64; 2]| worst(all.map(|n| number(id, n)).into());
    let touched = snoops(&write_not).max(snoops(&read_not));
    let hit = snoops(&write).min(snoops(&read));
    let next = llc(&write).max(llc(&read));
    let taken = of_sent(read.snp_hits_remote_rfo, &read);
    let forced = of_sent(write.implicit_wbs, &write);
    let kept = format!(
        "{taken:.1}% of sent lines are snooped as REMOTE_RFO, {:.1}% as REMOTE_RD",
        of_sent(read.snp_hits_remote_rd, &read)
    );
    let checks = vec![
        both("conext13-fig4-notouch-llc", [llc(&write_not), llc(&read_not)]),
        Check::statement(
            "conext13-fig4-notouch-snoop",
            CLUSTER,
            touched < NEGLIGIBLE,
            format!("{touched:.2}%"),
        ),
        Check::statement(
            "conext13-fig4-touch-snoop",
            CLUSTER,
            hit > 100.0 - NEGLIGIBLE,
            format!("{hit:.2}%"),
        )
        .note("a line that two segments share is read twice, and is gone at the second read"),
        Check::statement("conext13-fig4-touch-llc", CLUSTER, next < NEGLIGIBLE, format!("{next:.2}%"))
            .note("requests of prefetchers are included; the misses are theirs"),
        Check::statement(
            "conext13-s31-remote-rfo",
            CLUSTER,
            read.snp_hits_remote_rd == 0 && taken > 90.0,
            kept,
        ),
        Check::statement(
            "conext13-s31-e-to-i",
            CLUSTER,
            taken > 90.0 && llc(&read) < NEGLIGIBLE && of_sent(read.implicit_wbs, &read) < NEGLIGIBLE,
            format!(
                "{taken:.1}% of clean lines taken away, and none written back; the next scan finds {:.2}%",
                llc(&read)
            ),
        ),
        Check::statement(
            "conext13-s31-m-writeback",
            CLUSTER,
            forced > 90.0,
            format!("{forced:.1}% written back"),
        ),
    ];
    Ok(Findings { checks, ..Findings::default() })
}
