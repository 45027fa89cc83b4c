//! Parameters that several systems have; each is said once.

use crate::Drawing;
use crate::herd;
use crate::kv::{Distribution, Load};
use doorbell_schema::{Duration, Field, Flag, Given, Schema, Share, Value, schema};
use doorbell_verbs::{QpType, Span};

/// Clients of a machine at most.
const MOST_OF_MACHINE: u32 = 256;

schema! {
    /// Clients; each is a thread, with a core of its own.
    pub struct Clients {
        /// Clients.
        clients: u32 = Field::count(1, 16_384),
        /// Clients of a machine.
        clients_per_machine: u32 = Field::count(1, MOST_OF_MACHINE as u64),
        /// Operations that a client has outstanding.
        outstanding: u32 = Field::count(1, 512),
        /// Clients send a window of operations, wait for all, and send the next.
        windows: bool = Field::switch()
            .flags(&[Flag::no("continuous", "Replace each operation at once, rather than wait for a whole window")]),
    }
}

/// Where the clients of a machine sit: they take turns with its sockets, and cores are numbered socket by socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seats {
    /// Clients of a machine.
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

    /// The clients of a client's machine, of so many in all: the first, and how many there are.
    pub(crate) fn mates(&self, clients: u32, client: u32) -> (u32, u32) {
        let first = client / self.per_machine * self.per_machine;
        (first, self.per_machine.min(clients - first))
    }

    /// The client that is the proxy of another for a socket, if its machine has one there: those at a socket take turns.
    pub(crate) fn proxy(&self, clients: u32, client: u32, socket: u32) -> Option<u32> {
        let (first, count) = self.mates(clients, client);
        let there = count.saturating_sub(socket).div_ceil(self.sockets);
        (there > 0).then(|| first + socket + (client - first) / self.sockets % there * self.sockets)
    }

    /// Refuses more clients on a machine than it has cores.
    ///
    /// # Errors
    /// One sentence.
    pub(crate) fn refuse(&self) -> Result<(), String> {
        let Seats { per_machine, sockets, cores_per_socket } = self;
        let cores = sockets * cores_per_socket;
        if *per_machine > cores {
            return Err(format!(
                "{per_machine} clients of a machine need as many cores, but {sockets} sockets of {cores_per_socket} have {cores}"
            ));
        }
        Ok(())
    }
}

schema! {
    /// Worker threads of a server that reply.
    pub struct Workers {
        /// Worker threads of the server, one per core.
        cores: u32 = Field::count(1, 256),
        /// Requests that a worker takes in a pass; of an RPC sequencer without batching, 1.
        gather: u32 = Field::count(1, 1024),
        /// Post the replies of a pass with one doorbell per port.
        batching: bool = Field::switch().flags(&[Flag::no("no-batching", "Post replies one by one")]),
        /// UD QPs per port that a worker's replies take turns with.
        queues: u32 = Field::count(1, 64).flags(&[Flag::renamed("multi-queue", "N")]),
    }
}

schema! {
    /// How requests travel over HERD's RPCs.
    pub struct Travel {
        /// Requests by UD SEND rather than by WRITE over a connected QP.
        datagrams: bool = Field::switch(),
    }
}

schema! {
    /// What a store holds, and what clients ask it for.
    pub struct Pairs {
        /// Pairs of each worker's partition, or of the server where it has none.
        pairs: u64 = Field::count(1, 100_000_000),
        /// Keys by Zipf's law rather than uniformly.
        zipf: bool = Field::switch(),
        /// PUTs in a thousand operations.
        put_permille: u32 = Field::count(0, 1000),
    }
}

schema! {
    /// Values of any length.
    pub struct Values {
        /// Bytes of a value.
        value: u32 = Field::bytes(1, 3900),
    }
}

schema! {
    /// What a small store stands for.
    pub struct Scale {
        /// Pairs that the pairs stand for: caches hold as small a part of them as of these.
        real_pairs: u64 = Field::count(1, u64::MAX).in_files(),
        /// Bytes of the last-level cache, which all partitions share.
        cache_bytes: u64 = Field::bytes(1, u64::MAX).in_files(),
    }
}

schema! {
/// What is measured, of which draws.
    pub struct Timing {
        /// Virtual time before measuring begins, as 500us.
        warmup: Option<Duration> = Field::time().usual("until rate and latency are steady"),
        /// Virtual time to measure for, as 2ms.
        duration: Option<Duration> = Field::positive_time().usual("until the intervals are within the precision"),
        /// Width to each side of the 95% intervals of rate and mean latency at which a run ends, where no duration is given.
        precision: Share = Field::share(Share::of_millionths(100), Share::of_percent(50)),
        /// Virtual time after which a run ends, settled or not, where no duration is given; one that does not become steady is measured from two thirds of it on.
        max_time: Duration = Field::positive_time(),
        /// Seed of all random draws.
        seed: u64 = Field::count(0, u64::MAX),
    }
}

