//! ATC'16, Figure 5, 3.1 and 3.2: cumulative optimisations of two small UD SENDs.

use super::micro::BATCH;
use crate::experiment::briefly;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::{Method, PostShape, Profile, RecvShape, Transactions, accounting};
use doorbell_verbs::{Opcode, QpType};
use doorbell_workload::{Pattern, Verb, Workload};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig5",
    paper: "atc16",
    title: "optimisations of two 4-byte UD SENDs, and their PCIe transactions",
    claims: &[
        "atc16-s21-three-tlp-types",
        "atc16-s31-shrink-mmio-before",
        "atc16-s31-shrink-mmio-after",
        "atc16-s31-mmio-64b",
        "atc16-s31-mmio-default",
        "atc16-s31-fn3-one-dma",
        "atc16-s31-batch-useless-mmio",
        "atc16-s32-batching-adds-dma",
        "atc16-s32-unsignaled",
        "atc16-s32-inline",
        "atc16-fig5-batch-dma-bytes",
        "atc16-fig5-shrunk-dma-bytes",
        "atc16-fig5-stack",
        "atc16-s4-batch-one-uses-mmio",
        "atc16-seq-reply-dma-regular",
        "atc16-seq-reply-dma-ho",
        "atc16-seq-reply-dma-halved",
        "atc16-seq-imm-4b",
    ],
    runs: Runs::Verbs,
    run,
};

/// SENDs of the figure, and their payload in bytes.
const SENDS: u32 = 2;
const PAYLOAD: u32 = 4;

/// Steps of the figure. Each step adds one optimisation to the previous step.
const STEPS: [&str; 4] = ["plain", "unsignaled", "Doorbell batch", "header-only"];

/// Two SENDs on each step.
fn shapes() -> [PostShape; 4] {
    let plain = PostShape {
        opcode: Opcode::Send,
        qp_type: QpType::Ud,
        payload: PAYLOAD,
        sges: 1,
        inline: true,
        signaled: true,
        method: Method::WqeByMmio,
    };
    let unsignaled = PostShape { signaled: false, ..plain };
    let batched = PostShape { method: Method::Doorbell { batch: SENDS }, ..unsignaled };
    let header_only = PostShape { opcode: Opcode::SendWithImm, payload: 0, sges: 0, ..batched };
    [plain, unsignaled, batched, header_only]
}

/// PCIe transactions of both SENDs of a step at their requester.
fn both(profile: &Profile, shape: &PostShape) -> Transactions {
    accounting::requester(profile, shape).times(u64::from(SENDS / shape.method.wqes()))
}

/// One core on each step, with batches of 16.
fn workloads() -> [Workload; 4] {
    let plain = Workload {
        verb: Some(Verb::Send),
        pattern: Some(Pattern::Outbound),
        threads: Some(1),
        qps: Some(4),
        size: Some(PAYLOAD),
        window: Some(4 * BATCH),
        signal_every: Some(1),
        inline: Some(true),
        batch: Some(1),
        ..Workload::default()
    };
    let unsignaled =
        Workload { signal_every: None, window: None, window_per_qp: plain.window, ..plain.clone() };
    let batched = Workload { batch: Some(BATCH), ..unsignaled.clone() };
    let header_only = Workload { size: Some(0), header_only: Some(true), inline: None, ..batched.clone() };
    [plain, unsignaled, batched, header_only].map(|w| briefly(200, w))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let profile = ctx.profile("cib");
    let ladder = shapes().map(|s| both(profile, &s));
    let mut checks: Vec<Check> = formulas(profile, &ladder).into_iter().map(Check::formula).collect();
    checks.push(default_method(ctx)?);
    let outcomes = ctx.measure("cib", "fig5", &workloads())?;
    let rates = outcomes.iter().map(|o| o.mops);
    let tlps = ladder.iter().map(|t| (t.host_to_device_tlps + t.device_to_host_tlps) as f64);
    let curve = |name: &str, y: &str, values: Vec<f64>| Curve {
        experiment: "atc16/fig5".into(),
        name: name.into(),
        profile: "cib".into(),
        x: "optimisation (plain, unsignaled, batched, header-only)".into(),
        y: y.into(),
        points: (0..).map(f64::from).zip(values).collect(),
    };
    let curves = vec![
        curve("TLPs", "TLPs of both SENDs, both directions", tlps.collect()),
        curve("rate", "UD SENDs of one core with four QPs, Mops", rates.collect()),
    ];
    Ok(Findings { checks, curves, ..Findings::default() })
}

fn text(step: &str, t: &Transactions) -> String {
    let Transactions { mmio_writes, dma_reads, dma_read_bytes, dma_writes, .. } = t;
    let tlps = t.host_to_device_tlps + t.device_to_host_tlps;
    format!(
        "{step}: {mmio_writes} MMIOs, {dma_reads} DMA reads of {dma_read_bytes} B, {dma_writes} CQEs, {tlps} TLPs"
    )
}

