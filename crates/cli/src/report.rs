//! Parts of reports that several commands share.

use crate::exit;
use doorbell_lab::{
    Capacity, Certainty, Duration, Ended, Found, Latency, MeasuredTime, Served, Share, Timing, Until, Warmed,
};
use doorbell_nic::{Digits, counted};
use doorbell_schema::Settings;
use serde::Deserialize;

/// Text of a warm-up or of a duration. It is the requested time `asked`, or else the actual time `came` and
/// its reason `how`.
fn time(asked: Option<Duration>, came: Duration, how: &str) -> String {
    asked.map_or_else(|| format!("{}, {how}", exit::in_words(came)), |asked| asked.to_string())
}

/// Why the warm-up ended.
fn warmed(measured: &MeasuredTime) -> &'static str {
    match measured.warmed {
        None => "as requested",
        Some(Warmed::Steady) => "until steady",
        Some(Warmed::Overload) => "until overload: fewer operations complete than are due",
        Some(Warmed::MaxTime) => "not steady after two thirds of --max-time",
        Some(Warmed::MaxWall) => "cut short after two thirds of --max-wall",
    }
}

/// Why a run ended.
fn because(measured: &MeasuredTime, precision: Share, percentile: Option<Until>) -> String {
    let overrun = measured.overrun;
    match measured.ended {
        Ended::Duration => "as requested".into(),
        Ended::Settled => measured.until(precision, percentile),
        Ended::Overload => "until overload: fewer operations complete than are due".into(),
        Ended::MaxTime => match overrun {
            Some(over) => format!("up to --max-time, plus {}", exit::in_words(over)),
            None => "up to --max-time".into(),
        },
        Ended::MaxWall => "up to --max-wall".into(),
        Ended::Interrupted => "interrupted".into(),
    }
}

/// Rows about the warm-up and the measured time. `precision` and `percentile` are as requested.
pub(crate) fn times(
    (warmup, duration): (Option<Duration>, Option<Duration>),
    (precision, percentile): (Share, Option<Until>),
    measured: &MeasuredTime,
) -> [(&'static str, String); 2] {
    // If a time was cut short, the actual time is shown instead of the requested time.
    let warmup = warmup.filter(|_| measured.warmed.is_none());
    let duration = duration.filter(|_| measured.ended.is_repeatable());
    [
        ("warmup", time(warmup, measured.warmup, warmed(measured))),
        ("duration", time(duration, measured.duration, &because(measured, precision, percentile))),
    ]
}

/// Changed parameters, in the form in which the user types them.
pub(crate) fn settings(set: &Settings) -> String {
    let each: Vec<String> = set.iter().map(|(name, number)| format!("{name}={number}")).collect();
    each.join(", ")
}

/// Whether a value of the option `until` asks for p99.9. Tables then have a column for it.
pub(crate) fn asks_for_p999(until: &serde_json::Value) -> bool {
    Until::deserialize(until).is_ok_and(|until| until == Until::P999)
}

/// Text of a percentile in a table of several runs.
pub(crate) fn ns(value: Option<u64>) -> String {
    percentile(value, None)
}

/// The window of each run's latencies, if the windows differ. Each run has its name.
pub(crate) fn windows<'a>(all: impl Iterator<Item = (&'a str, &'a Found)> + Clone) -> String {
    let timed = all.filter(|(_, found)| found.latency_ns.mean.is_some());
    let mut each = timed.clone().map(|(_, found)| &found.latency_with);
    let first = each.next();
    if each.all(|other| Some(other) == first) {
        return String::new();
    }
    let line = |(name, found): (&str, &Found)| format!("  {name}: latency with {}.\n", found.latency_with);
    timed.map(line).collect()
}

/// The span that a latency covers, unless each latency is the time of a whole operation. If the spans differ,
/// each run has a line. Each run has its name.
pub(crate) fn spans<'a>(all: impl Iterator<Item = (&'a str, &'a Found)> + Clone) -> String {
    let timed = all.filter(|(_, found)| found.latency_ns.mean.is_some());
    let mut each = timed.clone().map(|(_, found)| &found.latency_covers);
    let first = each.next();
    if each.all(|other| Some(other) == first) {
        let span = first.and_then(Option::as_ref);
        return span.map_or_else(String::new, |span| format!("Latency covers {span}.\n"));
    }
    let line = |(name, found): (&str, &Found)| {
        let span = found.latency_covers.as_deref().unwrap_or("an operation, from its start to its end");
        format!("  {name}: latency covers {span}.\n")
    };
    timed.map(line).collect()
}

/// Lines below a table of several runs: the window of their latencies, if it is the same for all, and the way
/// to measure missing values of p99. Each run comes with the value of its option `max_time`.
pub(crate) fn about_latencies<'a>(
    all: impl Iterator<Item = (&'a Found, Option<&'a serde_json::Value>)> + Clone,
) -> String {
    let timed = all.filter(|(found, _)| found.latency_ns.mean.is_some());
    let mut each = timed.clone().map(|(found, _)| &found.latency_with);
    let Some(with) = each.next() else { return String::new() };
    let window = match !with.is_empty() && each.all(|other| other == with) {
        true => format!("Latency with {with}.\n"),
        false => String::new(),
    };
    window + &about_p99(timed)
}

