//! `doorbell compare`.

mod baseline;

use crate::args::CompareArgs;
use crate::cache;
use crate::distribution;
use crate::exit::{self, Exit};
use crate::output;
use crate::progress::{self, Bar};
use crate::report;
use crate::rows::Rows;
use crate::screen;
use crate::table::{self, Align, Stream};
use doorbell_lab::compare::{Comparison, Cost, CostTerm, Differences, Side, Sides};
use doorbell_lab::{Control, Found, Given, Known, Workload, keys};
use doorbell_nic::limits::Measure;
use doorbell_nic::{Digits, Profile, counted};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) fn run(args: &CompareArgs) -> Result<(), Exit> {
    if let Some(file) = &args.baseline {
        return baseline::run(args, file);
    }
    if args.side.len() < 2 {
        return Err(Exit::bad_input(format!(
            "{} is the only side: name a second side, or give --baseline",
            args.side[0]
        )));
    }
    let cdf = output::open("--cdf", &args.cdf)?;
    output::check(&cdf.iter().collect::<Vec<_>>(), &files(args))?;
    let side = |text: &String| Ok((text.clone(), given(args, text)?));
    let sides = args.side.iter().map(side).collect::<Result<Vec<_>, Exit>>()?;
    let sides = Sides::new(&sides, args.explain, args.same).map_err(Exit::of_sweep)?;
    let stored = cache::stored().map(|stored| Arc::new(stored.fresh(args.fresh)));
    let known = stored.clone().map_or_else(Known::default, Known::stored_in);
    let interrupt = progress::interrupt()?;
    let (jobs, deadline) =
        (args.jobs.map_or_else(doorbell_lab::cores, usize::from), progress::deadline(args.max_wall));
    let bar = match &cdf {
        None => Bar::new(jobs, deadline).for_reader(&interrupt),
        Some(_) => Bar::new(jobs, deadline),
    };
    let cdf = Mutex::new(cdf);
    let flag = interrupt.flag.clone();
    let control = Control { interrupt: flag, jobs, deadline, watch: &bar, ..Control::quiet() };
    // The capacities are measured first, because they decide the rates of the sides.
    let measure = || sides.measure(&known, &control);
    let sides = progress::until(&interrupt, measure, || Ok(())).map_err(Exit::of_sweep)?;
    if !args.json {
        // The options are known before the first result.
        bar.tell(&head(args, sides.differences()))?;
    }
    let rows = rows(args, &sides, &bar);
    let run = || sides.run(&known, &control, &|at, found| rows.put(at, (at, Some(found))));
    let tell = |found: &Comparison| {
        rows.finish(found.sides.iter().enumerate().map(|(at, side)| (at, (at, side.found.clone()))))?;
        bar.print(&if args.json { exit::json(found)? } else { screen::fit(&notes(found)) })?;
        let ran = found.sides.iter().filter_map(|side| Some((side.name.clone(), side.found.as_ref()?)));
        let named = ran.map(|(name, found)| (name, &found.quantiles[..]));
        let cdf = cdf.lock().unwrap_or_else(PoisonError::into_inner).take();
        cdf.map_or(Ok(()), |file| distribution::draw(file, named))
    };
    let found = progress::until(&interrupt, run, || tell(&run().map_err(Exit::of_sweep)?));
    let found = found.map_err(Exit::of_sweep)?;
    bar.hide();
    stored.iter().for_each(|stored| cache::say_failures(stored));
    let told = tell(&found);
    if bar.is_unread() {
        return told;
    }
    exit::both(exit::stopped(&interrupt.flag).and_then(|()| late(&found, args)), told)
}

/// Returns an error if the wall-clock time was over before all sides had a result.
fn late(found: &Comparison, args: &CompareArgs) -> Result<(), Exit> {
    match (args.max_wall, found.sides.iter().filter(|side| side.found.is_none()).count()) {
        (Some(time), missing @ 1..) => {
            let sides = counted(missing as u64, "side");
            Err(Exit::out_of_time(time, &format!("{sides} without a result")))
        }
        _ => Ok(()),
    }
}

/// Paths of the files that sides may name.
fn files(args: &CompareArgs) -> Vec<PathBuf> {
    let words = args.side.iter().flat_map(|side| side.split_whitespace());
    args.side.iter().map(String::as_str).chain(words).map(PathBuf::from).collect()
}

/// Number and result of a side.
type Row = (usize, Option<Found>);

