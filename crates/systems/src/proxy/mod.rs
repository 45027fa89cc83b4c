//! READs of the memory of another machine's sockets: by QPs to each of them, by those to one's own, or by a proxy socket (CLUSTER'21, III-D, Figure 9).
//!
//! Every machine has sockets, each with a NIC or a port of one; memory to be read is at all sockets of machine 0. A thread at socket a reads memory at
//! its socket b, as [`Path`] says:
//!
//! - `direct`: by a QP from its own NIC to that of the remote socket b. Each thread has a QP to every remote socket.
//! - `home`: by its one QP to the remote socket a, whose NIC fetches the memory across the remote machine's interconnect.
//! - `proxy`: it hands the request to a thread of its machine at socket b, which reads by its own QP to the remote socket b, and hands the result
//!   back: two queues in shared memory for each pair of threads, one of requests and one of results. No NIC reaches memory of another socket.
//!
//! Every thread is a proxy beside its own work, so none stands idle, and none is one more to be connected. One whose work is done goes on until all of its machine are,
//! or until long after its time is over: one that has stopped for ever is never done, and what it was asked for is not answered.
//! Where a machine has no thread at a socket, requests for it go by `home`.
//!
//! **QPs.** The paper counts s * 2m with a proxy and s * s * 2m where all sockets are connected to all, m machines of s sockets, "for each socket". What is
//! deployed comes to these numbers where QPs of both ends are counted (the 2), of the connections of one machine, the server, with m others that have one
//! thread at each socket: s or s * s connections with each of the m. That is a machine's count, not a socket's, and threads multiply it.

pub(crate) mod channel;
mod config;
mod deployment;
mod protocol;

pub use config::{Path, Proxy};
pub use deployment::put_up;
