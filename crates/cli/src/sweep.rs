//! `doorbell sweep`.

mod csv;
mod curves;
mod layout;
mod names;
mod terminal;
mod values;

use crate::args::SweepArgs;
use crate::cache;
use crate::exit::{self, Exit};
use crate::output::{self, Output};
use crate::progress::{self, Bar};
use crate::report;
use crate::rows::Rows;
use crate::screen;
use crate::table::{Align, Stream};
use doorbell_lab::sweep::{Axis, Bound, Draft, Knee, Missing, Over, Point, Sweep, merge};
use doorbell_lab::{Control, Found, Known, Workload, keys};
use doorbell_nic::{Digits, counted};
use layout::SweepLayout;
use names::{name, name_of};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use values::Values;

pub(crate) fn run(args: &SweepArgs) -> Result<(), Exit> {
    if args.merge.is_empty() { swept(args) } else { merged(args) }
}

fn swept(args: &SweepArgs) -> Result<(), Exit> {
    let (given, of_file) = args.workload.swept().map_err(Exit::bad_input)?;
    let texts = if args.over.is_empty() { of_file.into_iter().collect() } else { args.over.clone() };
    let over = Over::all(&texts).map_err(Exit::bad_input)?;
    let draft = Draft::new(given, over, args.explain).map_err(Exit::of_sweep)?;
    let layout = SweepLayout::new(draft.axes(), &draft.workload());
    let files = SweepFiles::open(args, &layout)?;
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
    // The capacities are measured first, because they decide the rates of the points.
    let measure = || draft.measure(&known, &control);
    let plan = progress::until(&interrupt, measure, || Ok(())).map_err(Exit::of_sweep)?;
    let rows = args.find.is_none().then(|| rows(args, layout, &files, &bar));
    let out = Out { args, bar: &bar, rows, files: &files };
    let run = || match args.p99_under.filter(|_| args.find.is_some()) {
        Some(bound) => plan.knee(Bound(bound), &known, &control),
        None => plan.run(args.shard, &known, &control, &|at, point| out.put(at, point)),
    };
    let tell = || out.tell(&run().map_err(Exit::of_sweep)?);
    let sweep = progress::until(&interrupt, run, tell).map_err(Exit::of_sweep)?;
    bar.hide();
    stored.iter().for_each(|stored| cache::say_failures(stored));
    let told = out.tell(&sweep);
    if bar.is_unread() {
        return told;
    }
    exit::both(exit::stopped(&interrupt.flag).and_then(|()| late(&sweep, args)), told)
}

