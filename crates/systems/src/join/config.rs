//! Parameters of a join.

use super::map::Map;
use super::tuples::{TUPLE, Tuple};
use crate::System;
use crate::config::{Clients, LARGEST_MEMORY, LARGEST_TABLE, MOST_ENTRIES, Seats, Timing};
use crate::kv::load::Draws;
use crate::kv::{Distribution, Load};
use crate::shuffle::{Full, Placement, Plan, Shuffle};
use crate::strategy::{Chosen, Strategy};
use doorbell_schema::{Duration, Field, schema};

schema! {
    /// A join of two relations.
    pub struct Join {
        groups {
            /// Executors; their outstanding operations are posts.
            clients: Clients,
            /// The interval that is measured, and the seed.
            timing: Timing,
        }
        /// Bytes of the whole table, such as 64MiB: of all entries that all senders together send in a round.
        /// A join sends one relation in a round. An incomplete last entry is left out.
        bytes: Option<u64> =
            Field::bytes(1, LARGEST_TABLE).usual("by round_entries or tuples").synonyms(&["table_size"]),
        /// Tuples of each relation.
        tuples: u64 = Field::count(1, MOST_ENTRIES),
        /// Tuples of each relation that these are a sample of: caches hold as small a part of the maps as of
        /// the maps of so many.
        real_tuples: u64 = Field::count(1, u64::MAX).usual("16000000; with bytes, all tuples"),
        /// Bytes of the last-level cache, which all partitions share.
        cache_bytes: u64 = Field::bytes(1, u64::MAX).in_files(),
        /// How the pieces of a call come together; auto is the fastest strategy by the costs of the profile.
        strategy: Chosen = Field::name(Chosen::NAMES),
        /// Entries of one destination that are moved together; with 1 each is moved as soon as its
        /// destination is known.
        batch_entries: u32 = Field::count(1, 4096),
        /// Largest WRITE that is inline, in bytes, if its pieces are copied or it has one piece.
        inline_bytes: u32 = Field::bytes(0, 1024),
        /// Bytes of an entry: a key of 8 bytes, and its value.
        entry: u32 = Field::bytes(8, 8192).synonyms(&["payload", "entry_size"]),
        /// Entries that a sender may have at a receiver that has not taken them, at least twice the entries
        /// moved together.
        segment: u32 = Field::count(2, 1 << 20),
        /// Rule for a sender when a receiver has no room: it waits, or goes on with entries for other
        /// receivers.
        full: Full = Field::name(Full::NAMES),
        /// Number of different keys.
        keys: u64 = Field::count(1, MOST_ENTRIES),
        /// Draw keys by Zipf's law rather than uniformly.
        zipf: bool = Field::switch(),
        /// Sockets of each machine; sockets of equal number match.
        sockets: u32 = Field::count(1, 8),
        /// Cores of a socket; cores are numbered socket by socket.
        cores_per_socket: u32 = Field::count(1, 256),
        /// Socket of an executor's memory: the socket of its core, the next one, or for all the first of its
        /// machine.
        placement: Placement = Field::name(Placement::NAMES),
        /// Time that an executor waits without any progress before it gives up.
        give_up: Duration = Field::positive_time(),
    }
}

impl Join {
    /// The parameters of the two shuffles of a join.
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

    /// The machines and cores of the executors.
    pub(super) fn seats(&self) -> Seats {
        self.shuffle().seats()
    }

    /// The plan that all executors share, for this strategy.
    pub(super) fn plan(&self, strategy: Strategy) -> Plan {
        self.shuffle().plan(strategy)
    }

    /// The range of tuples that an executor has at first, of each relation.
    pub(super) fn part(&self, executor: u32) -> std::ops::Range<u64> {
        let from =
            |n: u64| (u128::from(self.tuples) * u128::from(n) / u128::from(self.clients.clients)) as u64;
        from(executor.into())..from(u64::from(executor) + 1)
    }

    /// An executor's part of the inner relation. The keys repeat in order, so all keys are equally frequent.
    pub(super) fn inner(&self, executor: u32) -> impl Iterator<Item = Tuple> + use<> {
        let keys = self.keys;
        self.part(executor).map(move |n| Tuple { key: n % keys, payload: n })
    }

