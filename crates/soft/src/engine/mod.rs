//! Carrying out a work request: what a requester and a responder do together, done by the
//! requester.

pub(crate) mod attempt;
pub(crate) mod batch;
pub(crate) mod delivery;
pub(crate) mod diagnosis;
pub(crate) mod direct;
mod far_memory;
mod invalidate;
mod multicast;
mod refusal;
pub(crate) mod request;
pub(crate) mod requester;
mod responder;
mod verified;
mod xrc;
