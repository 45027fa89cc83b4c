//! `doorbell reproduce`.

use crate::args::ReproduceArgs;
use crate::cache;
use crate::exit::{self, Exit};
use crate::output;
use crate::plot::Figure;
use crate::progress::{self, Bar};
use crate::rows::Rows;
use crate::table::{self, Align};
use doorbell_lab::{Control, SimulateError};
use doorbell_nic::counted;
use doorbell_reproduce::claims::Value;
use doorbell_reproduce::papers::REGISTER;
use doorbell_reproduce::{
    Accuracy, Basis, CheckedClaims, ClaimReport, Coverage, Ctx, Experiment, Headline, Intervals,
    MeasuredReport, MeasurementReport, MissingExperiment, Report, Selection,
};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn run(args: ReproduceArgs) -> Result<(), Exit> {
    if let Some(set) = args.set.first() {
        return Err(Exit::bad_input(format!(
            "reproduce does not take --set {set}, because it checks the papers' claims with the built-in \
             profiles; use --set with simulate, limits or profiles"
        )));
    }
    let select = if args.beyond { Selection::with_beyond } else { Selection::new };
    let selection = select(&REGISTER, &args.selector).map_err(Exit::bad_input)?;
    if let Some(dir) = &args.plots {
        output::make_writable(dir)?;
    }
    let interrupt = progress::interrupt()?;
    let (jobs, deadline) = (args.jobs.unwrap_or_else(doorbell_lab::cores), progress::deadline(args.max_wall));
    let bar = match args.plots {
        None => Bar::new(jobs, deadline).for_reader(&interrupt),
        Some(_) => Bar::new(jobs, deadline),
    };
    let flag = interrupt.flag.clone();
    let control = Control { interrupt: flag, jobs, deadline, watch: &bar, ..Control::quiet() };
    let mut ctx = Ctx::new(args.full, control).map_err(Exit::failed)?;
    if let Some(precision) = args.precision {
        ctx = ctx.with_precision(precision);
    }
    if let Some(stored) = cache::stored() {
        ctx = ctx.stored_in(Arc::new(stored.fresh(args.fresh)));
    }
    let rows = Rows::new(|table: String| if args.json { Ok(()) } else { bar.tell(&table) });
    let each = |at: usize, claims: &[ClaimReport]| rows.put(at, section(selection.experiments[at], claims));
    let run = || {
        let report = doorbell_reproduce::reproduce(&ctx, &selection, &each);
        report.and_then(|report| with_intervals(&ctx, &selection, report, args.uncertainty))
    };
    let tell = |report: &Report| {
        let plots = match &args.plots {
            Some(dir) => write_plots(dir, report, &selection.experiments)?,
            None => Vec::new(),
        };
        rows.finish(sections(report, &selection.experiments))?;
        let plots: String = plots.iter().map(|plot| format!("Plot: {}\n", plot.display())).collect();
        if args.json { bar.print(&exit::json(report)?) } else { bar.tell(&(notes(report) + &plots)) }
    };
    let report = progress::until(&interrupt, run, || tell(&run().map_err(Exit::failed)?));
    let report = report.map_err(Exit::failed)?;
    bar.hide();
    report.stored.iter().for_each(cache::warn);
    tell(&report)?;
    if bar.is_unread() {
        return Ok(());
    }
    exit::stopped(&interrupt.flag)?;
    match (report.interrupted, args.max_wall) {
        (true, Some(time)) => Err(Exit::out_of_time(time, &unfinished(&report))),
        _ => Ok(()),
    }
}

/// Says which part of a report is missing.
fn unfinished(report: &Report) -> String {
    match stopped(report).count() {
        0 => "other requested results are incomplete".to_owned(),
        n => format!("{} without a result", counted(n as u64, "experiment")),
    }
}

/// The experiments that were stopped early.
fn stopped(report: &Report) -> impl Iterator<Item = &MissingExperiment> {
    report.missing.iter().filter(|missing| missing.why.is_none())
}

/// Adds intervals to the report if `asked`, unless the user interrupted the runs.
fn with_intervals(
    ctx: &Ctx<'_>,
    selection: &Selection,
    report: Report,
    asked: bool,
) -> Result<Report, SimulateError> {
    if !asked || report.interrupted {
        return Ok(report);
    }
    match doorbell_reproduce::intervals(ctx, selection, &report.claims) {
        Ok(intervals) => Ok(Report { intervals: Some(intervals), ..report }),
        // The report keeps the results that were found before the interrupt.
        Err(error) if error.is_cut() => Ok(Report { interrupted: true, ..report }),
        Err(error) => Err(error),
    }
}

