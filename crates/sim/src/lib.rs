//! A verbs provider in virtual time.
//!
//! Each thread of a program is a coroutine with a clock of its own, and runs ahead of the event queue. Before
//! the thread reads or changes shared state, the simulator processes all events up to the thread's clock.
//! Hosts, PCIe and NICs run by events of one ordered queue. `transport` has the protocol. Equal seeds give
//! equal runs, event by event.
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
pub use metrics::{Accounts, CacheUse, Metrics, PcieUse, ResourceUse, SentAgain, TcpUse, WaitKind, WaitUse};
pub use provider::SimProvider;
pub use see::{KeptPath, OperationStage, PathStage, PathsOf, StageKind, StageWait, Traced, Tracing};
pub use steer::{Ahead, Steer, SteeredRun};
