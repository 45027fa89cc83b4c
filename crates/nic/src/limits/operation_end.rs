//! The machines at one end of an operation.

use crate::Profile;
use crate::cost::Costs;

/// The profile and the costs of the machines at one end of an operation.
pub(super) struct OperationEnd<'a> {
    pub(super) profile: &'a Profile,
    pub(super) costs: Costs,
}

impl<'a> OperationEnd<'a> {
    pub(super) fn of(profile: &'a Profile) -> OperationEnd<'a> {
        OperationEnd { profile, costs: Costs::new(profile) }
    }
}