/// The rows of the sides, which are printed as they come. JSON appears at the end.
fn rows<'a>(args: &'a CompareArgs, sides: &'a Sides, bar: &'a Bar) -> Rows<'a, Row> {
    let names = args.side.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let with_p999 =
        sides.workloads().iter().filter_map(|w| w.get(Workload::until.key)).any(report::asks_for_p999);
    let mut table = Stream::new(&columns(names, with_p999));
    let mut first: Option<Row> = None;
    Rows::new(move |(at, found): Row| {
        let titles = if first.is_none() { table.titles() } else { String::new() };
        let (_, base) = first.get_or_insert_with(|| (at, found.clone()));
        let row = table.row(&cells(&sides.side(at, found, base.as_ref()), with_p999));
        if args.json { Ok(()) } else { bar.tell(&(titles + &row)) }
    })
}

/// The options of a side. The side's own words override the flags of all sides. These flags override the
/// side's file.
fn given(args: &CompareArgs, text: &str) -> Result<Given, Exit> {
    let refused = |why: String| Exit::bad_input(format!("at {text}: {why}"));
    let mut words = Given::default();
    if Path::new(text).is_file() {
        // The name of a file may contain blanks.
        return args.common.below(words, Some(Path::new(text))).map_err(Exit::bad_input);
    }
    let mut file = None;
    for word in text.split_whitespace() {
        if word.contains('=') {
            doorbell_lab::say(&mut words, word).map_err(refused)?;
        } else if Profile::names().any(|name| name == Profile::canonical(word)) {
            doorbell_lab::say(&mut words, &format!("profile={word}")).map_err(refused)?;
        } else if file.is_some() {
            return Err(refused(format!("{word} is a second file, but a side has at most one")));
        } else if Path::new(word).exists() || word.contains(['/', '.']) {
            file = Some(Path::new(word));
        } else {
            let profiles = Profile::names().collect::<Vec<_>>().join(", ");
            return Err(refused(format!(
                "`{word}` is not a profile ({profiles}; docs/guide-own-nic.md adds others), a file, or an \
                 option with a value, such as size=64"
            )));
        }
    }
    args.common.below(words, file).map_err(Exit::bad_input)
}

/// The text above the rows: the options that differ.
fn head(args: &CompareArgs, differ: &Differences) -> String {
    let mut text = String::new();
    let Differences { options, untyped, partial, same } = differ;
    let is_typed = |key: &&String| !untyped.contains(key) && !partial.contains(key);
    let typed: Vec<&String> = options.keys().filter(is_typed).collect();
    let defaults = match args.same {
        true => "Defaults that differ although --same was given",
        false => "Defaults that differ; you typed none of these options (--same makes them alike)",
    };
    for (heading, keys) in [
        ("Options that differ", typed),
        (defaults, untyped.iter().collect()),
        ("Options that only some sides have, with their defaults", partial.iter().collect()),
    ] {
        if !keys.is_empty() {
            let rows = keys.iter().map(|key| {
                [(*key).clone()].into_iter().chain(options[*key].iter().map(shown)).collect::<Vec<String>>()
            });
            let table = table::columns(&header(&[("", Align::Left)], &args.side), rows.collect());
            let _ = write!(text, "{heading}\n{table}\n");
        }
    }
    if !same.is_empty() {
        let made: Vec<String> = same.iter().map(|(key, value)| format!("{key} {}", shown(value))).collect();
        let _ = writeln!(text, "Alike because of --same: {}\n", made.join(", "));
    }
    text + "Result\n"
}

