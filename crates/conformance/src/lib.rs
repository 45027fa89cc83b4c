//! What every verbs device must do, as checks that run on any [`Cluster`](doorbell_verbs::Cluster); and the sample programs.
//!
//! A check is one function, generic over the provider, in the file of its group, and one row in
//! `table.rs`. It runs on a fresh cluster: on machine 0 as the requester and, where it takes two, on
//! machine 1 as the responder, with a `Bench` that has the device open and makes
//! pairs of connected QPs. [`run`] runs the suite.
//!
//! What a device must do is what the IB specification, the man pages of libibverbs and the papers'
//! systems count on. Where these leave a choice the check's comment says so and takes either.
#![forbid(unsafe_code)]

mod atomics;
mod bench;
mod completions;
mod connections;
mod datagrams;
mod flush;
mod keys;
mod limits;
mod line;
mod ordering;
mod report;
mod rnr;
pub mod samples;
mod sockets;
mod soft_roce;
mod srq;
mod states;
mod step;
mod suite;
mod table;
mod verbs_per_transport;

pub use report::{CheckResult, KnownDifference, Outcome, Report};
pub use soft_roce::SOFT_ROCE_DIFFERENCES;
pub use suite::{names, run};
