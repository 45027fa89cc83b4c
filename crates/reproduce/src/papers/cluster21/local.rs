//! One thread that loads or stores its machine's own memory, as Table II and Figure 6c have it.

use super::cluster::CLUSTER;
use crate::experiment::Ctx;
use doorbell_lab::NotYet;
use doorbell_lab::SystemWorkload;
use doorbell_systems::System;
use doorbell_systems::config::Timing;
use doorbell_systems::local_memory::{Addresses, LocalMemory, Op};
use doorbell_verbs::Span;

/// The paper's region of the other parts of Figure 6.
const REGION: u64 = 2 << 30;
/// Bytes of a line: the payload where the paper does not state one.
pub(super) const LINE: u32 = 64;

/// The socket at which the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The thread's.
    Own,
    /// Another.
    Other,
}

/// How memory is gone over.
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

/// Millions of operations a second of each.
pub(super) fn rates(ctx: &Ctx<'_>, what: &str, walks: &[Walk]) -> Result<Vec<f64>, NotYet> {
    let cores = ctx.profile(CLUSTER).host.cores;
    let all: Vec<_> = walks.iter().map(|walk| walk.system(cores)).collect();
    Ok(ctx.systems(CLUSTER, what, &all)?.iter().map(|o| o.mops).collect())
}
