//! `doorbell compare`.

mod baseline;

use crate::args::CompareArgs;
use crate::cache;
use crate::distribution;
use crate::exit::{self, Exit};
use crate::output;
use crate::progress;
use crate::report;
use crate::table::{self, Align};
use doorbell_lab::compare::{Comparison, Cost, CostTerm, Side};
use doorbell_lab::{Control, Given};
use doorbell_nic::limits::Measure;
use doorbell_nic::{Digits, Profile, counted};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    let stored = cache::stored().map(|stored| Arc::new(stored.fresh(args.fresh)));
    let interrupt = progress::interrupt()?;
    let bar = progress::bar();
    let jobs = args.jobs.map_or_else(doorbell_lab::cores, usize::from);
    let control = Control { interrupt: interrupt.clone(), jobs, max_wall: None, watch: &bar };
    let found = doorbell_lab::compare::compare(&sides, args.explain, stored.clone(), &control);
    drop(bar);
    let found = found.map_err(Exit::of_sweep)?;
    stored.iter().for_each(|stored| cache::say_failures(stored));
    if args.json {
        exit::print_json(&found)?;
    } else {
        exit::print(&report(&found))?;
    }
    let known = found.sides.iter().filter_map(|side| Some((side.name.clone(), side.found.as_ref()?)));
    let named = known.map(|(name, found)| (name, &found.quantiles[..]));
    let drawn = cdf.map_or(Ok(()), |file| distribution::draw(file, named));
    exit::both(exit::stopped(&interrupt), drawn)
}

/// Paths of the files that sides may name.
fn files(args: &CompareArgs) -> Vec<PathBuf> {
    let words = args.side.iter().flat_map(|side| side.split_whitespace());
    args.side.iter().map(String::as_str).chain(words).map(PathBuf::from).collect()
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
        } else if Profile::names().any(|name| name == word) {
            doorbell_lab::say(&mut words, &format!("profile={word}")).map_err(refused)?;
        } else if file.is_some() {
            return Err(refused(format!("{word} is a second file, but a side has at most one")));
        } else if Path::new(word).exists() || word.contains(['/', '.']) {
            file = Some(Path::new(word));
        } else {
            let profiles = Profile::names().collect::<Vec<_>>().join(", ");
            return Err(refused(format!(
                "`{word}` is not a profile ({profiles}), a file, or an option with a value, such as size=64"
            )));
        }
    }
    args.common.below(words, file).map_err(Exit::bad_input)
}

fn report(c: &Comparison) -> String {
    let mut text = String::new();
    if !c.options.is_empty() {
        let _ = write!(text, "Options that differ\n{}\n", options(c));
    }
    let _ = write!(text, "Result\n{}", results(&c.sides));
    for (side, load) in c.sides.iter().filter_map(|side| Some((side, side.load.as_ref()?))) {
        let capacity = report::capacity(&load.capacity);
        let _ =
            writeln!(text, "  {}: load {} of {capacity}, the rate of a closed loop", side.name, load.share);
    }
    for side in &c.sides {
        for doubt in side.found.iter().flat_map(|found| report::doubts(&found.interval)) {
            let _ = writeln!(text, "  {}: {doubt}", side.name);
        }
    }
    let timed = c.sides.iter().filter_map(|side| Some((side.found.as_ref()?, side.workload.get("max_time"))));
    text += &report::about_latencies(timed);
    text += &report::windows(c.sides.iter().filter_map(|side| Some((&side.name[..], side.found.as_ref()?))));
    let named: Vec<&Cost> = c.costs.iter().filter(|cost| matters(c, cost)).collect();
    if !named.is_empty() {
        let _ = write!(
            text,
            "\nCost of an operation, on the resources that limit a side\n{}",
            costs(&c.sides, &named)
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
    if c.sides.iter().any(|side| side.workload.get("system").is_some()) {
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

/// Header of a table: the columns in `before`, then a column for each side.
fn header<'a>(before: &[(&'a str, Align)], sides: &'a [Side]) -> Vec<(&'a str, Align)> {
    before.iter().copied().chain(sides.iter().map(|side| (side.name.as_str(), Align::Right))).collect()
}

fn options(c: &Comparison) -> String {
    let rows = c.options.iter().map(|(key, values)| {
        [key.clone()].into_iter().chain(values.iter().map(shown)).collect::<Vec<String>>()
    });
    table::columns(&header(&[("", Align::Left)], &c.sides), rows.collect())
}

fn results(sides: &[Side]) -> String {
    let mut header = vec![
        ("", Align::Left),
        ("Mops", Align::Right),
        ("", Align::Left),
        ("against the first", Align::Right),
        ("", Align::Left),
        ("mean", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
    ];
    let with_p999 = sides.iter().filter_map(|side| side.workload.get("until")).any(report::asks_for_p999);
    header.extend(with_p999.then_some(("p99.9", Align::Right)));
    header.push(("bottleneck", Align::Left));
    let row = |side: &Side| {
        let Some(found) = &side.found else {
            return vec![side.name.clone(), "not run".into()];
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
                None if side.change.is_some() => "intervals not known".into(),
                None => String::new(),
            },
            report::mean_or_overload(latency, &found.interval),
            report::ns(latency.p50),
            report::ns(latency.p99),
        ];
        cells.extend(with_p999.then(|| report::ns(latency.p999)));
        cells.push(found.bottleneck.class_name().to_owned());
        cells
    };
    table::columns(&header, sides.iter().map(row).collect())
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

fn costs(sides: &[Side], costs: &[&Cost]) -> String {
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
    table::columns(&header(&[("", Align::Left)], sides), rows)
}
