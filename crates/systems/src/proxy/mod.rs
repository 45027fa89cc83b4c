//! READs of the memory of another machine's sockets: by QPs to each socket, by a QP to the matching one, or
//! by a proxy socket (CLUSTER'21, III-D, Figure 9).
//!
//! Every machine has sockets, each with a NIC or a port of one. The memory to read is at all sockets of
//! machine 0. A thread at socket a reads memory at socket b of machine 0 as [`Path`] says:
//!
//! - `direct`: by a QP from its own NIC to the NIC of the remote socket b. Each thread has a QP to every
//!   remote socket.
//! - `home`: by its one QP to the remote socket a, whose NIC fetches the memory across the remote machine's
//!   interconnect.
//! - `proxy`: by a thread of its machine at socket b. This thread reads by its own QP to the remote socket b,
//!   and hands the result back. Each pair of threads has two queues in shared memory, one of requests and one
//!   of results. No NIC accesses memory of another socket.
//!
//! Every thread is a proxy besides its own work, so no thread idles, and no extra thread has to be connected.
//! A thread that is done goes on until all threads of its machine are, or until long after its time is over.
//! A thread that has stopped for ever is never done, and requests to it are not answered. If a machine has no
//! thread at a socket, requests for that socket go by `home`.
//!
//! **QPs.** The paper counts s * 2m QPs with a proxy, and s * s * 2m with all sockets connected to all, for m
//! machines of s sockets, "for each socket". The deployment reaches these numbers if QPs at both ends are
//! counted (the 2). They are the connections of one machine, the server, with m other machines that have one
//! thread at each socket: s or s * s connections with each. So the count is a machine's, not a socket's, and
//! threads multiply it.

pub(crate) mod channel;
mod config;
mod deployment;
mod protocol;

pub use config::{Path, Proxy};
pub use deployment::put_up;
