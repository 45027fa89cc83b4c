//! A sweep as comma-separated values. The format is RFC 4180, but lines end in a line feed.

use doorbell_lab::sweep::{Axis, Point, Sweep};

/// A header, and a line for each point.
pub(super) fn of(sweep: &Sweep) -> String {
    lines(&sweep.over, true, &sweep.points)
}

/// A line for each point of a sweep over these options, after a header if `has_header` is set.
pub(super) fn lines<'a>(
    over: &[Axis],
    has_header: bool,
    points: impl IntoIterator<Item = &'a Point>,
) -> String {
    let mut text = if has_header { header(over) } else { String::new() };
    for point in points {
        let options = over.iter().map(|axis| point.value(&axis.option));
        text += &line(options.chain(cells(point)));
    }
    text
}

fn header(over: &[Axis]) -> String {
    let options = over.iter().map(|axis| axis.option.as_str());
    let found = ["mops", "mops_half", "mean_ns", "mean_ns_half", "p50_ns", "p99_ns", "p999_ns", "dropped"];
    let header = options.chain(found).chain(["bottleneck", "unsettled", "qps_per_nic"]);
    line(header.map(str::to_owned))
}

/// Cells of a point. The cell of an unknown value is empty.
fn cells(point: &Point) -> [String; 11] {
    let number = |number: Option<f64>| number.map_or(String::new(), |n| n.to_string());
    let whole = |number: Option<u64>| number.map_or(String::new(), |n| n.to_string());
    let (interval, latency) = (&point.found.interval, &point.found.latency_ns);
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
