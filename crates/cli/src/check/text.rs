//! A check as text.

use crate::cache;
use crate::table::{self, Align};
use doorbell_nic::{Digits, counted};
use doorbell_series::{Checked, CheckedPoint, CheckedSeries, Choice, Summary};
use std::collections::BTreeMap;

/// The report. `points` adds a table of the points of each series.
pub(super) fn report(checked: &Checked, points: bool) -> String {
    let mut text = series(checked);
    if points {
        text += &checked
            .series
            .iter()
            .filter(|series| series.median.is_some())
            .map(of_points)
            .collect::<String>();
    }
    text += &summary(checked);
    text += &refused(checked);
    text += &noted("Points not answered", checked, |point| point.refused.as_deref());
    text += &noted("Points whose run did not settle", checked, |point| point.unsettled.as_deref());
    // Each table of points is followed by the choices of its series.
    text += &if points { String::new() } else { choices(checked) };
    text += &others(checked);
    text += &missing(checked);
    text + &checked.stored.as_ref().map_or_else(String::new, cache::told)
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn signed(share: f64) -> String {
    format!("{:+.1}%", share * 100.0)
}

fn percent_or_none(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), percent)
}

/// Number of points with an answer, and of all points if some lack one.
fn answered(series: &CheckedSeries) -> String {
    let all = series.points.len();
    match series.points.iter().filter(|point| point.error.is_some()).count() {
        answered if answered == all => all.to_string(),
        answered => format!("{answered} of {all}"),
    }
}

/// The point with the largest error.
fn worst(series: &CheckedSeries) -> String {
    let with_error = series.points.iter().filter_map(|point| Some((point.x, point.error?)));
    match with_error.max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs())) {
        Some((x, error)) => format!("{} at {x}", signed(error)),
        None => "-".to_owned(),
    }
}

/// The table of the series.
fn series(checked: &Checked) -> String {
    let header = [
        ("series", Align::Left),
        ("host", Align::Left),
        ("role", Align::Left),
        ("set from it", Align::Left),
        ("points", Align::Right),
        ("median error", Align::Right),
        ("worst", Align::Right),
        ("axis", Align::Left),
    ];
    let row = |series: &CheckedSeries| {
        let (points, median) = match series.refused {
            Some(_) => ("refused".to_owned(), "-".to_owned()),
            None => (answered(series), percent_or_none(series.median)),
        };
        vec![
            series.id.clone(),
            series.host.clone(),
            series.role.to_string(),
            if series.calibrated { "yes" } else { "no" }.to_owned(),
            points,
            median,
            worst(series),
            series.axis.clone(),
        ]
    };
    let rows = checked.series.iter().map(row).collect();
    format!("Measurements beside profile {}\n{}", checked.profile, table::columns(&header, rows))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| Digits(value, 3).to_string())
}

/// The table of the points of a series.
fn of_points(series: &CheckedSeries) -> String {
    let header = [
        (series.axis.as_str(), Align::Right),
        ("measured", Align::Right),
        ("model", Align::Right),
        ("limit", Align::Right),
        ("error", Align::Right),
    ];
    let row = |point: &CheckedPoint| {
        vec![
            point.x.to_string(),
            number(Some(point.measured)),
            number(point.model),
            number(point.limit),
            point.error.map_or_else(|| "-".to_owned(), signed),
        ]
    };
    let rows = series.points.iter().map(row).collect();
    let set: Vec<String> = series.set.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let set = if set.is_empty() { String::new() } else { format!(", with {}", set.join(" ")) };
    let title = format!("\n{}: {}, {}{set}\n", series.id, series.metric, series.unit);
    let choices = series.choices.iter().map(|choice| vec![choice.key.to_owned(), choice.taken.clone()]);
    let choices = table::prose(&[("", Align::Left), ("", Align::Left)], choices.collect());
    title + &table::columns(&header, rows) + "  Taken for keys that the series does not state:\n" + &choices
}

fn summary(checked: &Checked) -> String {
    let header = [
        ("role", Align::Left),
        ("series answered", Align::Right),
        ("refused", Align::Right),
        ("median error", Align::Right),
        ("hosts", Align::Right),
        ("median of hosts", Align::Right),
        ("worst point", Align::Right),
        ("points answered", Align::Right),
        ("refused", Align::Right),
    ];
    let row = |of: &Summary| {
        vec![
            of.role.clone().unwrap_or_else(|| "all".into()),
            of.answered.to_string(),
            of.refused.to_string(),
            percent_or_none(of.median),
            of.hosts.to_string(),
            percent_or_none(of.median_of_hosts),
            percent_or_none(of.worst),
            of.points.to_string(),
            of.refused_points.to_string(),
        ]
    };
    let rows = checked.summary.iter().map(row).collect();
    format!(
        "\nErrors, the model's value by the measured value less 1: medians of the series' medians\n{}",
        table::columns(&header, rows)
    )
}

/// Series without an answer.
fn refused(checked: &Checked) -> String {
    let of = |series: &CheckedSeries| Some(vec![series.id.clone(), series.refused.clone()?]);
    let rows: Vec<Vec<String>> = checked.series.iter().filter_map(of).collect();
    titled("Not answered", rows)
}

/// Points with a note, of series with answers. Points with equal notes share a line.
fn noted(title: &str, checked: &Checked, note: fn(&CheckedPoint) -> Option<&str>) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for series in checked.series.iter().filter(|series| series.refused.is_none()) {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for (x, why) in series.points.iter().filter_map(|point| Some((point.x, note(point)?))) {
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, points)) => points.push(x.to_string()),
                None => reasons.push((why, vec![x.to_string()])),
            }
        }
        let row = |(why, points): (&str, Vec<String>)| {
            vec![format!("{}, {} {}", series.id, series.axis, points.join(" ")), why.to_owned()]
        };
        rows.extend(reasons.into_iter().map(row));
    }
    titled(title, rows)
}

/// Choices, each with the number of series that it was made for.
fn choices(checked: &Checked) -> String {
    let answered = || checked.series.iter().filter(|series| series.refused.is_none());
    let mut counts: BTreeMap<&Choice, u64> = BTreeMap::new();
    answered().flat_map(|series| &series.choices).for_each(|choice| *counts.entry(choice).or_default() += 1);
    let row = |(choice, count): (&Choice, u64)| {
        vec![choice.key.to_owned(), choice.taken.clone(), counted_series(count)]
    };
    let rows: Vec<Vec<String>> = counts.into_iter().map(row).collect();
    titled("Keys that series do not state, or that the model lacks, and the values taken", rows)
}

fn counted_series(count: u64) -> String {
    format!("in {count} series")
}

/// Series of other NICs.
fn others(checked: &Checked) -> String {
    let row = |other: &doorbell_series::OtherSeries| {
        let profiles = match other.profiles.as_slice() {
            [] => "no profile".to_owned(),
            profiles => format!("--profile {}", profiles.join(" or ")),
        };
        vec![other.id.clone(), other.nic.clone(), profiles]
    };
    titled("Series of other NICs, not counted", checked.others.iter().map(row).collect())
}

fn titled(title: &str, rows: Vec<Vec<String>>) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let header = vec![("", Align::Left); first.len()];
    format!("\n{title}\n{}", table::prose(&header, rows))
}

fn missing(checked: &Checked) -> String {
    match checked.missing {
        0 => String::new(),
        missing => format!(
            "\nWithout a result: {}. If results are stored, the same command continues from here\n",
            counted(missing, "point")
        ),
    }
}
