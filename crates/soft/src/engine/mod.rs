//! Carries out work requests. The requester does the work of both sides, requester and responder.

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
