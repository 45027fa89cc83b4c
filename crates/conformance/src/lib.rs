//! Checks of the behaviour that every verbs device must have, for any [`Cluster`](doorbell_verbs::Cluster),
//! and sample programs.
//!
//! A check is a function that is generic over the provider, in the file of its group, and a row in
//! `table.rs`. It runs on a fresh cluster: on machine 0 as the requester and, if the check needs two
//! machines, on machine 1 as the responder. The function gets a `Bench`, which has opened the device and
//! connects pairs of QPs. [`run`] runs the suite.
//!
//! The IB specification and the man pages of libibverbs define the required behaviour. It also includes
//! properties that the papers' systems rely on. If these sources leave a choice, the check's comment says so,
//! and the check accepts each choice.
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
