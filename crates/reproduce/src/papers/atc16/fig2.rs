//! ATC'16, Figure 2: overhead of PCIe transactions beside their data.

use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::{Pcie, accounting};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig2",
    paper: "atc16",
    title: "PCIe: bandwidth and headers of a lane (a), bytes sent by MMIO and by DMA (b)",
    claims: &[
        "atc16-fig2a-gen3-lane-bw",
        "atc16-fig2a-gen2-request-hdr",
        "atc16-fig2a-gen2-completion-hdr",
        "atc16-fig2a-gen3-request-hdr",
        "atc16-fig2a-gen3-completion-hdr",
        "atc16-s21-header-range",
        "atc16-s21-crc-intel",
        "atc16-s21-crc-amd",
        "atc16-s21-pcie-bw-model",
        "atc16-fig2b-mmio-bytes",
        "atc16-fig2b-dma-bytes",
        "atc16-fig2b-dma-lt-mmio",
        "atc16-s21-counter-straddle",
    ],
    runs: Runs::None,
    run,
};

/// Transfers of Figure 2b in bytes.
const SIZES: std::ops::RangeInclusive<u32> = 1..=256;

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let gen2 = &ctx.profile("cx").device.pcie;
    let gen3 = &ctx.profile("cib").device.pcie;
    let mut checks = vec![
        Check::number("atc16-fig2a-gen3-lane-bw", "cib", gen3.lane_bytes_per_s as f64 / 1e6),
        Check::number("atc16-fig2a-gen2-request-hdr", "cx", gen2.request_header),
        Check::number("atc16-fig2a-gen2-completion-hdr", "cx", gen2.completion_header),
        Check::number("atc16-fig2a-gen3-request-hdr", "cib", gen3.request_header),
        Check::number("atc16-fig2a-gen3-completion-hdr", "cib", gen3.completion_header),
        Check::number("atc16-s21-crc-intel", "cib", gen3.read_completion),
        Check::number("atc16-s21-crc-amd", "cx", gen2.read_completion),
        // A word of four bytes whose last two bytes are on the next line.
        Check::number("atc16-s21-counter-straddle", "cib", accounting::lines_touched(62, 4) as f64),
        header_range(ctx),
        bandwidth(ctx),
    ];
    checks.extend(formulas(gen3));
    Ok(Findings { checks, curves: curves(gen3, if ctx.full { 1 } else { 4 }), ..Findings::default() })
}

fn header_range(ctx: &Ctx<'_>) -> Check {
    let headers =
        || ctx.profiles.iter().flat_map(|p| [p.device.pcie.request_header, p.device.pcie.completion_header]);
    let (low, high) = (headers().min().unwrap_or(0), headers().max().unwrap_or(0));
    let seen = format!("{low} to {high} B");
    Check::statement("atc16-s21-header-range", "cib", (low, high) == (20, 26), seen)
}

/// The bandwidth of a link is the product of its lanes and the bandwidth of a lane.
fn bandwidth(ctx: &Ctx<'_>) -> Check {
    let product = |p: &Pcie| u64::from(p.lanes) * p.lane_bytes_per_s;
    let holds = ctx.profiles.iter().all(|p| p.device.pcie.bytes_per_s() == product(&p.device.pcie));
    let seen = format!("{:.1} MB/s on cib", ctx.profile("cib").device.pcie.bytes_per_s() as f64 / 1e6);
    Check::statement("atc16-s21-pcie-bw-model", "cib", holds, seen)
}

/// Inserts the paper's numbers into its formulas, and compares the results with the accounting for all sizes.
fn formulas(pcie: &Pcie) -> [Check; 3] {
    let mmio = SIZES.filter(|&x| pcie.mmio_link_bytes(x) != u64::from(x.div_ceil(64) * (64 + 26)));
    let dma = SIZES.filter(|&x| pcie.dma_read_link_bytes(x) != u64::from(x + 22 * x.div_ceil(128)));
    let order = SIZES.filter(|&x| pcie.dma_read_link_bytes(x) >= pcie.mmio_link_bytes(x));
    let at =
        |x: u32| format!("{x} B: MMIO {} B, DMA {} B", pcie.mmio_link_bytes(x), pcie.dma_read_link_bytes(x));
    let check = |id, mut misses: Vec<u32>, x| match misses.pop() {
        None => Check::statement(id, "cib", true, at(x)),
        Some(miss) => Check::statement(id, "cib", false, at(miss)),
    };
    [
        check("atc16-fig2b-mmio-bytes", mmio.collect(), 65),
        check("atc16-fig2b-dma-bytes", dma.collect(), 128),
        check("atc16-fig2b-dma-lt-mmio", order.collect(), 64),
    ]
}

fn curves(pcie: &Pcie, step: usize) -> Vec<Curve> {
    let curve = |name: &str, bytes: &dyn Fn(u32) -> u64| Curve {
        experiment: "atc16/fig2".into(),
        name: name.into(),
        profile: "cib".into(),
        x: "bytes transferred to the device".into(),
        y: "bytes on the PCIe link towards the device".into(),
        points: SIZES.step_by(step).map(|x| (f64::from(x), bytes(x) as f64)).collect(),
    };
    vec![curve("MMIO", &|x| pcie.mmio_link_bytes(x)), curve("DMA read", &|x| pcie.dma_read_link_bytes(x))]
}
