//! Deployment of the system that uses a machine's own memory.

use super::config::{Addresses, LocalMemory, Op};
use super::pieces::Pieces;
use super::protocol::LocalMemoryClient;
use crate::config::{OneByOne, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape};
use doorbell_verbs::Cluster;

/// The machine of all threads: the first machine that has clients.
pub const MACHINE: u32 = 1;

/// Memory of this computer for a region in virtual time. A region of up to `WHOLE` bytes may need all its
/// bytes. A larger region needs memory where it is touched, and one byte for each `NUMBERED` bytes.
const WHOLE: u64 = 1 << 27;
const NUMBERED: u64 = 16;

/// Bytes of a region that stay cached if the host's caches have no sizes: the lines that a core used last.
const KEPT: u64 = 4096;

/// A region of this many bytes exceeds the caches of any processor.
const BEYOND_CACHES: u64 = 64 << 20;

impl System for LocalMemory {
    const NAME: &'static str = "local-memory";
    const ABOUT: &'static str =
        "Loads or stores in a machine's own memory, piece by piece; the server takes no part";

    /// One thread reads memory of its socket line by line, as Intel's Memory Latency Checker does.
    fn usual() -> LocalMemory {
        LocalMemory {
            clients: OneByOne::new(1, 1),
            timing: Timing::USUAL,
            op: Op::Read,
            size: 64,
            addresses: Addresses::Sequential,
            region: 256 << 20,
            memory_core: 0,
        }
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn shape(&self) -> SystemShape {
        // The memory is on the clients' machine, not on the server.
        let each = if self.region <= WHOLE { self.region } else { WHOLE + self.region / NUMBERED };
        let store_bytes = each * u64::from(self.clients.clients().clients);
        let small = self.region < BEYOND_CACHES;
        let needs_sizes = small
            .then(|| ("region", format!("{}, small enough for caches (below {BEYOND_CACHES})", self.region)));
        SystemShape {
            cores: vec![(LocalMemory::memory_core.key, self.memory_core)],
            store_bytes,
            latency_of: Some("an operation; on a device, this includes reading the clock"),
            needs_sizes,
            one_machine: true,
            moved_bytes: Some(self.size.into()),
            ..SystemShape::of(self.clients.clients())
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let LocalMemory { op, size, addresses, region, memory_core, .. } = *self;
        let touch = !site.cluster().is_virtual();
        for number in 0..self.clients.clients().clients {
            let memory = site.alloc_near((MACHINE, memory_core), region)?;
            site.cluster().limit_cached(MACHINE, memory, KEPT);
            let pieces = Pieces::new(addresses, size, region, (self.timing.seed, number));
            let (interval, limit) = (site.client_interval(), 0);
            site.add_client(
                (MACHINE, number),
                LocalMemoryClient { op, size, pieces, region: memory, touch, limit, interval },
            );
        }
        Ok(())
    }
}
