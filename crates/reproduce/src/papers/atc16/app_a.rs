//! ATC'16, appendix A and section 3.1: bytes on PCIe with and without a Doorbell.

use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::accounting;
use doorbell_nic::{Method, PostShape, Profile, Transactions, wqe};
use doorbell_verbs::{Opcode, QpType};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "appA",
    paper: "atc16",
    title: "bytes from CPU to NIC for ten WQEs of 65 bytes",
    claims: &[
        "atc16-s31-doorbell-mmio-count",
        "atc16-s31-bf-bytes",
        "atc16-s31-doorbell-bytes",
        "atc16-s31-doorbell-saves",
        "atc16-appA-tbf",
        "atc16-appA-tdb",
        "atc16-appA-doorbell-size",
        "atc16-appA-linklayer-overhead",
    ],
    runs: Runs::None,
    run,
};

/// The paper's example has ten WQEs of 65 bytes.
const WQES: u32 = 10;
const WQE_BYTES: u32 = 65;

/// A WRITE whose WQE has the paper's size.
fn shape(profile: &Profile, method: Method) -> PostShape {
    PostShape {
        opcode: Opcode::Write,
        qp_type: QpType::Uc,
        payload: WQE_BYTES - profile.device.generation.wqe().header_bytes(QpType::Uc),
        sges: 1,
        inline: true,
        signaled: false,
        method,
    }
}

fn posts(profile: &Profile) -> (Transactions, Transactions) {
    let by_mmio = accounting::transfer(profile, &shape(profile, Method::WqeByMmio)).times(u64::from(WQES));
    let doorbell = accounting::transfer(profile, &shape(profile, Method::Doorbell { batch: WQES }));
    (by_mmio, doorbell)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let profile = ctx.profile("cib");
    let (by_mmio, doorbell) = posts(profile);
    let (t_bf, t_db) = (by_mmio.host_to_device_bytes as f64, doorbell.host_to_device_bytes as f64);
    let lines = u64::from(WQES * wqe::lines(WQE_BYTES));
    let counts = (by_mmio.mmio_writes, doorbell.mmio_writes);
    let checks = vec![
        Check::number("atc16-s31-bf-bytes", "cib", t_bf),
        Check::number("atc16-s31-doorbell-bytes", "cib", t_db),
        Check::number("atc16-appA-tbf", "cib", t_bf),
        Check::number("atc16-appA-tdb", "cib", t_db),
        Check::statement("atc16-s31-doorbell-saves", "cib", t_db < t_bf, format!("{t_db} B < {t_bf} B")),
        Check::statement(
            "atc16-s31-doorbell-mmio-count",
            "cib",
            counts == (lines, 1),
            format!("{} MMIO writes become {}", counts.0, counts.1),
        ),
        Check::number("atc16-appA-doorbell-size", "cib", profile.device.generation.posting().doorbell),
        Check::number("atc16-appA-linklayer-overhead", "cib", link_layer_percent(profile, &by_mmio))
            .note("share of the bytes of the ten WQEs by MMIO, which has the smaller TLPs"),
    ];
    Ok(Findings { checks, ..Findings::default() })
}

/// Bytes of link-layer packets, in percent of the bytes of the TLPs.
fn link_layer_percent(profile: &Profile, t: &Transactions) -> f64 {
    let packets = t.host_to_device_tlps * profile.device.pcie.dllp_millibytes;
    packets as f64 / 1000.0 / t.host_to_device_bytes as f64 * 100.0
}
