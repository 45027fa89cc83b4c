//! Words that keys of a measurement have as values.
//!
//! Each type has a variant `Other` for words that Doorbell does not know. A file with such a word can be
//! read, so that one series does not hide the other series of its file. `Other` is refused when it matters.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// Defines an enum of words, with a variant for unknown words.
macro_rules! names {
    ($(#[$docs:meta])* $type:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$docs])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum $type {
            $($(#[$of])* $variant,)+
            /// A word that Doorbell does not know.
            Other(String),
        }

        impl $type {
            /// The words that Doorbell knows.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The word, as files have it.
            pub fn name(&self) -> &str {
                match self {
                    $($type::$variant => $name,)+
                    $type::Other(name) => name,
                }
            }
        }

        impl From<String> for $type {
            fn from(name: String) -> $type {
                match &*name {
                    $($name => $type::$variant,)+
                    _ => $type::Other(name),
                }
            }
        }

        impl From<$type> for String {
            fn from(word: $type) -> String {
                word.name().to_owned()
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "examples": $type::NAMES })
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

names! {
    /// The use of a series.
    SeriesRole {
        /// Parameters of a profile may be set from it.
        Calibrate = "calibrate",
        /// It checks profiles. No parameter is set from it.
        Check = "check",
        /// It is shown beside the model. It neither sets parameters nor checks a profile.
        Reference = "reference",
    }
}

names! {
    /// Unit of the values of a series.
    MeasuredUnit {
        /// 10^6 operations per second.
        MopsPerSecond = "Mops/s",
        /// 10^9 bits of payload per second.
        GbPerSecond = "Gb/s",
        /// 10^6 bytes of payload per second.
        MbPerSecond = "MB/s",
        /// 2^20 bytes of payload per second. Perftest calls this unit MB/sec.
        MibPerSecond = "MiB/s",
        /// 10^9 bytes of payload per second.
        GbytesPerSecond = "GB/s",
        /// 2^30 bytes of payload per second.
        GibPerSecond = "GiB/s",
        /// Nanoseconds.
        Nanoseconds = "ns",
        /// Microseconds.
        Microseconds = "us",
    }
}

names! {
    /// Link layer of the network.
    FabricKind {
        /// InfiniBand.
        InfiniBand = "ib",
        /// RoCE: InfiniBand's transport over Ethernet.
        Roce = "roce",
    }
}

names! {
    /// Operation. In a ping-pong, the operation that both sides post.
    MeasuredVerb {
        /// WRITE.
        Write = "write",
        /// READ.
        Read = "read",
        /// SEND.
        Send = "send",
        /// Fetch-and-add.
        FetchAdd = "faa",
        /// Compare-and-swap.
        CompareSwap = "cas",
        /// Several operations, in a mix that the file does not state.
        Mixed = "mixed",
    }
}

names! {
    /// Transport.
    MeasuredTransport {
        /// Reliable connection.
        Rc = "rc",
        /// Unreliable connection.
        Uc = "uc",
        /// Unreliable datagram.
        Ud = "ud",
        /// Dynamically connected transport of Mellanox NICs.
        Dc = "dc",
        /// Scalable reliable datagram of AWS EFA.
        Srd = "srd",
        /// Raw Ethernet, without RDMA.
        Raw = "raw",
    }
}

names! {
    /// Measured quantity.
    Metric {
        /// Operations per second.
        Rate = "rate",
        /// Payload per second.
        Bandwidth = "bandwidth",
        /// Half of the time of a ping-pong.
        LatencyHalf = "latency-half",
        /// Time of an operation from post to completion.
        LatencyFull = "latency-full",
    }
}

names! {
    /// Doorbell registers of the QPs.
    Registers {
        /// The 16 registers that the driver of mlx5 allocates by default. QPs share them under locks.
        Shared16 = "shared16",
        /// Each thread has a register of its own.
        Own = "own",
        /// All QPs of the test use one register.
        One = "one",
    }
}

names! {
    /// Remote addresses of the operations.
    MeasuredAddresses {
        /// All operations use one address.
        Same = "same",
        /// Random addresses in a region.
        Random = "random",
        /// Random bytes of a region, at both ends. Operations begin at any byte of a cache line.
        AnyByte = "any-byte",
        /// Each thread or each operation has cache lines of its own.
        OwnLine = "own-line",
        /// Several addresses in an order that the source does not state.
        Many = "many",
    }
}

names! {
    /// Machines that post.
    PostingPattern {
        /// The requester.
        Outbound = "outbound",
        /// All machines but one, to this one.
        Inbound = "inbound",
        /// All machines, to all others.
        AllToAll = "all-to-all",
    }
}

names! {
    /// Place of the remote memory.
    RemoteMemory {
        /// Memory of the host.
        Host = "host",
        /// Memory on the NIC.
        Device = "device",
        /// Memory of GPUs, at both ends.
        Gpu = "gpu",
    }
}

names! {
    /// Side whose counters were read.
    MeasuredSide {
        /// The requester's.
        Outbound = "outbound",
        /// The responder's.
        Inbound = "inbound",
    }
}

names! {
    /// Socket of a process, relative to the socket of its NIC.
    Locality {
        /// The NIC's socket.
        Near = "near",
        /// Another socket.
        Far = "far",
    }
}

names! {
    /// Processes that a [`Locality`] concerns.
    Endpoint {
        /// The requesting process.
        Requester = "requester",
        /// The responding process.
        Responder = "responder",
        /// Both processes.
        Both = "both",
    }
}
