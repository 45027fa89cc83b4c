//! The distribution of latencies, as files: a histogram as comma-separated values, and a plot.

use crate::exit::{self, Exit};
use crate::output::Output;
use crate::plot::{DrawnCurve, Figure};
use doorbell_lab::Quantile;
use doorbell_reproduce::Curve;
use std::fmt::Write;

/// Writes a histogram. Without latencies, the file stays as it is, and a message says so.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write_histogram(file: Output, counts: &[(u64, u64)]) -> Result<(), Exit> {
    if counts.is_empty() {
        not_written(&file, "there is no latency");
        return Ok(());
    }
    file.fill(&csv(counts))
}

/// Draws distributions. Without quantiles, the file stays as it is, and a message says so.
///
/// # Errors
/// If the drawing fails, or the file cannot be written.
pub(crate) fn draw<'a>(
    file: Output,
    named: impl Iterator<Item = (String, &'a [Quantile])>,
) -> Result<(), Exit> {
    match svg(named)? {
        Some(svg) => file.fill(&svg),
        None => {
            not_written(&file, "no quantile has 100 latencies on each side");
            Ok(())
        }
    }
}

fn not_written(file: &Output, why: &str) {
    exit::say_message(&format!("{why}, so {} is not written", file.path().display()));
}

/// A histogram as comma-separated values: latencies in nanoseconds, the operations of each, and the share of
/// all operations that took at most as long.
fn csv(counts: &[(u64, u64)]) -> String {
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let (mut text, mut before) = ("latency_ns,operations,share\n".to_owned(), 0);
    for (ns, count) in counts {
        before += count;
        let _ = writeln!(text, "{ns},{count},{}", before as f64 / all as f64);
    }
    text
}

/// Curves of distributions, each with its name: the share of latencies over the latency. Empty distributions
/// have no curve.
pub(crate) fn curves<'a>(named: impl Iterator<Item = (String, &'a [Quantile])>) -> Vec<Curve> {
    let curve = |(name, quantiles): (String, &[Quantile])| Curve {
        experiment: String::new(),
        name,
        profile: String::new(),
        x: "latency, us".to_owned(),
        y: "share of latencies".to_owned(),
        points: quantiles.iter().map(|q| (q.ns as f64 / 1e3, q.share)).collect(),
    };
    named.filter(|(_, quantiles)| !quantiles.is_empty()).map(curve).collect()
}

/// An SVG of distributions; `None` if no distribution has a quantile.
fn svg<'a>(named: impl Iterator<Item = (String, &'a [Quantile])>) -> Result<Option<String>, Exit> {
    let curves = curves(named);
    let title = "Distribution of latency".to_owned();
    let curves = curves.iter().map(DrawnCurve::from).collect();
    Figure { title, claims: Vec::new(), curves }.svg().map_err(Exit::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_one() {
        assert_eq!(csv(&[(7, 1), (9, 3)]), "latency_ns,operations,share\n7,1,0.25\n9,3,1\n");
        assert_eq!(csv(&[]), "latency_ns,operations,share\n");
    }

    #[test]
    fn a_distribution_without_quantiles_is_not_drawn() {
        let known = [Quantile { share: 0.5, ns: 2000 }, Quantile { share: 0.9, ns: 3500 }];
        let named = [("a".to_owned(), &known[..]), ("b".to_owned(), &[][..])];
        let drawn = curves(named.into_iter());
        assert_eq!(drawn.len(), 1);
        assert_eq!(drawn[0].points, [(2.0, 0.5), (3.5, 0.9)]);
        assert!(svg([("b".to_owned(), &[][..])].into_iter()).is_ok_and(|svg| svg.is_none()));
    }
}
