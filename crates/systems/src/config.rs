//! Parameters that several systems share.

use crate::Drawing;
use crate::herd;
use crate::kv::{Distribution, Load};
use doorbell_schema::{Duration, Field, Flag, Given, Schema, Share, Until, Value, schema};
use doorbell_verbs::{QpType, Span};

/// Maximum number of clients on a machine.
const MOST_OF_MACHINE: u32 = 256;

/// Maximum bytes of one memory of a system: the largest allocation of a simulated machine, 16 GiB.
pub(crate) const LARGEST_MEMORY: u64 = 16 << 30;

/// Maximum bytes of the entries that all executors of a shuffle or join send in a round. Each of 64 executors
/// has the largest memory.
pub(crate) const LARGEST_TABLE: u64 = 64 * LARGEST_MEMORY;

/// Maximum number of these entries. An entry has at least 8 bytes.
pub(crate) const MOST_ENTRIES: u64 = LARGEST_TABLE / 8;

/// Bytes of the last-level cache of a socket of the machines of CLUSTER'21 (its section III).
pub(crate) const LLC: u64 = 20 << 20;

schema! {
    /// Clients. Each client is a thread with a core of its own.
    pub struct Clients {
        /// Number of clients.
        clients: u32 = Field::count(1, 16_384).synonyms(&["nodes", "hosts", "machines", "threads"]),
        /// Clients on each machine.
        clients_per_machine: u32 = Field::count(1, MOST_OF_MACHINE as u64),
        /// Operations that a client keeps outstanding.
        outstanding: u32 = Field::count(1, 512).synonyms(&["depth", "queue_depth", "iodepth", "inflight"]),
        /// Clients send a window of operations, wait for all of them, and then send the next window.
        windows: bool = Field::switch()
            .flags(&[Flag::no(
                "continuous",
                "Replace each completed operation at once, instead of waiting for a whole window",
            )]),
    }
}

/// The cores of a machine's clients. Clients take the sockets in turn, and cores are numbered socket by
/// socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seats {
    /// Clients on each machine.
    pub per_machine: u32,
    /// Sockets of each machine.
    pub sockets: u32,
    /// Cores of a socket.
    pub cores_per_socket: u32,
}

impl Seats {
    /// The socket of a client.
    pub fn socket(&self, client: u32) -> u32 {
        client % self.per_machine % self.sockets
    }

    /// Machine and core of a client; the server is machine 0.
    pub fn place(&self, client: u32) -> (u32, u32) {
        let thread = client % self.per_machine;
        let core = thread % self.sockets * self.cores_per_socket + thread / self.sockets;
        (1 + client / self.per_machine, core)
    }

    /// The clients on the machine of `client`: the number of the first client, and how many clients there
    /// are. The system has `clients` clients.
    pub(crate) fn mates(&self, clients: u32, client: u32) -> (u32, u32) {
        let first = client / self.per_machine * self.per_machine;
        (first, self.per_machine.min(clients - first))
    }

    /// The proxy of `client` for a socket: a client of the same machine that runs at this socket, if there is
    /// one. The clients at a socket take turns as proxies.
    pub(crate) fn proxy(&self, clients: u32, client: u32, socket: u32) -> Option<u32> {
        let (first, count) = self.mates(clients, client);
        let there = count.saturating_sub(socket).div_ceil(self.sockets);
        (there > 0).then(|| first + socket + (client - first) / self.sockets % there * self.sockets)
    }

    /// Refuses more clients on a machine than it has cores.
    ///
    /// # Errors
    /// One sentence if there are too many clients.
    pub(crate) fn refuse(&self) -> Result<(), String> {
        let Seats { per_machine, sockets, cores_per_socket } = self;
        let cores = sockets * cores_per_socket;
        if *per_machine > cores {
            return Err(format!(
                "{per_machine} clients per machine need {per_machine} cores, but {sockets} sockets of \
                 {cores_per_socket} cores have {cores}"
            ));
        }
        Ok(())
    }
}

schema! {
    /// Worker threads of a server, which reply to requests.
    pub struct Workers {
        /// Worker threads of the server, one per core.
        cores: u32 = Field::count(1, 256),
        /// Requests that a worker takes in a pass. An RPC sequencer without batching takes 1.
        gather: u32 = Field::count(1, 1024),
        /// Post the replies of a pass with one doorbell per port.
        batching: bool = Field::switch().flags(&[Flag::no("no-batching", "Post replies one by one")]),
        /// UD QPs per port that a worker uses in turn for replies.
        queues: u32 = Field::count(1, 64).flags(&[Flag::renamed("multi-queue", "N")]),
    }
}

