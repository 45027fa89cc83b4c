//! The hash map of an executor. Its memory accesses cost time by the cache line.

use super::tuples::Tuple;
use crate::shuffle::hash;
use crate::{SystemError, work};
use doorbell_verbs::{Mem, PageSize, Provider};

/// Bytes of a bucket: its lock, and a link to its first node.
const BUCKET: u64 = 16;
/// Bytes of a node: a key, a payload, and a link to the next node. Two nodes are in a line.
const NODE: u64 = 32;

/// The result of a join, or an executor's part of it: the sum of all parts is the whole result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// The number of pairs.
    pub pairs: u64,
    /// The sum of the pairs' hashes, modulo 2^64.
    pub checksum: u64,
}

impl Joined {
    /// Adds the pair of an inner and an outer payload with this key.
    pub fn add(&mut self, key: u64, inner: u64, outer: u64) {
        self.pairs += 1;
        self.checksum = self.checksum.wrapping_add(hash(hash(hash(key) ^ inner) ^ outer));
    }
}

/// A map from keys to payloads. A key may have several payloads. The map is built again for each join. Nodes
/// of old buildings stay in memory. Each link has the number of its building, so old links are recognised.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    buckets: Mem,
    nodes: Mem,
    /// Number of buckets in use: a power of two.
    used: u64,
    /// Number of nodes of this building.
    len: u64,
    /// Number of this building, from 1, below 2^32.
    building: u64,
}

/// Number of buckets for `tuples` tuples: at least one for each, and less than two for each.
fn buckets(tuples: u64) -> u64 {
    tuples.max(1).next_power_of_two()
}

impl Map {
    /// Bytes of a map for `tuples` tuples.
    pub fn bytes(tuples: u64) -> u64 {
        buckets(tuples) * BUCKET + tuples.max(1) * NODE
    }

    /// An empty map in zeroed memory of [`Map::bytes`]`(tuples)` bytes.
    pub fn new(memory: Mem, tuples: u64) -> Map {
        let size = buckets(tuples) * BUCKET;
        let nodes = memory.slice(size, memory.len() - size);
        Map { buckets: memory.slice(0, size), nodes, used: 1, len: 0, building: 0 }
    }

    /// Empties the map, and makes room for `tuples` tuples.
    ///
    /// # Errors
    /// If there is not enough memory, or there have been 2^32 buildings.
    pub fn begin<P: Provider>(&mut self, cpu: &P, tuples: u64) -> Result<(), SystemError> {
        if buckets(tuples) * BUCKET > self.buckets.len() || tuples * NODE > self.nodes.len() {
            let building = self.building;
            *self = Map::new(cpu.alloc(Map::bytes(tuples), PageSize::Huge)?, tuples);
            self.building = building;
        }
        (self.used, self.len, self.building) = (buckets(tuples), 0, self.building + 1);
        match self.building >> 32 {
            0 => Ok(()),
            _ => Err(SystemError::Protocol("a hash map was built 2^32 times".into())),
        }
    }

    /// Acquires the lock of a key's bucket. Returns the bucket's offset, and the offset of its first node if
    /// it has one.
    fn lock<P: Provider>(&self, cpu: &P, key: u64) -> Result<(u64, Option<u64>), SystemError> {
        cpu.work(work::INDEX);
        // These are the low bits, because the shuffle uses the upper bits.
        let bucket = (hash(key) & (self.used - 1)) * BUCKET;
        if cpu.compare_swap_u64(self.buckets, bucket, 0, 1) != 0 {
            return Err(SystemError::Protocol("another thread holds a lock of a hash map".into()));
        }
        let first = cpu.load_u64(self.buckets, bucket + 8);
        Ok((bucket, self.node(first)))
    }

    fn unlock<P: Provider>(&self, cpu: &P, bucket: u64) {
        cpu.store_u64(self.buckets, bucket, 0);
    }

    /// The offset of the node to which a link points; `None` if the link belongs to an older building.
    fn node(&self, link: u64) -> Option<u64> {
        (link >> 32 == self.building).then_some((link & u64::from(u32::MAX)) * NODE)
    }

    /// Inserts a tuple.
    ///
    /// # Errors
    /// If there is no room for the tuple, or the lock is held.
    pub fn insert<P: Provider>(&mut self, cpu: &P, tuple: Tuple) -> Result<(), SystemError> {
        let (bucket, first) = self.lock(cpu, tuple.key)?;
        if (self.len + 1) * NODE > self.nodes.len() {
            return Err(SystemError::Protocol("a hash map is full".into()));
        }
        let mut node = [0; 24];
        node[..16].copy_from_slice(&tuple.to_bytes());
        let next = first.map_or(0, |first| (self.building << 32) | (first / NODE));
        node[16..].copy_from_slice(&next.to_ne_bytes());
        cpu.write(self.nodes, self.len * NODE, &node);
        cpu.store_u64(self.buckets, bucket + 8, self.building << 32 | self.len);
        self.len += 1;
        self.unlock(cpu, bucket);
        Ok(())
    }

    /// Joins an outer tuple with all inner tuples that have its key.
    ///
    /// # Errors
    /// If the lock is held.
    pub fn probe<P: Provider>(&self, cpu: &P, tuple: Tuple, joined: &mut Joined) -> Result<(), SystemError> {
        let (bucket, mut next) = self.lock(cpu, tuple.key)?;
        while let Some(node) = next {
            let inner = Tuple::at(cpu, self.nodes, node);
            if inner.key == tuple.key {
                joined.add(tuple.key, inner.payload, tuple.payload);
            }
            next = self.node(cpu.load_u64(self.nodes, node + 16));
        }
        self.unlock(cpu, bucket);
        Ok(())
    }
}
