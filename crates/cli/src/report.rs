//! Parts of reports that several commands share.

use crate::exit;
use doorbell_lab::{Certainty, Duration, Ended, Found, MeasuredTime, Share, Warmed};
use doorbell_nic::Digits;
use doorbell_schema::Settings;

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
fn because(measured: &MeasuredTime, precision: Share) -> String {
    let overrun = measured.overrun;
    match measured.ended {
        Ended::Duration => "as requested".into(),
        Ended::Settled => format!("until known to {precision}"),
        Ended::Overload => "until overload: fewer operations complete than are due".into(),
        Ended::MaxTime => match overrun {
            Some(over) => format!("up to --max-time, plus {}", exit::in_words(over)),
            None => "up to --max-time".into(),
        },
        Ended::MaxWall => "up to --max-wall".into(),
        Ended::Interrupted => "interrupted".into(),
    }
}

/// Rows about the warm-up and the measured time.
pub(crate) fn times(
    (warmup, duration): (Option<Duration>, Option<Duration>),
    precision: Share,
    measured: &MeasuredTime,
) -> [(&'static str, String); 2] {
    // If a time was cut short, the actual time is shown instead of the requested time.
    let warmup = warmup.filter(|_| measured.warmed.is_none());
    let duration = duration.filter(|_| measured.ended.is_repeatable());
    [
        ("warmup", time(warmup, measured.warmup, warmed(measured))),
        ("duration", time(duration, measured.duration, &because(measured, precision))),
    ]
}

/// Changed parameters, in the form in which the user types them.
pub(crate) fn settings(set: &Settings) -> String {
    let each: Vec<String> = set.iter().map(|(name, number)| format!("{name}={number}")).collect();
    each.join(", ")
}

/// A warning if the measured rate may differ from the long-run rate.
pub(crate) fn unsettled(interval: &Certainty) -> String {
    let says = |why: &String| match interval.overload {
        true => format!("  Overload: {why}.\n"),
        false => format!("  The measured rate may differ from the long-run rate: {why}.\n"),
    };
    interval.unsettled.as_ref().map(says).unwrap_or_default()
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

/// Text of the half-width of an interval, with two significant digits.
pub(crate) fn within(half: Option<f64>) -> String {
    let Some(half) = half else { return String::new() };
    let decimals = if half > 0.0 { (1.0 - half.log10().floor()).clamp(0.0, 9.0) as usize } else { 0 };
    format!(" ± {half:.decimals$}")
}

/// Name of the bottleneck in a table with several results.
pub(crate) fn bottleneck(found: &Found) -> String {
    let name = found.bottleneck.class_name();
    if found.cut_short { format!("{name}, not confirmed") } else { name.to_owned() }
}