/// Returns an error if the wall-clock time was over before the sweep and its search were.
fn late(sweep: &Sweep, args: &SweepArgs) -> Result<(), Exit> {
    let missing = match sweep.missing.iter().filter(|point| point.why.is_none()).count() {
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

/// The files that a sweep writes.
struct SweepFiles {
    values: Option<Values>,
    curves: Mutex<Option<Output>>,
}

impl SweepFiles {
    /// Checks that files can be written and curves can be drawn. This happens before hours of simulation.
    ///
    /// # Errors
    /// If a file cannot be written, the command also uses a file in another way, or no curve can be drawn.
    fn open(args: &SweepArgs, layout: &SweepLayout) -> Result<SweepFiles, Exit> {
        if args.svg.is_some() {
            curves::along(&layout.over)?;
        }
        let (csv, svg) = (output::open("--csv", &args.csv)?, output::open("--svg", &args.svg)?);
        let read: Vec<PathBuf> = args.workload.file().chain(&args.merge).cloned().collect();
        output::check(&csv.iter().chain(&svg).collect::<Vec<_>>(), &read)?;
        let values = csv.map(|file| Values::new(file, layout.clone()));
        Ok(SweepFiles { values, curves: Mutex::new(svg) })
    }

    /// Writes a point to the file of values.
    fn put(&self, point: &Point) {
        self.values.iter().for_each(|values| values.put(point));
    }

    /// Ends the file of values, and draws the curves.
    ///
    /// # Errors
    /// If a file cannot be written.
    fn finish(&self, sweep: &Sweep) -> Result<(), Exit> {
        let written = self.values.as_ref().map_or(Ok(()), Values::finish);
        let curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner).take();
        let drawn = curves.map_or(Ok(()), |file| file.fill(&curves::svg(sweep)?));
        exit::both(written, drawn)
    }
}

/// The output of a sweep.
struct Out<'a> {
    args: &'a SweepArgs,
    bar: &'a Bar,
    /// The rows that are printed as they come; `None` for a search, whose points are sorted at its end.
    rows: Option<Rows<'a, Point>>,
    files: &'a SweepFiles,
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
        match &self.rows {
            Some(rows) => rows.finish(in_order(sweep))?,
            None => sweep.points.iter().for_each(|point| self.files.put(point)),
        }
        let written = self.files.finish(sweep);
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

/// The points, each with its index among the points of its shard that can have a result.
fn in_order(sweep: &Sweep) -> impl Iterator<Item = (usize, Point)> {
    let refused = sweep.missing.iter().filter(|point| point.why.is_some());
    let mut refused = refused.map(|point| point.number).peekable();
    let mut before = 0;
    sweep.points.iter().map(move |point| {
        while refused.next_if(|number| *number < point.number).is_some() {
            before += 1;
        }
        let index = sweep.shard.map_or(point.number, |shard| shard.index(point.number));
        (index - before, point.clone())
    })
}

/// The rows of a sweep. On stdout and in the file of values, they appear as they come. JSON appears at the
/// end.
fn rows<'a>(
    args: &'a SweepArgs,
    layout: SweepLayout,
    files: &'a SweepFiles,
    bar: &'a Bar,
) -> Rows<'a, Point> {
    let mut table = Stream::new(&columns(&layout));
    let mut first = true;
    Rows::new(move |point: Point| {
        files.put(&point);
        let titles = if first { table.titles() } else { String::new() };
        first = false;
        let row = table.row(&cells(&layout, &point));
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
    let files = SweepFiles::open(args, &SweepLayout::of(&sweep))?;
    sweep.points.iter().for_each(|point| files.put(point));
    files.finish(&sweep)?;
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

/// The JSON of a sweep, or `text` and the plots that were asked for.
fn said(sweep: &Sweep, args: &SweepArgs, text: String) -> Result<String, Exit> {
    match (args.json, args.plot) {
        (true, _) => exit::json(sweep),
        (false, true) => Ok(format!("{}\n{}", screen::fit(&text), terminal::plot(sweep))),
        (false, false) => Ok(screen::fit(&text)),
    }
}

/// At most this many missing points are named.
const NAMED: usize = 5;

/// A note about points whose payload would fit into WQEs, but is read by DMA; empty if there are none. Rates
/// and latencies jump where this choice changes.
fn by_dma(sweep: &Sweep, points: &[&Point]) -> String {
    let points: Vec<String> =
        points.iter().filter(|point| point.by_dma).map(|point| name(sweep, point)).collect();
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

/// Text that names the points without a result: points that can have none, with the reasons, and missing
/// points.
fn without_result(sweep: &Sweep) -> String {
    let of = |point: &Missing| name_of(sweep, |option| point.value(option));
    let refused = |point: &Missing| Some(format!("  {}: {}\n", of(point), point.why.as_ref()?));
    let refused: String = sweep.missing.iter().filter_map(refused).collect();
    let refused = if refused.is_empty() { refused } else { format!("\nNo result:\n{refused}") };
    refused + &missing(sweep).unwrap_or_default()
}

/// Text that names the points that an interrupt or a limit of time left without a result. `None` if there are
/// none.
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

/// The points, by their load if there is a knee.
fn sorted(sweep: &Sweep) -> Vec<&Point> {
    let mut points: Vec<&Point> = sweep.points.iter().collect();
    if let Some(knee) = &sweep.knee {
        points.sort_by_key(|point| point.at.get(&knee.option).and_then(serde_json::Value::as_u64));
    }
    points
}

fn report(sweep: &Sweep) -> String {
    let layout = SweepLayout::of(sweep);
    let mut table = Stream::new(&columns(&layout));
    let titles = table.titles();
    let rows: String = sorted(sweep).into_iter().map(|point| table.row(&cells(&layout, point))).collect();
    titles + &rows + &notes(sweep)
}

/// The text below the table.
fn notes(sweep: &Sweep) -> String {
    let points = sorted(sweep);
    let timed = points.iter().map(|point| (&point.found, max_time(sweep, point)));
    let mut text = report::about_latencies(timed) + &capacities(sweep, &points);
    let of = |overload: bool| {
        move |found: &Found| found.interval.unsettled.clone().filter(|_| found.interval.overload == overload)
    };
    text += &noted(sweep, &points, &format!("* {}", report::OVERLOAD), of(true));
    text += &noted(sweep, &points, &format!("* {}", report::MAY_DIFFER), of(false));
    text += &noted(sweep, &points, report::NO_LATENCY, |found| found.interval.no_latency.clone());
    text += &noted(sweep, &points, report::NO_PERCENTILE, |found| found.interval.no_percentile.clone());
    text += &noted(sweep, &points, report::NEVER_SERVED, report::never_served);
    text += &by_dma(sweep, &points);
    if let Some(knee) = &sweep.knee {
        let _ = write!(text, "\n{}", told(knee));
    }
    text + &without_result(sweep)
}

/// The value of the option `max_time` at a point, if it was given.
fn max_time<'a>(sweep: &'a Sweep, point: &'a Point) -> Option<&'a serde_json::Value> {
    let key = Workload::max_time.key;
    point.at.get(key).or(sweep.workload.get(key))
}

/// The capacities of points with a load, each with the options that it belongs to.
fn capacities(sweep: &Sweep, points: &[&Point]) -> String {
    let others = || sweep.over.iter().filter(|axis| axis.option != keys::LOAD);
    let mut lines: Vec<String> = Vec::new();
    for (point, load) in points.iter().filter_map(|point| Some((point, point.load.as_ref()?))) {
        let at = others().map(|axis| format!("{}={}", axis.option, point.value(&axis.option)));
        let at: Vec<String> = at.collect();
        let whose = if at.is_empty() { String::new() } else { format!("{}: ", at.join(" ")) };
        let (mops, closed) = (report::capacity(&load.capacity), report::closed_loop(&load.capacity));
        let line = format!("  {whose}{mops} {closed}\n");
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
fn noted(sweep: &Sweep, points: &[&Point], title: &str, why: impl Fn(&Found) -> Option<String>) -> String {
    let note = |point: &&Point| Some(format!("  {}: {}\n", name(sweep, point), why(&point.found)?));
    let all: String = points.iter().filter_map(note).collect();
    if all.is_empty() { all } else { format!("\n{title}:\n{all}") }
}

/// Titles and least widths of the columns. The widths suffice for most numbers.
fn columns(layout: &SweepLayout) -> Vec<(&str, Align, usize)> {
    let width = |axis: &Axis| axis.values.iter().map(|value| shown(value).chars().count()).max();
    let axes = layout.over.iter().map(|axis| (axis.option.as_str(), Align::Right, width(axis).unwrap_or(0)));
    let qps = layout.is_over_qps().then_some(("QPs/NIC", Align::Right, 0));
    let found = [
        ("Mops", Align::Right, 6),
        ("", Align::Left, 9),
        ("mean", Align::Right, 8),
        ("p50", Align::Right, 8),
        ("p99", Align::Right, 8),
    ];
    let p999 = layout.with_p999.then_some(("p99.9", Align::Right, 8));
    axes.chain(qps).chain(found).chain(p999).chain([("bottleneck", Align::Left, 0)]).collect()
}

/// A value of an option, as users write it.
fn shown(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn cells(layout: &SweepLayout, point: &Point) -> Vec<String> {
    let (interval, latency) = (&point.found.interval, &point.found.latency_ns);
    let mut cells: Vec<String> = layout.over.iter().map(|axis| point.value(&axis.option)).collect();
    let qps = || point.qps_per_nic.map_or("-".to_owned(), |qps| qps.to_string());
    cells.extend(layout.is_over_qps().then(qps));
    let mark = if interval.unsettled.is_some() { " *" } else { "" };
    cells.extend([
        Digits(point.found.mops, 2).to_string(),
        format!("{}{mark}", report::within(interval.mops)).trim().to_owned(),
        report::mean_or_overload(latency, interval),
        report::ns(latency.p50),
        report::ns(latency.p99),
    ]);
    cells.extend(layout.with_p999.then(|| report::ns(latency.p999)));
    cells.push(report::bottleneck(&point.found));
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