schema! {
    /// How HERD's RPCs carry requests.
    pub struct Travel {
        /// Send requests by UD SEND rather than by WRITE over a connected QP.
        datagrams: bool = Field::switch(),
    }
}

schema! {
    /// The pairs of a store, and the operations that clients request.
    pub struct Pairs {
        /// Key-value pairs in each worker's partition, or in the whole server if it has no partitions.
        pairs: u64 = Field::count(1, 100_000_000),
        /// Draw keys by Zipf's law rather than uniformly.
        zipf: bool = Field::switch(),
        /// PUTs in each thousand operations.
        put_permille: u32 = Field::permille(),
    }
}

schema! {
    /// Values of any length.
    pub struct Values {
        /// Bytes of a value.
        value: u32 = Field::bytes(1, 3900).synonyms(&["payload", "value_size", "size"]),
    }
}

schema! {
    /// The full-size store that a small store stands for.
    pub struct Scale {
        /// Pairs of the full-size store. Caches hold an equal share of the simulated pairs and of these.
        real_pairs: u64 = Field::count(1, u64::MAX).in_files(),
        /// Bytes of the last-level cache, which all partitions share.
        cache_bytes: u64 = Field::bytes(1, u64::MAX).in_files(),
    }
}

schema! {
/// When a run measures, and the seed of its draws.
    pub struct Timing {
        /// Virtual time before measurement begins, such as 500us.
        warmup: Option<Duration> = Field::time().usual("until rate and latency are steady"),
        /// Virtual time to measure, such as 2ms.
        duration: Option<Duration> = Field::positive_time().usual("until the intervals are within the precision"),
        /// Half-width of the 95% intervals of rate and mean latency at which a run ends, if no duration is
        /// given.
        precision: Share = Field::share(Share::of_millionths(100), Share::of_percent(50)),
        /// Number that a run must know, besides rate and mean latency, before it ends, if no duration is
        /// given: a percentile of latency, or none.
        until: Option<Until> = Field::name(Until::NAMES)
            .usual("p99 if that takes at most twice the time, else mean"),
        /// Virtual time after which a run ends even if it is not settled, if no duration is given; a run that
        /// does not become steady is measured from two thirds of this time on.
        max_time: Duration = Field::positive_time(),
        /// Seed of all random draws.
        seed: u64 = Field::count(0, u64::MAX),
    }
}

impl Clients {
    /// Clients with these parameters; see the fields of [`Clients`].
    pub const fn new(clients: u32, per_machine: u32, outstanding: u32, windows: bool) -> Clients {
        Clients { clients, clients_per_machine: per_machine, outstanding, windows }
    }

    /// Number of machines: the clients' machines and a server.
    pub fn machines(&self) -> u32 {
        1 + self.clients.div_ceil(self.clients_per_machine.max(1))
    }

    /// Machine and core of a client; the server is machine 0.
    pub fn place(&self, client: u32) -> (u32, u32) {
        (1 + client / self.clients_per_machine, client % self.clients_per_machine)
    }

    /// A client's drawing parameters, without a limit.
    pub fn drawing(&self) -> Drawing {
        Drawing { outstanding: self.outstanding, windows: self.windows, limit: 0, record: false }
    }
}

/// Clients with one operation outstanding each, like threads that wait for each result. If `TOGETHER`, all
/// clients run on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneByOne<const TOGETHER: bool>(Clients);

impl<const TOGETHER: bool> OneByOne<TOGETHER> {
    /// `clients` clients. Each machine has `per_machine` of them, unless `TOGETHER`.
    pub const fn new(clients: u32, per_machine: u32) -> OneByOne<TOGETHER> {
        OneByOne(Clients::new(clients, if TOGETHER { clients } else { per_machine }, 1, false))
    }

    /// The parameters that clients of any system have.
    pub const fn clients(&self) -> &Clients {
        &self.0
    }

    /// Refuses more clients on one machine than [`MOST_OF_MACHINE`].
    ///
    /// # Errors
    /// One sentence if there are too many.
    pub(crate) fn refuse(&self) -> Result<(), String> {
        let clients = self.0.clients;
        match TOGETHER && clients > MOST_OF_MACHINE {
            true => Err(format!(
                "clients is {clients}, but all clients share one machine, which has at most {MOST_OF_MACHINE}"
            )),
            false => Ok(()),
        }
    }

