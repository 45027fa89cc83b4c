//! The environment variables by which the launcher instructs the library.

/// The link layer of the device's port: `ib` (the default) or `roce`.
pub const LINK: &str = "DOORBELL_LINK";

/// Vendor and part number of the NIC that the device imitates, as `vendor_id:vendor_part_id`.
pub const DEVICE_ID: &str = "DOORBELL_DEVICE_ID";

/// Limits of the NIC that the device imitates: the numbers of [`Limits`](crate::limits::Limits) in their
/// order, separated by colons.
pub const DEVICE_LIMITS: &str = "DOORBELL_DEVICE_LIMITS";

/// 1 if page-aligned allocations come from shared memory.
pub const SHARED_BUFFERS: &str = "DOORBELL_SHARED_BUFFERS";

/// Whether the memory of a process may be opened to other processes of its user: `yes`, the default, or `no`.
pub const PTRACE: &str = "DOORBELL_PTRACE";

/// The IP address that the process has as a host of its own.
pub const IP: &str = "DOORBELL_IP";

/// `fast` if work requests are sent again as soon as they may succeed, not when a NIC's timers expire.
pub const TIMERS: &str = "DOORBELL_TIMERS";

/// 1 to suppress the reports of why a QP is in error.
pub const QUIET: &str = "DOORBELL_QUIET";

/// Names the fabric. Programs on it do not reach other programs of the same user.
pub const FABRIC: &str = "DOORBELL_FABRIC";

/// A folder that processes of several PID namespaces share. Processes that name it and the same fabric are on
/// one fabric.
pub const MEET: &str = "DOORBELL_MEET";

/// The faults, in the text form of [`Faults`](crate::faults::Faults).
pub const FAULTS: &str = "DOORBELL_FAULT";

/// The seed of the faults.
pub const SEED: &str = "DOORBELL_SEED";

/// `fail` or `warn`; without it there is no strict mode.
pub const STRICT: &str = "DOORBELL_STRICT";

/// The trace, as `nanoseconds:number:file`: the time at which its run began, the number of work requests to
/// trace in each process, and the file.
pub const TRACE: &str = "DOORBELL_TRACE";

/// Name or file of the profile for statistics. Counting is on if it is set.
pub const PROFILE: &str = "DOORBELL_PROFILE";

/// The address of the launcher's board: a PID, a file descriptor of that process, and the process's start
/// time.
pub const COUNTS: &str = "DOORBELL_COUNTS";

/// 1 to print a summary when the process exits.
pub const STATS: &str = "DOORBELL_STATS";

/// File for the JSON of the statistics.
pub const STATS_JSON: &str = "DOORBELL_STATS_JSON";

/// Names the folder of links to the library. The library redirects paths of the device only in a program that
/// has it.
pub const FOLDER: &str = "DOORBELL_FOLDER";

/// The number of a rank, from 0.
pub const RANK: &str = "DOORBELL_RANK";

/// The number of ranks of a run.
pub const SIZE: &str = "DOORBELL_SIZE";

/// Whether a fabric can have this name. The name becomes part of a folder's name.
pub fn is_fabric_name(name: &str) -> bool {
    (1..=100).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}
