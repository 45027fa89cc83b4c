//! A system and an experiment that follow the recipes of CONTRIBUTING.md, in a crate of their own. No crate
//! of Doorbell refers to them: Doorbell's public interfaces are enough to make them.
//!
//! - [`ping`], a system, with its checks.
//! - `window`, an experiment, and its claims, which are in `claims.toml`.
//!
//! This file has their entries in the registers: Doorbell's registers with one entry more.
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

/// The claims by which the experiments are judged. No paper makes them.
///
/// # Panics
/// If the file is malformed. A test checks that it is not.
pub fn claims() -> Vec<Claim> {
    claims::parse("claims.toml", include_str!("../claims.toml"))
        .expect("a test checks that claims.toml is well-formed")
}
