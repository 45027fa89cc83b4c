//! The machines of the paper.

/// The cluster: machines with two sockets, and one adapter at the first socket.
pub(super) const CLUSTER: &str = "cx3-dual";
