//! Verbs, and which machines post to which.

use doorbell_verbs::{Opcode, QpType};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The names in a table of names and values.
const fn names<T: Copy, const N: usize>(table: [(&'static str, T); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut i = 0;
    while i < N {
        names[i] = table[i].0;
        i += 1;
    }
    names
}

/// A verb of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// SEND, with an immediate if it is header-only.
    Send,
    /// WRITE.
    Write,
    /// READ.
    Read,
    /// Fetch-and-add on 8 bytes.
    FetchAdd,
    /// Compare-and-swap on 8 bytes.
    CompareSwap,
}

impl Verb {
    /// All verbs with their names.
    pub const ALL: [(&str, Verb); 5] = [
        ("send", Verb::Send),
        ("write", Verb::Write),
        ("read", Verb::Read),
        ("fetch-add", Verb::FetchAdd),
        ("compare-swap", Verb::CompareSwap),
    ];
    pub(crate) const NAMES: &'static [&'static str] = &names(Verb::ALL);

    /// Other words for names.
    pub(crate) const ALSO: &'static [(&'static str, &'static str)] = &[
        ("cas", "compare-swap"),
        ("compare-and-swap", "compare-swap"),
        ("faa", "fetch-add"),
        ("fetch-and-add", "fetch-add"),
    ];

    /// The verb of a name, in capitals or small letters, or of another word for the name.
    pub(crate) fn named(text: &str) -> Option<Verb> {
        let name = doorbell_schema::named(Verb::NAMES, Verb::ALSO, text)?;
        Verb::ALL.iter().find(|(known, _)| *known == name).map(|(_, verb)| *verb)
    }

    /// Name in options and files.
    pub fn name(self) -> &'static str {
        Verb::NAMES[self as usize]
    }

    /// Opcode of the verb.
    pub fn opcode(self, header_only: bool) -> Opcode {
        match self {
            Verb::Send if header_only => Opcode::SendWithImm,
            Verb::Send => Opcode::Send,
            Verb::Write => Opcode::Write,
            Verb::Read => Opcode::Read,
            Verb::FetchAdd => Opcode::FetchAdd,
            Verb::CompareSwap => Opcode::CompareSwap,
        }
    }

    /// Whether the verb is an atomic.
    pub fn is_atomic(self) -> bool {
        self.opcode(false).is_atomic()
    }

    /// Whether messages of the verb consume RECVs.
    pub fn consumes_recv(self) -> bool {
        self.opcode(false).consumes_recv()
    }

    /// Whether requests of the verb carry payload.
    pub fn carries_payload(self) -> bool {
        matches!(self, Verb::Send | Verb::Write)
    }

    /// Whether a request of this size has payload that could be inlined.
    pub fn has_payload(self, size: u32) -> bool {
        self.carries_payload() && size > 0
    }

    /// Whether the verb accesses buffers of the peer by their addresses.
    pub fn reaches_buffers(self) -> bool {
        matches!(self, Verb::Write | Verb::Read)
    }

    /// The size of the verb's messages, if only one size is possible.
    pub(crate) fn only_size(self, header_only: bool) -> Option<u32> {
        match self {
            Verb::Send if header_only => Some(0),
            Verb::FetchAdd | Verb::CompareSwap => Some(8),
            Verb::Send | Verb::Write | Verb::Read => None,
        }
    }

    /// The transport on which ATC'16 studies the verb (Figure 3).
    pub(crate) fn usual_transport(self) -> QpType {
        match self {
            Verb::Send => QpType::Ud,
            Verb::Write => QpType::Uc,
            Verb::Read | Verb::FetchAdd | Verb::CompareSwap => QpType::Rc,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verb::Send => "SEND",
            Verb::Write => "WRITE",
            Verb::Read => "READ",
            Verb::FetchAdd => "fetch-and-add",
            Verb::CompareSwap => "compare-and-swap",
        })
    }
}

/// Which machines post to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// The threads of machine 0 post to the other machines.
    Outbound,
    /// The threads of the other machines post to machine 0.
    Inbound,
    /// All threads post to the other machines.
    AllToAll,
}

impl Pattern {
    /// All patterns with their names.
    pub const ALL: [(&str, Pattern); 3] =
        [("outbound", Pattern::Outbound), ("inbound", Pattern::Inbound), ("all-to-all", Pattern::AllToAll)];
    pub(crate) const NAMES: &'static [&'static str] = &names(Pattern::ALL);
}

/// Layout of the pieces of a payload that several SGEs describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pieces {
    /// Side by side.
    Contiguous,
    /// Each in cache lines of its own.
    Apart,
}

impl Pieces {
    /// All layouts with their names.
    pub const ALL: [(&str, Pieces); 2] = [("contiguous", Pieces::Contiguous), ("apart", Pieces::Apart)];
    pub(crate) const NAMES: &'static [&'static str] = &names(Pieces::ALL);
}

/// The addresses of operations in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Addresses {
    /// The buffers of the region, one after the other, and again from the first.
    Sequential,
    /// A random buffer for each operation.
    Random,
    /// A random byte for each operation; the operation has the length of a buffer.
    AnyByte,
}

impl Addresses {
    /// All kinds of addresses with their names.
    pub const ALL: [(&str, Addresses); 3] = [
        ("sequential", Addresses::Sequential),
        ("random", Addresses::Random),
        ("any-byte", Addresses::AnyByte),
    ];
    pub(crate) const NAMES: &'static [&'static str] = &names(Addresses::ALL);
}

/// The addresses of operations in a responder's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemoteAddresses {
    /// The buffers of the thread's region, one after the other, and again from the first.
    Sequential,
    /// A random buffer of the thread's region for each operation.
    Random,
    /// One buffer of the responding machine for all operations of all threads.
    Same,
}

impl RemoteAddresses {
    /// All kinds of addresses with their names.
    pub const ALL: [(&str, RemoteAddresses); 3] = [
        ("sequential", RemoteAddresses::Sequential),
        ("random", RemoteAddresses::Random),
        ("same", RemoteAddresses::Same),
    ];
    pub(crate) const NAMES: &'static [&'static str] = &names(RemoteAddresses::ALL);
}

/// The memory that WRITEs, READs and atomics access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemoteMemory {
    /// Memory of the responding host.
    Host,
    /// Memory on the responder's NIC (ibv_alloc_dm(3)).
    Device,
}

impl RemoteMemory {
    /// All kinds of memory with their names.
    pub const ALL: [(&str, RemoteMemory); 2] =
        [("host", RemoteMemory::Host), ("device", RemoteMemory::Device)];
    pub(crate) const NAMES: &'static [&'static str] = &names(RemoteMemory::ALL);
}
