//! High percentiles in the text report.

use crate::exit;
use crate::extrapolation::Told;
use crate::report::percentile;
use doorbell_lab::{Longer, Outcome, Until};

/// Text of a percentile. If the run has latencies, but too few for this percentile, the text states their
/// number. It has the command that measures enough of them, if there is one.
pub(super) fn tail(
    told: &Told<'_, Outcome>,
    until: Until,
    value: Option<u64>,
    interval: Option<(u64, u64)>,
) -> String {
    let o = told.result;
    if value.is_some() || o.latency_ns.mean.is_none() {
        return percentile(value, interval);
    }
    let latencies = format!("{} of {} latencies", o.latency_ns.count, Longer::needed(until));
    match longer(told, until) {
        Some(command) => format!("- ({latencies}; measured by: {command})"),
        None => format!("- ({latencies} in {})", exit::in_words(o.measured.duration)),
    }
}

/// The command for a run that is long enough for this percentile.
fn longer(told: &Told<'_, Outcome>, until: Until) -> Option<String> {
    let longer = Longer::of(told.result, until)?;
    let command = told.typed?.longer(&longer)?.command();
    let max_wall = longer.max_wall.map(|wall| format!(" --max-wall {wall}")).unwrap_or_default();
    Some(command + &max_wall)
}
