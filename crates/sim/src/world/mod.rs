//! Everything that is simulated, wired together: hosts, devices, threads, and what they share.

mod ahead;
mod dispatch;
mod env;
mod turns;

pub(crate) use dispatch::Next;
pub(crate) use env::Env;

use ahead::{Ahead, CROWD};

use crate::core::index::{DeviceId, Id, IdVec, MachineId, ThreadId};
use crate::core::queue::Key;
use crate::core::server::Window;
use crate::core::thread::Thread;
use crate::device::{Attached, Device};
use crate::fabric::Fabric;
use crate::host::Host;
use crate::kernel::Kernel;
use crate::see::{Traced, Tracer};
use crate::{Machine, SimConfig};
use doorbell_nic::Profile;
use doorbell_nic::cost::Costs;
use std::collections::HashMap;
use std::rc::Rc;

/// What programs otherwise use TCP for: values by key, and the threads that wait for a key.
#[derive(Default)]
pub(crate) struct Exchange {
    pub(crate) published: HashMap<Box<str>, Box<[u8]>>,
    pub(crate) awaited: HashMap<String, Vec<ThreadId>>,
}

impl Exchange {
    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.published.clear();
        self.awaited.clear();
    }
}

/// The profiles of a cluster with what things cost there, each once.
#[derive(Default)]
struct Known<'a>(Vec<(&'a Profile, Rc<Profile>, Costs)>);

impl<'a> Known<'a> {
    fn of(&mut self, profile: &'a Profile) -> (Rc<Profile>, Costs) {
        if let Some((_, known, costs)) = self.0.iter().find(|(p, ..)| std::ptr::eq(*p, profile)) {
            return (known.clone(), costs.clone());
        }
        let (known, costs) = (Rc::new(profile.clone()), Costs::new(profile));
        self.0.push((profile, known.clone(), costs.clone()));
        (known, costs)
    }
}

/// What comes after a time.
fn past(time: u64) -> Key {
    Key { time: time.saturating_add(1), order: 0 }
}

/// The simulated world.
pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) hosts: IdVec<MachineId, Host>,
    /// Of those that have TCP.
    pub(crate) kernels: IdVec<MachineId, Option<Box<Kernel>>>,
    /// Caches of some host have sizes, so that what one does there is seen by what others take; or a kernel
    /// interrupts threads: none may run ahead.
    pub(crate) sized: bool,
    pub(crate) devices: IdVec<DeviceId, Device>,
    pub(crate) threads: IdVec<ThreadId, Thread>,
    pub(crate) exchange: Exchange,
    /// Picoseconds at which the run ends.
    pub(crate) end: u64,
    /// What comes after the end.
    past_end: Key,
    pub(crate) skip_pauses: bool,
    /// An interrupt has put off the thread that runs.
    interrupted: bool,
    /// Who causes what is happening: for the order of what happens at the same time.
    pub(crate) cause: Key,
    /// Pending events from which on there is more to do for an event than to process it: [`CROWD`], and none
    /// where somebody watches.
    attend_from: u32,
    /// Who watches, until all is seen that was asked for, and then what was.
    pub(crate) tracer: Option<Box<Tracer>>,
    pub(crate) traced: Option<Traced>,
    ahead: Ahead,
}

impl World {
    pub(crate) fn new(machines: &[Machine<'_>], config: &SimConfig) -> World {
        let from = config.window.0.as_ps();
        let window = Window { from, to: from.saturating_add(config.window.1.as_ps()) };
        let mut fabric = Fabric::new(config.layers, config.seed);
        let mut hosts = IdVec::new();
        let mut kernels = IdVec::new();
        let mut devices = IdVec::new();
        let mut known = Known::default();
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
                devices.push(Device::new(
                    device,
                    (id, Attached { local, socket: slot.socket }),
                    first_port,
                    profile,
                    costs,
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
            end: config.end.as_ps(),
            past_end: past(config.end.as_ps()),
            skip_pauses: config.skip_pauses,
            interrupted: false,
            cause: Key::NEVER,
            attend_from: CROWD,
            tracer: None,
            traced: None,
            ahead: Ahead::default(),
        }
    }

    /// Lets the run go on up to this time.
    pub(crate) fn end_at(&mut self, end: u64) {
        (self.end, self.past_end) = (end, past(end));
    }
}
