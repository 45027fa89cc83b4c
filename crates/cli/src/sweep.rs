//! `doorbell sweep`.

mod csv;
mod curves;
mod names;
mod terminal;

use crate::args::SweepArgs;
use crate::cache;
use crate::exit::{self, Exit};
use crate::progress;
use crate::report;
use crate::table::{self, Align};
use doorbell_lab::Control;
use doorbell_lab::sweep::{Axis, Bound, Knee, Over, Plan, Point, Sweep, merge};
use doorbell_nic::Digits;
use names::{name, name_of};
use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn run(args: &SweepArgs) -> Result<(), Exit> {
    if args.merge.is_empty() { swept(args) } else { merged(args) }
}

fn swept(args: &SweepArgs) -> Result<(), Exit> {
    let (given, of_file) = args.workload.swept().map_err(Exit::bad_input)?;
    let texts = if args.over.is_empty() { of_file.into_iter().collect() } else { args.over.clone() };
    let over = Over::all(&texts).map_err(Exit::bad_input)?;
    let plan = Plan::new(given, over, args.explain).map_err(Exit::of_sweep)?;
    prepare(args, &plan.axes())?;
    let stored = cache::stored().map(|stored| Arc::new(stored.fresh(args.fresh)));
    let interrupt = progress::interrupt()?;
    let bar = progress::bar();
    let jobs = args.jobs.map_or_else(doorbell_lab::cores, usize::from);
    let control = Control { interrupt: interrupt.clone(), jobs, max_wall: None, watch: &bar };
    let sweep = match args.p99_under.filter(|_| args.find.is_some()) {
        Some(bound) => plan.knee(Bound(bound), stored.clone(), &control),
        None => plan.run(args.shard, stored.clone(), &control),
    };
    drop(bar);
    let sweep = sweep.map_err(Exit::of_sweep)?;
    stored.iter().for_each(|stored| cache::say_failures(stored));
    tell(&sweep, args, &by_dma(&plan))?;
    exit::stopped(&interrupt)
}

fn merged(args: &SweepArgs) -> Result<(), Exit> {
    let (given, _) = args.workload.swept().map_err(Exit::bad_input)?;
    if let Some(key) = given.keys().next() {
        return Err(Exit::bad_input(format!("--merge takes only files, which already set {key}")));
    }
    let parts = args.merge.iter().map(|file| Ok((file.display().to_string(), read(file)?)));
    let parts = parts.collect::<Result<Vec<_>, Exit>>()?;
    tell(&merge(parts).map_err(Exit::of_sweep)?, args, "")
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

/// Prints a sweep and writes its files. `note` follows the table.
fn tell(sweep: &Sweep, args: &SweepArgs, note: &str) -> Result<(), Exit> {
    if let Some(file) = &args.csv {
        write(file, &csv::of(sweep))?;
    }
    if let Some(file) = &args.svg {
        write(file, &curves::svg(sweep)?)?;
    }
    if args.json {
        return exit::print_json(sweep);
    }
    exit::print(&(report(sweep) + note))?;
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
    for file in [&args.csv, &args.svg].into_iter().flatten() {
        let opened = File::options().create(true).append(true).open(file);
        opened.map_err(|error| cannot_write(file, &error))?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), Exit> {
    std::fs::write(file, text).map_err(|error| cannot_write(file, &error))
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Exit {
    Exit::bad_input(format!("cannot write {}: {error}", file.display()))
}

/// At most this many missing points are named.
const NAMED: usize = 5;

/// A note about points whose payload would fit into WQEs, but is read by DMA; empty if there are none. Rates
/// and latencies jump where this choice changes.
fn by_dma(plan: &Plan) -> String {
    let points = plan.by_dma();
    let named = match points.len() {
        0 => return String::new(),
        n if n > NAMED => format!("{}, and {} more", points[..NAMED].join("; "), n - NAMED),
        _ => points.join("; "),
    };
    format!(
        "\nPayload would fit into WQEs, but is read by DMA at these points, because DMA is faster \
         (--inline changes this): {named}\n"
    )
}

/// Text that names the missing points. `None` if no point is missing.
fn missing(sweep: &Sweep) -> Option<String> {
    let missing = &sweep.missing;
    let mut names: Vec<String> =
        missing.iter().take(NAMED).map(|point| name_of(sweep, |option| point.value(option))).collect();
    names.extend((missing.len() > NAMED).then(|| format!("{} more", missing.len() - NAMED)));
    let all = missing.len() + sweep.points.len();
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
    let unsettled: Vec<_> =
        points.iter().filter_map(|p| Some((name(sweep, p), p.found.interval.unsettled.as_ref()?))).collect();
    if !unsettled.is_empty() {
        text += "\n* The measured rate may differ from the long-run rate:\n";
    }
    for (name, why) in unsettled {
        let _ = writeln!(text, "  {name}: {why}");
    }
    if let Some(knee) = &sweep.knee {
        let _ = write!(text, "\n{}", told(knee));
    }
    text + &missing(sweep).unwrap_or_default()
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
        ("bottleneck", Align::Left),
    ]);
    let ns = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| format!("{ns} ns"));
    let row = |point: &&Point| {
        let mut cells: Vec<String> = sweep.over.iter().map(|axis| point.value(&axis.option)).collect();
        let mark = if point.found.interval.unsettled.is_some() { " *" } else { "" };
        let mean = report::mean(point.found.latency_ns.mean, None);
        cells.extend([
            Digits(point.found.mops, 2).to_string(),
            format!("{}{mark}", report::within(point.found.interval.mops)).trim().to_owned(),
            mean,
            ns(point.found.latency_ns.p50),
            ns(point.found.latency_ns.p99),
            point.found.bottleneck.in_table(),
        ]);
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
