//! Runs programs on the software NIC, and reports their posts.
//!
//! The `doorbell` command launches a program. The library in the program is the software NIC
//! (`doorbell-soft`). This crate has the launcher, and the definitions that the launcher and the library
//! share:
//! - [`variables`]: the environment variables by which the launcher configures the library;
//! - [`limits`], [`faults`], [`modes`], [`strict`], [`trace`]: values of these variables;
//! - [`counts`]: shared memory in which the library counts posts, and which the launcher reads;
//! - [`waits`]: the reasons why processes wait, which the launcher prints at a signal;
//! - [`stats`]: the cost of the counted posts on a NIC, printed or written as JSON;
//! - [`trust`], [`sealed`], [`tree`], [`say`](mod@say): checks of owners and modes, shared memory, folders,
//!   messages.
//!
//! The launcher itself is [`Launch`], which the library does not use.

mod address;
pub mod clock;
pub mod counts;
pub mod faults;
mod launcher;
pub mod limits;
pub mod modes;
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
pub mod waits;

pub use address::is_of_one_host;
pub use launcher::{LIBRARY, Launch, LaunchError, MOST_RANKS, NotBuilt, Unserved};
pub use modes::{Link, Ptrace, Timers};
