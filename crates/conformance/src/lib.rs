//! Checks of the behaviour that every verbs device must have, for any [`Cluster`](doorbell_verbs::Cluster),
//! and sample programs.
//!
//! A check is a function that is generic over the provider, in the file of its group, and a row in
//! `table.rs`. It runs on a fresh cluster: on machine 0 as the requester and, if it needs two machines, on
//! machine 1 as the responder. It gets a `Bench`, which has the device open and makes pairs of connected QPs.
//! [`run`] runs the suite.
//!
//! The required behaviour is the behaviour that the IB specification, the man pages of libibverbs and the
//! papers' systems rely on. If these leave a choice, the check's comment says so, and the check accepts any.
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
