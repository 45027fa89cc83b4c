//! Runs programs on the software NIC, and reports what they posted.
//!
//! The `doorbell` command launches a program. The library in that program is the software NIC
//! (`doorbell-soft`). This crate has the launcher, and the definitions that launcher and library share:
//! - [`variables`]: the environment variables by which the launcher instructs the library;
//! - [`limits`], [`faults`], [`strict`], [`trace`]: the values of those variables that have a syntax of their
//!   own;
//! - [`counts`]: the memory in which the library counts, and which the launcher reads;
//! - [`stats`]: the cost of the counted work on a NIC, printed or written as JSON;
//! - [`trust`], [`sealed`], [`tree`], [`say`](mod@say): files that may be used, shared memory, folders,
//!   messages.
//!
//! The launcher itself is [`Launch`]. The library does not use it.

mod address;
pub mod counts;
pub mod faults;
mod launcher;
pub mod limits;
pub mod process_start;
pub mod qp_numbers;
pub mod say;
pub mod sealed;
pub mod stats;
pub mod strict;
pub mod trace;
pub mod tree;
pub mod trust;
pub mod variables;

pub use address::is_of_one_host;
pub use launcher::{LIBRARY, Launch, LaunchError, Link, MOST_RANKS, NotBuilt, Unserved};
