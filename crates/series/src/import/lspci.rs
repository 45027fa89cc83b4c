//! The output of `lspci -vv`.

use super::NamedText;
use super::facts::MachineFacts;
use crate::format::PcieSlot;
use doorbell_schema::SchemaError;

/// A NIC in the output.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PciNic {
    /// Address, such as `3b:00.0`.
    pub(super) address: String,
    /// Name in brackets, such as `ConnectX-6`.
    name: Option<String>,
    /// The link at its present speed and width.
    pub(super) slot: Option<PcieSlot>,
    /// Speed and width, in words.
    status: Option<String>,
}

impl PciNic {
    /// Facts about the NIC's machine.
    pub(super) fn facts(&self) -> MachineFacts {
        MachineFacts {
            nic: self.name.clone(),
            pcie: self.slot,
            pcie_text: self.status.clone(),
            ..MachineFacts::default()
        }
    }
}

/// The NICs in the output that can have RDMA.
///
/// # Errors
/// If there is none.
pub(super) fn nics(file: NamedText<'_>) -> Result<Vec<PciNic>, SchemaError> {
    let mut nics = Vec::new();
    let mut current: Option<PciNic> = None;
    for line in file.text.lines() {
        if let Some((address, about)) = device(line) {
            nics.extend(current.take());
            current = is_nic(about).then(|| PciNic {
                address: address.to_owned(),
                name: name_in(about).map(str::to_owned),
                slot: None,
                status: None,
            });
        } else if let Some(nic) = &mut current
            && let Some(status) = line.trim().strip_prefix("LnkSta:")
        {
            nic.slot = slot(status);
            nic.status = nic.slot.map(|_| format!("lspci: {}", status.trim().trim_end_matches(',')));
        }
    }
    nics.extend(current);
    if nics.is_empty() {
        return Err(file.error(1, "this output of lspci -vv has no NIC of a maker of RDMA NICs"));
    }
    Ok(nics)
}

/// Address and description of a line that begins a device.
fn device(line: &str) -> Option<(&str, &str)> {
    let (address, about) = line.split_once(' ')?;
    let is_address = address.contains(':')
        && address.contains('.')
        && address.chars().all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.');
    is_address.then_some((address, about))
}

/// Whether a device is a NIC of a maker of RDMA NICs.
fn is_nic(about: &str) -> bool {
    let is_network = ["Ethernet controller", "Infiniband controller", "Network controller"]
        .iter()
        .any(|class| about.starts_with(class));
    let makers = ["Mellanox", "NVIDIA", "Chelsio", "Broadcom", "QLogic", "Intel", "Amazon"];
    is_network && makers.iter().any(|maker| about.contains(maker)) && !about.contains("Virtual Function")
}

/// A name in brackets. The last brackets count, because the maker's short name may come first.
fn name_in(about: &str) -> Option<&str> {
    let (before, _) = about.rsplit_once(']')?;
    let (_, name) = before.rsplit_once('[')?;
    // Numbers in brackets are ids.
    let is_id = name.chars().all(|c| c.is_ascii_hexdigit() || c == ':');
    (!name.is_empty() && !is_id).then_some(name)
}

/// The slot in a line such as `Speed 16GT/s (ok), Width x16 (ok)`.
fn slot(status: &str) -> Option<PcieSlot> {
    let after = |word: &str| status.split_once(word).map(|(_, rest)| rest);
    let speed: f64 = after("Speed ")?.split_once("GT/s")?.0.trim().parse().ok()?;
    let generations = [(2.5, 1), (5.0, 2), (8.0, 3), (16.0, 4), (32.0, 5), (64.0, 6)];
    let (_, generation) = *generations.iter().find(|(gt, _)| *gt == speed)?;
    let width = after("Width x")?;
    let digits = width.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    Some(PcieSlot { generation, lanes: Some(digits.parse().ok()?), inferred: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::pcie_slot;

    const TEXT: &str = "00:1f.2 SATA controller: Intel Corporation SATA [AHCI mode]\n\
        \t\tLnkSta:\tSpeed 2.5GT/s, Width x1\n\n\
        3b:00.0 Infiniband controller: Mellanox Technologies MT28908 Family [ConnectX-6]\n\
        \tSubsystem: Mellanox Technologies MT28908 Family [ConnectX-6]\n\
        \t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported\n\
        \t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x16 (ok)\n\n\
        0000:5e:00.1 Ethernet controller [0200]: Mellanox Technologies MT27800 Family [ConnectX-5] [15b3:1017]\n\
        \t\tLnkSta:\tSpeed 8GT/s, Width x8, TrErr- Train-\n";

    #[test]
    fn nics_have_their_slot() {
        let nics = nics(NamedText { name: "l", text: TEXT }).unwrap();
        let facts: Vec<MachineFacts> = nics.iter().map(PciNic::facts).collect();
        assert_eq!(facts.len(), 2, "{facts:?}");
        assert_eq!((facts[0].nic.as_deref(), facts[0].pcie), (Some("ConnectX-6"), pcie_slot("gen3x16")));
        assert_eq!(facts[0].pcie_text.as_deref(), Some("lspci: Speed 8GT/s (downgraded), Width x16 (ok)"));
        assert_eq!(facts[1].pcie, pcie_slot("gen3x8"));
    }

    #[test]
    fn a_slot_that_lspci_may_not_read_is_absent() {
        let text = "3b:00.0 Infiniband controller: Mellanox Technologies [ConnectX-6]\n\tCapabilities: <access denied>\n";
        let nics = nics(NamedText { name: "l", text }).unwrap();
        assert_eq!(nics[0].facts().pcie, None);
        let error = super::nics(NamedText { name: "l", text: "00:00.0 Host bridge: Intel\n" }).unwrap_err();
        assert_eq!(error.to_string(), "l:1: this output of lspci -vv has no NIC of a maker of RDMA NICs");
    }
}
