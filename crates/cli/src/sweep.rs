//! `doorbell sweep`.

mod csv;
mod curves;
mod names;
mod terminal;

use crate::args::SweepArgs;
use crate::cache;
use crate::distribution;
use crate::exit::{self, Exit};
use crate::progress;
use crate::report;
use crate::table::{self, Align};
use doorbell_lab::sweep::{Axis, Bound, Draft, Knee, Missing, Over, Point, Sweep, merge};
use doorbell_lab::{Certainty, Control};
use doorbell_nic::Digits;
use names::{name, name_of};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn run(args: &SweepArgs) -> Result<(), Exit> {
    if args.merge.is_empty() { swept(args) } else { merged(args) }
}

fn swept(args: &SweepArgs) -> Result<(), Exit> {
    let (given, of_file) = args.workload.swept().map_err(Exit::bad_input)?;
    let texts = if args.over.is_empty() { of_file.into_iter().collect() } else { args.over.clone() };
    let over = Over::all(&texts).map_err(Exit::bad_input)?;
    let stored = cache::stored().map(|stored| Arc::new(stored.fresh(args.fresh)));
    let interrupt = progress::interrupt()?;
    let bar = progress::bar();
    let jobs = args.jobs.map_or_else(doorbell_lab::cores, usize::from);
    let control = Control { interrupt: interrupt.clone(), jobs, max_wall: None, watch: &bar };
    let draft = Draft::new(given, over, args.explain).map_err(Exit::of_sweep)?;
    prepare(args, &draft.axes())?;
    let plan = draft.measure(stored.clone(), &control).map_err(Exit::of_sweep)?;
    let sweep = match args.p99_under.filter(|_| args.find.is_some()) {
        Some(bound) => plan.knee(Bound(bound), stored.clone(), &control),
        None => plan.run(args.shard, stored.clone(), &control),
    };
    drop(bar);
    let sweep = sweep.map_err(Exit::of_sweep)?;
    stored.iter().for_each(|stored| cache::say_failures(stored));
    tell(&sweep, args)?;
    exit::stopped(&interrupt)
}

fn merged(args: &SweepArgs) -> Result<(), Exit> {
    let (given, _) = args.workload.swept().map_err(Exit::bad_input)?;
    if let Some(key) = given.keys().next() {
        return Err(Exit::bad_input(format!("--merge takes only files, which already set {key}")));
    }
    let parts = args.merge.iter().map(|file| Ok((file.display().to_string(), read(file)?)));
    let parts = parts.collect::<Result<Vec<_>, Exit>>()?;
    tell(&merge(parts).map_err(Exit::of_sweep)?, args)
}

/// Reads the JSON of a sweep.
fn read(file: &Path) -> Result<Sweep, Exit> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Exit::bad_input(format!("cannot read {shown}: {error}")))?;
    serde_json::from_str(&text).map_err(|error| {
        Exit::bad_input(format!(
            "{shown} is not a part of a sweep, as written by `doorbell sweep --json`: {error}"
        ))
    })
}

fn tell(sweep: &Sweep, args: &SweepArgs) -> Result<(), Exit> {
    if let Some(file) = &args.csv {
        distribution::write(file, &csv::of(sweep))?;
    }
    if let Some(file) = &args.svg {
        distribution::write(file, &curves::svg(sweep)?)?;
    }
    if args.json {
        return exit::print_json(sweep);
    }
    exit::print(&report(sweep))?;
    if args.plot {
        exit::print(&format!("\n{}", terminal::plot(sweep)))?;
    }
    Ok(())
}

/// Checks that files can be written and curves can be drawn. This happens before hours of simulation.
fn prepare(args: &SweepArgs, over: &[Axis]) -> Result<(), Exit> {
    if args.svg.is_some() {
        curves::along(over)?;
    }
    distribution::prepare([&args.csv, &args.svg].into_iter().flatten())
}

/// At most this many missing points are named.
const NAMED: usize = 5;

/// Text that names the points without a result: points that can have none, with the reasons, and missing
/// points.
fn without_result(sweep: &Sweep) -> String {
    let of = |point: &Missing| name_of(sweep, |option| point.value(option));
    let refused = |point: &Missing| Some(format!("  {}: {}\n", of(point), point.why.as_ref()?));
    let refused: String = sweep.missing.iter().filter_map(refused).collect();
    let refused = if refused.is_empty() { refused } else { format!("\nNo result:\n{refused}") };
    refused + &missing(sweep).unwrap_or_default()
}

/// Text that names the points that an interrupt left without a result. `None` if there are none.
fn missing(sweep: &Sweep) -> Option<String> {
    let missing: Vec<&Missing> = sweep.missing.iter().filter(|point| point.why.is_none()).collect();
    let mut names: Vec<String> =
        missing.iter().take(NAMED).map(|point| name_of(sweep, |option| point.value(option))).collect();
    names.extend((missing.len() > NAMED).then(|| format!("{} more", missing.len() - NAMED)));
    let all = sweep.missing.len() + sweep.points.len();
    (!missing.is_empty()).then(|| {
        format!(
            "\n{} of {all} points are missing: {}. If results are stored, the same command continues from \
             here\n",
            missing.len(),
            names.join(", ")
        )
    })
}