/// Writes a plot of each experiment with numbers. Returns the paths.
fn write_plots(dir: &Path, report: &Report, experiments: &[&Experiment]) -> Result<Vec<PathBuf>, Exit> {
    let mut paths = Vec::new();
    for experiment in experiments {
        let figure = Figure::of(report, experiment.paper, experiment.name, experiment.title);
        if let Some(svg) = figure.svg().map_err(Exit::failed)? {
            let path = dir.join(format!("{}-{}.svg", experiment.paper, experiment.name));
            std::fs::write(&path, svg).map_err(|e| output::cannot_write_plots(&path, e))?;
            paths.push(path);
        }
    }
    Ok(paths)
}

/// The table of an experiment's claims; empty if there are none.
fn section(experiment: &Experiment, claims: &[ClaimReport]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut text = format!("{}/{}: {}\n", experiment.paper, experiment.name, experiment.title);
    text += &table_of(claims);
    text + "\n"
}

/// The number and the table of each finished experiment.
fn sections(report: &Report, experiments: &[&Experiment]) -> Vec<(usize, String)> {
    let of = |experiment: &Experiment| -> Vec<ClaimReport> {
        let extends = |c: &ClaimReport| c.basis == Basis::Ours && experiment.claims.contains(&c.id.as_str());
        let of =
            |c: &&ClaimReport| (c.paper == experiment.paper && c.experiment == experiment.name) || extends(c);
        report.claims.iter().filter(of).cloned().collect()
    };
    experiments.iter().map(|experiment| section(experiment, &of(experiment))).enumerate().collect()
}

/// The text below the tables of the experiments.
fn notes(report: &Report) -> String {
    let mut text = String::new();
    for measured in &report.measured {
        text += &measured_text(measured);
    }
    if report.claims.is_empty() && !report.measured.is_empty() {
        return text
            + &missing(report)
            + &times(report)
            + &report.stored.as_ref().map_or(String::new(), cache::told);
    }
    text + &summary(report)
}

/// Text about a set of measurements that are not claims.
fn measured_text(of: &MeasuredReport) -> String {
    let mut text = format!("{}: measurements, not claims\n", of.set);
    text += &table::prose(&[("", Align::Left)], vec![vec![of.about.clone()]]);
    let header = [
        ("measurement", Align::Left),
        ("measured", Align::Right),
        ("Doorbell", Align::Right),
        ("unit", Align::Left),
        ("error", Align::Right),
        ("role", Align::Left),
    ];
    let row = |m: &MeasurementReport| {
        vec![
            m.id.clone(),
            format!("{:.2}", m.measured),
            m.simulated.map_or("not run".into(), |simulated| format!("{simulated:.2}")),
            "Mops".to_owned(),
            m.error.map_or(String::new(), |error| format!("{:+.1}%", error * 100.0)),
            m.role.name().to_owned(),
        ]
    };
    text += "\n";
    text += &table::columns(&header, of.measurements.iter().map(row).collect());
    let noted = of.measurements.iter().filter(|m| !m.note.is_empty());
    text += "\nRemarks\n";
    text += &table::prose(
        &[("", Align::Left), ("", Align::Left)],
        noted.map(|m| vec![m.id.clone(), m.note.clone()]).collect(),
    );
    text += "\nErrors of the measurements that are run\n";
    text += &accuracy_table("role", &of.accuracy);
    text
}

fn accuracy_table(group: &str, all: &[Accuracy]) -> String {
    let percent = |e: Option<f64>| e.map_or("-".to_owned(), |e| format!("{:.1}%", e * 100.0));
    let rows = all.iter().map(|a| {
        vec![
            a.group.clone(),
            a.numbers.to_string(),
            a.hold.to_string(),
            percent(a.median_error),
            percent(a.largest_error),
        ]
    });
    let header = [
        (group, Align::Left),
        ("numbers", Align::Right),
        ("hold", Align::Right),
        ("median error", Align::Right),
        ("largest", Align::Right),
    ];
    table::columns(&header, rows.collect())
}

fn table_of(claims: &[ClaimReport]) -> String {
    let header = [
        ("claim", Align::Left),
        ("paper", Align::Right),
        ("Doorbell", Align::Right),
        ("unit", Align::Left),
        ("error", Align::Right),
        ("holds", Align::Left),
        ("basis", Align::Left),
        ("bottleneck", Align::Left),
    ];
    table::columns(&header, claims.iter().map(row).collect())
}

