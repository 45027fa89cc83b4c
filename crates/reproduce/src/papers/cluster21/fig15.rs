//! CLUSTER'21, Figure 15 and IV-C: a shuffle of 16 executors. Each entry is posted alone, or entries are
//! copied together (SP) or gathered by the NIC (SGL).
//!
//! The paper states neither the size of an entry nor the number of outstanding posts. The claims are judged
//! with entries of 64 bytes. This is the smallest size in Figure 18, and that figure uses this program. They
//! are judged with four posts per executor, as in Figures 3 to 5 (docs/cluster21.md). Size and posts were
//! chosen before there was a result. Curves show other choices.

use super::cluster::CLUSTER;
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_systems::System;
use doorbell_systems::config::Timing;
use doorbell_systems::shuffle::{Shuffle, Transfer};
use doorbell_systems::vector_io::Strategy;
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig15",
    paper: "cluster21",
    title: "shuffle of 16 executors: entries by themselves, copied together, or gathered",
    claims: &[
        "cluster21-sh-sgl",
        "cluster21-sh-sp",
        "cluster21-abs-shuffle",
        "cluster21-sh-sgl-large-batch",
        "cluster21-sh-push",
    ],
    runs: Runs::Systems,
    run,
};

/// For the claims: number of executors, and entries per post.
const EXECUTORS: u32 = 16;
const BATCH: u32 = 16;
/// Entries of a post.
const BATCHES: [u32; 5] = [2, 4, 8, 16, 32];
/// Executors.
const ALL: [u32; 4] = [2, 4, 8, 16];
/// Bytes of an entry: for the claims, and for the curves. A join's tuple has 16 bytes.
const ENTRY: u32 = 64;
const ENTRIES: [u32; 4] = [16, 64, 256, 1024];
/// Entries of a segment for large entries. With more, the inboxes of 16 executors would exceed the limit of a
/// shuffle.
const LARGE_SEGMENT: u32 = 256;
/// Outstanding posts.
const OUTSTANDING: [u32; 3] = [4, 16, 64];
/// Bytes of an entry, and outstanding posts, in the curves without `--full`.
const FEW: ([u32; 2], [u32; 1]) = ([16, ENTRY], [4]);

/// One run of the shuffle.
#[derive(Clone, Copy)]
struct SizedJoin {
    transfer: Transfer,
    strategy: Strategy,
    batch: u32,
    executors: u32,
    entry: u32,
    outstanding: u32,
    zipf: bool,
}

impl SizedJoin {
    /// The run that judges the claims, with this strategy and this many entries per post.
    fn of(strategy: Strategy, batch: u32) -> SizedJoin {
        SizedJoin {
            transfer: Transfer::Push,
            strategy,
            batch,
            executors: EXECUTORS,
            entry: ENTRY,
            outstanding: Shuffle::usual().clients.outstanding,
            zipf: false,
        }
    }

    /// This run with each entry posted alone.
    fn basic(self) -> SizedJoin {
        SizedJoin { strategy: Strategy::Sgl, batch: 1, ..self }
    }

    fn shuffle(self) -> Shuffle {
        let mut shuffle = Shuffle {
            transfer: self.transfer,
            strategy: self.strategy.into(),
            batch_entries: self.batch,
            entry: self.entry,
            zipf: self.zipf,
            segment: if self.entry > ENTRY { LARGE_SEGMENT } else { Shuffle::usual().segment },
            ..Shuffle::usual()
        };
        (shuffle.clients.clients, shuffle.clients.outstanding) = (self.executors, self.outstanding);
        // Receivers read the entries of a round in a few lumps, so about ten rounds are measured. A round
        // takes two milliseconds if each entry is posted alone.
        shuffle.timing = Timing::of(Span::from_ms(2), Span::from_ms((24 / u64::from(self.batch)).max(4)));
        shuffle
    }

    fn workload(self) -> SystemWorkload {
        self.shuffle().into()
    }
}

fn rates(ctx: &Ctx<'_>, points: &[SizedJoin]) -> Result<Vec<f64>, NotYet> {
    let all: Vec<_> = points.iter().map(|point| point.workload()).collect();
    Ok(ctx.timed(CLUSTER, "fig15", &all)?.iter().map(|o| o.mops).collect())
}

