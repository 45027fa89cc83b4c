//! One thread that loads or stores memory of its own machine, as in Table II and Figure 6c.

use super::cluster::CLUSTER;
use crate::experiment::Ctx;
use doorbell_lab::NotYet;
use doorbell_lab::SystemWorkload;
use doorbell_systems::System;
use doorbell_systems::config::Timing;
use doorbell_systems::local_memory::{Addresses, LocalMemory, Op};
use doorbell_verbs::Span;

/// Bytes of the region, as in the other parts of Figure 6.
const REGION: u64 = 2 << 30;
/// Bytes of a line, used as payload if the paper does not state one.
pub(super) const LINE: u32 = 64;

/// Socket of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The thread's socket.
    Own,
    /// Another socket.
    Other,
}

/// A stream of accesses to memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    pub op: Op,
    pub addresses: Addresses,
    pub home: Home,
    pub size: u32,
}

impl Walk {
    fn system(self, cores: u32) -> SystemWorkload {
        let Walk { op, addresses, home, size } = self;
        let memory_core = if home == Home::Own { 0 } else { cores };
        let timing = Timing::of(Span::from_us(20), Span::from_us(300));
        LocalMemory { timing, op, size, addresses, region: REGION, memory_core, ..LocalMemory::usual() }
            .into()
    }
}

/// Rate of each stream in millions of operations per second.
pub(super) fn rates(ctx: &Ctx<'_>, what: &str, walks: &[Walk]) -> Result<Vec<f64>, NotYet> {
    let cores = ctx.profile(CLUSTER).host.cores;
    let all: Vec<_> = walks.iter().map(|walk| walk.system(cores)).collect();
    Ok(ctx.systems(CLUSTER, what, &all)?.iter().map(|o| o.mops).collect())
}
