//! What becomes of clients that are killed, and of what they share with those that live.
//!
//! Each client is alone on a machine. Two live; three are killed, each at a drawn point; for each of the first two of these one with a number of its own comes once
//! it is gone: the server keeps its end of a QP of a client that is gone, so nobody comes back by that. Who looks in the end is on the server's machine.
//!
//! Where time is virtual a client that is killed stops for ever ([`crate::kill::KillWay::Stops`]), or loses its QPs as well. With a process for each machine it is killed by
//! SIGKILL ([`crate::kill::KillWay::Process`]); that is what [`checks`] are for, which need somebody who does it.

mod common;
pub mod engines;
pub mod executors;
pub mod locks;
pub mod machines;
pub mod proxies;
pub mod readers;
mod roles;
pub mod tables;
pub mod writers;

pub use common::{MACHINES, RETRIES, UNDER_WAY};
pub use roles::{KillRole, roles};

use crate::check::Check;
use doorbell_verbs::Cluster;

/// Checks with a process for each machine, some of which are killed.
pub fn checks<C: Cluster + 'static>() -> Vec<Check<C>> {
    let mut all = locks::checks();
    all.extend(writers::checks());
    all.extend(proxies::checks());
    all.extend(roles().iter().map(|role| role.check(1)));
    all
}
