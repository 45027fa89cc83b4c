//! A verbs provider in virtual time.
//!
//! Each thread of a program is a coroutine with its own clock. It runs ahead of the rest of the world. Before
//! it reads or changes anything that other parts of the world share, the world catches up. Everything else
//! happens in the order of one event queue: machines with memory, PCIe and a NIC around `transport`. Equal
//! seeds give equal runs, event by event.
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