/// A curve of the rates of the runs that `of` returns for each x.
fn rated(
    ctx: &Ctx<'_>,
    name: &str,
    x: &str,
    points: &[u32],
    of: impl Fn(u32) -> SizedJoin,
) -> Result<Curve, NotYet> {
    let rates = rates(ctx, &points.iter().copied().map(of).collect::<Vec<_>>())?;
    let points = points.iter().copied().map(f64::from).zip(rates).collect();
    Ok(curve("cluster21/fig15", name, CLUSTER, x, "M entries/s", points))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let (sp, sgl) = (SizedJoin::of(Strategy::Sp, BATCH), SizedJoin::of(Strategy::Sgl, BATCH));
    let by_batch = |strategy| move |batch| SizedJoin::of(strategy, batch);
    let by_executors = |point: SizedJoin| move |executors| SizedJoin { executors, ..point };
    let by_entry = |point: SizedJoin| move |entry| SizedJoin { entry, ..point };
    let by_outstanding = |point: SizedJoin| move |outstanding| SizedJoin { outstanding, ..point };
    let pulled = |point| SizedJoin { transfer: Transfer::Pull, ..point };
    let (entries, outstanding) =
        if ctx.full { (&ENTRIES[..], &OUTSTANDING[..]) } else { (&FEW.0[..], &FEW.1[..]) };
    // The context learns of all runs before the first unknown result returns.
    let longer = ctx.explain_job(CLUSTER, "fig15", &SizedJoin { batch: 32, ..sgl }.workload());
    let three = ctx.timed(CLUSTER, "fig15", &[sgl.basic(), sp, sgl].map(SizedJoin::workload));
    let curves = [
        rated(ctx, "SP, by batch", "entries of a post", &BATCHES, by_batch(Strategy::Sp)),
        rated(ctx, "SGL, by batch", "entries of a post", &BATCHES, by_batch(Strategy::Sgl)),
        rated(ctx, "pull, by batch", "entries of a READ", &BATCHES, |batch| {
            pulled(SizedJoin::of(Strategy::Sp, batch))
        }),
        rated(ctx, "basic", "executors", &ALL, by_executors(sgl.basic())),
        rated(ctx, "SP of 16", "executors", &ALL, by_executors(sp)),
        rated(ctx, "SGL of 16", "executors", &ALL, by_executors(sgl)),
        rated(ctx, "basic, by entry", "bytes of an entry", entries, by_entry(sgl.basic())),
        rated(ctx, "SP of 16, by entry", "bytes of an entry", entries, by_entry(sp)),
        rated(ctx, "SGL of 16, by entry", "bytes of an entry", entries, by_entry(sgl)),
        rated(ctx, "basic, by outstanding", "posts", outstanding, by_outstanding(sgl.basic())),
        rated(ctx, "SP of 16, by outstanding", "posts", outstanding, by_outstanding(sp)),
        rated(ctx, "SGL of 16, by outstanding", "posts", outstanding, by_outstanding(sgl)),
    ];
    let others = rates(ctx, &[pulled(sgl.basic()), pulled(sp), SizedJoin { zipf: true, ..sgl }, sgl]);
    let (longer, three, others) = (longer?, three?, others?);
    let [basic, sp, sgl] = &three[..] else { unreachable!("as many outcomes as runs") };
    let curves = curves.into_iter().collect::<Result<Vec<_>, _>>()?;
    let checks = vec![
        over("cluster21-sh-sgl", sgl, basic, (&curves[8], &curves[6], &curves[11], &curves[9])),
        over("cluster21-sh-sp", sp, basic, (&curves[7], &curves[6], &curves[10], &curves[9])),
        Check::number("cluster21-abs-shuffle", CLUSTER, sp.mops / basic.mops),
        large_batch(&curves[0], &curves[1], &longer),
        push(&others, basic, sp),
    ];
    let uneven = SizedJoin { zipf: true, ..SizedJoin::of(Strategy::Sgl, BATCH) }.shuffle().unevenness();
    let zipf = curve(
        "cluster21/fig15",
        "SGL of 16, keys by Zipf's law",
        CLUSTER,
        "entries of the fullest receiver, relative to an average receiver",
        "M entries/s",
        vec![(1.0, others[3]), (uneven, others[2])],
    );
    let curves = curves.into_iter().chain([zipf]).collect();
    Ok(Findings { checks, curves, ..Findings::default() })
}

/// Text of the ratio `above` / `below` at each x. The curves have equal x.
fn ratios(above: &Curve, below: &Curve) -> String {
    let each = above.points.iter().zip(&below.points);
    let each: Vec<String> =
        each.map(|((x, above), (_, below))| format!("{:.1} with {x:.0}", above / below)).collect();
    each.join(", ")
}

fn over(
    claim: &'static str,
    outcome: &Outcome,
    basic: &Outcome,
    (entry, basic_entry, outstanding, basic_outstanding): (&Curve, &Curve, &Curve, &Curve),
) -> Check {
    let note = format!(
        "{:.1} M entries/s ({}) over {:.1} ({}), entries of {ENTRY} B, 4 posts of an executor outstanding; by bytes of an entry {}; by posts {}",
        outcome.mops,
        outcome.bottleneck.text,
        basic.mops,
        basic.bottleneck.text,
        ratios(entry, basic_entry),
        ratios(outstanding, basic_outstanding),
    );
    Check::number(claim, CLUSTER, outcome.mops / basic.mops).limited_by(outcome).note(note)
}

/// Compares how much each strategy gains from more entries per post.
fn large_batch(sp: &Curve, sgl: &Curve, longer: &Outcome) -> Check {
    let grows = |curve: &Curve| {
        let rate = |at: usize| curve.points[at].1;
        (rate(4) / rate(3), rate(4) / rate(0))
    };
    let (sp, sgl) = (grows(sp), grows(sgl));
    let seen = format!(
        "from posts of 16 to 32 entries SP has {:.2} times the rate, SGL {:.2}; from 2 to 32 SP {:.1}, SGL {:.1}; SGL of 32: {}",
        sp.0, sgl.0, sp.1, sgl.1, longer.bottleneck.text
    );
    Check::statement("cluster21-sh-sgl-large-batch", CLUSTER, sgl.0 < sp.0 && sgl.1 < sp.1, seen)
        .limited_by(longer)
}

fn push(others: &[f64], basic: &Outcome, sp: &Outcome) -> Check {
    let seen = format!(
        "entries of {ENTRY} B: pushed {:.1}, pulled {:.1} M/s one by one; {:.1} and {:.1} by 16",
        basic.mops, others[0], sp.mops, others[1]
    );
    Check::statement("cluster21-sh-push", CLUSTER, basic.mops > others[0] && sp.mops > others[1], seen)
}
