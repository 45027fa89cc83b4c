//! CoNEXT'13, Table 1: lines in the last-level cache when the NIC begins to read, and their states.

use super::runs::{self, CLUSTER, Pair, TABLE_3, touch};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::UncoreUse;
use doorbell_systems::touch::{Mode, Scanned};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab1",
    paper: "conext13",
    title: "lines in the last-level cache when DMA begins, by mode and scan",
    claims: &[
        "conext13-tab1-notouch-write",
        "conext13-tab1-notouch-read",
        "conext13-tab1-touch-write",
        "conext13-tab1-touch-read",
    ],
    runs: Runs::Touch,
    run,
};

/// A share above [`ALL`] counts as all, and a share below [`NONE`] counts as none.
const ALL: f64 = 0.9;
const NONE: f64 = 0.1;

/// Results of the snoops of the transmission buffer, and of the next scan's look-ups in the LLC.
struct Seen {
    /// Share of snoops that hit.
    hit: f64,
    /// Share of hits that forced a write-back, as a Modified line does.
    modified: f64,
    /// Share of the next scan's lines that the LLC has.
    kept: f64,
}

impl Seen {
    fn of(uncore: &UncoreUse) -> Seen {
        let hits = uncore.snp_hits_remote_rd + uncore.snp_hits_remote_rfo;
        Seen {
            hit: uncore.snoop_hit_rate.unwrap_or(0.0),
            modified: uncore.implicit_wbs as f64 / hits.max(1) as f64,
            kept: uncore.llc_hit_rate.unwrap_or(0.0),
        }
    }

    fn text(&self) -> String {
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        format!(
            "{} of the snoops of the transmission buffer hit, {} of these forced a write-back; the LLC has \
             {} of the lines of the next scan",
            percent(self.hit),
            percent(self.modified),
            percent(self.kept)
        )
    }
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let scans = [Scanned::Write, Scanned::Read].map(|scan| touch(Mode::Touch, scan, TABLE_3));
    let found = runs::pairs(ctx, ctx.profile(CLUSTER), "tab1", &scans)?;
    let [write, read] = &found[..] else { unreachable!("two scans") };
    let of = |pair: &Pair| [&pair.notouch, &pair.touch].map(|outcome| Seen::of(&outcome.system().uncore[0]));
    let [[write_not, write], [read_not, read]] = [of(write), of(read)];
    let sent = |s: &Seen| s.hit > ALL;
    let other = |s: &Seen| s.hit < NONE && s.kept > ALL;
    let state = "no snoop reaches the other buffer; a line's state comes from the scan, which is equal in \
         both modes";
    let check = |id, holds, seen: &Seen| Check::statement(id, CLUSTER, holds, seen.text());
    Ok(Findings {
        checks: vec![
            check("conext13-tab1-notouch-write", other(&write_not) && write.modified > ALL, &write_not)
                .note(state),
            check("conext13-tab1-notouch-read", other(&read_not) && read.modified < NONE, &read_not)
                .note(state),
            check("conext13-tab1-touch-write", sent(&write) && write.modified > ALL, &write),
            check("conext13-tab1-touch-read", sent(&read) && read.modified < NONE, &read),
        ],
        ..Findings::default()
    })
}
