//! `doorbell sweep`.

mod csv;
mod curves;
mod names;
mod terminal;
mod values;

use crate::args::SweepArgs;
use crate::cache;
use crate::exit::{self, Exit};
use crate::progress::{self, Bar};
use crate::report;
use crate::rows::Rows;
use crate::screen;
use crate::table::{Align, Stream};
use crate::trace::check_unused;
use doorbell_lab::sweep::{Axis, Bound, Knee, Over, Plan, Point, Sweep, merge};
use doorbell_lab::{Control, Known, Workload};
use doorbell_nic::{Digits, counted};
use names::{name, name_of};
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use values::Values;

pub(crate) fn run(args: &SweepArgs) -> Result<(), Exit> {
    if args.merge.is_empty() { swept(args) } else { merged(args) }
}

fn swept(args: &SweepArgs) -> Result<(), Exit> {
    let (given, of_file) = args.workload.swept().map_err(Exit::bad_input)?;
    let texts = if args.over.is_empty() { of_file.into_iter().collect() } else { args.over.clone() };
    let over = Over::all(&texts).map_err(Exit::bad_input)?;
    let plan = Plan::new(given, over, args.explain).map_err(Exit::of_sweep)?;
    let values = prepare(args, &plan.axes())?;
    let stored = cache::stored().map(|stored| Arc::new(stored.fresh(args.fresh)));
    let known = stored.clone().map_or_else(Known::default, Known::stored_in);
    let interrupt = progress::interrupt()?;
    let (jobs, deadline) =
        (args.jobs.map_or_else(doorbell_lab::cores, usize::from), progress::deadline(args.max_wall));
    let bar = match (&args.csv, &args.svg) {
        (None, None) => Bar::new(jobs, deadline).for_reader(&interrupt),
        _ => Bar::new(jobs, deadline),
    };
    let flag = interrupt.flag.clone();
    let control = Control { interrupt: flag, jobs, deadline, watch: &bar, ..Control::quiet() };
    let values = values.as_ref();
    let rows = args.find.is_none().then(|| rows(args, plan.axes(), values, &bar));
    let out = Out { args, bar: &bar, rows, values };
    let run = || match args.p99_under.filter(|_| args.find.is_some()) {
        Some(bound) => plan.knee(Bound(bound), &known, &control),
        None => plan.run(args.shard, &known, &control, &|at, point| out.put(at, point)),
    };
    let tell = || out.tell(&run().map_err(Exit::of_sweep)?);
    let sweep = progress::until(&interrupt, &run, tell).map_err(Exit::of_sweep)?;
    bar.hide();
    stored.iter().for_each(|stored| cache::say_failures(stored));
    out.tell(&sweep)?;
    if bar.is_unread() {
        return Ok(());
    }
    exit::stopped(&interrupt.flag)?;
    late(&sweep, args)
}

/// Returns an error if the wall-clock time was over before the sweep and its search were.
fn late(sweep: &Sweep, args: &SweepArgs) -> Result<(), Exit> {
    let missing = match sweep.missing.len() {
        0 if is_unfinished(sweep, args) => "the search for the knee did not end".to_owned(),
        0 => return Ok(()),
        missing => format!("{} without a result", counted(missing as u64, "point")),
    };
    args.max_wall.map_or(Ok(()), |time| Err(Exit::out_of_time(time, &missing)))
}

/// Whether a search for a knee was asked for, and did not end.
fn is_unfinished(sweep: &Sweep, args: &SweepArgs) -> bool {
    args.find.is_some() && sweep.knee.as_ref().is_none_or(|knee| !knee.ended)
}

/// The output of a sweep.
struct Out<'a> {
    args: &'a SweepArgs,
    bar: &'a Bar,
    /// The rows that are printed as they come; `None` for a search, whose points are sorted at its end.
    rows: Option<Rows<'a, Point>>,
    values: Option<&'a Values<'a>>,
}

impl Out<'_> {
    fn put(&self, at: usize, point: Point) {
        if let Some(rows) = &self.rows {
            rows.put(at, point);
        }
    }

    /// Prints the parts of the sweep that are not printed yet, and writes the requested files. Prints all of
    /// the sweep even if a file cannot be written.
    fn tell(&self, sweep: &Sweep) -> Result<(), Exit> {
        if let Some(rows) = &self.rows {
            let shard = |number: usize| match sweep.shard {
                Some(shard) => shard.index(number),
                None => number,
            };
            rows.finish(sweep.points.iter().map(|point| (shard(point.number), point.clone())))?;
        } else if let Some(values) = self.values {
            sweep.points.iter().for_each(|point| values.put(point));
        }
        let written = self.values.map_or(Ok(()), Values::finish).and(write_curves(sweep, self.args));
        // If rows have been printed, the table is complete.
        let has_table = self.rows.is_some() && !sweep.points.is_empty();
        let mut text = if has_table { notes(sweep) } else { report(sweep) };
        if sweep.knee.is_none() && is_unfinished(sweep, self.args) {
            text += "\nNo knee is known: the search was stopped before it finished.\n";
        }
        self.bar.print(&said(sweep, self.args, text)?)?;
        written
    }
}

