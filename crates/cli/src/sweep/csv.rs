//! A sweep as comma-separated values. The format is RFC 4180, but lines end in a line feed.

use doorbell_lab::sweep::{Point, Sweep};

/// A header, and a line for each point.
pub(super) fn of(sweep: &Sweep) -> String {
    let options = sweep.over.iter().map(|axis| axis.option.as_str());
    let found = ["mops", "mops_half", "mean_ns", "mean_ns_half", "p50_ns", "p99_ns", "p999_ns", "dropped"];
    let header = options.chain(found).chain(["bottleneck", "unsettled", "not_confirmed"]);
    let mut text = line(header.map(str::to_owned));
    for point in &sweep.points {
        let options = sweep.over.iter().map(|axis| point.value(&axis.option));
        text += &line(options.chain(cells(point)));
    }
    text
}

/// Cells of a point. The cell of an unknown value is empty. The last cell says whether the bottleneck is only
/// likely.
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
        if point.found.bottleneck.not_confirmed { "true".to_owned() } else { String::new() },
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
