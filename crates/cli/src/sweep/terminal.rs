//! A sweep as bars in a terminal.

use super::names::name;
use doorbell_lab::sweep::{Point, Sweep};
use doorbell_nic::Digits;
use std::fmt::Write;

/// Characters of the longest bar.
const WIDTH: f64 = 50.0;

/// Blocks that are zero to seven eighths of a character wide.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar with this share of the longest bar's length.
fn bar(share: f64) -> String {
    let eighths = (share * WIDTH * 8.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn bars(sweep: &Sweep, title: &str, measure: impl Fn(&Point) -> Option<f64>) -> String {
    let mut text = format!("{title}\n");
    let most = sweep.points.iter().filter_map(&measure).fold(0.0, f64::max);
    let width = sweep.points.iter().map(|point| name(sweep, point).chars().count()).max().unwrap_or(0);
    for point in &sweep.points {
        let (bar, value) = match measure(point) {
            Some(value) if most > 0.0 => (bar(value / most), Digits(value, 2).to_string()),
            Some(value) => (String::new(), Digits(value, 2).to_string()),
            None => (String::new(), "-".to_owned()),
        };
        let _ = writeln!(text, "  {:<width$}  {bar} {value}", name(sweep, point));
    }
    text
}

/// Bars of the rate, then bars of p99.
pub(super) fn plot(sweep: &Sweep) -> String {
    let p99 = |point: &Point| point.found.latency_ns.p99.map(|ns| ns as f64 / 1e3);
    bars(sweep, "Mops", |point| Some(point.found.mops)) + "\n" + &bars(sweep, "p99, us", p99)
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(1.0).chars().count(), 50);
        assert_eq!(bar(0.5).chars().count(), 25);
        assert_eq!((bar(0.0), bar(0.0025)), (String::new(), "▏".to_owned()));
    }
}