/// The text below the rows.
fn notes(c: &Comparison) -> String {
    let mut text = String::new();
    for (side, load) in c.sides.iter().filter_map(|side| Some((side, side.load.as_ref()?))) {
        let (mops, closed) = (report::capacity(&load.capacity), report::closed_loop(&load.capacity));
        let (name, share) = (&side.name, load.share);
        let _ = writeln!(text, "  {name}: load {share} of {mops}, the rate of a closed loop {closed}");
    }
    for side in &c.sides {
        for doubt in side.found.iter().flat_map(|found| report::doubts(&found.interval)) {
            let _ = writeln!(text, "  {}: {doubt}", side.name);
        }
        if let Some(clients) = side.found.as_ref().and_then(report::never_served) {
            let _ = writeln!(text, "  {}: {}: {clients}.", side.name, report::NEVER_SERVED);
        }
    }
    let key = Workload::max_time.key;
    let timed = c.sides.iter().filter_map(|side| Some((side.found.as_ref()?, side.workload.get(key))));
    text += &report::about_latencies(timed);
    let sides = c.sides.iter().filter_map(|side| Some((&side.name[..], side.found.as_ref()?)));
    text += &report::windows(sides.clone());
    text += &report::spans(sides);
    let named: Vec<&Cost> = c.costs.iter().filter(|cost| matters(c, cost)).collect();
    if !named.is_empty() {
        let _ = write!(
            text,
            "\nCost of an operation, on the resources that limit a side\n{}",
            costs(&names(c), &named)
        );
        let others = c.costs.len() - named.len();
        if others > 0 {
            let _ = writeln!(
                text,
                "  The cost also differs on {}; see --json.",
                counted(others as u64, "other resource")
            );
        }
    }
    if c.sides.iter().any(|side| side.workload.get(keys::SYSTEM).is_some()) {
        text += "\nThe cost of a system's operation is not known, because bounds are computed for verbs \
             only.\n";
    }
    text
}

fn shown(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "-".into(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn names(c: &Comparison) -> Vec<String> {
    c.sides.iter().map(|side| side.name.clone()).collect()
}

/// Header of a table: the columns in `before`, then a column for each side.
fn header<'a>(before: &[(&'a str, Align)], names: &'a [String]) -> Vec<(&'a str, Align)> {
    before.iter().copied().chain(names.iter().map(|name| (name.as_str(), Align::Right))).collect()
}

/// Titles and least widths of the columns. The widths suffice for most numbers.
fn columns(names: usize, with_p999: bool) -> Vec<(&'static str, Align, usize)> {
    let mut columns = vec![
        ("", Align::Left, names),
        ("Mops", Align::Right, 6),
        ("", Align::Left, 7),
        ("against the first", Align::Right, 0),
        ("", Align::Left, 7),
        ("mean", Align::Right, 8),
        ("p50", Align::Right, 8),
        ("p99", Align::Right, 8),
    ];
    columns.extend(with_p999.then_some(("p99.9", Align::Right, 8)));
    columns.push(("bottleneck", Align::Left, 0));
    columns
}

fn cells(side: &Side, with_p999: bool) -> Vec<String> {
    let Some(found) = &side.found else {
        return vec![side.name.clone(), "no result".into()];
    };
    let latency = &found.latency_ns;
    let mut cells = vec![
        side.name.clone(),
        Digits(found.mops, 2).to_string(),
        report::within(found.interval.mops).trim().to_owned(),
        side.change.map_or(String::new(), doorbell_lab::percent),
        match side.beyond_intervals {
            Some(true) => "differs".into(),
            Some(false) => "within the intervals".into(),
            None if side.change.is_some() => "not known".into(),
            None => String::new(),
        },
        report::mean_or_overload(latency, &found.interval),
        report::ns(latency.p50),
        report::ns(latency.p99),
    ];
    cells.extend(with_p999.then(|| report::ns(latency.p999)));
    cells.push(report::bottleneck(found));
    cells
}

/// Whether the resource is the bottleneck of a side's result, or has the lowest bound of a side.
fn matters(c: &Comparison, cost: &Cost) -> bool {
    let found = c.sides.iter().filter_map(|side| side.found.as_ref());
    let observed = found.into_iter().any(|found| found.bottleneck.class == Some(cost.resource));
    let least = |at: usize| {
        let all = c.costs.iter().filter_map(|cost| Some((cost.resource, cost.mops[at]?)));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).is_some_and(|(resource, _)| resource == cost.resource)
    };
    observed || (0..c.sides.len()).any(least)
}

fn costs(names: &[String], costs: &[&Cost]) -> String {
    let or_none = |value: Option<f64>, unit: &str| match value {
        Some(value) => format!("{}{unit}", Digits(value, 2)),
        None => "-".into(),
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for cost in costs {
        let bounds = cost.mops.iter().map(|mops| or_none(*mops, ""));
        rows.push([format!("{}: Mops at most", cost.resource)].into_iter().chain(bounds).collect());
        for CostTerm { what, unit, amounts } in &cost.terms {
            let unit = match unit {
                Measure::Nanoseconds => " ns",
                Measure::Bytes => " B",
            };
            let amounts = amounts.iter().map(|amount| or_none(*amount, unit));
            rows.push([format!("  {what}")].into_iter().chain(amounts).collect());
        }
    }
    table::columns(&header(&[("", Align::Left)], names), rows)
}
