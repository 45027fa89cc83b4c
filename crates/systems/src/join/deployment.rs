//! Deployment of a join.

use super::config::Join;
use super::map::Map;
use super::protocol::{JoinClient, Memories};
use crate::config::{Clients, LLC, Timing};
use crate::shuffle::{Full, Inboxes, Placement, put_up_inboxes};
use crate::site::{Dress, Site, SiteError};
use crate::strategy::Chosen;
use crate::{Measured, System, SystemShape};
use doorbell_schema::{Duration, Given};
use doorbell_verbs::{Cluster, Mem, Span};

/// Bytes of sequentially accessed memory that caches hold: the lines that a core used last.
const KEPT: u64 = 4096;

impl System for Join {
    const NAME: &'static str = "join";
    const ABOUT: &'static str = "Executors that join two relations: they shuffle both relations, then each \
                                 executor builds a hash map and probes it; the server takes no part";

    /// As in the paper's Figure 16: 16 million tuples of each relation, and four executors on two machines.
    /// Only a sample of these tuples is joined. The paper does not state the size of a tuple. Here a tuple is
    /// a key and a payload of 8 bytes each, as in the joins that the paper cites (its reference 6).
    fn usual() -> Join {
        Join {
            clients: Clients::new(4, 2, 4, false),
            timing: Timing::USUAL,
            bytes: None,
            tuples: 1 << 16,
            real_tuples: 16_000_000,
            cache_bytes: LLC,
            strategy: Chosen::Sgl,
            batch_entries: 16,
            inline_bytes: 0,
            entry: 16,
            segment: 1024,
            full: Full::Block,
            keys: 1 << 16,
            zipf: false,
            sockets: 2,
            cores_per_socket: 8,
            placement: Placement::Own,
            give_up: Duration::new(Span::from_ms(5_000)),
        }
    }

    /// With `bytes`, the number of tuples follows, and these tuples are no sample. Unless the number of keys
    /// is given, each inner tuple has a key of its own.
    fn settle(&mut self, given: &Given) {
        let all = self.table_tuples().filter(|all| *all > 0);
        if let (Some(all), None) = (all, given.get(Join::tuples.key)) {
            self.tuples = all;
        }
        if self.bytes.is_some() && given.get(Join::real_tuples.key).is_none() {
            self.real_tuples = self.tuples;
        }
        if given.get(Join::keys.key).is_none() {
            self.keys = self.tuples;
        }
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn shape(&self) -> SystemShape {
        let post = u64::from(self.batch_entries) * u64::from(self.entry);
        let warmed_bytes = post * u64::from(self.clients.outstanding) * u64::from(self.clients.clients);
        SystemShape {
            // The memory of all executors; the server has none.
            store_bytes: self.memory(),
            warmed_bytes,
            inline_bytes: Some(self.inline_bytes),
            sockets: Some((self.sockets, self.cores_per_socket)),
            moved_bytes: Some(self.entry.into()),
            competes: self.zipf,
            latency_of: Some(
                "a join of all tuples of both relations. An executor may begin the next join before other \
                 executors end theirs. The rate counts tuples. All joins of a run have equal relations, \
                 drawn with --seed",
            ),
            ..SystemShape::of(&self.clients)
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let Some(strategy) = self.strategy.strategy() else {
            return Err(SiteError::Said("strategy is auto, but only vector-io has auto".into()));
        };
        let plan = self.plan(strategy);
        let inboxes = put_up_inboxes(site, &plan, self.memory_of_executors())?;
        for number in 0..plan.executors {
            let memories = self.put_up_memories(site, number)?;
            let (join, inboxes, interval) = (self.clone(), inboxes.clone(), site.client_interval());
            let client = JoinClient { number, join, plan, inboxes, memories, interval };
            site.add_client(self.seats().place(number), client);
        }
        Ok(())
    }
}

impl Join {
    fn memory_of_executors(&self) -> Inboxes {
        Inboxes { seats: self.seats(), placement: self.placement }
    }

    /// Allocates the memory of an executor, and writes its part of the relations.
    fn put_up_memories<C: Cluster, D: Dress>(
        &self,
        site: &mut Site<'_, C, Measured, D>,
        number: u32,
    ) -> Result<Memories, SiteError> {
        let machine = self.seats().place(number).0;
        let entry = u64::from(self.entry);
        let relations = self.kept(site, number, self.relation_bytes(number), KEPT)?;
        let tuples = self.inner(number).chain(self.outer(number));
        site.cluster().preset(machine, relations, |bytes| {
            for (to, tuple) in bytes.chunks_exact_mut(entry as usize).zip(tuples) {
                to[..16].copy_from_slice(&tuple.to_bytes());
            }
        });
        let room = self.room();
        let inner = self.kept(site, number, room * entry, KEPT)?;
        let outer = self.kept(site, number, room * entry, KEPT)?;
        let map = self.kept(site, number, Map::bytes(room), self.cached().max(KEPT))?;
        Ok(Memories { relations, partitions: [inner, outer], map: (map, room) })
    }

    /// Allocates memory of an executor. Caches hold `cached` bytes of it.
    fn kept<C: Cluster, D: Dress>(
        &self,
        site: &mut Site<'_, C, Measured, D>,
        number: u32,
        bytes: u64,
        cached: u64,
    ) -> Result<Mem, SiteError> {
        let mem = self.memory_of_executors().alloc(site, number, bytes)?;
        site.cluster().limit_cached(self.seats().place(number).0, mem, cached);
        Ok(mem)
    }
}
