//! ATC'16, Figure 11b, 3.3 and 5.2.1: benefit of several QPs for one core.

use super::micro::{self, BATCH, CLUSTERS};
use crate::experiment::worst;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_verbs::Span;
use doorbell_workload::Workload;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig11b",
    paper: "atc16",
    title: "UD SENDs of one core over 1, 2 and 4 QPs",
    claims: &[
        "atc16-mq-1qp-batch-hurts",
        "atc16-mq-2qp",
        "atc16-mq-4qp",
        "atc16-mq-nonbatch-flat",
        "atc16-fig11b-labels",
        "atc16-s33-qp-pu",
        "atc16-s33-multiqueue-when",
        "atc16-intro-cpu-3p2x",
        "atc16-conc-fastest-3p2x",
    ],
    runs: Runs::Verbs,
    run,
};

/// QPs of the bars.
const QPS: [u32; 3] = [1, 2, 4];

/// Rates that rise by a smaller factor count as flat.
const FLAT: f64 = 1.05;

/// Rates of one cluster with 1, 2 and 4 QPs, in Mops.
struct Bars {
    cluster: &'static str,
    plain: [f64; 3],
    batched: [f64; 3],
}

impl Bars {
    fn measure(ctx: &Ctx<'_>, cluster: &'static str) -> Result<Bars, NotYet> {
        let profile = ctx.profile(cluster);
        let rates = |batch| -> Result<[f64; 3], NotYet> {
            let outcomes =
                ctx.measure(cluster, "fig11b", &QPS.map(|q| micro::one_core_send(profile, batch, q)))?;
            Ok([0, 1, 2].map(|i| outcomes[i].mops))
        };
        Ok(Bars { cluster, plain: rates(1)?, batched: rates(BATCH)? })
    }

    /// Rate with batches and `QPS[i]` QPs, relative to batches and one QP.
    fn gain(&self, i: usize) -> f64 {
        self.batched[i] / self.batched[0]
    }

    fn text(&self) -> String {
        let [one, two, four] = self.batched;
        format!("{}: {:.1}, batched {one:.1}, {two:.1}, {four:.1}", self.cluster, self.plain[0])
    }

    /// Whether each label has as many digits before the point as in the figure.
    fn has_labels(&self) -> bool {
        let two_digits = |mops: f64| mops >= 9.95;
        let [one, two, four] = self.batched.map(two_digits);
        let newer = self.cluster != "cx";
        two_digits(self.plain[0]) == newer && !one && two == newer && four == newer
    }

    fn curve(&self, name: &str, rates: [f64; 3]) -> Curve {
        Curve {
            experiment: "atc16/fig11b".into(),
            name: name.into(),
            profile: self.cluster.into(),
            x: "QPs of the core".into(),
            y: "UD SENDs, Mops".into(),
            points: QPS.iter().map(|&q| f64::from(q)).zip(rates).collect(),
        }
    }
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let bars = CLUSTERS.map(|c| Bars::measure(ctx, c));
    let bars: Vec<Bars> = bars.into_iter().collect::<Result<_, _>>()?;
    let seen = bars.iter().map(Bars::text).collect::<Vec<_>>().join("; ");
    let all = |claim, holds: fn(&Bars) -> bool| {
        Check::statement(claim, "cib", bars.iter().all(holds), seen.clone())
    };
    let ratio = |claim, value: &dyn Fn(&Bars) -> f64| {
        worst(bars.iter().map(|b| Check::number(claim, b.cluster, value(b)).note(b.text())).collect())
    };
    let explain =
        |what, batch, qps| ctx.explain("cib", what, &micro::one_core_send(ctx.profile("cib"), batch, qps));
    let one = explain("mq-1qp-batch-hurts", BATCH, 1)?;
    let two = explain("s33-qp-pu", BATCH, 2)?;
    let plain = explain("mq-nonbatch-flat", 1, 4)?;
    let fastest = bars.iter().map(|b| b.gain(2)).fold(0.0, f64::max);
    let checks = vec![
        all("atc16-mq-1qp-batch-hurts", |b| b.batched[0] < b.plain[0]).limited_by(&one),
        ratio("atc16-mq-2qp", &|b| b.gain(1)),
        ratio("atc16-mq-4qp", &|b| b.gain(2)),
        all("atc16-mq-nonbatch-flat", |b| b.plain.iter().all(|r| *r < FLAT * b.plain[0])).limited_by(&plain),
        all("atc16-fig11b-labels", Bars::has_labels),
        all("atc16-s33-qp-pu", |b| b.gain(1) > 1.8).limited_by(&two),
        slow_core(ctx)?,
        Check::number("atc16-intro-cpu-3p2x", "cib", fastest)
            .note("rate of one core with four QPs by that with one, on the cluster that gains most"),
        ratio("atc16-conc-fastest-3p2x", &|b| b.batched[2] / b.plain[0]),
    ];
    let curves = bars.iter().flat_map(|b| [b.curve("non-batched", b.plain), b.curve("batch 16", b.batched)]);
    Ok(Findings { checks, curves: curves.collect(), ..Findings::default() })
}

/// Smallest and largest [`number`] with which a claim in words holds on a cluster.
pub(super) fn range(claim: &str, cluster: &str) -> Option<(f64, f64)> {
    match claim {
        // In the figure, the rate without batches has one digit before the point on cx, and two on the other
        // clusters.
        "atc16-fig11b-labels" if cluster == "cx" => Some((1.0, 9.95)),
        "atc16-fig11b-labels" => Some((9.95, 99.5)),
        "atc16-mq-nonbatch-flat" => Some((1.0, FLAT)),
        _ => None,
    }
}

/// A claim in words as a number on one cluster. The number is the rate of one core without batches, or the
/// factor by which several QPs raise this rate.
pub(super) fn number(ctx: &Ctx<'_>, claim: &str, cluster: &str) -> Option<Result<f64, NotYet>> {
    range(claim, cluster)?;
    let cluster = CLUSTERS.into_iter().find(|c| *c == cluster)?;
    Some(Bars::measure(ctx, cluster).map(|bars| match claim {
        "atc16-fig11b-labels" => bars.plain[0],
        _ => bars.plain.into_iter().fold(0.0, f64::max) / bars.plain[0],
    }))
}

/// Several QPs do not help a core that has much work for each message.
fn slow_core(ctx: &Ctx<'_>) -> Result<Check, NotYet> {
    let mut busy = ctx.profile("cib").clone();
    // The additional work per message takes longer than a sending unit needs for a message.
    busy.host.build_wqe += busy.device.tx.send + busy.device.tx.fetched_wqe + Span::from_ns(20);
    let workloads: [Workload; 2] = [1, 4].map(|q| micro::one_core_send(&busy, BATCH, q));
    let quick = ctx.measure("cib", "s33", &workloads)?;
    let slow = ctx.measure_on(&busy, "s33", &workloads)?;
    let (quick, slow) = (quick[1].mops / quick[0].mops, slow[1].mops / slow[0].mops);
    let seen = format!("four QPs bring {quick:.2} times the rate, and {slow:.2} with more work per message");
    Ok(Check::statement("atc16-s33-multiqueue-when", "cib", quick > 1.5 && slow < 1.1, seen))
}
