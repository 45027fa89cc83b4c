//! Why a series or a point has no answer.

use crate::format::{MeasuredTransport, MeasuredUnit, Metric, PostingPattern};
use thiserror::Error;

/// Why a series or a point has no answer: one reason for each thing that Doorbell cannot express. The message
/// is a sentence that begins with the key of the measurement.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refusal {
    /// The metric is a time of an application, or unknown.
    #[error("metric is {0}, which is no rate, bandwidth or latency of single operations")]
    Metric(String),
    /// The unit does not belong to the metric.
    #[error("unit is {unit}, which is no unit of a {metric}")]
    Unit {
        /// The metric.
        metric: Metric,
        /// The unit.
        unit: MeasuredUnit,
    },
    /// A word that is not one of a key's words.
    #[error("{key} is {word}, but Doorbell knows {}", known.join(", "))]
    Word {
        /// The key.
        key: &'static str,
        /// The word.
        word: String,
        /// The key's words.
        known: &'static [&'static str],
    },
    /// A measured value that no error can be computed for.
    #[error("value is {0}, but an error needs a positive number")]
    Value(f64),
    /// An axis that is no key of a workload.
    #[error("axis is {0}, which is no key of a workload")]
    Axis(String),
    /// Points that only their names describe.
    #[error("axis is case, and no key says how the cases differ")]
    Cases,
    /// An element of the axis that the axis cannot have.
    #[error("{key} is {x}, but must be a whole number")]
    NotWhole {
        /// The key.
        key: String,
        /// The element.
        x: f64,
    },
    /// A key is absent, and no usual value is near enough.
    #[error("{0} is missing, and the result depends on it")]
    Missing(&'static str),
    /// Operations of several kinds in an unknown mix.
    #[error("verb is mixed, and no key states the mix")]
    MixedVerbs,
    /// A transport that Doorbell does not have.
    #[error("transport is {0}, which the model does not have")]
    Transport(MeasuredTransport),
    /// Half a round trip of an operation without an answer.
    #[error("metric is latency-half, but only WRITE and SEND have a ping-pong")]
    HalfOfOneSided,
    /// A ping-pong with more than one message at a time.
    #[error("metric is latency-half, but {0} is not 1")]
    PingPongOfSeveral(&'static str),
    /// Threads that share QPs.
    #[error("threads share QPs, but a QP of the model belongs to one thread")]
    SharedQps,
    /// Numbers that do not divide evenly.
    #[error("{what} is {number}, which is not a multiple of {of}")]
    Uneven {
        /// The key with the number.
        what: &'static str,
        /// The number.
        number: u32,
        /// The divisor, in words.
        of: String,
    },
    /// QPs that share doorbell registers under locks.
    #[error("doorbell_registers is shared16, but doorbell registers of the model are never shared")]
    SharedRegisters,
    /// One doorbell register for several threads.
    #[error(
        "doorbell_registers is one for {0} threads, but doorbell registers of the model are never shared"
    )]
    OneRegister(u32),
    /// Plain doorbells for single work requests.
    #[error("blueflame is false, but the model writes single WQEs by MMIO")]
    PlainDoorbells,
    /// WQEs by MMIO for lists.
    #[error("blueflame is true for lists of {0} work requests, but the model rings a doorbell for lists")]
    BlueFlameOfLists(u32),
    /// READs or WRITEs that all use one address.
    #[error("addresses is same, but the model does not serialise READs and WRITEs of one address")]
    SameAddress,
    /// Remote memory on the NIC.
    #[error("memory is device, but the model has no memory on the NIC")]
    DeviceMemory,
    /// Remote memory of GPUs.
    #[error("memory is gpu, but the model has no memory of GPUs")]
    GpuMemory,
    /// A NIC that sends to itself.
    #[error("loopback is true, but the model has no path from a NIC to itself")]
    Loopback,
    /// A latency over another number of switches than the profile's.
    #[error("hops is {0}, but link.one_way_ns of the profile has one switch")]
    Hops(u32),
    /// Several loaded NICs.
    #[error("nics is {0}, but the model loads one NIC")]
    Nics(u32),
    /// Several loaded functions of a NIC.
    #[error("functions is {0}, but the model has one PCIe function of a NIC")]
    Functions(u32),
    /// More links than threads.
    #[error("links is {links}, but threads is {threads}, and a thread of the model uses one link")]
    Links {
        /// The links.
        links: u32,
        /// The threads.
        threads: u32,
    },
    /// A far socket of a machine with one socket.
    #[error("socket is far, but a machine of the profile has one socket")]
    FarSocket,
    /// A system instead of verbs.
    #[error("system is {0}, and a check simulates single verbs")]
    System(String),
    /// The file states why no run can answer the series.
    #[error("not_run: {0}")]
    NotRun(String),
    /// Both sides post, in another pattern than one pair.
    #[error("bidirectional is true, but pattern is {0}")]
    BothPatterns(PostingPattern),
    /// A poster that is not a CPU.
    #[error("initiator is {0}, but only CPUs of the model post")]
    Initiator(String),
    /// On-demand paging.
    #[error("odp is {0}, but the model has no on-demand paging")]
    OnDemandPaging(String),
    /// Software that holds requests back.
    #[error("throttle is {0}, and no key says how the software holds requests back")]
    Throttle(String),
    /// Calls of an application with an unknown number of doorbells.
    #[error(
        "requests is {0}, the requests of a call of an application, and the number of doorbells is not known"
    )]
    Requests(u32),
    /// A PCIe generation that Doorbell does not know.
    #[error("pcie.gen is {0}, but Doorbell knows the lane rates of generations 1 to 5")]
    PcieGeneration(u32),
    /// Doorbell's own sentence about a workload or a profile that cannot be.
    #[error("{0}")]
    Invalid(String),
}