/// The way to measure missing values of p99. A run that was to measure a percentile has its own note.
fn about_p99<'a>(all: impl Iterator<Item = (&'a Found, Option<&'a serde_json::Value>)>) -> String {
    let is_short = |(found, _): &(&Found, Option<&serde_json::Value>)| {
        found.latency_ns.p99.is_none() && found.interval.no_percentile.is_none()
    };
    let mut short = all.filter(is_short).peekable();
    if short.peek().is_none() {
        return String::new();
    }
    let exceeds = |(found, max_time): (&Found, Option<&serde_json::Value>)| {
        let given = max_time.and_then(|time| Duration::deserialize(time).ok());
        found.exceeds(given.unwrap_or(Timing::USUAL.max_time))
    };
    let (mut has_duration, mut needs_longer) = (false, false);
    for (found, max_time) in short {
        has_duration |= found.measured.ended == Ended::Duration;
        needs_longer |= exceeds((found, max_time));
    }
    let no_duration = if has_duration { ", without --duration" } else { "" };
    let longer = if needs_longer { " Some rows also need a longer --max-time." } else { "" };
    format!("Where p99 is missing, the run is too short for it: add --until p99{no_duration}.{longer}\n")
}

/// Title of the reason for a star: an overload.
pub(crate) const OVERLOAD: &str = "Overload";
/// Title of the reason for a star: a doubt about the rate.
pub(crate) const MAY_DIFFER: &str = "The measured rate may differ from the long-run rate";

/// Title of the reason for a missing latency.
pub(crate) const NO_LATENCY: &str = "There is no latency";

/// Title of the reason for a missing percentile.
pub(crate) const NO_PERCENTILE: &str = "The requested percentile is not known";

/// Title of the note about clients that completed no operation.
pub(crate) const NEVER_SERVED: &str = "Some clients were never served, so the latency does not cover them";

/// The range of the clients' shares, each relative to an even share.
pub(crate) fn shares(served: &Served) -> String {
    format!("{} to {} of an even share", Digits(served.least, 2), Digits(served.most, 2))
}

/// Number of clients that completed no operation, and the shares of all clients; `None` if each client
/// completed an operation.
pub(crate) fn never_served(found: &Found) -> Option<String> {
    let served = found.served.as_ref().filter(|served| served.never > 0)?;
    Some(format!("{}; by client, {}", counted(served.never, "client"), shares(served)))
}

/// The overload, or the reason why the measured rate may differ from the long-run rate, in one sentence;
/// `None` if there is neither.
fn doubt(interval: &Certainty) -> Option<String> {
    let title = if interval.overload { OVERLOAD } else { MAY_DIFFER };
    interval.unsettled.as_ref().map(|why| format!("{title}: {why}."))
}

/// Lines with the doubt about a result, and with the reasons why it lacks a latency or a percentile.
pub(crate) fn unsettled(interval: &Certainty) -> String {
    doubts(interval).map(|doubt| format!("  {doubt}\n")).collect()
}

/// The doubt about a result, and the reasons why it lacks a latency or a percentile, each in one sentence.
pub(crate) fn doubts(interval: &Certainty) -> impl Iterator<Item = String> {
    let no_latency = interval.no_latency.as_ref().map(|why| format!("{NO_LATENCY}: {why}."));
    let no_percentile = interval.no_percentile.as_ref().map(|why| format!("{NO_PERCENTILE}: {why}."));
    doubt(interval).into_iter().chain(no_latency).chain(no_percentile)
}

/// Text of a percentile with its interval.
pub(crate) fn percentile(value: Option<u64>, interval: Option<(u64, u64)>) -> String {
    let interval = interval.map(|(low, high)| format!(" ({low} to {high})")).unwrap_or_default();
    value.map_or("-".to_owned(), |ns| format!("{ns}{interval} ns"))
}

/// Text of a mean latency in nanoseconds, with the half-width of its interval.
pub(crate) fn mean(mean: Option<f64>, half: Option<f64>) -> String {
    mean.map_or("-".to_owned(), |ns| format!("{}{} ns", Digits(ns, 0), within(half)))
}

/// Text of a mean latency in a table of several runs.
pub(crate) fn mean_or_overload(latency: &Latency, interval: &Certainty) -> String {
    if interval.overload { "overload".to_owned() } else { mean(latency.mean, None) }
}

/// Text of a capacity, and the doubt about it.
pub(crate) fn capacity(capacity: &Capacity) -> String {
    let Capacity { mops, half, unsettled, .. } = capacity;
    let doubt = unsettled.as_ref().map(|why| format!(" (it may differ from the long-run rate: {why})"));
    format!("{}{} Mops{}", Digits(*mops, 2), within(*half), doubt.unwrap_or_default())
}

/// The closed loop that a capacity belongs to: its outstanding operations, which may limit the capacity, and
/// its bottleneck.
pub(crate) fn closed_loop(capacity: &Capacity) -> String {
    format!("with {} (bottleneck: {})", capacity.with, capacity.bottleneck.in_table())
}

/// Text of the half-width of an interval, with two significant digits.
pub(crate) fn within(half: Option<f64>) -> String {
    let Some(half) = half else { return String::new() };
    let decimals = if half > 0.0 { (1.0 - half.log10().floor()).clamp(0.0, 9.0) as usize } else { 0 };
    format!(" ± {half:.decimals$}")
}

/// Name of the bottleneck in a table with several results.
pub(crate) fn bottleneck(found: &Found) -> String {
    let bottleneck = &found.bottleneck;
    match found.cut_short && !bottleneck.not_confirmed {
        true => format!("{}, not confirmed", bottleneck.class_name()),
        false => bottleneck.in_table(),
    }
}