fn report(sweep: &Sweep) -> String {
    let mut points: Vec<&Point> = sweep.points.iter().collect();
    if let Some(knee) = &sweep.knee {
        points.sort_by_key(|point| point.at.get(&knee.option).and_then(serde_json::Value::as_u64));
    }
    let mut text = table(sweep, &points);
    text += &report::about_latencies(points.iter().map(|point| (&point.found, max_time(sweep, point))));
    text += &capacities(sweep, &points);
    let of = |overload: bool| {
        move |interval: &Certainty| interval.unsettled.clone().filter(|_| interval.overload == overload)
    };
    text += &noted(sweep, &points, &format!("* {}", report::OVERLOAD), of(true));
    text += &noted(sweep, &points, &format!("* {}", report::MAY_DIFFER), of(false));
    text += &noted(sweep, &points, report::NO_LATENCY, |interval| interval.no_latency.clone());
    text += &noted(sweep, &points, report::NO_PERCENTILE, |interval| interval.no_percentile.clone());
    if let Some(knee) = &sweep.knee {
        let _ = write!(text, "\n{}", told(knee));
    }
    text + &without_result(sweep)
}

/// The value of the option `max_time` at a point, if it was given.
fn max_time<'a>(sweep: &'a Sweep, point: &'a Point) -> Option<&'a serde_json::Value> {
    point.at.get("max_time").or(sweep.workload.get("max_time"))
}

/// The capacities of points with a load, each with the options that it belongs to.
fn capacities(sweep: &Sweep, points: &[&Point]) -> String {
    let others = || sweep.over.iter().filter(|axis| axis.option != "load");
    let mut lines: Vec<String> = Vec::new();
    for (point, load) in points.iter().filter_map(|point| Some((point, point.load.as_ref()?))) {
        let at = others().map(|axis| format!("{}={}", axis.option, point.value(&axis.option)));
        let at: Vec<String> = at.collect();
        let whose = if at.is_empty() { String::new() } else { format!("{}: ", at.join(" ")) };
        let line = format!("  {whose}{}\n", report::capacity(&load.capacity));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("A load is a share of the rate of a closed loop with the same options:\n{}", lines.concat())
}

/// A title, and the points with a note `why`. Empty if there are none.
fn noted(
    sweep: &Sweep,
    points: &[&Point],
    title: &str,
    why: impl Fn(&Certainty) -> Option<String>,
) -> String {
    let note = |point: &&Point| Some(format!("  {}: {}\n", name(sweep, point), why(&point.found.interval)?));
    let all: String = points.iter().filter_map(note).collect();
    if all.is_empty() { all } else { format!("\n{title}:\n{all}") }
}

/// Whether some points were to measure p99.9.
fn asks_for_p999(sweep: &Sweep) -> bool {
    let swept = sweep.over.iter().filter(|axis| axis.option == "until").flat_map(|axis| &axis.values);
    swept.chain(sweep.workload.get("until")).any(report::asks_for_p999)
}

fn table(sweep: &Sweep, points: &[&Point]) -> String {
    let mut header: Vec<(&str, Align)> =
        sweep.over.iter().map(|axis| (axis.option.as_str(), Align::Right)).collect();
    header.extend([
        ("Mops", Align::Right),
        ("", Align::Left),
        ("mean", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
    ]);
    let with_p999 = asks_for_p999(sweep);
    header.extend(with_p999.then_some(("p99.9", Align::Right)));
    header.push(("bottleneck", Align::Left));
    let row = |point: &&Point| {
        let mut cells: Vec<String> = sweep.over.iter().map(|axis| point.value(&axis.option)).collect();
        let mark = if point.found.interval.unsettled.is_some() { " *" } else { "" };
        let mean = report::mean_or_overload(&point.found.latency_ns, &point.found.interval);
        cells.extend([
            Digits(point.found.mops, 2).to_string(),
            format!("{}{mark}", report::within(point.found.interval.mops)).trim().to_owned(),
            mean,
            report::ns(point.found.latency_ns.p50),
            report::ns(point.found.latency_ns.p99),
        ]);
        cells.extend(with_p999.then(|| report::ns(point.found.latency_ns.p999)));
        cells.push(point.found.bottleneck.class_name().to_owned());
        cells
    };
    table::columns(&header, points.iter().map(row).collect())
}

/// Text about the result of a search for a knee.
fn told(knee: &Knee) -> String {
    let Knee { option, p99_under_ns, at, exceeded_at, tried, ended } = knee;
    let mut text = match exceeded_at {
        Some(over) => {
            format!(
                "Knee: p99 stays under {p99_under_ns} ns up to {option}={at}, but not at \
                 {option}={over}\n"
            )
        }
        None => format!(
            "No knee: p99 stays under {p99_under_ns} ns at all loads up to {option}={at}; try higher loads\n"
        ),
    };
    let all: Vec<String> = tried.iter().map(u64::to_string).collect();
    let _ = writeln!(text, "  tried {option}={}", all.join(","));
    if !ended {
        text += "  The search was stopped before it finished.\n";
    }
    text
}
