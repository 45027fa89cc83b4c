//! The environment variables by which the launcher instructs the library.

/// How the device presents itself: `ib` (the default) or `roce`.
pub const LINK: &str = "DOORBELL_LINK";

/// Vendor and kind of the NIC that the device says it is, as `vendor_id:vendor_part_id`.
pub const DEVICE_ID: &str = "DOORBELL_DEVICE_ID";

/// Limits of the NIC that the device is shown as: the numbers of [`Limits`](crate::limits::Limits) in their order, with
/// colons between.
pub const DEVICE_LIMITS: &str = "DOORBELL_DEVICE_LIMITS";

/// 1 where page-aligned allocations come from shared memory.
pub const SHARED_BUFFERS: &str = "DOORBELL_SHARED_BUFFERS";

/// Whether the memory of a process may be opened to others of its user: `yes`, which is usual, or `no`.
pub const PTRACE: &str = "DOORBELL_PTRACE";

/// The address that the process has as a host of its own.
pub const IP: &str = "DOORBELL_IP";

/// 1 where it is not said why a QP is in error.
pub const QUIET: &str = "DOORBELL_QUIET";

/// Names the fabric of programs that must not meet others of the same user.
pub const FABRIC: &str = "DOORBELL_FABRIC";

/// A folder that processes of several namespaces share, who are of one fabric where both name it and the fabric.
pub const MEET: &str = "DOORBELL_MEET";

/// The faults, as [`Faults`](crate::faults::Faults) are written.
pub const FAULTS: &str = "DOORBELL_FAULT";

/// The seed of the faults.
pub const SEED: &str = "DOORBELL_SEED";

/// `fail` or `warn`; nothing is looked for where it is not set.
pub const STRICT: &str = "DOORBELL_STRICT";

/// The file of the trace, behind the time at which its run began and how many work requests of a process are traced, as
/// `nanoseconds:number:file`.
pub const TRACE: &str = "DOORBELL_TRACE";

/// Name or file of the profile for statistics; counting is on where it is set.
pub const PROFILE: &str = "DOORBELL_PROFILE";

/// Where programs find the board of the launcher: a process, its file descriptor, and when it started.
pub const COUNTS: &str = "DOORBELL_COUNTS";

/// 1 to print a summary when the process ends.
pub const STATS: &str = "DOORBELL_STATS";

/// File for the JSON of the statistics.
pub const STATS_JSON: &str = "DOORBELL_STATS_JSON";

/// Names the folder of links to the library. A program that has it is led to what is shown of the device.
pub const FOLDER: &str = "DOORBELL_FOLDER";

/// The number of a rank, from 0.
pub const RANK: &str = "DOORBELL_RANK";

/// How many ranks a run has.
pub const SIZE: &str = "DOORBELL_SIZE";

/// Whether a fabric can have this name, which becomes that of a folder.
pub fn is_fabric_name(name: &str) -> bool {
    (1..=100).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}
