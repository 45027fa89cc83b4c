//! Carries out work requests. The requester's thread does the work of both sides, requester and responder.
//!
//! An attempt to carry out a work request has these steps:
//! 1. [`requester`] checks the request, and finds its local memory and its responder.
//! 2. `responder` makes the responder's checks, and carries the request out.
//! 3. If the request moves bytes from or to private memory of a peer, [`batch`] gathers it with other
//!    requests of its post list. One system call later moves the bytes of all of them.
//! 4. [`direct`] keeps the facts that were checked. Later requests of the QP skip steps 1 and 2 as long as
//!    the facts hold.
//!
//! The result of an attempt is in [`attempt`].

pub(crate) mod attempt;
pub(crate) mod batch;
mod carried;
pub(crate) mod completing;
pub(crate) mod delivery;
pub(crate) mod diagnosis;
pub(crate) mod direct;
mod far_memory;
mod invalidate;
mod multicast;
mod placing;
mod refusal;
pub(crate) mod request;
pub(crate) mod requester;
mod responder;
mod verified;
mod xrc;
