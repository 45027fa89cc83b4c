//! CLUSTER'21, Figure 19: the distributed log, by batches and sockets. docs/notes/log.md lists the settings
//! that the paper leaves open. They were chosen before anything was measured.

use super::cluster::CLUSTER;
use crate::experiment::curve;
use crate::experiment::percent_more;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_systems::System;
use doorbell_systems::config::{Clients, Timing};
use doorbell_systems::log::{At, Log, Reserve};
use doorbell_systems::vector_io::Strategy;
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig19",
    paper: "cluster21",
    title: "distributed log: records a second by batch, and with tables at the other socket",
    claims: &[
        "cluster21-lg-numa",
        "cluster21-lg-nonuma",
        "cluster21-lg-numa-gain",
        "cluster21-lg-batch32",
        "cluster21-lg-batch-monotone",
        "cluster21-abs-log",
    ],
    runs: Runs::Systems,
    run,
};

/// Number of engines for comparing batches, one per machine. Then the number for comparing sockets.
const SEVEN: u32 = 7;
const FOURTEEN: u32 = 14;
/// Records of an append. For the log, the paper states only 32 records.
const BATCHES: [u32; 6] = [1, 2, 4, 8, 16, 32];
const BATCH: u32 = 32;
/// Bytes of a record. The first is the usual size. Further curves show the other sizes.
const RECORDS: [u32; 4] = [64, 128, 192, 256];
/// Outstanding appends.
const OUTSTANDING: [u32; 3] = [1, 2, 4];

fn engines(clients: u32, per_machine: u32, records: u32) -> Log {
    let usual = Log::usual();
    let clients = Clients::new(clients, per_machine, usual.clients.outstanding, false);
    Log { clients, records, timing: Timing::of(Span::from_us(200), Span::from_us(500)), ..usual }
}

/// Engines at both sockets of seven machines. Each engine has its table at its own socket.
fn both_sockets(records: u32, merge: bool) -> Log {
    Log { clients_at: At::Both, tables_at: At::Both, merge, ..engines(FOURTEEN, 2, records) }
}

/// The log with engines and tables as [`PLACES`] describes at index `at`.
fn placed(at: usize, records: u32, merge: bool) -> Log {
    let usual = both_sockets(records, merge);
    match at {
        0 => usual,
        1 => Log { clients_at: At::Near, tables_at: At::Far, ..usual },
        2 => Log { clients_at: At::Far, tables_at: At::Far, ..usual },
        _ => Log { clients: Clients::new(FOURTEEN, FOURTEEN, usual.clients.outstanding, false), ..usual },
    }
}

const PLACES: [&str; 4] = [
    "an engine and its table at each socket",
    "engines at the NIC's socket, tables at the other",
    "engines and tables at the other socket",
    "fourteen engines of one machine",
];

fn rates(ctx: &Ctx<'_>, what: &str, all: impl IntoIterator<Item = Log>) -> Result<Vec<f64>, NotYet> {
    let all: Vec<SystemWorkload> = all.into_iter().map(Into::into).collect();
    Ok(ctx.systems(CLUSTER, what, &all)?.iter().map(|outcome| outcome.mops).collect())
}

/// A curve of the rate by records per append.
fn by_batch(ctx: &Ctx<'_>, name: &str, of: impl Fn(u32) -> Log) -> Result<Curve, NotYet> {
    let found = rates(ctx, &format!("fig19: {name}"), BATCHES.map(of))?;
    let points = BATCHES.iter().map(|n| f64::from(*n)).zip(found).collect();
    Ok(curve("cluster21/fig19", name, CLUSTER, "records an append", "M records/s", points))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    // The context learns of all runs before the first unknown result returns.
    let merged = ctx.explain_system(CLUSTER, "fig19", &both_sockets(BATCH, true).into());
    let original = ctx.explain_system(CLUSTER, "fig19", &both_sockets(BATCH, false).into());
    let seven = by_batch(ctx, "7 engines", |records| engines(SEVEN, 1, records));
    let mut others = vec![
        by_batch(ctx, "14 engines, merged", |records| both_sockets(records, true)),
        by_batch(ctx, "14 engines, original", |records| both_sockets(records, false)),
        by_batch(ctx, "7 engines, reservations by RPC", |records| Log {
            reserve: Reserve::Rpc,
            ..engines(SEVEN, 1, records)
        }),
    ];
    let listed = |records| Log { log_strategy: Strategy::Doorbell, ..engines(SEVEN, 1, records) };
    others.push(by_batch(ctx, "7 engines, each record a WRITE", listed));
    for record in &RECORDS[1..] {
        let of = |records| Log { record: *record, ..engines(SEVEN, 1, records) };
        others.push(by_batch(ctx, &format!("7 engines, records of {record} B"), of));
    }
    for outstanding in &OUTSTANDING[1..] {
        let of = |records| {
            let mut log = engines(SEVEN, 1, records);
            log.clients.outstanding = *outstanding;
            log
        };
        others.push(by_batch(ctx, &format!("7 engines, {outstanding} appends under way"), of));
    }
    let places = (0..PLACES.len()).flat_map(|at| [true, false].map(|merge| placed(at, BATCH, merge)));
    let places = rates(ctx, "fig19: places", places);
    let (merged, original, seven, places) = (merged?, original?, seven?, places?);
    let mut curves = others.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut checks = sockets((&merged, &original), &places, &curves[..2]);
    checks.extend(batches(&seven, &curves[2..]));
    curves.insert(0, seven);
    Ok(Findings { checks, curves, ..Findings::default() })
}

