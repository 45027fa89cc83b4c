//! A system's shape: the facts that programs of any system need to run and judge it.

use crate::config::Clients;
use doorbell_verbs::{Span, Time};

/// Virtual time that a thread has to set up at least, and to use a line of its memory once.
const SETUP: Span = Span::from_us(1500);
const SETUP_LINE: Span = Span::from_ns(200);

/// Bytes of a cache line.
const LINE: u64 = 64;

/// An event that comes round again and again in a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// After this time.
    Time(Span),
    /// After so many operations.
    Operations(u64),
}

/// The shape of a system with its parameters. [`SystemShape::of`] has the defaults: a server that stores nothing,
/// and clients whose operations follow each other without a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemShape {
    /// Its clients.
    pub clients: Clients,
    /// Its machines; 0 is the server.
    pub machines: u32,
    /// Worker threads of the server, where a parameter says how many.
    pub workers: Option<u32>,
    /// Bytes of the memory of the server's store.
    pub store_bytes: u64,
    /// Bytes that a thread uses once before it is ready.
    pub warmed_bytes: u64,
    /// Bytes of a client's buffers, where parameters decide that.
    pub client_bytes: u64,
    /// Bytes up to which payload is copied into WQEs, where a parameter says so. A device bounds them.
    pub inline_bytes: Option<u32>,
    /// The bytes of its longest UD message, where a parameter decides that, and which.
    pub datagram: Option<(&'static str, u32)>,
    /// Cores that parameters name, each with its parameter.
    pub cores: Vec<(&'static str, u32)>,
    /// Whether all clients are threads of one machine, whatever clients_per_machine is.
    pub one_machine: bool,
    /// Sockets of a machine and cores of each, where parameters say them.
    pub sockets: Option<(u32, u32)>,
    /// Whether bytes travel by kernel TCP.
    pub over_tcp: bool,
    /// A parameter, with its value, that changes nothing on a host of the model whose caches have no sizes.
    pub needs_sizes: Option<(&'static str, String)>,
    /// Operations that are due in a second, where they are due at a rate.
    pub rate: Option<u64>,
    /// Time from the end of a client's operation until its next.
    pub think: Span,
    /// What comes round again and again, where a few rounds say nothing of the long run.
    pub round: Option<Round>,
    /// For how long an operation may be held back before it is begun, and the parameter that says so.
    pub held_back: Option<(&'static str, Span)>,
    /// A thread of the server that is no part of any operation: how busy its core is says nothing of the rate.
    pub beside: Option<u32>,
    /// Whether clients want what one has at a time: results say how evenly they get it.
    pub competes: bool,
    /// Whether a client that is refused what another has asks again at once.
    pub retries_at_once: bool,
    /// What a latency is of, where it is not from the start of an operation to its end.
    pub latency_of: Option<&'static str>,
    /// Bytes that an operation moves, where the result is to say how many a second.
    pub moved_bytes: Option<u64>,
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
        }
    }

    /// When clients begin where time is virtual: threads are ready.
    pub fn begin(&self) -> Time {
        Time::START + SETUP.max(SETUP_LINE * (self.warmed_bytes / LINE))
    }
}
