//! The machines of the paper.

/// The cluster: machines with two sockets and one adapter, which is at the first socket.
pub(super) const CLUSTER: &str = "cx3-dual";
