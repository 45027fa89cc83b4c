//! The simulated world.

use super::thread::Thread;
use crate::config::{Machine, SimConfig};
use crate::core::index::{DeviceId, Id, IdVec, MachineId, ThreadId};
use crate::core::ps::Ps;
use crate::core::queue::EventKey;
use crate::core::server::MeterWindow;
use crate::device::{Attached, SimDevice};
use crate::env::Env;
use crate::fabric::Fabric;
use crate::host::Host;
use crate::kernel::Kernel;
use crate::see::{Traced, Tracer};
use doorbell_nic::Profile;
use doorbell_nic::cost::Costs;
use std::collections::HashMap;
use std::rc::Rc;

/// Least number of pending events at which the data of a simulation exceed a processor's caches.
pub(super) const CROWD: u32 = 4096;

/// Buckets of the queue up to which data was prefetched. The first is for data that events name, the second
/// for data to which that data points.
#[derive(Default)]
pub(super) struct Fetched {
    pub(super) named: u64,
    pub(super) led_to: u64,
}

/// The out-of-band exchange: values by key, and threads that wait for a key. On real machines, programs use
/// TCP for it.
#[derive(Default)]
pub(crate) struct Exchange {
    pub(crate) published: HashMap<Box<str>, Box<[u8]>>,
    pub(crate) awaited: HashMap<String, Vec<ThreadId>>,
}

impl Exchange {
    pub(crate) fn clear(&mut self) {
        self.published.clear();
        self.awaited.clear();
    }
}

/// The profiles of a cluster and the costs derived from them, each once.
#[derive(Default)]
struct KnownProfiles<'a>(Vec<(&'a Profile, Rc<Profile>, Costs)>);

impl<'a> KnownProfiles<'a> {
    fn of(&mut self, profile: &'a Profile) -> (Rc<Profile>, Costs) {
        if let Some((_, known, costs)) = self.0.iter().find(|(p, ..)| std::ptr::eq(*p, profile)) {
            return (known.clone(), costs.clone());
        }
        let (known, costs) = (Rc::new(profile.clone()), Costs::new(profile));
        self.0.push((profile, known.clone(), costs.clone()));
        (known, costs)
    }
}

/// The first key after a time.
fn past(time: Ps) -> EventKey {
    EventKey { time: time.saturating_add(Ps(1)), order: 0 }
}

/// The simulated world.
pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) hosts: IdVec<MachineId, Host>,
    /// Kernels of the machines that have TCP.
    pub(crate) kernels: IdVec<MachineId, Option<Box<Kernel>>>,
    /// Whether threads may not run ahead. Set if caches of some host have sizes, because one thread's
    /// accesses then affect the accesses of other threads. Also set if a kernel interrupts threads.
    pub(crate) sized: bool,
    pub(crate) devices: IdVec<DeviceId, SimDevice>,
    pub(crate) threads: IdVec<ThreadId, Thread>,
    pub(crate) exchange: Exchange,
    /// When the run ends.
    pub(crate) end: Ps,
    /// The first key after the end.
    pub(super) past_end: EventKey,
    pub(crate) skip_pauses: bool,
    /// Whether an interrupt has delayed the running thread.
    pub(super) interrupted: bool,
    /// Key of the event or thread's turn that is being processed. It orders the effects of this event within
    /// a picosecond.
    pub(crate) cause: EventKey,
    /// Number of pending events from which an event needs more than its handler: [`CROWD`], or 0 while a
    /// tracer is attached.
    pub(super) attend_from: u32,
    /// The tracer, until it has seen everything asked for. Its summary is then in `traced`.
    pub(crate) tracer: Option<Box<Tracer>>,
    pub(crate) traced: Option<Traced>,
    pub(super) ahead: Fetched,
}

impl World {
    pub(crate) fn new(machines: &[Machine<'_>], config: &SimConfig) -> World {
        let from = Ps::from(config.window.0);
        let window = MeterWindow { from, to: from.saturating_add(config.window.1.into()) };
        let mut fabric = Fabric::new(config.layers, config.seed);
        let mut hosts = IdVec::new();
        let mut kernels = IdVec::new();
        let mut devices = IdVec::new();
        let mut known = KnownProfiles::default();
        for machine in machines {
            let (host, costs) = known.of(machine.host);
            let id = hosts.push(Host::new(
                &host,
                costs.cpu.clone(),
                DeviceId::from_index(devices.len()),
                machine.devices.iter().map(|slot| slot.socket),
                window,
            ));
            kernels.push(host.tcp.as_ref().map(|tcp| Box::new(Kernel::new(tcp))));
            for (local, slot) in (0..).zip(machine.devices) {
                let (profile, costs) = known.of(slot.profile);
                let device = DeviceId::from_index(devices.len());
                let first_port = fabric.add_ports(device, &profile.device.link, &costs.wire);
                devices.push(SimDevice::new(
                    device,
                    (id, Attached { local, socket: slot.socket }),
                    first_port,
                    profile,
                    costs,
                    (config.driver, config.one_context),
                ));
            }
        }
        World {
            env: Env::new(window, fabric),
            sized: machines.iter().any(|m| m.host.hierarchy.is_some() || m.host.tcp.is_some()),
            hosts,
            kernels,
            devices,
            threads: IdVec::new(),
            exchange: Exchange::default(),
            end: config.end.into(),
            past_end: past(config.end.into()),
            skip_pauses: config.skip_pauses,
            interrupted: false,
            cause: EventKey::NEVER,
            attend_from: CROWD,
            tracer: None,
            traced: None,
            ahead: Fetched::default(),
        }
    }

    /// Sets the time at which the run ends.
    pub(crate) fn end_at(&mut self, end: Ps) {
        (self.end, self.past_end) = (end, past(end));
    }
}
