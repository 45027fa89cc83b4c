//! Tests of the systems in virtual time. They are one program, because each program would compile the systems
//! anew.

mod any_rpc;
mod common;
mod consolidate;
mod datagram;
mod hashtable;
mod kills;
mod kv;
mod list;
mod log;
mod ping_pong;
mod proxy;
mod rpc;
mod sequencer;
mod shuffle;
mod spinlock;
mod touch;
mod writer;