    /// Keys of the parameters that a user may give.
    const fn keys() -> &'static [&'static str] {
        if TOGETHER {
            &[Clients::clients.key]
        } else {
            &[Clients::clients.key, Clients::clients_per_machine.key]
        }
    }
}

impl<const TOGETHER: bool> Schema for OneByOne<TOGETHER> {
    fn fields() -> Vec<&'static Field> {
        Clients::fields().into_iter().filter(|field| Self::keys().contains(&field.key)).collect()
    }

    fn values(&self) -> Vec<(&'static str, Option<Value>)> {
        self.0.values().into_iter().filter(|(key, _)| Self::keys().contains(key)).collect()
    }

    fn apply(&mut self, given: &Given) -> Result<(), String> {
        self.0.apply(given)?;
        *self = OneByOne::new(self.0.clients, self.0.clients_per_machine);
        Ok(())
    }
}

impl Workers {
    /// Six workers that take up to 32 requests in a pass, with this many UD QPs per port.
    pub(crate) const fn new(queues: u32) -> Workers {
        Workers { cores: 6, gather: 32, batching: true, queues }
    }

    /// Refuses requests and replies that workers cannot combine.
    ///
    /// # Errors
    /// One sentence that names the conflict.
    pub(crate) fn refuse(&self, request: herd::Requests, reply: herd::Replies) -> Result<(), String> {
        reply
            .to(request)
            .map_err(|why| format!("reply is {}, request {}: {why}", reply.name(), request.name()))?;
        if reply.transport() != QpType::Ud && self.queues > 1 {
            let (queues, reply) = (self.queues, reply.name());
            return Err(format!(
                "queues is {queues}, but replies by {reply} use the client's connection: only send-ud has \
                 several queues"
            ));
        }
        Ok(())
    }
}

impl Travel {
    /// Requests by WRITE.
    pub(crate) const WRITES: Travel = Travel { datagrams: false };

    /// Parameters of HERD's RPCs. `longest` is the maximum length in bytes of a request, and of a reply.
    pub(crate) fn herd(&self, clients: &Clients, workers: &Workers, longest: (u32, u32)) -> herd::Config {
        herd::Config {
            requests: if self.datagrams { herd::Requests::SendUd } else { herd::Requests::WriteUc },
            replies: herd::Replies::SendUd,
            workers: workers.cores,
            clients: clients.clients,
            window: clients.outstanding.next_power_of_two(),
            max_request: longest.0,
            max_reply: longest.1,
            gather: workers.gather,
            doorbell: workers.batching,
            queues: workers.queues,
            retry: None,
        }
    }
}

impl Pairs {
    /// Pairs with uniform keys.
    pub(crate) const fn new(pairs: u64, put_permille: u32) -> Pairs {
        Pairs { pairs, zipf: false, put_permille }
    }

    /// A client's load on a store of this many partitions, with values of `value` bytes.
    pub(crate) fn load(&self, partitions: u32, value: u32, clients: &Clients, timing: &Timing) -> Load {
        Load {
            pairs: self.pairs * u64::from(partitions),
            distribution: if self.zipf { Distribution::Zipf } else { Distribution::Uniform },
            put_permille: self.put_permille,
            value,
            outstanding: clients.outstanding,
            windows: clients.windows,
            seed: timing.seed,
        }
    }
}

impl Values {
    /// Values of 32 bytes, as in the paper.
    pub(crate) const USUAL: Values = Values { value: 32 };
}

impl Scale {
    /// Partitions of 8 million pairs and the machines' last-level cache, as in ATC'16.
    pub(crate) const PAPER: Scale = Scale { real_pairs: 8_000_000, cache_bytes: 35 << 20 };

    /// Bytes of a store with `pairs` pairs that caches hold.
    pub(crate) fn cached(&self, pairs: u64) -> u64 {
        (u128::from(self.cache_bytes) * u128::from(pairs) / u128::from(self.real_pairs.max(1))) as u64
    }
}

impl Timing {
    /// A run without a fixed duration: it ends when its intervals are within the precision.
    pub const USUAL: Timing = Timing {
        warmup: None,
        duration: None,
        precision: Share::of_percent(1),
        until: None,
        max_time: Duration::new(Span::from_ms(1000)),
        seed: 1,
    };

    /// A run that warms up for `warmup` and then measures for `duration`.
    pub const fn of(warmup: Span, duration: Span) -> Timing {
        let (warmup, duration) = (Some(Duration::new(warmup)), Some(Duration::new(duration)));
        Timing { warmup, duration, ..Timing::USUAL }
    }
}
