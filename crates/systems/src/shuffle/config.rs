//! Parameters of a shuffle.

use super::layout::{Full, Plan, Transfer};
use super::rule::share_of_fullest;
use crate::config::{Clients, LARGEST_MEMORY, LARGEST_TABLE, MOST_ENTRIES, Seats, Timing};
use crate::kv::load::Draws;
use crate::kv::{Distribution, Load};
use crate::names::named;
use crate::strategy::{Chosen, Strategy};
use doorbell_schema::{Duration, Field, schema};
use doorbell_verbs::Span;

/// Maximum number of executors. Each executor has two QPs with every other executor, one as sender and one as
/// receiver.
const MOST_EXECUTORS: u32 = 64;

named! {
    /// The socket of an executor's memory.
    Placement {
        /// The socket of its core.
        Own = "own",
        /// The socket after its core's socket.
        Other = "other",
        /// The first socket of its machine, as if one thread had set up the memory of all executors.
        First = "first",
    }
}

/// Least value of the time after which an executor gives up. Live executors need less time to post, or to
/// take entries.
const LEAST_PATIENCE: Span = Span::from_ms(10);

schema! {
    /// A shuffle.
    pub struct Shuffle {
        groups {
            /// Executors. Their outstanding operations are posts.
            clients: Clients,
            /// When the run measures.
            timing: Timing,
        }
        /// Side that moves entries: senders by WRITE, or receivers by READ.
        transfer: Transfer = Field::name(Transfer::NAMES),
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
        /// Bytes of the whole table, such as 64MiB: of all entries that all senders together send in a round.
        /// A join sends one relation in a round. An incomplete last entry is left out.
        bytes: Option<u64> =
            Field::bytes(1, LARGEST_TABLE).usual("by round_entries or tuples").synonyms(&["table_size"]),
        /// Entries of each sender in a round.
        round_entries: u64 = Field::count(1, MOST_ENTRIES),
        /// Number of different keys.
        keys: u64 = Field::count(1, MOST_ENTRIES),
        /// Draw keys by Zipf's law rather than uniformly.
        zipf: bool = Field::switch(),
        /// Number of executors that send, the first ones; 0 for all.
        senders: u32 = Field::count(0, MOST_EXECUTORS as u64),
        /// Number of executors that receive, the last ones; 0 for all.
        receivers: u32 = Field::count(0, MOST_EXECUTORS as u64),
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

impl Placement {
    /// A core of the socket that has the memory of an executor on `core`.
    pub fn near(self, seats: &Seats, core: u32) -> u32 {
        match self {
            Placement::Own => core,
            Placement::Other => (core + seats.cores_per_socket) % (seats.sockets * seats.cores_per_socket),
            Placement::First => 0,
        }
    }
}

/// `number`, or `all` if `number` is 0.
fn or_all(number: u32, all: u32) -> u32 {
    if number == 0 { all } else { number }
}

impl Shuffle {
    /// Seats of the executors.
    pub fn seats(&self) -> Seats {
        Seats {
            per_machine: self.clients.clients_per_machine,
            sockets: self.sockets,
            cores_per_socket: self.cores_per_socket,
        }
    }

    /// The plan that all executors share, for this strategy.
    pub fn plan(&self, strategy: Strategy) -> Plan {
        let all = self.clients.clients;
        Plan {
            executors: all,
            senders: or_all(self.senders, all),
            receivers: or_all(self.receivers, all),
            transfer: self.transfer,
            strategy,
            batch: self.batch_entries,
            entry: self.entry,
            segment: self.segment,
            full: self.full,
            inline: self.inline_bytes,
            outstanding: self.clients.outstanding,
            give_up: self.give_up.span(),
        }
    }

    /// Number of entries that all senders together send in a round, if `bytes` sets it.
    fn table_entries(&self) -> Option<u64> {
        self.bytes.map(|bytes| bytes / u64::from(self.entry))
    }

    /// The number of entries of a round that each sender has by `bytes`, if `bytes` sets it. Some senders may
    /// have one entry less.
    pub(super) fn share_of_table(&self) -> Option<u64> {
        let senders = self.plan(Strategy::Sgl).senders;
        self.table_entries().map(|entries| entries.div_ceil(senders.into()))
    }

    /// Number of entries in an executor's input.
    pub(super) fn input_entries(&self, executor: u32) -> u64 {
        let senders = self.plan(Strategy::Sgl).senders;
        match self.table_entries() {
            None => self.round_entries,
            Some(_) if executor >= senders => 0,
            Some(entries) => {
                let from = |n: u64| u128::from(entries) * u128::from(n) / u128::from(senders);
                (from(u64::from(executor) + 1) - from(executor.into())) as u64
            }
        }
    }

    /// Bytes of an executor's input.
    pub(super) fn input_bytes(&self, executor: u32) -> u64 {
        self.input_entries(executor) * u64::from(self.entry)
    }

    /// The keys of an executor's input.
    pub(super) fn input_keys(&self, sender: u32) -> impl Iterator<Item = u64> + use<> {
        let load = Load {
            pairs: self.keys,
            distribution: if self.zipf { Distribution::Zipf } else { Distribution::Uniform },
            put_permille: 0,
            value: 0,
            outstanding: 1,
            windows: false,
            seed: self.timing.seed,
        };
        let mut draws = Draws::new(load, sender);
        (0..self.input_entries(sender)).map(move |_| draws.number())
    }

    /// The unevenness of the keys: the entries of the fullest receiver, divided by the average of all
    /// receivers.
    pub fn unevenness(&self) -> f64 {
        let plan = self.plan(Strategy::Sgl);
        share_of_fullest(plan.sending().flat_map(|sender| self.input_keys(sender)), plan.receivers)
    }

    /// Number of entries that all senders together send in a round.
    pub(super) fn round_operations(&self) -> u64 {
        let of_each = self.round_entries.saturating_mul(self.plan(Strategy::Sgl).senders.into());
        self.table_entries().unwrap_or(of_each)
    }

    /// Bytes of all inboxes and inputs.
    pub(super) fn memory(&self) -> u64 {
        let plan = self.plan(Strategy::Sgl);
        let of_executor = |executor| plan.inbox_bytes().saturating_add(self.input_bytes(executor));
        (0..plan.executors).map(of_executor).fold(0, u64::saturating_add)
    }

    /// Returns one sentence if parameters do not go together.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let Shuffle { clients: Clients { clients, windows, .. }, .. } = self;
        if *clients > MOST_EXECUTORS {
            return Err(format!(
                "clients is {clients}, but a shuffle has at most {MOST_EXECUTORS} executors"
            ));
        }
        if self.give_up.span() < LEAST_PATIENCE {
            let least = Duration::new(LEAST_PATIENCE);
            return Err(format!(
                "give_up is {}, but must be at least {least}, because a live executor may see nothing new \
                 for a while",
                self.give_up
            ));
        }
        let Plan { senders, receivers, batch, entry, segment, .. } = self.plan(Strategy::Sgl);
        if senders > *clients || receivers > *clients || senders + receivers < *clients {
            return Err(format!(
                "of {clients} executors {senders} send and {receivers} receive, but each executor must send \
                 or receive"
            ));
        }
        if !entry.is_multiple_of(8) {
            return Err(format!("entry is {entry}, but an entry consists of words: use a multiple of 8"));
        }
        if segment / 2 < batch {
            return Err(format!(
                "segment is {segment}, but must hold at least two batches of {batch} entries (batch_entries)"
            ));
        }
        if *windows {
            return Err("shuffle has no windows: an executor posts as soon as there is room".into());
        }
        if self.strategy == Chosen::Auto {
            return Err("strategy is auto, but only vector-io has auto: use sp, doorbell or sgl".into());
        }
        self.refuse_sizes()?;
        self.seats().refuse()
    }

    /// Returns one sentence if a memory is too large, or if `bytes` does not go with other parameters.
    fn refuse_sizes(&self) -> Result<(), String> {
        let plan = self.plan(Strategy::Sgl);
        let (entry, round_entries, senders) = (plan.entry, self.round_entries, plan.senders);
        if let (Some(bytes), Some(share)) = (self.bytes, self.share_of_table()) {
            if share == 0 {
                return Err(format!(
                    "bytes is {bytes}, but an entry has {entry} bytes: use at least one entry"
                ));
            }
            if share != round_entries {
                return Err(format!(
                    "bytes is {bytes}, which is {share} entries of {entry} bytes for each of {senders} senders, \
                     but round_entries is {round_entries}: give one of them"
                ));
            }
        }
        let inbox = plan.inbox_bytes();
        if inbox > LARGEST_MEMORY {
            return Err(format!(
                "the inbox of each executor takes {inbox} bytes, but one memory has at most {LARGEST_MEMORY} \
                 (16GiB): use fewer clients, or a smaller segment or entry"
            ));
        }
        let input = round_entries.saturating_mul(entry.into());
        if input > LARGEST_MEMORY {
            return Err(format!(
                "the entries of each sender in a round take {input} bytes, but one memory has at most \
                 {LARGEST_MEMORY} (16GiB): use more senders, or fewer bytes or round_entries"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;
    use doorbell_schema::{Given, Schema};

    fn shuffle(options: &str) -> Result<Shuffle, String> {
        let given = Given::from_toml("w.toml", options, &Shuffle::fields()).map_err(|why| why.to_string())?;
        Shuffle::of(&given)
    }

    #[test]
    fn senders_share_all_bytes_of_a_table() {
        for (options, entries) in [
            ("bytes = \"64MiB\"", 1 << 20),
            ("bytes = 6499\nclients = 7", 101),
            ("bytes = \"1MiB\"\nentry = 1024\nclients = 5\nsenders = 3\nreceivers = 4", 1024),
            ("bytes = 64\nclients = 3", 1),
            ("round_entries = 10", 160),
        ] {
            let shuffle = shuffle(options).unwrap();
            let plan = shuffle.plan(Strategy::Sgl);
            let of_senders: Vec<u64> = plan.sending().map(|sender| shuffle.input_entries(sender)).collect();
            assert_eq!(of_senders.iter().sum::<u64>(), entries, "{options}");
            assert_eq!(shuffle.round_operations(), entries, "{options}");
            assert_eq!(of_senders.iter().max(), Some(&shuffle.round_entries), "{options}");
            assert!(of_senders.iter().all(|own| own + 1 >= shuffle.round_entries), "{options}");
            assert_eq!(shuffle.input_keys(0).count() as u64, of_senders[0], "{options}");
            // The parameters as they are written, all of them.
            assert_eq!(Shuffle::of(&shuffle.given()), Ok(shuffle), "{options}");
        }
    }

    #[test]
    fn what_is_too_large_or_twice_is_refused_in_one_sentence() {
        for (options, said) in [
            ("bytes = 63", "bytes is 63, but an entry has 64 bytes: use at least one entry"),
            (
                "bytes = \"1MiB\"\nround_entries = 4096",
                "bytes is 1048576, which is 1024 entries of 64 bytes for each of 16 senders, but round_entries \
                 is 4096: give one of them",
            ),
            (
                "bytes = \"100G\"\nclients = 4",
                "the entries of each sender in a round take 26843545600 bytes, but one memory has at most \
                 17179869184 (16GiB): use more senders, or fewer bytes or round_entries",
            ),
            (
                "segment = 1048576\nentry = 4096",
                "the inbox of each executor takes 68719479872 bytes, but one memory has at most 17179869184 \
                 (16GiB): use fewer clients, or a smaller segment or entry",
            ),
        ] {
            assert_eq!(shuffle(options).unwrap_err(), said);
        }
        assert!(shuffle("bytes = \"100G\"").is_ok() && shuffle("clients = 16\nentry = 1024").is_ok());
    }
}
