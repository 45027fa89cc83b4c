//! The machines of a cluster, and how the cluster is simulated.

use crate::fabric::Layers;
use doorbell_nic::{DriverSettings, Profile};
use doorbell_verbs::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A device of a machine.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSlot<'a> {
    /// The profile that describes this device.
    pub profile: &'a Profile,
    /// The CPU socket to which the device is attached, from 0.
    pub socket: u8,
}

/// The devices of a machine with this profile: one, or one per socket ([`Profile::adapters`]).
pub fn devices(profile: &Profile) -> Vec<DeviceSlot<'_>> {
    (0..profile.adapters() as u8).map(|socket| DeviceSlot { profile, socket }).collect()
}

/// A machine of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// The profile that describes the host: cores, memory, and CPU costs of the driver.
    pub host: &'a Profile,
    /// The machine's devices, at least one. Programs open them by their index in this list.
    pub devices: &'a [DeviceSlot<'a>],
}

/// How to simulate.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Number of machines, at least 1.
    pub machines: u32,
    /// Seed of every random draw of the simulator itself.
    pub seed: u64,
    /// Faults that packets meet between ports.
    pub layers: Layers,
    /// Settings of the NICs' drivers. A device without doorbell registers ([`doorbell_nic::Registers`])
    /// follows only [`DriverSettings::shut_up_bf`].
    pub driver: DriverSettings,
    /// Whether all threads of a machine use one context of each device, as threads of a process may.
    /// Otherwise each thread opens its own, with registers of its own.
    pub one_context: bool,
    /// Skip whole empty passes of poll loops (see `Cpu::pause`). Turned off only to show that skipping
    /// changes no result.
    pub skip_pauses: bool,
    /// Virtual time at which the run ends. Threads that still run then are dropped in the middle of their
    /// work.
    pub end: Time,
    /// Start and length of the metering window.
    pub window: (Time, Span),
    /// Set from outside to stop the run early. The run then returns `RunError::Interrupted`.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// Wall-clock time after which the set-up of threads and memory stops. The run then returns
    /// `RunError::Interrupted`.
    pub deadline: Option<Instant>,
}

impl SimConfig {
    /// A configuration with `machines` machines. It runs until the programs end, and metering covers the
    /// whole run.
    pub fn new(machines: u32) -> SimConfig {
        SimConfig {
            machines,
            seed: 0,
            layers: Layers::NONE,
            driver: DriverSettings::default(),
            one_context: false,
            skip_pauses: true,
            end: Time::NEVER,
            window: (Time::START, Span::from_ps(u64::MAX)),
            interrupt: None,
            deadline: None,
        }
    }
}
