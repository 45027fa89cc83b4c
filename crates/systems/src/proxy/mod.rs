//! READs of memory at the sockets of another machine: by a QP to each socket, by a QP to the matching socket,
//! or by a proxy at the other socket (CLUSTER'21, III-D, Figure 9).
//!
//! Every socket of a machine has a NIC, or a port of a NIC. Machine 0 has memory at each of its sockets. A
//! thread at socket a of another machine reads memory at socket b of machine 0 by a [`Path`]:
//!
//! - `direct`: by a QP from the thread's own NIC to the NIC of the remote socket b. Each thread has a QP to
//!   every remote socket.
//! - `home`: by the thread's only QP, to the remote socket a. The NIC there fetches the memory across the
//!   interconnect of machine 0.
//! - `proxy`: by another thread of the same machine, at socket b. The other thread reads by its own QP to the
//!   remote socket b, and hands the result back. Each pair of threads has two queues in shared memory, one of
//!   requests and one of results. No NIC accesses memory of another socket.
//!
//! Besides its own work, every thread is a proxy. So no thread idles, and there are no extra threads to
//! connect. A thread that is done stays a proxy until all threads of its machine are done, or until one
//! second after its interval. A thread that has stopped for ever is never done, and does not answer requests.
//! If a machine has no thread at a socket, requests for that socket go by `home`.
//!
//! **QPs.** For m machines of s sockets, the paper counts s * 2m QPs with a proxy. It counts s * s * 2m QPs
//! if all sockets are connected to all sockets. The paper calls these numbers "for each socket". The
//! deployment has these numbers if QPs at both ends count (hence the 2). With one thread at each socket, the
//! server has s or s * s connections with each of m other machines. So the numbers are the QPs of a machine,
//! not of a socket. More threads multiply them.

pub(crate) mod channel;
mod config;
mod deployment;
mod protocol;

pub use config::{Path, Proxy};
pub use deployment::put_up;
