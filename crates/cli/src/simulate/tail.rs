//! High percentiles in the text report.

use crate::extrapolation::Told;
use crate::report::percentile;
use doorbell_lab::{Outcome, Until};

/// Text of a percentile. If the run has latencies, but too few for this percentile, the text has the command
/// that measures enough of them.
pub(super) fn tail(
    told: &Told<'_, Outcome>,
    until: Until,
    value: Option<u64>,
    interval: Option<(u64, u64)>,
) -> String {
    if value.is_some() || told.result.latency_ns.mean.is_none() {
        return percentile(value, interval);
    }
    match told.typed.and_then(|typed| typed.until(until)) {
        Some(longer) => format!("- (measured by: {})", longer.command()),
        None => "- (needs a longer duration)".to_owned(),
    }
}
