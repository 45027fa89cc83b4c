//! ATC'16, Figure 11a and 5.2.1: peak UD SEND rates on Connect-IB with their PCIe bounds.

use super::micro::{self, BATCH, UD_PAYLOAD};
use crate::experiment::percent_more;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_nic::{Profile, wqe};
use doorbell_workload::Workload;
use std::sync::Arc;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig11a",
    paper: "atc16",
    title: "peak batched and non-batched UD SEND rates on cib, and the limit of PCIe",
    claims: &[
        "atc16-send-nonbatch-peak",
        "atc16-send-batch-peak",
        "atc16-send-batch-gain",
        "atc16-send-batch-size",
        "atc16-dma-useful-bw",
        "atc16-dma-wqe-limit",
        "atc16-send-batch-within-5pct",
        "atc16-mmio-line-rate",
        "atc16-mmio-wqe-limit",
        "atc16-send-nonbatch-within-10pct",
        "atc16-mq-4cores-saturate",
        "atc16-seq-dma-limit",
        "atc16-seq-s0-dma-limit-higher",
    ],
    runs: Runs::Verbs,
    run,
};

/// Largest number of cores in the sweep.
const CORES: u32 = 8;

/// A core count saturates if it reaches this share of the best rate.
const SATURATED: f64 = 0.97;

/// QPs per core. More QPs do not make a core faster (Figure 11b).
const QPS: u32 = 4;

fn with_cores(profile: &Profile, threads: u32, batch: u32) -> Workload {
    Workload { threads: Some(threads), ..micro::one_core_send(profile, batch, QPS) }
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let profile = ctx.profile("cib");
    let fastest =
        |what, batch, size| micro::fastest(ctx, "cib", what, &micro::outbound_sends(profile, batch, size));
    let explained = |what, batch| ctx.explain("cib", what, &fastest(what, batch, UD_PAYLOAD)?.0);
    let plain = explained("send-nonbatch-peak", 1)?;
    let batched = explained("send-batch-peak", BATCH)?;
    // The sequencer replies with 8 bytes.
    let (_, replies) = fastest("seq-dma-limit", BATCH, 8)?;
    let (dma, mmio) =
        (profile.device.pcie.dma_wqes_per_s(128) / 1e6, profile.device.pcie.mmio_wqes_per_s(128) / 1e6);
    let number = |claim, n: f64| Check::number(claim, "cib", n);
    let mut checks = vec![
        Check::rate("atc16-send-nonbatch-peak", "cib", &plain),
        Check::rate("atc16-send-batch-peak", "cib", &batched),
        number("atc16-send-batch-gain", percent_more(plain.mops, batched.mops)),
        number("atc16-send-batch-size", f64::from(BATCH)),
        number("atc16-dma-useful-bw", profile.device.pcie.dma_read_bytes_per_s() / 1e6),
        number("atc16-dma-wqe-limit", dma),
        number("atc16-send-batch-within-5pct", (1.0 - batched.mops / dma) * 100.0),
        number("atc16-mmio-line-rate", profile.device.pcie.mmio_lines_per_s() / 1e6),
        number("atc16-mmio-wqe-limit", mmio),
        number("atc16-send-nonbatch-within-10pct", (1.0 - plain.mops / mmio) * 100.0),
        Check::rate("atc16-seq-dma-limit", "cib", &replies),
        reply_limits(ctx),
    ];
    let cores: Vec<u32> = (1..=CORES).collect();
    let sweep = |batch| {
        let workloads: Vec<Workload> = cores.iter().map(|&n| with_cores(profile, n, batch)).collect();
        ctx.measure("cib", "fig11a", &workloads)
    };
    let (by_mmio, by_doorbell) = (sweep(1)?, sweep(BATCH)?);
    checks.push(saturating(ctx, &by_doorbell)?);
    let curve = |name: &str, outcomes: &[Arc<Outcome>]| Curve {
        experiment: "atc16/fig11a".into(),
        name: name.into(),
        profile: "cib".into(),
        x: "cores".into(),
        y: "UD SENDs, Mops".into(),
        points: cores.iter().map(|&n| f64::from(n)).zip(outcomes.iter().map(|o| o.mops)).collect(),
    };
    Ok(Findings {
        checks,
        curves: vec![curve("non-batched", &by_mmio), curve("batch 16", &by_doorbell)],
        ..Findings::default()
    })
}

/// Smallest number of cores that reaches [`SATURATED`] of the best rate, with its bottleneck.
fn saturating(ctx: &Ctx<'_>, outcomes: &[Arc<Outcome>]) -> Result<Check, NotYet> {
    let best = outcomes.iter().map(|o| o.mops).fold(0.0, f64::max);
    let enough = outcomes.iter().position(|o| o.mops >= SATURATED * best).unwrap_or(0) as u32 + 1;
    let outcome = ctx.explain("cib", "mq-4cores-saturate", &with_cores(ctx.profile("cib"), enough, BATCH))?;
    let rule = format!("fewest cores with {:.0}% of the highest rate", SATURATED * 100.0);
    Ok(Check::number("atc16-mq-4cores-saturate", "cib", enough).limited_by(&outcome).note(rule))
}

/// A header-only reply has half the WQE bytes of a regular one, so PCIe allows more replies.
fn reply_limits(ctx: &Ctx<'_>) -> Check {
    let pcie = &ctx.profile("cib").device.pcie;
    let (regular, header_only) =
        (pcie.dma_wqes_per_s(2 * wqe::LINE) / 1e6, pcie.dma_wqes_per_s(wqe::LINE) / 1e6);
    let seen = format!("{header_only:.0} and {regular:.0} million/s");
    Check::statement("atc16-seq-s0-dma-limit-higher", "cib", header_only > regular, seen).formula()
}
