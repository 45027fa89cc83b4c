//! The environment variables by which the launcher configures the library.

/// The link layer of the device's port: `ib` (the default) or `roce`.
pub const LINK: &str = "DOORBELL_LINK";

/// Vendor id and part id of the NIC that the device imitates, as `vendor_id:vendor_part_id`.
pub const DEVICE_ID: &str = "DOORBELL_DEVICE_ID";

/// Limits of the NIC that the device imitates, as [`Limits::text`](crate::limits::Limits::text) writes them.
pub const DEVICE_LIMITS: &str = "DOORBELL_DEVICE_LIMITS";

/// 1 if page-aligned allocations come from shared memory.
pub const SHARED_BUFFERS: &str = "DOORBELL_SHARED_BUFFERS";

/// `yes` (the default) if the library may open the process's memory to other processes of its user, otherwise
/// `no`.
pub const PTRACE: &str = "DOORBELL_PTRACE";

/// The IP address of the process, which then is a host of its own.
pub const IP: &str = "DOORBELL_IP";

/// `fast` if requesters send again as soon as a work request may succeed, instead of when a NIC's timers
/// expire.
pub const TIMERS: &str = "DOORBELL_TIMERS";

/// 1 if the library explains neither QPs in error nor refused calls.
pub const QUIET: &str = "DOORBELL_QUIET";

/// Nanoseconds after which the library explains a wait. Without it, the library explains only waits that
/// nothing can end.
pub const EXPLAIN_AFTER: &str = "DOORBELL_EXPLAIN_AFTER";

/// The name of the fabric. Programs reach only programs on their own fabric.
pub const FABRIC: &str = "DOORBELL_FABRIC";

/// A folder through which processes of several PID namespaces reach each other. Processes with equal folder
/// and equal fabric name are on one fabric.
pub const MEET: &str = "DOORBELL_MEET";

/// The faults, in the text form of [`Faults`](crate::faults::Faults).
pub const FAULTS: &str = "DOORBELL_FAULT";

/// The seed of the faults.
pub const SEED: &str = "DOORBELL_SEED";

/// `fail` or `warn`; without it there is no strict mode.
pub const STRICT: &str = "DOORBELL_STRICT";

/// The trace, as `nanoseconds:number:file`: the start of the run by CLOCK_MONOTONIC, the number of work
/// requests to trace in each process, and the file.
pub const TRACE: &str = "DOORBELL_TRACE";

/// Name or file of the profile for statistics. The library counts posts only if this variable is set.
pub const PROFILE: &str = "DOORBELL_PROFILE";

/// The address of the launcher's [`Board`](crate::counts::board::Board), as `pid:descriptor:start_time` of
/// the process that has opened the board's file.
pub const COUNTS: &str = "DOORBELL_COUNTS";

/// The address of the board on which processes record their waits, like [`COUNTS`].
pub const WAITS: &str = "DOORBELL_WAITS";

/// 1 if the process prints a summary when it exits.
pub const STATS: &str = "DOORBELL_STATS";

/// File for the JSON of the statistics.
pub const STATS_JSON: &str = "DOORBELL_STATS_JSON";

/// The folder of links to the library. Only if this variable is set, the library redirects the paths of the
/// device's files.
pub const FOLDER: &str = "DOORBELL_FOLDER";

/// The number of this rank, from 0.
pub const RANK: &str = "DOORBELL_RANK";

/// The number of ranks of a run.
pub const SIZE: &str = "DOORBELL_SIZE";

/// Whether a fabric can have this name, which becomes part of the name of a folder.
pub fn is_fabric_name(name: &str) -> bool {
    (1..=100).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}