fn point(curve: &Curve, records: u32) -> f64 {
    let found = curve.points.iter().find(|(x, _)| *x == f64::from(records));
    found.map_or(f64::NAN, |(_, rate)| *rate)
}

/// Claims about tables at both sockets, merged and original.
fn sockets((merged, original): (&Outcome, &Outcome), places: &[f64], curves: &[Curve]) -> Vec<Check> {
    let each = PLACES.iter().zip(places.as_chunks::<2>().0);
    let each: Vec<String> = each
        .map(|(place, [merged, original])| format!("{place}: {merged:.1} and {original:.1} M/s"))
        .collect();
    let smaller = [8, 16].map(|records| {
        let [merged, original] = [0, 1].map(|at| point(&curves[at], records));
        format!("{merged:.1} and {original:.1} M/s with {records} records an append")
    });
    let note = format!("merged and original, other readings: {}; {}", smaller.join(", "), each.join("; "));
    vec![
        Check::number("cluster21-lg-numa", CLUSTER, merged.mops).limited_by(merged).note(note),
        Check::number("cluster21-lg-nonuma", CLUSTER, original.mops).limited_by(original),
        Check::number("cluster21-lg-numa-gain", CLUSTER, percent_more(original.mops, merged.mops)),
    ]
}

/// Claims about seven engines by records per append.
fn batches(seven: &Curve, others: &[Curve]) -> Vec<Check> {
    let gain = |curve: &Curve| point(curve, BATCH) / point(curve, 1);
    let each: Vec<String> =
        others.iter().map(|curve| format!("{}: {:.1}", curve.name, gain(curve))).collect();
    let [one, all] = [1, BATCH].map(|records| point(seven, records));
    let note = format!("{all:.1} over {one:.2} M/s; {}", each.join("; "));
    let rises = seven.points.windows(2).all(|two| two[0].1 < two[1].1);
    let seen: Vec<String> = seven.points.iter().map(|(n, rate)| format!("{rate:.1} with {n}")).collect();
    vec![
        Check::number("cluster21-lg-batch32", CLUSTER, gain(seven)).note(note),
        Check::number("cluster21-abs-log", CLUSTER, gain(seven)),
        Check::statement(
            "cluster21-lg-batch-monotone",
            CLUSTER,
            rises,
            format!("M records/s: {}", seen.join(", ")),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use crate::data::claims;

    const DOC: &str = include_str!("../../../../../docs/notes/log.md");

    fn claim(id: &str) -> f64 {
        match claims::find(id).map(|claim| claim.value.clone()) {
            Some(claims::Value::Number(number)) => number,
            _ => panic!("{id} is no number"),
        }
    }

    #[track_caller]
    fn told(text: &str) {
        let doc = DOC.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(doc.contains(text), "docs/notes/log.md does not say {text:?}");
    }

    #[test]
    fn what_the_numbers_ask_for() {
        let (all, gain) = (claim("cluster21-lg-numa"), claim("cluster21-lg-batch32"));
        let (least, _) =
            claims::find("cluster21-s3e-atomic-per-port").and_then(|claim| claim.allows()).expect("a range");
        let words = [least, claim("cluster21-fig10b-remote-plateau")];
        told(&format!("takes {:.1} to {:.1} M fetch-and-adds", words[0], words[1]));
        told(&format!("at least {:.1} to {:.1} records", all / words[1], all / words[0]));
        told(&format!("carries {:.0} B for each of {all} M records", 4000.0 / all));
        told(&format!("{gain} times {:.2} M/s", all / gain));
        let (read, write) = (claim("cluster21-tab3-r1c1-read-lat"), claim("cluster21-tab3-r1c1-write-lat"));
        told(&format!("make {:.2} M appends", 7.0 / (read + 2.0 * write)));
        told(&format!("times that {:.1} to {:.1}", gain * words[0], gain * words[1]));
        // Microseconds of an append of one record, and of 32 records, when all seven engines append.
        let (one, batch) = (7.0 / (all / gain), 7.0 * 32.0 / all);
        told(&format!("takes {batch:.1} us, {:.1} more than one", batch - one));
        told(&format!("{:.0} ns for each further record", (batch - one) / 31.0 * 1e3));
    }
}
