//! Keys of options that no field of [`Workload`](crate::Workload) has.

/// Key of the option that names a system.
pub const SYSTEM: &str = "system";

/// Key of the option that names a system's design.
pub const DESIGN: &str = "design";

/// Key of the option for the rate of an open loop as a share of its capacity.
pub const LOAD: &str = "load";
