//! Facts about the machines of a measurement.

use crate::format::MeasuredWorkload;
use crate::format::{Endpoint, FabricKind, Locality, MeasuredUnit, SeriesRole};
use crate::format::{PcieSlot, Setup};

/// Facts about the machines, which a log does not state. An absent fact is not known, and its key is absent
/// in the file of series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineFacts {
    /// Name of the NIC, such as ConnectX-6.
    pub nic: Option<String>,
    /// Processors of the hosts, in words.
    pub cpu: Option<String>,
    /// PCIe slot of the NIC.
    pub pcie: Option<PcieSlot>,
    /// PCIe slot, in words.
    pub pcie_text: Option<String>,
    /// Rate of one link in Gb/s.
    pub link_gbps: Option<f64>,
    /// Number of links that are bound together.
    pub links: Option<u32>,
    /// Link layer.
    pub fabric: Option<FabricKind>,
    /// Distance of the machines, in words.
    pub topology: Option<String>,
    /// Switches between the machines.
    pub hops: Option<u32>,
    /// Whether at least one switch is between the machines.
    pub switched: Option<bool>,
    /// Whether the NIC sends to itself or to its second port.
    pub loopback: Option<bool>,
    /// Socket of both processes, relative to the NIC's.
    pub socket: Option<Locality>,
    /// Publication of the values.
    pub source: Option<String>,
}

impl MachineFacts {
    /// These facts, and those of `other` that are missing here.
    pub(super) fn or(self, other: MachineFacts) -> MachineFacts {
        MachineFacts {
            nic: self.nic.or(other.nic),
            cpu: self.cpu.or(other.cpu),
            pcie_text: self.pcie_text.or(other.pcie_text.filter(|_| self.pcie.is_none())),
            pcie: self.pcie.or(other.pcie),
            link_gbps: self.link_gbps.or(other.link_gbps),
            links: self.links.or(other.links),
            fabric: self.fabric.or(other.fabric),
            topology: self.topology.or(other.topology),
            hops: self.hops.or(other.hops),
            switched: self.switched.or(other.switched),
            loopback: self.loopback.or(other.loopback),
            socket: self.socket.or(other.socket),
            source: self.source.or(other.source),
        }
    }

    /// Sets the keys of a workload that are facts about machines.
    pub(super) fn set(&self, workload: &mut MeasuredWorkload) {
        workload.hops = self.hops;
        workload.switched = self.switched;
        workload.loopback = self.loopback;
        workload.socket = self.socket.clone();
        workload.socket_of = self.socket.as_ref().map(|_| Endpoint::Both);
    }

    /// The setup of a series on these machines. Texts about the tool are absent.
    pub(super) fn setup(self, named: SeriesNames, workload: MeasuredWorkload) -> Setup {
        let SeriesNames { id, nic, host, unit, role } = named;
        Setup {
            id,
            nic,
            link: None,
            cpu: self.cpu,
            topology: self.topology,
            tool: None,
            options: None,
            verb: None,
            transport: None,
            metric: None,
            unit,
            statistic: None,
            pcie_text: self.pcie_text,
            source: self.source,
            confidence: None,
            role,
            role_reason: None,
            notes: None,
            host,
            link_gbps: self.link_gbps,
            links: self.links,
            fabric: self.fabric,
            pcie: self.pcie,
            system: None,
            not_run: None,
            workload,
        }
    }
}

/// The keys that every series has besides its workload.
pub(super) struct SeriesNames {
    pub(super) id: String,
    pub(super) nic: String,
    pub(super) host: String,
    pub(super) unit: MeasuredUnit,
    pub(super) role: SeriesRole,
}

/// Reads a PCIe slot such as `gen4x16`. `None` if the text is not a slot.
pub fn pcie_slot(text: &str) -> Option<PcieSlot> {
    let (generation, lanes) = text.strip_prefix("gen")?.split_once('x')?;
    let (generation, lanes) = (generation.parse().ok()?, lanes.parse().ok()?);
    ((1..=7).contains(&generation) && (1..=32).contains(&lanes)).then_some(PcieSlot {
        generation,
        lanes: Some(lanes),
        inferred: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read() {
        let slot = |generation, lanes| Some(PcieSlot { generation, lanes: Some(lanes), inferred: false });
        assert_eq!(pcie_slot("gen3x8"), slot(3, 8));
        assert_eq!(pcie_slot("gen5x16"), slot(5, 16));
        for text in
            ["", "gen", "gen3", "3x8", "gen3x", "genx8", "gen0x8", "gen3x0", "gen3x64", "gen9x1", "gen3x8 "]
        {
            assert_eq!(pcie_slot(text), None, "{text}");
        }
    }

    #[test]
    fn options_count_more_than_tools() {
        let of_option =
            MachineFacts { nic: Some("mine".into()), pcie: pcie_slot("gen3x8"), ..MachineFacts::default() };
        let of_tool = MachineFacts {
            nic: Some("ConnectX-6".into()),
            pcie: pcie_slot("gen4x16"),
            pcie_text: Some("gen4".into()),
            link_gbps: Some(200.0),
            ..MachineFacts::default()
        };
        let facts = of_option.or(of_tool);
        assert_eq!(
            (facts.nic.as_deref(), facts.pcie, facts.link_gbps),
            (Some("mine"), pcie_slot("gen3x8"), Some(200.0))
        );
        assert_eq!(facts.pcie_text, None, "the words describe the other slot");
    }
}