/// The rows of a sweep. On stdout and in the file of values, they appear as they come. JSON appears at the
/// end.
fn rows<'a>(
    args: &'a SweepArgs,
    over: Vec<Axis>,
    values: Option<&'a Values<'a>>,
    bar: &'a Bar,
) -> Rows<'a, Point> {
    let mut table = Stream::new(&columns(&over));
    let mut first = true;
    Rows::new(move |point: Point| {
        if let Some(values) = values {
            values.put(&point);
        }
        let titles = if first { table.titles() } else { String::new() };
        first = false;
        let row = table.row(&cells(&over, &point));
        if args.json { Ok(()) } else { bar.tell(&(titles + &row)) }
    })
}

fn merged(args: &SweepArgs) -> Result<(), Exit> {
    let (given, _) = args.workload.swept().map_err(Exit::bad_input)?;
    if let Some(key) = given.keys().next() {
        return Err(Exit::bad_input(format!("--merge takes only files, which already set {key}")));
    }
    let parts = args.merge.iter().map(|file| Ok((file.display().to_string(), read(file)?)));
    let parts = parts.collect::<Result<Vec<_>, Exit>>()?;
    let sweep = merge(parts).map_err(Exit::of_sweep)?;
    if let Some(file) = &args.csv {
        write(file, &csv::of(&sweep))?;
    }
    write_curves(&sweep, args)?;
    exit::print(&said(&sweep, args, report(&sweep))?)
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

fn write_curves(sweep: &Sweep, args: &SweepArgs) -> Result<(), Exit> {
    args.svg.as_ref().map_or(Ok(()), |file| write(file, &curves::svg(sweep)?))
}

/// The JSON of a sweep, or `text` and the plots that were asked for.
fn said(sweep: &Sweep, args: &SweepArgs, text: String) -> Result<String, Exit> {
    match (args.json, args.plot) {
        (true, _) => exit::json(sweep),
        (false, true) => Ok(format!("{}\n{}", screen::fit(&text), terminal::plot(sweep))),
        (false, false) => Ok(screen::fit(&text)),
    }
}

/// Checks that files can be written and curves can be drawn. This happens before hours of simulation. Returns
/// the file of values if there is one.
fn prepare<'a>(args: &'a SweepArgs, over: &[Axis]) -> Result<Option<Values<'a>>, Exit> {
    if let Some(file) = &args.svg {
        curves::along(over)?;
        let opened = File::options().create(true).append(true).open(file);
        check_unused(file, &opened.map_err(|error| cannot_write(file, &error))?, &[])?;
    }
    args.csv.as_ref().map(|file| Values::open(file, over.to_vec())).transpose()
}

fn write(file: &Path, text: &str) -> Result<(), Exit> {
    std::fs::write(file, text).map_err(|error| cannot_write(file, &error))
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Exit {
    Exit::bad_input(format!("cannot write {}: {error}", file.display()))
}

/// At most this many missing points are named.
const NAMED: usize = 5;

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

/// The points, by their load if there is a knee.
fn sorted(sweep: &Sweep) -> Vec<&Point> {
    let mut points: Vec<&Point> = sweep.points.iter().collect();
    if let Some(knee) = &sweep.knee {
        points.sort_by_key(|point| point.at.get(&knee.option).and_then(serde_json::Value::as_u64));
    }
    points
}

fn report(sweep: &Sweep) -> String {
    let mut table = Stream::new(&columns(&sweep.over));
    let titles = table.titles();
    let rows: String = sorted(sweep).into_iter().map(|point| table.row(&cells(&sweep.over, point))).collect();
    titles + &rows + &notes(sweep)
}

/// The text below the table.
fn notes(sweep: &Sweep) -> String {
    let mut text = String::new();
    let points = sorted(sweep);
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

/// Titles and least widths of the columns. The widths suffice for most numbers.
fn columns(over: &[Axis]) -> Vec<(&str, Align, usize)> {
    let width = |axis: &Axis| axis.values.iter().map(|value| shown(value).chars().count()).max();
    let axes = over.iter().map(|axis| (axis.option.as_str(), Align::Right, width(axis).unwrap_or(0)));
    let qps = is_over_qps(over).then_some(("QPs/NIC", Align::Right, 0));
    let found = [
        ("Mops", Align::Right, 6),
        ("", Align::Left, 9),
        ("mean", Align::Right, 8),
        ("p50", Align::Right, 8),
        ("p99", Align::Right, 8),
        ("bottleneck", Align::Left, 0),
    ];
    axes.chain(qps).chain(found).collect()
}

/// Whether the number of QPs is swept, so that the table shows the QPs of a NIC.
fn is_over_qps(over: &[Axis]) -> bool {
    over.iter().any(|axis| axis.option == Workload::qps.key)
}

/// A value of an option, as users write it.
fn shown(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn cells(over: &[Axis], point: &Point) -> Vec<String> {
    let ns = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| format!("{ns} ns"));
    let mut cells: Vec<String> = over.iter().map(|axis| point.value(&axis.option)).collect();
    let qps = || point.qps_per_nic.map_or("-".to_owned(), |qps| qps.to_string());
    cells.extend(is_over_qps(over).then(qps));
    let mark = if point.found.interval.unsettled.is_some() { " *" } else { "" };
    cells.extend([
        Digits(point.found.mops, 2).to_string(),
        format!("{}{mark}", report::within(point.found.interval.mops)).trim().to_owned(),
        report::mean(point.found.latency_ns.mean, None),
        ns(point.found.latency_ns.p50),
        ns(point.found.latency_ns.p99),
        report::bottleneck(&point.found),
    ]);
    cells
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
        None if !ended => {
            format!("p99 stays under {p99_under_ns} ns at all loads that were tried up to {option}={at}\n")
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
