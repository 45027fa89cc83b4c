//! A sweep as comma-separated values. The format is RFC 4180, but lines end in a line feed.

use super::layout::SweepLayout;
use doorbell_lab::Loaded;
use doorbell_lab::sweep::Point;

/// A line for each point of a sweep with these columns, after a header if `has_header` is set.
pub(super) fn lines<'a>(
    layout: &SweepLayout,
    has_header: bool,
    points: impl IntoIterator<Item = &'a Point>,
) -> String {
    let mut text = if has_header { header(layout) } else { String::new() };
    for point in points {
        let options = layout.over.iter().map(|axis| point.value(&axis.option));
        let loads = layout.has_loads.then(|| of_load(point)).into_iter().flatten();
        text += &line(options.chain(cells(point)).chain(loads));
    }
    text
}

fn header(layout: &SweepLayout) -> String {
    let options = layout.over.iter().map(|axis| axis.option.as_str());
    let found = ["mops", "mops_half", "mean_ns", "mean_ns_half", "p50_ns", "p99_ns", "p999_ns", "dropped"];
    let header = options.chain(found).chain(["bottleneck", "unsettled", "qps_per_nic", "not_confirmed"]);
    // Without a load, the columns about it would be empty.
    let loads = layout.has_loads.then_some(OF_LOAD).into_iter().flatten();
    line(header.chain(loads).map(str::to_owned))
}

/// Columns about a load: its rate per second, and the capacity with its half-width and the doubt about it.
const OF_LOAD: [&str; 4] = ["rate", "capacity_mops", "capacity_mops_half", "capacity_unsettled"];

/// Cells about the load of a point.
fn of_load(point: &Point) -> [String; 4] {
    let Some(Loaded { rate, capacity, .. }) = &point.load else { return <[String; 4]>::default() };
    let half = capacity.half.map_or(String::new(), |half| half.to_string());
    let unsettled = capacity.unsettled.clone().unwrap_or_default();
    [rate.to_string(), capacity.mops.to_string(), half, unsettled]
}

/// Cells of a point. The cell of an unknown value is empty. The last cell says whether the bottleneck is only
/// likely.
fn cells(point: &Point) -> [String; 12] {
    let number = |number: Option<f64>| number.map_or(String::new(), |n| n.to_string());
    let whole = |number: Option<u64>| number.map_or(String::new(), |n| n.to_string());
    let (interval, latency) = (&point.found.interval, &point.found.latency_ns);
    let is_likely = point.found.cut_short || point.found.bottleneck.not_confirmed;
    [
        point.found.mops.to_string(),
        number(interval.mops),
        number(latency.mean),
        number(interval.latency_ns),
        whole(latency.p50),
        whole(latency.p99),
        whole(latency.p999),
        point.found.dropped.to_string(),
        point.found.bottleneck.class_name().to_owned(),
        interval.unsettled.clone().unwrap_or_default(),
        whole(point.qps_per_nic),
        if is_likely { "true".to_owned() } else { String::new() },
    ]
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(quoted).collect();
    cells.join(",") + "\n"
}

/// Puts a cell in quotes if it contains a delimiter.
fn quoted(cell: String) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_ends_a_cell_is_quoted() {
        let cells = ["a", "b,c", "\"d\""].map(str::to_owned);
        assert_eq!(super::line(cells.into_iter()), "a,\"b,c\",\"\"\"d\"\"\"\n");
    }
}
