//! Names of metered resources.

use doorbell_nic::Part;
use std::fmt;
use std::str::FromStr;

/// A metered resource of a machine: a part, and its number if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Meter {
    part: Part,
    number: Option<u32>,
    device: Option<u8>,
}

impl Meter {
    /// The core with this number.
    pub const fn core(core: u32) -> Meter {
        Meter { part: Part::Core, number: Some(core), device: None }
    }

    /// A part that a device has once.
    ///
    /// # Panics
    /// If the part has a number: a core, a lock or a port.
    pub const fn of_device(part: Part) -> Meter {
        assert!(words(part).before_number.is_none(), "a core, a lock or a port needs its number");
        Meter { part, number: None, device: None }
    }

    /// The lock for atomics with this number, as the busiest of its device.
    pub const fn busiest_lock(lock: u32) -> Meter {
        Meter { part: Part::BusiestLock, number: Some(lock), device: None }
    }

    /// The sending direction of the port with this number, from 1.
    pub const fn port_out(port: u32) -> Meter {
        Meter { part: Part::PortOut, number: Some(port), device: None }
    }

    /// The receiving direction of the port with this number, from 1.
    pub const fn port_in(port: u32) -> Meter {
        Meter { part: Part::PortIn, number: Some(port), device: None }
    }

    /// This meter for device `device` of a machine with several devices.
    #[must_use]
    pub const fn on(self, device: u8) -> Meter {
        Meter { device: Some(device), ..self }
    }

    /// The part of the machine.
    pub const fn part(self) -> Part {
        self.part
    }

    /// The number of a core, a lock or a port; none for a part that a device has once.
    pub const fn number(self) -> Option<u32> {
        self.number
    }

    /// The device's number on its machine; none for a core, and on a machine with one device.
    pub const fn device(self) -> Option<u8> {
        self.device
    }

    /// The kind of meter that this one shares with other cores, ports or devices.
    pub const fn kind(self) -> MeterKind {
        let lock = if matches!(self.part, Part::BusiestLock) { self.number } else { None };
        MeterKind { part: self.part, lock, of_several: self.device.is_some() }
    }
}

/// Meters that are shown as one, for example the meters of all cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MeterKind {
    part: Part,
    /// Lock number. Locks are shown one by one.
    lock: Option<u32>,
    /// Whether machines have several devices.
    of_several: bool,
}

/// The words of a part's name, before and after its number.
struct PartWords {
    before_number: Option<&'static str>,
    behind: &'static str,
}

const fn words(part: Part) -> PartWords {
    let (before_number, behind) = match part {
        Part::Core => (Some("core"), ""),
        Part::PcieMmio => (None, "PCIe to NIC, MMIO"),
        Part::PcieReadCompletions => (None, "PCIe to NIC, read completions"),
        Part::PcieToHost => (None, "PCIe to host"),
        Part::SendingUnits => (None, "sending units"),
        Part::BusiestSendingUnit => (None, "sending unit of the busiest QP"),
        Part::SendingPipeline => (None, "pipeline of the sending units"),
        Part::ReceivingUnits => (None, "receiving units"),
        Part::BusiestReceivingUnit => (None, "receiving unit of the busiest flow"),
        Part::BusiestLock => (Some("atomics lock"), ", the busiest"),
        Part::PortOut => (Some("port"), " out"),
        Part::PortIn => (Some("port"), " in"),
    };
    PartWords { before_number, behind }
}

impl fmt::Display for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PartWords { before_number, behind } = words(self.part);
        if let (Some(before), Some(number)) = (before_number, self.number) {
            write!(f, "{before} {number}")?;
        }
        f.write_str(behind)?;
        match self.device {
            Some(device) => write!(f, " of device {device}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for MeterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PartWords { before_number, behind } = words(self.part);
        f.write_str(before_number.unwrap_or_default())?;
        if let Some(lock) = self.lock {
            write!(f, " {lock}")?;
        }
        f.write_str(behind)?;
        f.write_str(if self.of_several { " of device" } else { "" })
    }
}

/// Error: a text that names no meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMeter(String);

impl fmt::Display for NoMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not the name of a meter", self.0)
    }
}

impl std::error::Error for NoMeter {}

/// Parses the output of [`Meter`]'s `Display`, as stored in result files.
impl FromStr for Meter {
    type Err = NoMeter;

    fn from_str(text: &str) -> Result<Meter, NoMeter> {
        let (of_machine, device) = match text.rsplit_once(" of device ") {
            Some((rest, device)) => (rest, Some(device.parse().map_err(|_| NoMeter(text.to_owned()))?)),
            None => (text, None),
        };
        let meter = Part::ALL.into_iter().find_map(|part| {
            let PartWords { before_number, behind } = words(part);
            let rest = of_machine.strip_suffix(behind)?;
            let number = match before_number {
                Some(before) => Some(rest.strip_prefix(before)?.strip_prefix(' ')?.parse().ok()?),
                None if rest.is_empty() => None,
                None => return None,
            };
            Some(Meter { part, number, device })
        });
        meter.ok_or_else(|| NoMeter(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One meter of each part, on a machine with one device.
    fn all() -> [(Meter, &'static str, &'static str); 12] {
        [
            (Meter::core(13), "core 13", "core"),
            (Meter::of_device(Part::PcieMmio), "PCIe to NIC, MMIO", "PCIe to NIC, MMIO"),
            (
                Meter::of_device(Part::PcieReadCompletions),
                "PCIe to NIC, read completions",
                "PCIe to NIC, read completions",
            ),
            (Meter::of_device(Part::PcieToHost), "PCIe to host", "PCIe to host"),
            (Meter::of_device(Part::SendingUnits), "sending units", "sending units"),
            (
                Meter::of_device(Part::BusiestSendingUnit),
                "sending unit of the busiest QP",
                "sending unit of the busiest QP",
            ),
            (
                Meter::of_device(Part::SendingPipeline),
                "pipeline of the sending units",
                "pipeline of the sending units",
            ),
            (Meter::of_device(Part::ReceivingUnits), "receiving units", "receiving units"),
            (
                Meter::of_device(Part::BusiestReceivingUnit),
                "receiving unit of the busiest flow",
                "receiving unit of the busiest flow",
            ),
            (Meter::busiest_lock(7), "atomics lock 7, the busiest", "atomics lock 7, the busiest"),
            (Meter::port_out(1), "port 1 out", "port out"),
            (Meter::port_in(2), "port 2 in", "port in"),
        ]
    }

    #[test]
    fn every_part_has_its_name() {
        assert_eq!(all().map(|(meter, ..)| meter.part()), Part::ALL);
        for (meter, name, kind) in all() {
            assert_eq!((meter.to_string().as_str(), meter.kind().to_string().as_str()), (name, kind));
            let on = meter.on(1);
            let (name, kind) = (format!("{name} of device 1"), format!("{kind} of device"));
            assert_eq!((on.to_string(), on.kind().to_string()), (name, kind));
        }
    }

    #[test]
    fn a_name_is_of_one_meter() {
        for meter in all().iter().flat_map(|(meter, ..)| [*meter, meter.on(0), meter.on(12)]) {
            assert_eq!(meter.to_string().parse(), Ok(meter));
        }
        for text in
            ["", "core", "core x", "core 1 out", "port out", "sending units 3", "port 1 out of device x"]
        {
            assert_eq!(text.parse::<Meter>(), Err(NoMeter(text.to_owned())));
        }
    }
}
