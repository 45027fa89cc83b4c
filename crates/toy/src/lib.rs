//! A system and an experiment that follow the recipes of CONTRIBUTING.md. They use only Doorbell's public
//! interfaces, and no library of Doorbell depends on this crate.
//!
//! - [`ping`], a system, with its checks.
//! - `window`, an experiment, and its claims, which are in `claims.toml`.
//!
//! This file extends each of Doorbell's registers by one entry.
#![forbid(unsafe_code)]

pub mod ping;
mod window;

use doorbell_reproduce::Experiment;
use doorbell_reproduce::claims::{self, Claim};
use doorbell_systems::Visit;
use doorbell_systems_suite::Check;
use doorbell_verbs::Cluster;

/// Visits all systems, like [`doorbell_systems::visit_all`], and [`ping`].
pub fn visit_all(visitor: &mut impl Visit) {
    doorbell_systems::visit_all(visitor);
    visitor.visit::<ping::Ping>();
}

/// All checks of systems, like [`doorbell_systems_suite::checks`], and the checks of [`ping`].
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let mut all = doorbell_systems_suite::checks();
    all.extend(ping::checks());
    all
}

/// The experiments of this crate.
pub const EXPERIMENTS: &[&Experiment] = &[&window::EXPERIMENT];

/// The claims by which the experiments are judged. They are not from a paper.
///
/// # Panics
/// If the file is malformed. A test checks that it is not.
pub fn claims() -> Vec<Claim> {
    claims::parse("claims.toml", include_str!("../claims.toml"))
        .expect("a test checks that claims.toml is well-formed")
}
