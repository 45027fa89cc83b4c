//! A system's shape: the facts that generic code needs to run any system and to judge its results.

use crate::config::Clients;
use doorbell_verbs::{Span, Time};

/// Minimum virtual time for the setup of a thread, and virtual time for one use of a line of its memory.
const SETUP: Span = Span::from_us(1500);
const SETUP_LINE: Span = Span::from_ns(200);

/// Bytes of a cache line.
const LINE: u64 = 64;

/// How often an event recurs in a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Once in this time.
    Time(Span),
    /// Once in this many operations.
    Operations(u64),
}

/// The shape of a system with certain parameters. [`SystemShape::of`] has the defaults: a server that stores
/// nothing, and clients whose operations follow each other without a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemShape {
    /// Parameters of the clients.
    pub clients: Clients,
    /// Number of machines. Machine 0 is the server.
    pub machines: u32,
    /// Worker threads of the server, if a parameter sets their number.
    pub workers: Option<u32>,
    /// Bytes of the server's store.
    pub store_bytes: u64,
    /// Bytes that a thread accesses once before it is ready.
    pub warmed_bytes: u64,
    /// Bytes of a client's buffers, if parameters determine them.
    pub client_bytes: u64,
    /// Bytes up to which payload is copied into WQEs, if a parameter sets them. A device has a limit of its
    /// own.
    pub inline_bytes: Option<u32>,
    /// The parameter that determines the longest UD message, and the bytes of this message.
    pub datagram: Option<(&'static str, u32)>,
    /// Parameters that name cores, each with the core's number.
    pub cores: Vec<(&'static str, u32)>,
    /// Whether all clients are threads of one machine, whatever `clients_per_machine` is.
    pub one_machine: bool,
    /// Number of a machine's sockets, and of the cores of a socket, if parameters set them.
    pub sockets: Option<(u32, u32)>,
    /// Whether bytes travel by kernel TCP.
    pub over_tcp: bool,
    /// A given parameter and its value, if it has no effect on a modelled host whose caches have no sizes.
    pub needs_sizes: Option<(&'static str, String)>,
    /// Operations that are due per second, in an open loop.
    pub rate: Option<u64>,
    /// Time from the end of a client's operation to the start of its next one.
    pub think: Span,
    /// A recurring event, if a run must contain many of its occurrences to be typical.
    pub round: Option<Round>,
    /// The parameter that sets how long an operation may be held back before it begins, and this time.
    pub held_back: Option<(&'static str, Span)>,
    /// A thread of the server that takes no part in operations. The load of its core says nothing about the
    /// rate.
    pub beside: Option<u32>,
    /// Whether clients compete for something that only one of them can have at a time. Results then report
    /// how evenly clients share it.
    pub competes: bool,
    /// Whether a client asks again at once if another client has the thing that it asks for.
    pub retries_at_once: bool,
    /// The span that a latency covers, if it is not an operation from start to end.
    pub latency_of: Option<&'static str>,
    /// Bytes that an operation moves, if results report bytes per second.
    pub moved_bytes: Option<u64>,
    /// If the programs [mark](doorbell_verbs::Cpu::mark) the steps of each operation, so that a tracer can
    /// follow it from machine to machine: the number of latencies in an operation. Otherwise the reason, as a
    /// part of a sentence.
    pub followed: Result<u32, &'static str>,
}

impl SystemShape {
    /// The defaults for these clients.
    pub fn of(clients: &Clients) -> SystemShape {
        SystemShape {
            clients: clients.clone(),
            machines: clients.machines(),
            workers: None,
            store_bytes: 0,
            warmed_bytes: 0,
            client_bytes: 0,
            inline_bytes: None,
            datagram: None,
            cores: Vec::new(),
            one_machine: false,
            sockets: None,
            over_tcp: false,
            needs_sizes: None,
            rate: None,
            think: Span::ZERO,
            round: None,
            held_back: None,
            beside: None,
            competes: false,
            retries_at_once: false,
            latency_of: None,
            moved_bytes: None,
            followed: Err("its programs do not mark the steps of their operations"),
        }
    }

    /// When clients begin in virtual time. All threads are ready by this time.
    pub fn begin(&self) -> Time {
        Time::START + SETUP.max(SETUP_LINE * (self.warmed_bytes / LINE))
    }
}
