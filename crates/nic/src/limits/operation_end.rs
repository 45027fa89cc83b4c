//! What the machines of one end of an operation are like.

use crate::Profile;
use crate::cost::Costs;

/// What the machines of one end of an operation are like.
pub(super) struct OperationEnd<'a> {
    pub(super) profile: &'a Profile,
    pub(super) costs: Costs,
}

impl<'a> OperationEnd<'a> {
    pub(super) fn of(profile: &'a Profile) -> OperationEnd<'a> {
        OperationEnd { profile, costs: Costs::new(profile) }
    }
}