    /// An executor's part of the outer relation. Its keys are drawn.
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

    /// Number of tuples of a relation that an executor can receive without more memory: a quarter more than
    /// its share under even keys.
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

    /// Number of tuples of each relation, if `bytes` sets it.
    pub(super) fn table_tuples(&self) -> Option<u64> {
        self.bytes.map(|bytes| bytes / u64::from(self.entry))
    }

    /// Bytes of an executor's part of both relations.
    pub(super) fn relation_bytes(&self, executor: u32) -> u64 {
        let part = self.part(executor);
        2 * (part.end - part.start) * u64::from(self.entry)
    }

    /// Refuses parameters that contradict each other, with one sentence.
    pub(super) fn refuse(&self) -> Result<(), String> {
        self.shuffle().check().map_err(|why| why.replace("shuffle", "join"))?;
        let Join { entry, tuples, .. } = self;
        if u64::from(*entry) < TUPLE {
            return Err(format!("entry is {entry}, but a tuple has at least {TUPLE} bytes"));
        }
        if let (Some(bytes), Some(all)) = (self.bytes, self.table_tuples()) {
            if all == 0 {
                return Err(format!(
                    "bytes is {bytes}, but an entry has {entry} bytes: use at least one entry"
                ));
            }
            if all != *tuples {
                return Err(format!(
                    "bytes is {bytes}, which is {all} tuples of {entry} bytes, but tuples is {tuples}: give one of \
                     them"
                ));
            }
        }
        let relations = (0..self.clients.clients).map(|executor| self.relation_bytes(executor)).max();
        let largest =
            relations.unwrap_or(0).max(self.room() * u64::from(*entry)).max(Map::bytes(self.room()));
        if largest > LARGEST_MEMORY {
            return Err(format!(
                "an executor's part of the {tuples} tuples takes {largest} bytes in one memory, but one memory has \
                 at most {LARGEST_MEMORY} (16GiB): use more clients, or fewer bytes or tuples"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_schema::{Given, Schema};

    fn join(options: &str) -> Result<Join, String> {
        let given = Given::from_toml("w.toml", options, &Join::fields()).map_err(|why| why.to_string())?;
        Join::of(&given)
    }

    #[test]
    fn a_table_of_bytes_is_joined_whole() {
        let whole = join("bytes = \"1MiB\"\nclients = 3").unwrap();
        assert_eq!((whole.tuples, whole.real_tuples, whole.keys), (1 << 16, 1 << 16, 1 << 16));
        assert_eq!((0..3).map(|n| whole.relation_bytes(n)).sum::<u64>(), 2 << 20);
        assert_eq!(Join::of(&whole.given()), Ok(whole));
        let wide = join("bytes = 1000\nentry = 32\nreal_tuples = 500\nkeys = 7").unwrap();
        assert_eq!((wide.tuples, wide.real_tuples, wide.keys), (31, 500, 7));
        // Without `bytes`, the tuples are a sample.
        let sample = join("tuples = 65536").unwrap();
        assert_eq!((sample.tuples, sample.real_tuples), (1 << 16, Join::usual().real_tuples));
    }

    #[test]
    fn what_is_too_large_or_twice_is_refused_in_one_sentence() {
        for (options, said) in [
            ("bytes = 15", "bytes is 15, but an entry has 16 bytes: use at least one entry"),
            (
                "bytes = \"1MiB\"\ntuples = 4096",
                "bytes is 1048576, which is 65536 tuples of 16 bytes, but tuples is 4096: give one of them",
            ),
            (
                "bytes = \"100G\"\nentry = 1024",
                "an executor's part of the 104857600 tuples takes 53687091200 bytes in one memory, but one memory \
                 has at most 17179869184 (16GiB): use more clients, or fewer bytes or tuples",
            ),
        ] {
            assert_eq!(join(options).unwrap_err(), said);
        }
        assert!(join("clients = 16\nentry = 1024").is_ok());
    }
}
