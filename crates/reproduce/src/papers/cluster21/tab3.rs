//! CLUSTER'21, Table III: rates by the sockets of cores and memory. Rows are the initiator's places, as the
//! table's latencies show (docs/notes/cluster21.md).

use super::cluster::CLUSTER;
use super::perftest::{Place, rate};
use crate::data::claims;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_workload::{Verb, Workload};
use std::sync::Arc;

/// READ and WRITE of each cell, row by row, then claims that follow from them.
const CLAIMS: &[&str] = &[
    "cluster21-tab3-r1c1-read-tput",
    "cluster21-tab3-r1c1-write-tput",
    "cluster21-tab3-r1c2-read-tput",
    "cluster21-tab3-r1c2-write-tput",
    "cluster21-tab3-r1c3-read-tput",
    "cluster21-tab3-r1c3-write-tput",
    "cluster21-tab3-r1c4-read-tput",
    "cluster21-tab3-r1c4-write-tput",
    "cluster21-tab3-r2c1-read-tput",
    "cluster21-tab3-r2c1-write-tput",
    "cluster21-tab3-r2c2-read-tput",
    "cluster21-tab3-r2c2-write-tput",
    "cluster21-tab3-r2c3-read-tput",
    "cluster21-tab3-r2c3-write-tput",
    "cluster21-tab3-r2c4-read-tput",
    "cluster21-tab3-r2c4-write-tput",
    "cluster21-tab3-r3c1-read-tput",
    "cluster21-tab3-r3c1-write-tput",
    "cluster21-tab3-r3c2-read-tput",
    "cluster21-tab3-r3c2-write-tput",
    "cluster21-tab3-r3c3-read-tput",
    "cluster21-tab3-r3c3-write-tput",
    "cluster21-tab3-r3c4-read-tput",
    "cluster21-tab3-r3c4-write-tput",
    "cluster21-tab3-r4c1-read-tput",
    "cluster21-tab3-r4c1-write-tput",
    "cluster21-tab3-r4c2-read-tput",
    "cluster21-tab3-r4c2-write-tput",
    "cluster21-tab3-r4c3-read-tput",
    "cluster21-tab3-r4c3-write-tput",
    "cluster21-tab3-r4c4-read-tput",
    "cluster21-tab3-r4c4-write-tput",
    "cluster21-tab3-core-effect-tput",
    "cluster21-tab3-worst-tput-49",
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab3",
    paper: "cluster21",
    title: "rate of READ and WRITE by the sockets of cores and memory, at both ends",
    claims: CLAIMS,
    runs: Runs::Verbs,
    run,
};

/// Payload in bytes: a line. The paper does not state the payload. In the authors' own run, one QP that READs
/// lines is as fast as in the table.
pub(super) const SIZE: u32 = 64;

/// The table's cells row by row, with both verbs for each: verb, initiator's place, responder's place.
pub(super) fn cells() -> impl Iterator<Item = (Verb, Place, Place)> {
    let cells = Place::ALL.into_iter().flat_map(|row| Place::ALL.map(|column| (row, column)));
    cells.flat_map(|(row, column)| [Verb::Read, Verb::Write].map(|verb| (verb, row, column)))
}

/// Results of the cells, by verb, row and column.
pub(super) struct Table<T>(Vec<T>);

impl<T> Table<T> {
    /// A table from results in the order of [`cells`].
    pub(super) fn of(all: impl IntoIterator<Item = T>) -> Table<T> {
        Table(all.into_iter().collect())
    }

    /// A cell. Rows and columns are counted from 1, as in the claims.
    pub(super) fn at(&self, verb: Verb, row: usize, column: usize) -> &T {
        &self.0[((row - 1) * 4 + column - 1) * 2 + usize::from(verb != Verb::Read)]
    }
}

/// Text of the cells' errors for two readings of the table: rows are the initiator's places, or columns are.
pub(super) fn readings(claims: &[&str], number: impl Fn(Verb, usize, usize) -> f64) -> String {
    let cells = || (1..=4).flat_map(|row| (1..=4).map(move |column| (row, column)));
    let of = |swapped: bool| {
        let numbers = cells().flat_map(|(row, column)| {
            let (row, column) = if swapped { (column, row) } else { (row, column) };
            [Verb::Read, Verb::Write].map(|verb| number(verb, row, column))
        });
        let error = |(id, number): (&&str, f64)| claims::find(id).and_then(|claim| claim.error(number));
        let mut errors: Vec<f64> = claims.iter().zip(numbers).filter_map(error).collect();
        errors.sort_by(f64::total_cmp);
        let near = errors.iter().filter(|error| **error <= NEAR).count();
        let median = errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN);
        format!("{near} of {} cells within {:.0}%, median {:.1}%", errors.len(), NEAR * 100.0, median * 100.0)
    };
    format!("rows as the initiator {}; columns {}", of(false), of(true))
}

/// A cell counts as near up to this error.
const NEAR: f64 = 0.15;

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let workload = |(verb, row, column)| rate(verb, SIZE, row, column);
    let all: Vec<Workload> = cells().map(workload).collect();
    let outcomes = ctx.measure(CLUSTER, "tab3", &all)?;
    let mut checks: Vec<Check> =
        CLAIMS.iter().zip(&outcomes).map(|(id, outcome)| Check::rate(id, CLUSTER, outcome)).collect();
    let table = Table::of(outcomes);
    checks.push(core_effect(&table));
    let (best, worst) = (table.at(Verb::Read, 1, 1).mops, table.at(Verb::Read, 4, 4).mops);
    let writes = (1.0 - table.at(Verb::Write, 4, 4).mops / table.at(Verb::Write, 1, 1).mops) * 100.0;
    let readings = readings(CLAIMS, |verb, row, column| table.at(verb, row, column).mops);
    let note = format!("READs, as the figure in the table; WRITEs {writes:.1}%; {readings}");
    let less = (1.0 - worst / best) * 100.0;
    checks.push(Check::number("cluster21-tab3-worst-tput-49", CLUSTER, less).note(note));
    Ok(Findings { checks, ..Findings::default() })
}

/// Whether rates depend on the responder's core, but not on the responder's memory or on the initiator's core
/// alone.
fn core_effect(table: &Table<Arc<Outcome>>) -> Check {
    let mops = |verb, row, column| table.at(verb, row, column).mops;
    let same = |a: f64, b: f64| (a / b - 1.0).abs() < 0.05;
    let slower = |verb| mops(verb, 1, 3) < 0.9 * mops(verb, 1, 1);
    let memory = |verb| same(mops(verb, 1, 2), mops(verb, 1, 1)) && same(mops(verb, 1, 4), mops(verb, 1, 3));
    let initiator = |verb| same(mops(verb, 3, 1), mops(verb, 1, 1));
    let both = [Verb::Read, Verb::Write];
    let holds = both.into_iter().all(|verb| slower(verb) && memory(verb) && initiator(verb));
    let of = |verb| format!("{:.2} to {:.2}", mops(verb, 1, 1), mops(verb, 1, 3));
    let seen = format!("READ {}, WRITE {} M/s", of(Verb::Read), of(Verb::Write));
    Check::statement("cluster21-tab3-core-effect-tput", CLUSTER, holds, seen)
}
