//! Parameters of a join.

use super::map::Map;
use super::tuples::{TUPLE, Tuple};
use crate::System;
use crate::config::{Clients, Seats, Timing};
use crate::kv::load::Draws;
use crate::kv::{Distribution, Load};
use crate::shuffle::{Full, Placement, Plan, Shuffle};
use crate::strategy::{Chosen, Strategy};
use doorbell_schema::{Duration, Field, schema};

/// Bytes of all memories at most.
const LARGEST: u64 = 4 << 30;

schema! {
    /// A join of two relations.
    pub struct Join {
        groups {
            /// Executors; what they have outstanding are posts.
            clients: Clients,
            /// What is measured.
            timing: Timing,
        }
        /// Tuples of each relation.
        tuples: u64 = Field::count(1, 1 << 26),
        /// Tuples of each relation that these stand for: caches hold as small a part of maps as of those of so many.
        real_tuples: u64 = Field::count(1, u64::MAX),
        /// Bytes of the last-level cache, which all partitions share.
        cache_bytes: u64 = Field::bytes(1, u64::MAX).in_files(),
        /// How the pieces of a call come together; with auto as is fastest by what things cost on the profile.
        strategy: Chosen = Field::name(Chosen::NAMES),
        /// Entries of one destination that are moved together; with 1 each goes by itself as soon as its destination is known.
        batch_entries: u32 = Field::count(1, 4096),
        /// Bytes up to which a WRITE is inline, where its pieces are copied or single.
        inline_bytes: u32 = Field::bytes(0, 1024),
        /// Bytes of an entry: a key of 8 bytes, and its value.
        entry: u32 = Field::bytes(8, 8192),
        /// Entries that a sender may have at a receiver that has not taken them, at least twice those moved together.
        segment: u32 = Field::count(2, 1 << 20),
        /// What a sender does where a receiver has no room: it waits, or goes on with entries for others.
        full: Full = Field::name(Full::NAMES),
        /// Different keys.
        keys: u64 = Field::count(1, 100_000_000),
        /// Keys by Zipf's law rather than uniformly.
        zipf: bool = Field::switch(),
        /// Sockets of each machine, by whose numbers they match.
        sockets: u32 = Field::count(1, 8),
        /// Cores of a socket: cores are numbered socket by socket.
        cores_per_socket: u32 = Field::count(1, 256),
        /// The socket of an executor's memory: that of its core, the next one, or the first of its machine for all.
        placement: Placement = Field::name(Placement::NAMES),
        /// How long an executor waits without seeing anything new before it gives up.
        give_up: Duration = Field::positive_time(),
    }
}

impl Join {
    /// The shuffle that it is made of.
    pub(super) fn shuffle(&self) -> Shuffle {
        let Join { strategy, batch_entries, inline_bytes, entry, segment, full, keys, zipf, .. } = *self;
        let Join { sockets, cores_per_socket, placement, give_up, .. } = *self;
        Shuffle {
            clients: self.clients.clone(),
            timing: self.timing.clone(),
            strategy,
            batch_entries,
            inline_bytes,
            entry,
            segment,
            full,
            keys,
            zipf,
            sockets,
            cores_per_socket,
            placement,
            give_up,
            round_entries: 1,
            senders: 0,
            receivers: 0,
            ..Shuffle::usual()
        }
    }

    /// Where executors sit.
    pub(super) fn seats(&self) -> Seats {
        self.shuffle().seats()
    }

    /// What executors agree on, with this strategy.
    pub(super) fn plan(&self, strategy: Strategy) -> Plan {
        self.shuffle().plan(strategy)
    }

    /// The tuples of each relation that an executor begins with: from the first to the one behind the last.
    pub(super) fn part(&self, executor: u32) -> std::ops::Range<u64> {
        let from =
            |n: u64| (u128::from(self.tuples) * u128::from(n) / u128::from(self.clients.clients)) as u64;
        from(executor.into())..from(u64::from(executor) + 1)
    }

    /// The inner relation of an executor: keys in turn, so that each comes as often as another.
    pub(super) fn inner(&self, executor: u32) -> impl Iterator<Item = Tuple> + use<> {
        let keys = self.keys;
        self.part(executor).map(move |n| Tuple { key: n % keys, payload: n })
    }

    /// Its outer relation: drawn keys.
    pub(super) fn outer(&self, executor: u32) -> impl Iterator<Item = Tuple> + use<> {
        let load = Load {
            pairs: self.keys,
            distribution: if self.zipf { Distribution::Zipf } else { Distribution::Uniform },
            put_permille: 0,
            value: 0,
            outstanding: 1,
            windows: false,
            seed: self.timing.seed,
        };
        let mut draws = Draws::new(load, executor);
        self.part(executor).map(move |n| Tuple { key: draws.number(), payload: n })
    }

    /// Tuples of a relation that an executor has room for at first: a quarter more than it has of even keys.
    pub(super) fn room(&self) -> u64 {
        let even = self.tuples.div_ceil(self.clients.clients.into());
        even + even / 4 + 64
    }

    /// Bytes of an executor's map that caches hold.
    pub(super) fn cached(&self) -> u64 {
        let Seats { per_machine, sockets, .. } = self.seats();
        let share =
            self.cache_bytes / u64::from(per_machine.min(self.clients.clients).div_ceil(sockets).max(1));
        let cached = u128::from(share) * u128::from(self.tuples) / u128::from(self.real_tuples.max(1));
        cached as u64
    }

    /// Bytes of all memories.
    pub(super) fn memory(&self) -> u64 {
        let entry = u64::from(self.entry);
        let inboxes = self.plan(Strategy::Sgl).inbox_bytes();
        let own = Map::bytes(self.room()) + 2 * self.room() * entry;
        let relations = self.tuples.saturating_mul(2 * entry);
        (inboxes + own).saturating_mul(self.clients.clients.into()).saturating_add(relations)
    }

    /// What does not go together: one sentence.
    pub(super) fn refuse(&self) -> Result<(), String> {
        self.shuffle().check().map_err(|why| why.replace("shuffle", "join"))?;
        if u64::from(self.entry) < TUPLE {
            return Err(format!("entry is {}, but a tuple has {TUPLE} bytes at least", self.entry));
        }
        let all = self.memory();
        if all > LARGEST {
            return Err(format!(
                "the memories of all executors are {all} bytes, but at most {LARGEST} are possible"
            ));
        }
        Ok(())
    }
}