fn formulas(profile: &Profile, ladder: &[Transactions; 4]) -> Vec<Check> {
    let [plain, unsignaled, batched, header_only] = ladder;
    let number = |claim, n: u64| Check::number(claim, "cib", n as f64);
    let statement = |claim, holds, seen: String| Check::statement(claim, "cib", holds, seen);
    let shape = shapes()[1];
    let by_mmio = |payload| {
        let shape = PostShape { opcode: Opcode::Write, qp_type: QpType::Uc, payload, ..shape };
        (shape.wqe_bytes(profile.device.generation), accounting::transfer(profile, &shape))
    };
    let (before, after) = (by_mmio(93), by_mmio(92));
    debug_assert_eq!((before.0, after.0), (129, 128));
    let referenced = PostShape { inline: false, ..shape };
    let saved = |from: u64, to: u64| (from - to) / u64::from(SENDS);
    let singles = accounting::transfer(profile, &shape);
    let reply = |shape: PostShape| {
        let shape = PostShape { method: Method::Doorbell { batch: 16 }, ..shape };
        accounting::transfer(profile, &shape).dma_read_bytes / 16
    };
    let (regular, small) = (reply(PostShape { payload: 8, ..shape }), reply(shapes()[3]));
    let falls = |of: fn(&Transactions) -> u64| ladder.windows(2).all(|w| of(&w[1]) <= of(&w[0]));
    let stack = (plain.dma_writes, unsignaled.dma_writes) == (2, 0)
        && (unsignaled.mmio_writes, batched.mmio_writes, header_only.mmio_writes) == (4, 1, 1)
        && (batched.dma_reads, header_only.dma_reads) == (1, 1)
        && falls(|t| t.host_to_device_bytes + t.device_to_host_bytes);
    let list = |wqes| profile.device.generation.posting().method(wqes);
    let rungs: Vec<String> = STEPS.iter().zip(ladder).map(|(s, t)| text(s, t)).collect();
    vec![
        number("atc16-s21-three-tlp-types", tlp_types(profile)),
        number("atc16-s31-shrink-mmio-before", before.1.mmio_writes),
        number("atc16-s31-shrink-mmio-after", after.1.mmio_writes),
        number("atc16-s31-mmio-64b", singles.mmio_bytes / singles.mmio_writes),
        number("atc16-s31-fn3-one-dma", batched.dma_reads),
        statement(
            "atc16-s31-batch-useless-mmio",
            unsignaled.mmio_writes == u64::from(SENDS) * singles.mmio_writes,
            format!("{} MMIOs for two, {} for one", unsignaled.mmio_writes, singles.mmio_writes),
        ),
        statement(
            "atc16-s32-batching-adds-dma",
            batched.dma_reads == unsignaled.dma_reads + 1 && batched.mmio_writes < unsignaled.mmio_writes,
            format!("{}; {}", rungs[1], rungs[2]),
        ),
        number("atc16-s32-unsignaled", saved(plain.dma_writes, unsignaled.dma_writes)),
        number("atc16-s32-inline", saved(both(profile, &referenced).dma_reads, unsignaled.dma_reads)),
        number("atc16-fig5-batch-dma-bytes", batched.dma_read_bytes),
        number("atc16-fig5-shrunk-dma-bytes", header_only.dma_read_bytes),
        statement("atc16-fig5-stack", stack, rungs.join("; ")),
        statement(
            "atc16-s4-batch-one-uses-mmio",
            list(1) == Method::WqeByMmio && list(2) != Method::WqeByMmio,
            format!("a list of one: {:?}", list(1)),
        ),
        number("atc16-seq-reply-dma-regular", regular),
        number("atc16-seq-reply-dma-ho", small),
        number("atc16-seq-reply-dma-halved", 100 - 100 * small / regular),
        number("atc16-seq-imm-4b", size_of::<u32>() as u64).note("the immediate of a work request is a u32"),
    ]
}

/// Kinds of TLPs that SENDs and READs cause at both ends: write requests, read requests, completions.
fn tlp_types(profile: &Profile) -> u64 {
    let mut all = Transactions::default();
    for shape in shapes() {
        all += both(profile, &shape);
    }
    all += accounting::responder(profile, Opcode::Send, QpType::Ud, PAYLOAD, RecvShape { inline: false });
    all += accounting::responder(profile, Opcode::Read, QpType::Rc, PAYLOAD, RecvShape { inline: false });
    let writes = all.mmio_writes + all.dma_writes;
    let read_requests = all.device_to_host_tlps - all.dma_writes;
    let completions = all.host_to_device_tlps - all.mmio_writes;
    [writes, read_requests, completions].into_iter().filter(|n| *n > 0).count() as u64
}

/// The default method, MMIO, has a lower latency than a Doorbell. With a Doorbell, the NIC must fetch the
/// WQEs by a DMA read.
fn default_method(ctx: &Ctx<'_>) -> Result<Check, NotYet> {
    let pair = |batch| {
        let workload = Workload {
            verb: Some(Verb::Write),
            size: Some(PAYLOAD),
            machines: Some(2),
            threads: Some(1),
            qps: Some(1),
            window: Some(SENDS),
            signal_every: Some(1),
            inline: Some(true),
            batch: Some(batch),
            ..Workload::default()
        };
        briefly(100, workload)
    };
    let outcomes = ctx.measure("cib", "s31-mmio-default", &[pair(1), pair(SENDS)])?;
    let [by_mmio, doorbell] = [0, 1].map(|i| outcomes[i].latency_ns.mean.unwrap_or(f64::NAN));
    let seen = format!("{by_mmio:.0} ns, by Doorbell {doorbell:.0} ns");
    Ok(Check::statement("atc16-s31-mmio-default", "cib", by_mmio < doorbell && by_mmio > 0.0, seen).note(
        "mean latency of two WRITEs of 4 bytes; which method a driver takes by default is not modelled",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_nic::{Generation, wqe};

    #[test]
    fn shrinking_saves_a_line() {
        let lines = shapes().map(|s| s.wqe_lines(Generation::Mlx5));
        assert_eq!(lines, [2, 2, 2, 1]);
        assert_eq!(wqe::pad(129), 192);
    }
}
