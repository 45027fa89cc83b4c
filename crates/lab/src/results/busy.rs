//! When a part counts as busy.

use super::uses::Utilization;

/// A resource that is busy for at least this share of the time may limit the rate. If no resource is so busy,
/// latency limits the rate.
pub(crate) const BUSY: f64 = 0.8;

/// The busiest resource.
pub(crate) fn top<'a>(resources: impl Iterator<Item = &'a Utilization>) -> Option<&'a Utilization> {
    resources.max_by(|a, b| a.utilization.total_cmp(&b.utilization))
}
