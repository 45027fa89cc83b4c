//! What a cluster is made of, and how it is simulated.

use crate::fabric::Layers;
use doorbell_nic::Profile;
use doorbell_verbs::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A device of a machine.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSlot<'a> {
    /// The profile that it is the device of.
    pub profile: &'a Profile,
    /// The socket of the host that it is attached to, from 0.
    pub socket: u8,
}

/// The devices of a machine of this profile: one, or as many as its sockets have ([`Profile::adapters`]).
pub fn devices(profile: &Profile) -> Vec<DeviceSlot<'_>> {
    (0..profile.adapters() as u8).map(|socket| DeviceSlot { profile, socket }).collect()
}

/// A machine of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// The profile that it has the host of: cores, memory, and what the driver costs them.
    pub host: &'a Profile,
    /// Its devices, at least one; programs open them by their number here.
    pub devices: &'a [DeviceSlot<'a>],
}

/// How to simulate.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Number of machines, at least 1.
    pub machines: u32,
    /// Seed of every random draw of the simulator itself.
    pub seed: u64,
    /// What happens to packets between ports.
    pub layers: Layers,
    /// Skip whole empty passes of poll loops (see `Cpu::pause`); off only to show that it changes nothing.
    pub skip_pauses: bool,
    /// Virtual time at which the run ends, whatever the threads do; they are dropped where they stand.
    pub end: Time,
    /// Start and length of the metering window.
    pub window: (Time, Span),
    /// Set from outside to stop early; the run returns `RunError::Interrupted`.
    pub interrupt: Option<Arc<AtomicBool>>,
}

impl SimConfig {
    /// `machines` machines, for as long as their programs run, metered from the start.
    pub fn new(machines: u32) -> SimConfig {
        SimConfig {
            machines,
            seed: 0,
            layers: Layers::NONE,
            skip_pauses: true,
            end: Time::NEVER,
            window: (Time::START, Span::from_ps(u64::MAX)),
            interrupt: None,
        }
    }
}
