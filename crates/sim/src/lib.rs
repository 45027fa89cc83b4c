//! A verbs provider in virtual time.
//!
//! Each thread of a program is a coroutine with a clock of its own. It runs ahead of the rest of
//! the world and lets it catch up where it could see what others did, or they what it does. All
//! else happens in the order of one event queue: machines with memory, PCIe and a NIC around
//! `transport`. The same seed gives the same run, event by event.
#![forbid(unsafe_code)]

mod cluster;
mod config;
mod core;
mod device;
mod env;
mod fabric;
mod host;
mod kernel;
mod meter;
mod metrics;
mod provider;
mod see;
mod steer;
mod world;

pub use cluster::SimCluster;
pub use config::{DeviceSlot, Machine, SimConfig, devices};
pub use fabric::Layers;
pub use host::{Uncore, memory_bytes};
pub use meter::{Meter, MeterKind, NoMeter};
pub use metrics::{Accounts, CacheUse, Metrics, PcieUse, ResourceUse, SentAgain, TcpUse};
pub use provider::SimProvider;
pub use see::{Traced, Tracing};
pub use steer::{Ahead, Steer, SteeredRun};
