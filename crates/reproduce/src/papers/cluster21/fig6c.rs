//! CLUSTER'21, Figure 6c and I: rate of a thread's sequential and random accesses to memory of its own
//! machine, by payload. The paper states no payload for its ratios. Here the payload is a line, as in Figure
//! 6d. The notes name the payloads for which the simulated ratios equal the paper's.

use super::cluster::CLUSTER;
use super::fig6;
use super::local::{Home, LINE, Walk, rates};
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_systems::local_memory::{Addresses, Op};
use doorbell_workload::Verb;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig6c",
    paper: "cluster21",
    title: "a machine's own memory in turn and at random, by payload",
    claims: &[
        "cluster21-fig6-local-asym",
        "cluster21-fig6-remote-lt-local",
        "cluster21-intro-local-seq-rand",
        "cluster21-intro-local-seq-xsocket",
    ],
    runs: Runs::Systems,
    run,
};

/// Payloads of the figure.
const SIZES: [u32; 12] = [1, 8, 16, 32, LINE, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Index of the line's payload in [`SIZES`].
const OF_LINE: usize = 4;

/// Rates by payload.
type Rates = [f64; SIZES.len()];

/// Access patterns of a thread: sequential and random, at its own socket and at the other one.
const WALKS: [(&str, Addresses, Home); 4] = [
    ("sequential", Addresses::Sequential, Home::Own),
    ("random", Addresses::Random, Home::Own),
    ("sequential, other socket", Addresses::Sequential, Home::Other),
    ("random, other socket", Addresses::Random, Home::Other),
];

/// Rates of each of [`WALKS`] by payload.
fn by_size(ctx: &Ctx<'_>, op: Op) -> Result<[Rates; WALKS.len()], NotYet> {
    let of = |(_, addresses, home)| SIZES.map(|size| Walk { op, addresses, home, size });
    let all: Vec<Walk> = WALKS.into_iter().flat_map(of).collect();
    let found = rates(ctx, "fig6c", &all)?;
    let (walks, _) = found.as_chunks();
    Ok(walks.try_into().expect("as many walks"))
}

/// `more` divided by `less`, at each payload.
fn ratio(more: &Rates, less: &Rates) -> Rates {
    std::array::from_fn(|i| more[i] / less[i])
}

/// Payload at which falling ratios reach `value`, interpolated on a logarithmic scale of payloads.
fn payload_at(ratios: &Rates, value: f64) -> Option<f64> {
    let between = ratios.windows(2).position(|pair| pair[0] >= value && pair[1] <= value)?;
    let [x, y] = [SIZES[between], SIZES[between + 1]].map(|size| f64::from(size).ln());
    let [high, low] = [ratios[between], ratios[between + 1]].map(f64::ln);
    let along = if high > low { (high - value.ln()) / (high - low) } else { 0.0 };
    Some((x + along * (y - x)).exp())
}

/// Text of the payloads at which `ratios` reach the paper's numbers, `values`.
fn payloads(ratios: &Rates, values: &[f64]) -> String {
    let of = |value: &f64| match payload_at(ratios, *value) {
        Some(payload) => format!("{value} at {payload:.0} B"),
        None => format!("{value} at no payload"),
    };
    values.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let [reads, writes] = [Op::Read, Op::Write].map(|op| by_size(ctx, op));
    let (reads, writes) = (reads?, writes?);
    // Asymmetry of remote memory, for the claim that compares it with local memory.
    let [remote_read, remote_write] = [Verb::Read, Verb::Write].map(|verb| fig6::asymmetry(ctx, verb));
    let (remote_read, remote_write) = (remote_read?, remote_write?);
    let [of_reads, of_writes] = [&reads, &writes].map(|[turn, random, ..]| ratio(turn, random));
    let across = ratio(&writes[0], &writes[3]);
    let least = of_reads[OF_LINE].min(of_writes[OF_LINE]);
    let seen = format!(
        "at {LINE} B own memory by READ {:.2}, WRITE {:.2} times faster in turn, remote memory by READ {remote_read:.2}, WRITE {remote_write:.2}",
        of_reads[OF_LINE], of_writes[OF_LINE]
    );
    let at = |ratios, values: &[f64]| format!("writes of {LINE} B; {}", payloads(ratios, values));
    let checks = vec![
        Check::number("cluster21-fig6-local-asym", CLUSTER, of_writes[OF_LINE])
            .note(at(&of_writes, &[8.0, 4.0])),
        Check::statement(
            "cluster21-fig6-remote-lt-local",
            CLUSTER,
            remote_read.max(remote_write) < least,
            seen,
        ),
        Check::number("cluster21-intro-local-seq-rand", CLUSTER, of_writes[OF_LINE])
            .note(at(&of_writes, &[2.92])),
        Check::number("cluster21-intro-local-seq-xsocket", CLUSTER, across[OF_LINE])
            .note(at(&across, &[6.85])),
    ];
    let line = |name: String, y, of: &Rates| -> Curve {
        let points = SIZES.iter().map(|size| f64::from(*size)).zip(of.iter().copied()).collect();
        curve("cluster21/fig6c", &name, CLUSTER, "payload, bytes", y, points)
    };
    let by_walk = [("READ", &reads), ("WRITE", &writes)].into_iter().flat_map(|(op, all)| {
        WALKS.iter().zip(all).map(move |((walk, ..), of)| line(format!("{op}, {walk}"), "M/s", of))
    });
    let ratios = [
        ("READ, sequential over random", &of_reads),
        ("WRITE, sequential over random", &of_writes),
        ("WRITE, sequential over random at the other socket", &across),
    ];
    let ratios = ratios.map(|(name, of)| line(name.into(), "times", of));
    Ok(Findings { checks, curves: by_walk.chain(ratios).collect(), ..Findings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_of_a_ratio_is_between_those_around_it() {
        let ratios = [64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(payload_at(&ratios, 4.0).map(f64::round), Some(64.0));
        assert_eq!(payload_at(&ratios, 2.0f64.sqrt() * 2.0).map(f64::round), Some(91.0));
        assert_eq!(payload_at(&ratios, 100.0), None);
        assert_eq!(payloads(&ratios, &[8.0, 100.0]), "8 at 32 B, 100 at no payload");
    }

    #[test]
    fn a_line_is_where_it_is_said_to_be() {
        assert_eq!(SIZES[OF_LINE], LINE);
    }
}
