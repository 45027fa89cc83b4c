//! The parameters that front-ends use while they run.

use super::config::Hashtable;
use crate::spinlock::Waits;
use doorbell_verbs::Span;

/// Parameters of the table in units of the provider.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) theta: u32,
    pub(super) time_out: Span,
    pub(super) lease: Span,
    pub(super) drift: Span,
    pub(super) guard: bool,
    pub(super) waits: Waits,
}

impl Terms {
    pub(super) fn of(config: &Hashtable) -> Terms {
        Terms {
            theta: config.theta,
            time_out: config.time_out.span(),
            lease: config.table_lease.span(),
            drift: config.drift.span(),
            guard: config.guard,
            waits: config.waits(),
        }
    }
}
