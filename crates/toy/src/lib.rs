//! A system and an experiment that follow the recipes of CONTRIBUTING.md, in a crate of their own: nothing of
//! Doorbell knows of them, and what is public there is enough to make them.
//!
//! - [`ping`], a system, with its checks.
//! - `window`, an experiment, and its claims, which are in `claims.toml`.
//!
//! This file has their lines in the registers, which are those of Doorbell with one more.
#![forbid(unsafe_code)]

pub mod ping;
mod window;

use doorbell_reproduce::Experiment;
use doorbell_reproduce::claims::{self, Claim};
use doorbell_systems::Visit;
use doorbell_systems_suite::Check;
use doorbell_verbs::Cluster;

/// Shows all systems, as [`doorbell_systems::visit_all`].
pub fn visit_all(visitor: &mut impl Visit) {
    doorbell_systems::visit_all(visitor);
    visitor.visit::<ping::Ping>();
}

/// All checks of systems, as [`doorbell_systems_suite::checks`].
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let mut all = doorbell_systems_suite::checks();
    all.extend(ping::checks());
    all
}

/// The experiments.
pub const EXPERIMENTS: &[&Experiment] = &[&window::EXPERIMENT];

/// What they are judged by: claims that no paper makes.
///
/// # Panics
/// If the file is malformed; a test sees to it that it is not.
pub fn claims() -> Vec<Claim> {
    claims::parse("claims.toml", include_str!("../claims.toml")).expect("claims.toml is tested")
}