fn row(c: &ClaimReport) -> Vec<String> {
    let unit = if matches!(c.paper_value, Value::Number(_)) { c.unit.clone() } else { String::new() };
    let observed = match (c.bottleneck.paper, c.bottleneck.observed) {
        (_, None) => String::new(),
        (None, Some(observed)) => observed.to_string(),
        (Some(paper), Some(observed)) => format!("{observed} (paper: {paper})"),
    };
    vec![
        c.id.clone(),
        value(&c.paper_value),
        value(&c.simulated),
        unit,
        c.error.map_or(String::new(), |e| format!("{:.1}%", e * 100.0)),
        if c.holds { "yes" } else { "NO" }.to_owned(),
        c.basis.name().to_owned(),
        observed,
    ]
}

/// Largest number of characters of a statement in a cell.
const CELL: usize = 44;

fn value(value: &Value) -> String {
    match value {
        Value::Flag(flag) => flag.to_string(),
        Value::Number(n) if n.fract() == 0.0 => n.to_string(),
        Value::Number(n) => format!("{n:.2}"),
        Value::Text(text) if text.chars().count() > CELL => {
            text.chars().take(CELL - 3).chain("...".chars()).collect()
        }
        Value::Text(text) => text.clone(),
    }
}

/// Note on the predictions for ATC'16.
const MECHANISMS: &str = "  The values of parameters follow from the calibrated numbers alone. The \
     mechanisms of the model were chosen with other runs on\n  the same clusters in view (reproduce \
     rc-swarm), by an author with knowledge of still more of these runs.\n";

/// Text about the intervals of predicted numbers, and about how many numbers lie within their intervals.
fn intervals(found: &Intervals, claims: &[ClaimReport]) -> String {
    if found.coverage.is_empty() {
        return "\nNo predicted number belongs to a profile that states its uncertainty\n".into();
    }
    let of_claim = |c: &ClaimReport| {
        let [least, most] = found.claims.get(&c.id)?;
        Some(vec![
            c.id.clone(),
            value(&c.paper_value),
            value(&c.simulated),
            format!("{least:.2}"),
            format!("{most:.2}"),
            c.unit.clone(),
        ])
    };
    let header = [
        ("predicted", Align::Left),
        ("paper", Align::Right),
        ("Doorbell", Align::Right),
        ("from", Align::Right),
        ("to", Align::Right),
        ("unit", Align::Left),
    ];
    let each = table::columns(&header, claims.iter().filter_map(of_claim).collect());
    format!("\n90% intervals\n{each}\n{}", coverage(&found.coverage))
}

/// Text about how many predicted numbers lie within their intervals.
fn coverage(all: &[Coverage]) -> String {
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    let row = |c: &Coverage| {
        vec![
            c.group.clone(),
            c.numbers.to_string(),
            c.within.to_string(),
            percent(c.within as f64 / c.numbers.max(1) as f64),
            c.median_half.map_or("-".to_owned(), percent),
        ]
    };
    let header = [
        ("predicted numbers", Align::Left),
        ("numbers", Align::Right),
        ("within", Align::Right),
        ("", Align::Right),
        ("median half-width", Align::Right),
    ];
    format!("Within their 90% intervals\n{}", table::columns(&header, all.iter().map(row).collect()))
}

fn summary(report: &Report) -> String {
    let mut text = String::from("Summary\n");
    let all = [Basis::Predicted, Basis::Calibrated, Basis::Analytic, Basis::Given, Basis::Ours];
    let rows = all.map(|basis| {
        let claims: Vec<&ClaimReport> = report.claims.iter().filter(|c| c.basis == basis).collect();
        let hold = claims.iter().filter(|c| c.holds).count();
        // Given hardware parameters show nothing about the model's accuracy.
        let errors: Vec<f64> =
            if basis == Basis::Given { Vec::new() } else { claims.iter().filter_map(|c| c.error).collect() };
        let percent = |e: Option<f64>| e.map_or("-".to_owned(), |e| format!("{:.1}%", e * 100.0));
        let largest = errors.iter().copied().reduce(f64::max);
        vec![
            basis.name().to_owned(),
            claims.len().to_string(),
            hold.to_string(),
            percent(doorbell_lab::median(&errors)),
            percent(largest),
        ]
    });
    let header = [
        ("basis", Align::Left),
        ("claims", Align::Right),
        ("hold", Align::Right),
        ("median error", Align::Right),
        ("largest", Align::Right),
    ];
    text += &table::columns(&header, rows.into());
    text += "\nNumbers, each counted once\n";
    text += &accuracy_table("group", &report.accuracy);
    if report.claims.iter().any(|c| c.paper == "atc16") {
        text += MECHANISMS;
    }
    let agree: Vec<bool> = report.claims.iter().filter_map(|c| c.bottleneck.agree()).collect();
    if !agree.is_empty() {
        let same = agree.iter().filter(|a| **a).count();
        let _ = writeln!(text, "\nBottlenecks that agree with the paper: {same} of {}", agree.len());
    }
    if let Some(found) = &report.intervals {
        text += &intervals(found, &report.claims);
    }
    text += "\nParameters of the profiles\n";
    let header = [
        ("profile", Align::Left),
        ("published", Align::Right),
        ("calibrated", Align::Right),
        ("assumed", Align::Right),
    ];
    let counts = report.parameters.iter().map(|(name, c)| {
        vec![name.clone(), c.published.to_string(), c.calibrated.to_string(), c.assumed.to_string()]
    });
    text += &table::columns(&header, counts.collect());
    if !report.not_checked.is_empty() {
        let claims = match report.not_checked.len() {
            1 => "1 claim is".to_owned(),
            n => format!("{n} claims are"),
        };
        let _ = writeln!(text, "\n{claims} not checked; --json lists them with the reasons");
    }
    text += &checked(&report.checked);
    text += &headlines(&report.headlines);
    text += &missing(report);
    text += &times(report);
    if let Some(taken) = &report.stored {
        text += &cache::told(taken);
    }
    text
}

