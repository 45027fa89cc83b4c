//! The tracks of a trace: a process per machine, with tracks for cores, QPs, units, PCIe links, ports and
//! counters.

use super::perfetto::{Described, Track, TrackKind};
use crate::core::index::{CoreId, DeviceId, Id, IdVec, MachineId, PortId, QpId, UnitId};
use crate::device::{COUNTS, FIRST_QPN, SimDevice};
use crate::fabric::Fabric;

/// A track of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TrackPlace {
    Machine(MachineId),
    /// A thread's posts and polls.
    Core(MachineId, CoreId),
    /// Operations of a QP. Operations that overlap in time are on different tracks.
    Qp(DeviceId, QpId, u32),
    /// Inbound messages without acknowledgement. Messages that overlap in time are on different tracks.
    Incoming(DeviceId, u32),
    SendingUnit(DeviceId, UnitId),
    ReceivingUnit(DeviceId, UnitId),
    /// The PCIe link: two kinds of traffic towards the NIC, and traffic towards the host.
    Mmio(DeviceId),
    ReadCompletions(DeviceId),
    ToHost(DeviceId),
    PortOut(PortId),
    PortIn(PortId),
    /// Packets that wait at a device's ports.
    AtPorts(DeviceId),
    /// One of [`COUNTS`].
    Count(DeviceId, u8),
}

/// The machine of a device, and the device's name there.
struct Where {
    machine: MachineId,
    /// "device 1 " if the machine has several devices.
    prefix: String,
}

/// Names of machines, devices and ports.
pub(super) struct Names {
    /// Names of the profiles of each machine's devices.
    machines: IdVec<MachineId, String>,
    devices: IdVec<DeviceId, Where>,
    ports: IdVec<PortId, (DeviceId, u8)>,
}

impl Names {
    pub(super) fn of(devices: &IdVec<DeviceId, SimDevice>, fabric: &Fabric) -> Names {
        let of_machine = |machine| devices.iter().filter(move |d: &&SimDevice| d.machine == machine);
        let machines = devices.iter().map(|d| d.machine.index() + 1).max().unwrap_or(0);
        let profiles = |machine| {
            let names: Vec<&str> = of_machine(machine).map(|d| d.profile.name.as_str()).collect();
            names.join(", ")
        };
        let place = |d: &SimDevice| {
            let several = of_machine(d.machine).count() > 1;
            let prefix = if several { format!("device {} ", d.attached.local) } else { String::new() };
            Where { machine: d.machine, prefix }
        };
        Names {
            machines: (0..machines).map(|machine| profiles(MachineId::from_index(machine))).collect(),
            devices: devices.iter().map(place).collect(),
            ports: fabric.ports.iter().map(|port| (port.device, port.number)).collect(),
        }
    }

    /// The name of a port, including its machine.
    pub(super) fn port(&self, port: PortId) -> String {
        let (device, number) = self.ports[port];
        let Where { machine, prefix } = &self.devices[device];
        format!("machine {} {prefix}port {}", machine.index(), number + 1)
    }
}

/// Order of the kinds of tracks within their process.
mod rank {
    pub(super) const CORE: u32 = 0;
    pub(super) const QP: u32 = 1000;
    pub(super) const INCOMING: u32 = 2000;
    pub(super) const SENDING: u32 = 3000;
    pub(super) const RECEIVING: u32 = 4000;
    pub(super) const PCIE: u32 = 5000;
    pub(super) const PORT: u32 = 6000;
    pub(super) const COUNT: u32 = 7000;
}

impl Track for TrackPlace {
    type Names = Names;

    fn describe(self, names: &Names) -> Described<TrackPlace> {
        let below = |machine| Some(TrackPlace::Machine(machine));
        let slices = |device: DeviceId, rank, name: String| {
            let Where { machine, prefix } = &names.devices[device];
            Described {
                name: prefix.clone() + &name,
                kind: TrackKind::Slices { rank },
                below: below(*machine),
            }
        };
        let counter = |device, rank, name: &str| Described {
            kind: TrackKind::Counter { rank },
            ..slices(device, rank, name.to_owned())
        };
        let port = |port, rank, way| {
            let (device, number) = names.ports[port];
            slices(device, rank, format!("port {} {way}", number + 1))
        };
        match self {
            TrackPlace::Machine(machine) => Described {
                name: format!("machine {} ({})", machine.index(), names.machines[machine]),
                kind: TrackKind::Process(machine.index() as u32),
                below: None,
            },
            TrackPlace::Core(machine, core) => Described {
                name: format!("core {}", core.index()),
                kind: TrackKind::Slices { rank: rank::CORE + u32::from(core.0) },
                below: below(machine),
            },
            TrackPlace::Qp(device, qp, _) => slices(device, rank::QP, format!("QP {}", FIRST_QPN + qp.0)),
            TrackPlace::Incoming(device, _) => slices(device, rank::INCOMING, "messages coming in".into()),
            TrackPlace::SendingUnit(device, unit) => {
                slices(device, rank::SENDING + u32::from(unit.0), format!("sending unit {}", unit.0))
            }
            TrackPlace::ReceivingUnit(device, unit) => {
                slices(device, rank::RECEIVING + u32::from(unit.0), format!("receiving unit {}", unit.0))
            }
            TrackPlace::Mmio(device) => slices(device, rank::PCIE, "PCIe to the NIC: MMIO".into()),
            TrackPlace::ReadCompletions(device) => {
                slices(device, rank::PCIE + 1, "PCIe to the NIC: read completions".into())
            }
            TrackPlace::ToHost(device) => slices(device, rank::PCIE + 2, "PCIe to the host".into()),
            TrackPlace::PortOut(number) => port(number, rank::PORT + 2 * number.0, "out"),
            TrackPlace::PortIn(number) => port(number, rank::PORT + 1 + 2 * number.0, "in"),
            TrackPlace::AtPorts(device) => counter(device, rank::COUNT, "packets waiting at ports"),
            TrackPlace::Count(device, number) => {
                counter(device, rank::COUNT + 1 + u32::from(number), COUNTS[usize::from(number)])
            }
        }
    }
}
