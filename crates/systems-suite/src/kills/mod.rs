//! Clients that are killed, and the state that they share with clients that live.
//!
//! Each client is alone on a machine. Two clients live, and three are killed, each at a drawn point. When one
//! of the first two of these is dead, a new client starts, with a number of its own. It cannot take over the
//! killed client's number, because the server keeps its end of that client's QP. The client that checks the
//! result in the end runs on the server's machine.
//!
//! In virtual time, a killed client stops for ever ([`crate::kill::KillWay::Stops`]), or loses its QPs as
//! well. With a process for each machine, SIGKILL kills it ([`crate::kill::KillWay::Process`]). [`checks`]
//! are for processes, and need a program that sends the signal.

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