/// Text about the number of checked claims of each paper.
fn checked(all: &[CheckedClaims]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let row = |paper: &str, of: [usize; 3]| {
        std::iter::once(paper.to_owned()).chain(of.map(|n| n.to_string())).collect::<Vec<_>>()
    };
    let each = all.iter().map(|of| (of.paper.as_str(), [of.claims, of.checked, of.not_checked]));
    let mut rows: Vec<_> = each.clone().map(|(paper, of)| row(paper, of)).collect();
    if rows.len() > 1 {
        let sum = each.fold([0; 3], |sum, (_, of)| [sum[0] + of[0], sum[1] + of[1], sum[2] + of[2]]);
        rows.push(row("all", sum));
    }
    let header = [
        ("paper", Align::Left),
        ("claims", Align::Right),
        ("checked", Align::Right),
        ("not checked", Align::Right),
    ];
    format!("\nClaims other than hardware parameters\n{}", table::columns(&header, rows))
}

/// Text about the speed-ups in the abstract of CLUSTER'21.
fn headlines(all: &[Headline]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let row = |of: &Headline| {
        let times = |n: f64| format!("{n:.1}x");
        vec![of.what.clone(), times(of.paper), times(of.simulated)]
    };
    let header = [("faster", Align::Left), ("paper", Align::Right), ("Doorbell", Align::Right)];
    format!("\nCLUSTER'21, all optimisations\n{}", table::columns(&header, all.iter().map(row).collect()))
}

/// Text about all experiments without a result.
fn missing(report: &Report) -> String {
    let names: Vec<&str> = stopped(report).map(|missing| missing.experiment.as_str()).collect();
    let claims: usize = stopped(report).map(|missing| missing.claims.len()).sum();
    let interrupted = match (report.interrupted, &names[..]) {
        (false, _) => String::new(),
        (true, []) => {
            "\nInterrupted: all experiments have a result, but the other requested results are incomplete\n"
                .into()
        }
        (true, names) => format!(
            "\nInterrupted: no result for {} with {}: {}. If results are stored, the same command continues \
             from here\n",
            counted(names.len() as u64, "experiment"),
            counted(claims as u64, "claim"),
            names.join(", ")
        ),
    };
    refused(report) + &interrupted
}

/// Text about the experiments that have no result although the user did not interrupt them, with the reason.
fn refused(report: &Report) -> String {
    let line = |missing: &MissingExperiment| {
        let claims = counted(missing.claims.len() as u64, "claim");
        Some(format!("\nNo result for {} with {claims}: {}\n", missing.experiment, missing.why.as_ref()?))
    };
    report.missing.iter().filter_map(line).collect()
}

/// Text about how long the runs measured.
fn times(report: &Report) -> String {
    let Report { precision, runs, unsettled, .. } = report;
    match (precision, unsettled) {
        _ if *runs == 0 => String::new(),
        (None, _) => {
            "\nEach run lasts as long as its experiment says (--precision 1%: until its result is known to \
             1%)\n"
                .to_owned()
        }
        (Some(precision), 0) => format!(
            "\nAll {runs} runs ended when their results were known to {precision}; runs of joins ended \
             after a number of whole joins\n"
        ),
        (Some(precision), n) => format!(
            "\n{n} of {runs} runs ended before their results were known to \
             {precision}\n"
        ),
    }
}
