//! ATC'16, Table 2: the clusters.

use super::micro::CLUSTERS;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::Profile;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab2",
    paper: "atc16",
    title: "the clusters, as the profiles state them",
    claims: &[
        "atc16-tab2-cx-ports",
        "atc16-tab2-cx-port-rate",
        "atc16-tab2-cx-pcie-gen",
        "atc16-tab2-cx-pcie-lanes",
        "atc16-tab2-cx-cores",
        "atc16-tab2-cx-ghz",
        "atc16-tab2-cx3-ports",
        "atc16-tab2-cx3-port-rate",
        "atc16-tab2-cx3-pcie-gen",
        "atc16-tab2-cx3-pcie-lanes",
        "atc16-tab2-cx3-cores",
        "atc16-tab2-cx3-ghz",
        "atc16-tab2-cib-ports",
        "atc16-tab2-cib-port-rate",
        "atc16-tab2-cib-pcie-gen",
        "atc16-tab2-cib-pcie-lanes",
        "atc16-tab2-cib-cores",
        "atc16-tab2-cib-ghz",
        "atc16-tab2-cx-pcie-rate",
    ],
    runs: Runs::None,
    run,
};

/// The table's row for a cluster, in the order of its claims.
fn row(p: &Profile) -> [f64; 6] {
    [
        f64::from(p.device.link.ports),
        signalling_gbps(p),
        generation(p),
        f64::from(p.device.pcie.lanes),
        f64::from(p.host.cores),
        p.host.clock_hz as f64 / 1e9,
    ]
}

/// The port's rate on the wire, including the encoding: 64b/66b from FDR on, 8b/10b for slower ports. The
/// table rounds 56.25 to 56.
fn signalling_gbps(p: &Profile) -> f64 {
    let gbps = p.device.link.port_bytes_per_s as f64 * 8.0 / 1e9;
    let encoded = if gbps > 32.0 { gbps * 66.0 / 64.0 } else { gbps * 10.0 / 8.0 };
    encoded.floor()
}

/// The PCIe generation, by the sizes of the profile's TLP headers (Figure 2a).
fn generation(p: &Profile) -> f64 {
    match (p.device.pcie.request_header, p.device.pcie.completion_header) {
        (24, 20) => 2.0,
        (26, 22) => 3.0,
        _ => f64::NAN,
    }
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let mut claims = EXPERIMENT.claims.iter();
    let mut checks = Vec::new();
    for cluster in CLUSTERS {
        for number in row(ctx.profile(cluster)) {
            let Some(claim) = claims.next() else { break };
            checks.push(Check::number(claim, cluster, number));
        }
    }
    // 8b/10b: ten bits on the lane for each byte.
    let rate = ctx.profile("cx").device.pcie.lane_bytes_per_s as f64 * 10.0 / 1e9;
    checks.push(Check::number("atc16-tab2-cx-pcie-rate", "cx", rate));
    Ok(Findings { checks, ..Findings::default() })
}
