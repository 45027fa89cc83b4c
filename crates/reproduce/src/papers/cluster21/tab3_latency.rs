//! CLUSTER'21, Table III: latency by the sockets of cores and memory. Rows are read as the initiator's place.
//! Moving the core between rows adds twice as much to a READ as to a WRITE, as if WRITEs were timed in half
//! round trips (docs/notes/cluster21.md). Here, a WRITE's latency is half a round trip, too.

use super::cluster::CLUSTER;
use super::perftest::latency;
use super::tab3::{SIZE, Table, cells, readings};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_workload::Verb;

/// The table's cells, then claims that follow from them.
const CLAIMS: &[&str] = &[
    "cluster21-tab3-r1c1-read-lat",
    "cluster21-tab3-r1c1-write-lat",
    "cluster21-tab3-r1c2-read-lat",
    "cluster21-tab3-r1c2-write-lat",
    "cluster21-tab3-r1c3-read-lat",
    "cluster21-tab3-r1c3-write-lat",
    "cluster21-tab3-r1c4-read-lat",
    "cluster21-tab3-r1c4-write-lat",
    "cluster21-tab3-r2c1-read-lat",
    "cluster21-tab3-r2c1-write-lat",
    "cluster21-tab3-r2c2-read-lat",
    "cluster21-tab3-r2c2-write-lat",
    "cluster21-tab3-r2c3-read-lat",
    "cluster21-tab3-r2c3-write-lat",
    "cluster21-tab3-r2c4-read-lat",
    "cluster21-tab3-r2c4-write-lat",
    "cluster21-tab3-r3c1-read-lat",
    "cluster21-tab3-r3c1-write-lat",
    "cluster21-tab3-r3c2-read-lat",
    "cluster21-tab3-r3c2-write-lat",
    "cluster21-tab3-r3c3-read-lat",
    "cluster21-tab3-r3c3-write-lat",
    "cluster21-tab3-r3c4-read-lat",
    "cluster21-tab3-r3c4-write-lat",
    "cluster21-tab3-r4c1-read-lat",
    "cluster21-tab3-r4c1-write-lat",
    "cluster21-tab3-r4c2-read-lat",
    "cluster21-tab3-r4c2-write-lat",
    "cluster21-tab3-r4c3-read-lat",
    "cluster21-tab3-r4c3-write-lat",
    "cluster21-tab3-r4c4-read-lat",
    "cluster21-tab3-r4c4-write-lat",
    "cluster21-tab3-mem-only",
    "cluster21-tab3-mem-same-socket",
    "cluster21-tab3-worst-lat-55",
    "cluster21-s3d-numa-amplified",
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab3-latency",
    paper: "cluster21",
    title: "latency of READ and WRITE by the sockets of cores and memory, at both ends",
    claims: CLAIMS,
    runs: Runs::Systems,
    run,
};

fn us(outcome: &Outcome) -> f64 {
    outcome.latency_ns.mean.map_or(f64::NAN, |ns| ns / 1e3)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let profile = ctx.profile(CLUSTER);
    let all: Vec<_> = cells().map(|(verb, row, column)| latency(profile, verb, SIZE, row, column)).collect();
    let outcomes = ctx.systems(CLUSTER, "tab3-latency", &all)?;
    let table = Table::of(outcomes.iter().map(us));
    let mut checks: Vec<Check> =
        CLAIMS.iter().zip(&outcomes).map(|(id, outcome)| Check::number(id, CLUSTER, us(outcome))).collect();
    checks.extend([memory_alone(&table), same_socket(&table), worst(&table), amplified(&table)]);
    Ok(Findings { checks, ..Findings::default() })
}

/// Increase of latency in percent if memory moves to the other socket after the core has moved there. The
/// check has the largest increase of rows and columns.
fn memory_alone(table: &Table<f64>) -> Check {
    let more = |from: f64, to: f64| (to / from - 1.0) * 100.0;
    let rows = |verb| more(*table.at(verb, 3, 1), *table.at(verb, 4, 1));
    let columns = |verb| more(*table.at(verb, 1, 3), *table.at(verb, 1, 4));
    let steps = [rows(Verb::Read), columns(Verb::Read), rows(Verb::Write), columns(Verb::Write)];
    let seen = steps.map(|step| format!("{step:.1}")).join(", ");
    let most = steps.into_iter().fold(0.0, f64::max);
    let note = format!(
        "READ by rows and columns, WRITE by rows and columns: {seen}%; the core is at the other socket, too"
    );
    Check::number("cluster21-tab3-mem-only", CLUSTER, most).note(note)
}

/// Whether latency hardly changes if only memory moves from the NIC's socket to the other socket.
fn same_socket(table: &Table<f64>) -> Check {
    let gap = |verb| (table.at(verb, 1, 2) / table.at(verb, 1, 1) - 1.0).abs() * 100.0;
    let (read, write) = (gap(Verb::Read), gap(Verb::Write));
    let seen = format!("with cores beside the NIC memory makes {read:.1}% of READ, {write:.1}% of WRITE");
    Check::statement("cluster21-tab3-mem-same-socket", CLUSTER, read.max(write) < 2.0, seen)
}

fn worst(table: &Table<f64>) -> Check {
    let more = |verb| (table.at(verb, 4, 4) / table.at(verb, 1, 1) - 1.0) * 100.0;
    let note = format!("WRITE, close to the figure in the table (53.8%); READ {:.1}%", more(Verb::Read));
    Check::number("cluster21-tab3-worst-lat-55", CLUSTER, more(Verb::Write)).note(note)
}

/// Whether initiator and responder at other sockets each add latency, and together add at least about the
/// sum.
fn amplified(table: &Table<f64>) -> Check {
    let more = |verb, row, column| table.at(verb, row, column) - table.at(verb, 1, 1);
    let both = [Verb::Read, Verb::Write];
    let adds = |verb| {
        let (initiator, responder, together) = (more(verb, 4, 1), more(verb, 1, 4), more(verb, 4, 4));
        initiator > 0.0 && responder > 0.0 && together > 0.8 * (initiator + responder)
    };
    let of = |verb| format!("{:.2} + {:.2} to {:.2}", more(verb, 4, 1), more(verb, 1, 4), more(verb, 4, 4));
    let readings = readings(CLAIMS, |verb, row, column| *table.at(verb, row, column));
    let seen = format!("READ {}, WRITE {} us; {readings}", of(Verb::Read), of(Verb::Write));
    Check::statement("cluster21-s3d-numa-amplified", CLUSTER, both.into_iter().all(adds), seen)
}
