//! The table `workload` of a series.

use super::names::{
    Endpoint, Locality, MeasuredAddresses, MeasuredSide, MeasuredTransport, MeasuredVerb, Metric,
    PostingPattern, Registers, RemoteMemory,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The workload of a series: the table `workload`. A point of the series is this workload with the key named
/// by `axis` set to an element of the axis. An absent key is not known, unless its description says
/// otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredWorkload {
    /// Operation.
    pub verb: MeasuredVerb,
    /// Transport.
    pub transport: MeasuredTransport,
    /// Measured quantity.
    pub metric: Metric,
    /// Name of the key that the axis varies. `report` means repeated intervals of one run, `case` means
    /// `cases`, and `socket_hops` means 0 for the NIC's socket and 1 for another socket.
    pub axis: String,
    /// Posting threads of the requester.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// QPs that one thread alone uses. Absent also if threads share QPs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qps_per_thread: Option<u32>,
    /// Threads that share one QP, rounded up to whole QPs. Absent: threads do not share QPs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_per_qp: Option<u32>,
    /// QPs of all threads together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qps: Option<u32>,
    /// Most work requests that a QP has outstanding. The program keeps it full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Most work requests that a thread has outstanding, on all its QPs together or on QPs that threads
    /// share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_per_thread: Option<u32>,
    /// Outstanding work requests of all QPs together, if the source states only this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u32>,
    /// Payload of an operation in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Scatter entries over which the payload is split. Absent: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sge: Option<u32>,
    /// Payloads up to this number of bytes are inline; 0 means none. Only WRITE and SEND have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<u32>,
    /// One of this many work requests is signalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal_every: Option<u32>,
    /// Work requests that one call posts, and so work requests per doorbell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// Requests of one timed call of an application. The number of doorbells is not known. Absent: the test
    /// has no such calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// Whether the CPU writes WQEs by MMIO (BlueFlame), or rings doorbells only. Absent: the driver decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blueflame: Option<bool>,
    /// Doorbell registers of the QPs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doorbell_registers: Option<Registers>,
    /// Remote addresses of the operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<MeasuredAddresses>,
    /// Number of addresses, if `addresses` is `many`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<u32>,
    /// Place of the remote memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<RemoteMemory>,
    /// READs and atomics that a QP has in flight, whatever the window is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rd_atomic: Option<u32>,
    /// Path MTU in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Switches between the machines; 0 means back to back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// Whether at least one switch is between the machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switched: Option<bool>,
    /// Whether the NIC sends to itself or to its second port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loopback: Option<bool>,
    /// Machines. Absent: two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<u32>,
    /// Machines that post. With `all-to-all`, `qps_per_thread` includes QPs to a thread's own machine, which
    /// stay unused, and the value is the mean over the machines. Absent: one requester, or both sides if
    /// `bidirectional` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<PostingPattern>,
    /// Whether each QP has a CQ of its own. Absent: a thread has one CQ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cq_per_qp: Option<bool>,
    /// Whether both sides send. The value is then the sum of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bidirectional: Option<bool>,
    /// Side whose counters were read. Absent: both sides, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<MeasuredSide>,
    /// Socket of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<Locality>,
    /// The process that `socket` or `socket_hops` concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket_of: Option<Endpoint>,
    /// NICs that are loaded at a time. Absent: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nics: Option<u32>,
    /// PCIe functions of one NIC that are loaded at a time. The value is one function's. Absent: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<u32>,
    /// The poster, if it is not a CPU, such as a GPU. Absent: a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub initiator: Option<toml::Value>,
    /// On-demand paging. Absent: no.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub odp: Option<toml::Value>,
    /// Software that holds requests back. Absent: no.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub throttle: Option<toml::Value>,
    /// Bytes of the region of random addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region_bytes: Option<u64>,
    /// Names of the points, if `axis` is `case`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cases: Option<Vec<String>>,
}

impl MeasuredWorkload {
    /// A workload of which only the required keys are known.
    pub fn new(
        verb: MeasuredVerb,
        transport: MeasuredTransport,
        metric: Metric,
        axis: &str,
    ) -> MeasuredWorkload {
        MeasuredWorkload {
            verb,
            transport,
            metric,
            axis: axis.to_owned(),
            threads: None,
            qps_per_thread: None,
            threads_per_qp: None,
            qps: None,
            window: None,
            window_per_thread: None,
            outstanding: None,
            size: None,
            sge: None,
            inline: None,
            signal_every: None,
            batch: None,
            requests: None,
            blueflame: None,
            doorbell_registers: None,
            addresses: None,
            keys: None,
            memory: None,
            rd_atomic: None,
            mtu: None,
            hops: None,
            switched: None,
            loopback: None,
            machines: None,
            pattern: None,
            cq_per_qp: None,
            bidirectional: None,
            side: None,
            socket: None,
            socket_of: None,
            nics: None,
            functions: None,
            initiator: None,
            odp: None,
            throttle: None,
            region_bytes: None,
            cases: None,
        }
    }
}
