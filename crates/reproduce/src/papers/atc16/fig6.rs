//! ATC'16, Figure 6, 3.2 and 5.1: cost of a message for the receiving machine.

use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::{Profile, RecvShape, Transactions, accounting};
use doorbell_verbs::{Opcode, QpType};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig6",
    paper: "atc16",
    title: "optimisations of two RECVs, and their PCIe transactions",
    claims: &[
        "atc16-s32-recv-two-dmas",
        "atc16-s32-inline-recv-one-dma",
        "atc16-s32-inline-recv-limit",
        "atc16-s32-ho-recv-one-dma",
        "atc16-s32-recv-cqe-mandatory",
        "atc16-s51-inbound-read-pcie",
        "atc16-s51-inbound-write-pcie",
    ],
    runs: Runs::None,
    run,
};

/// Number of RECVs in the figure, and the payload of each SEND in bytes.
const RECVS: u32 = 2;
const PAYLOAD: u32 = 4;

/// PCIe transactions of a message at its receiver, without the posting of its RECV.
fn message(profile: &Profile, payload: u32, inline: bool) -> Transactions {
    accounting::responder(profile, Opcode::Send, QpType::Ud, payload, RecvShape { inline })
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    // Only cx3 has inline-receive on UD.
    let profile = ctx.profile("cx3");
    let rungs = [(PAYLOAD, false), (PAYLOAD, true), (0, false)].map(|(p, i)| message(profile, p, i));
    let [regular, inline, header_only] = rungs;
    let one_sided = |opcode, qp_type| {
        accounting::responder(profile, opcode, qp_type, PAYLOAD, RecvShape { inline: false })
    };
    let number = |claim, n: u64| Check::number(claim, "cx3", n as f64);
    let always = rungs.iter().all(|t| t.dma_write_bytes >= u64::from(profile.device.nic.cqe));
    let checks = vec![
        number("atc16-s32-recv-two-dmas", regular.dma_writes),
        number("atc16-s32-inline-recv-one-dma", inline.dma_writes),
        number("atc16-s32-inline-recv-limit", u64::from(profile.device.nic.max_inline_recv)),
        number("atc16-s32-ho-recv-one-dma", header_only.dma_writes),
        Check::statement(
            "atc16-s32-recv-cqe-mandatory",
            "cx3",
            always && header_only.dma_write_bytes == u64::from(profile.device.nic.cqe),
            format!("a header-only RECV writes {} B", header_only.dma_write_bytes),
        ),
        number("atc16-s51-inbound-read-pcie", one_sided(Opcode::Read, QpType::Rc).dma_reads),
        number("atc16-s51-inbound-write-pcie", one_sided(Opcode::Write, QpType::Uc).dma_writes),
    ];
    let posting = accounting::post_recv(profile, RECVS, 1);
    let tlps = |t: &Transactions| {
        let both = posting + t.times(u64::from(RECVS));
        (both.host_to_device_tlps + both.device_to_host_tlps) as f64
    };
    let curve = Curve {
        experiment: "atc16/fig6".into(),
        name: "TLPs".into(),
        profile: "cx3".into(),
        x: "optimisation (regular, inline, header-only)".into(),
        y: "TLPs of both RECVs with their posting, both directions".into(),
        points: (0..).map(f64::from).zip(rungs.iter().map(tlps)).collect(),
    };
    Ok(Findings { checks, curves: vec![curve], ..Findings::default() })
}
