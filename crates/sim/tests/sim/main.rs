//! Tests of the simulator. One program: its tests run beside each other, and each program would be linked anew.

mod accounting;
mod common;
mod conformance;
mod dropped;
mod hierarchy;
mod layers;
mod nic;
mod soak;
mod sockets;
mod stale;
mod tcp;
mod trace;
mod translations;
mod virtual_time;
