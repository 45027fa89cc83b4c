//! Tests of the simulator, in one program: its tests run in parallel, and one program is linked faster than
//! many.

mod accounting;
mod common;
mod conformance;
mod dropped;
mod hierarchy;
mod layers;
mod nic;
mod requests;
mod soak;
mod sockets;
mod stale;
mod tcp;
mod trace;
mod translations;
mod virtual_time;
