//! Tests of the state machines over a small network of two hosts.

mod codec;
mod net;
mod properties;
mod rules;
