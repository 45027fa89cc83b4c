//! The server of a store over HERD's RPCs. Its partitions are filled before it starts.

use super::protocol::HerdKvServer;
use crate::config::Scale;
use crate::herd::Requests;
use crate::kv::{Filled, Layout, Load, fill};
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, SystemError, herd};
use doorbell_verbs::{Cluster, Mem, RunError};

/// A core has at least this many bytes in its own caches: 128 lines.
const OWN_CACHE: u64 = 8 << 10;

/// A store's server.
pub(crate) struct StoreServer {
    pub(crate) config: herd::Config,
    /// The operations of clients, on all partitions.
    pub(crate) load: Load,
    /// Average number of pairs in a partition.
    pub(crate) partition: u64,
    pub(crate) scale: Scale,
    /// Number of clients that READ the tables.
    pub(crate) readers: u32,
}

impl StoreServer {
    /// The layout of a partition. The hash of a key determines its partition, so partitions have nearly equal
    /// numbers of pairs. There is room for six standard deviations above the mean, and for the unevenness of
    /// a hash of 16 bits.
    pub(crate) fn layout(&self) -> Layout {
        let pairs = self.partition;
        let room = 6 * pairs.isqrt() + pairs / 4096 + 16;
        Layout::for_pairs(pairs + room, self.load.value)
    }

    /// Bytes of all partitions.
    pub(crate) fn store_bytes(&self) -> u64 {
        self.layout().bytes() * u64::from(self.config.workers)
    }

    /// Bytes of the longest UD message: a reply with a value if GETs go by RPC, or a PUT that is SENT.
    pub(crate) fn datagram(&self) -> u32 {
        let (config, puts) = (&self.config, self.load.put_permille);
        let reply = if self.readers == 0 && puts < 1000 { config.max_reply } else { 0 };
        let request = if config.requests == Requests::SendUd && puts > 0 { config.max_request } else { 0 };
        reply.max(request)
    }

    /// Fills the partitions. Two threads fill half of them each.
    #[expect(clippy::disallowed_methods, reason = "partitions are filled before the run")]
    fn fill(
        &self,
        tables: &mut [u8],
        stopped: &(impl Fn() -> bool + Sync),
    ) -> Result<Vec<Filled>, SystemError> {
        let (layout, workers, load) = (self.layout(), self.config.workers, self.load);
        let mut parts: Vec<&mut [u8]> = tables.chunks_exact_mut(layout.bytes() as usize).collect();
        let others = parts.split_off(parts.len().div_ceil(2));
        let second = parts.len() as u32;
        std::thread::scope(|scope| {
            let others =
                scope.spawn(|| fill(others, second, workers, layout, load.pairs, load.value, stopped));
            let mut all = fill(parts, 0, workers, layout, load.pairs, load.value, stopped)?;
            all.extend(others.join().expect("filling does not panic")?);
            Ok(all)
        })
    }

    /// Sets up the memory and adds the server's threads.
    pub(crate) fn deploy<C: Cluster, D: Dress>(
        &self,
        site: &mut Site<'_, C, Measured, D>,
    ) -> Result<(), SiteError> {
        let region = site.alloc(self.config.region_bytes())?;
        let tables: Mem = site.alloc(self.store_bytes())?;
        let stopped = site.cluster().stopped();
        let filled = match site.cluster().preset(0, tables, |bytes| self.fill(bytes, &stopped)) {
            Some(Err(SystemError::Interrupted)) => return Err(RunError::Interrupted.into()),
            Some(Err(cause)) => return Err(SiteError::Thread { machine: 0, thread: 0, cause }),
            Some(Ok(filled)) => filled,
            // The memory belongs to another process, which fills it.
            None => Vec::new(),
        };
        // The lines that a batch touches stay in the core's own caches, even if almost nothing else is
        // cached.
        let own = OWN_CACHE * u64::from(self.config.workers);
        site.cluster().limit_cached(0, tables, self.scale.cached(self.partition).max(own));
        let interval = site.server_interval();
        for number in 0..self.config.workers {
            site.add_server(HerdKvServer {
                config: self.config.clone(),
                number,
                region,
                tables,
                layout: self.layout(),
                pairs: self.load.pairs,
                value: self.load.value,
                filled: filled.get(number as usize).copied(),
                prefetch: true,
                readers: self.readers,
                interval: interval.clone(),
            });
        }
        Ok(())
    }
}