impl Clients {
    /// As the papers' clusters have them: windows or not.
    pub const fn new(clients: u32, per_machine: u32, outstanding: u32, windows: bool) -> Clients {
        Clients { clients, clients_per_machine: per_machine, outstanding, windows }
    }

    /// Machines of the clients and a server.
    pub fn machines(&self) -> u32 {
        1 + self.clients.div_ceil(self.clients_per_machine.max(1))
    }

    /// Machine and core of a client; the server is machine 0.
    pub fn place(&self, client: u32) -> (u32, u32) {
        (1 + client / self.clients_per_machine, client % self.clients_per_machine)
    }

    /// How a client draws, without end.
    pub fn drawing(&self) -> Drawing {
        Drawing { outstanding: self.outstanding, windows: self.windows, limit: 0, record: false }
    }
}

/// Clients that have one operation outstanding each, as threads that wait for what they ask; where `TOGETHER`, all on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneByOne<const TOGETHER: bool>(Clients);

impl<const TOGETHER: bool> OneByOne<TOGETHER> {
    /// So many, and how many of them are on a machine.
    pub const fn new(clients: u32, per_machine: u32) -> OneByOne<TOGETHER> {
        OneByOne(Clients::new(clients, if TOGETHER { clients } else { per_machine }, 1, false))
    }

    /// As clients of any system.
    pub const fn clients(&self) -> &Clients {
        &self.0
    }

    /// Refuses more on one machine than it may have.
    ///
    /// # Errors
    /// One sentence.
    pub(crate) fn refuse(&self) -> Result<(), String> {
        let clients = self.0.clients;
        match TOGETHER && clients > MOST_OF_MACHINE {
            true => Err(format!(
                "clients are {clients}, but on the one machine that they share are {MOST_OF_MACHINE} at most"
            )),
            false => Ok(()),
        }
    }

    /// Keys of what can be said of them.
    const fn keys() -> &'static [&'static str] {
        if TOGETHER { &["clients"] } else { &["clients", "clients_per_machine"] }
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
    /// Passes take up to 32 requests.
    pub(crate) const fn new(queues: u32) -> Workers {
        Workers { cores: 6, gather: 32, batching: true, queues }
    }

    /// Refuses what workers cannot do that reply so to such requests.
    ///
    /// # Errors
    /// One sentence.
    pub(crate) fn refuse(&self, request: herd::Requests, reply: herd::Replies) -> Result<(), String> {
        reply
            .to(request)
            .map_err(|why| format!("reply is {}, request {}: {why}", reply.name(), request.name()))?;
        if reply.transport() != QpType::Ud && self.queues > 1 {
            let (queues, reply) = (self.queues, reply.name());
            return Err(format!(
                "queues is {queues}, but replies by {reply} go by the client's connection: queues are for send-ud"
            ));
        }
        Ok(())
    }
}

impl Travel {
    /// By WRITE.
    pub(crate) const WRITES: Travel = Travel { datagrams: false };

    /// Parameters of HERD's RPCs with requests and replies of at most so many bytes.
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
    /// With uniform keys.
    pub(crate) const fn new(pairs: u64, put_permille: u32) -> Pairs {
        Pairs { pairs, zipf: false, put_permille }
    }

    /// What a client asks a store of so many partitions for, with values of so many bytes.
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
    /// As the paper has them.
    pub(crate) const USUAL: Values = Values { value: 32 };
}

impl Scale {
    /// ATC'16's partitions of 8 million pairs, and the last-level cache of its machines.
    pub(crate) const PAPER: Scale = Scale { real_pairs: 8_000_000, cache_bytes: 35 << 20 };

    /// Bytes that caches hold of a store of so many pairs.
    pub(crate) fn cached(&self, pairs: u64) -> u64 {
        (u128::from(self.cache_bytes) * u128::from(pairs) / u128::from(self.real_pairs.max(1))) as u64
    }
}

impl Timing {
    /// Until the answer is known.
    pub const USUAL: Timing = Timing {
        warmup: None,
        duration: None,
        precision: Share::of_percent(1),
        max_time: Duration::new(Span::from_ms(1000)),
        seed: 1,
    };

    /// The same for so long after a warm-up.
    pub const fn of(warmup: Span, duration: Span) -> Timing {
        let (warmup, duration) = (Some(Duration::new(warmup)), Some(Duration::new(duration)));
        Timing { warmup, duration, ..Timing::USUAL }
    }
}
