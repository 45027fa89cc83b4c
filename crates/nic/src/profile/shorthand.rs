//! Short names for several parameters of a profile: a PCIe slot, and a link.

use super::device::Link;
use doorbell_verbs::LinkLayer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A generation of PCIe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PcieGeneration {
    /// 2.5 GT/s.
    Gen1,
    /// 5 GT/s.
    Gen2,
    /// 8 GT/s.
    Gen3,
    /// 16 GT/s.
    Gen4,
    /// 32 GT/s.
    Gen5,
    /// 64 GT/s, in FLIT mode.
    Gen6,
}

impl PcieGeneration {
    /// All generations, in their order.
    const ALL: [PcieGeneration; 6] = [
        PcieGeneration::Gen1,
        PcieGeneration::Gen2,
        PcieGeneration::Gen3,
        PcieGeneration::Gen4,
        PcieGeneration::Gen5,
        PcieGeneration::Gen6,
    ];

    /// Bytes per second of a lane after encoding, rounded to 0.1 MB/s as in ATC'16, Figure 2a. The encodings
    /// are 8b/10b for generations 1 and 2, and 128b/130b for 3 to 5. A FLIT of generation 6 has 256 bytes,
    /// of which 236 are for TLPs (PCI Express Base Specification 6.0).
    pub const fn lane_mb_per_s(self) -> f64 {
        match self {
            PcieGeneration::Gen1 => 250.0,
            PcieGeneration::Gen2 => 500.0,
            PcieGeneration::Gen3 => 984.6,
            PcieGeneration::Gen4 => 1969.2,
            PcieGeneration::Gen5 => 3938.5,
            PcieGeneration::Gen6 => 7375.0,
        }
    }

    /// The number of the generation, from 1.
    const fn number(self) -> usize {
        self as usize + 1
    }
}

/// Numbers of lanes that a PCIe link can have (PCI Express Base Specification).
const LANES: [u32; 7] = [1, 2, 4, 8, 12, 16, 32];

/// A PCIe slot: its generation and its lanes, written as `gen4x16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PcieSlot {
    generation: PcieGeneration,
    lanes: u32,
}

impl PcieSlot {
    /// The parameters of a profile that the slot sets, each with its value in the parameter's unit.
    ///
    /// The bytes of headers stay, because the framing of a TLP has 8 bytes in generations 1 to 5. In FLIT
    /// mode a TLP has no framing, so the bytes of generation 6 are an upper bound. Its link-layer packets are
    /// part of FLITs.
    pub fn settings(self) -> impl Iterator<Item = (&'static str, f64)> {
        let flits =
            (self.generation == PcieGeneration::Gen6).then_some(("pcie.dllp_millibytes_per_tlp", 0.0));
        let lanes = ("pcie.lanes", f64::from(self.lanes));
        [lanes, ("pcie.lane_mb_per_s", self.generation.lane_mb_per_s())].into_iter().chain(flits)
    }
}

impl FromStr for PcieSlot {
    type Err = String;

    fn from_str(text: &str) -> Result<PcieSlot, String> {
        let lower = text.to_ascii_lowercase();
        let read = || {
            let (generation, lanes) = lower.strip_prefix("gen")?.split_once('x')?;
            let generation =
                PcieGeneration::ALL.into_iter().find(|g| g.number().to_string() == generation)?;
            let lanes = LANES.into_iter().find(|n| n.to_string() == lanes)?;
            Some(PcieSlot { generation, lanes })
        };
        read().ok_or_else(|| {
            format!(
                "pcie is `{text}`, but must be a generation from 1 to 6 and 1, 2, 4, 8, 12, 16 or 32 lanes, \
                 such as gen4x16"
            )
        })
    }
}

impl fmt::Display for PcieSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gen{}x{}", self.generation.number(), self.lanes)
    }
}

/// Bytes that preamble and gap of an Ethernet frame take on the link (IEEE 802.3).
const PREAMBLE_AND_GAP: f64 = 20.0;
/// Bytes that an InfiniBand packet takes on the link besides its headers. Chosen as in profile `cib`, because
/// no measurement tells this number.
const BETWEEN_PACKETS: f64 = 15.0;

/// Another link for a NIC: its rate, its link layer, or both, written as `200`, `200ib`, `100roce`, `ib` or
/// `roce`. Each half that is not given stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinkChange {
    /// Rate of a port and direction after encoding, in thousandths of Gb/s.
    mbps: Option<u32>,
    layer: Option<LinkLayer>,
}

impl LinkChange {
    /// Whether the change names a link layer.
    pub const fn names_layer(self) -> bool {
        self.layer.is_some()
    }

    /// The parameters of a profile with this link that the change sets, each with its value in the
    /// parameter's unit. With another link layer, a packet has the other layer's overhead.
    pub fn settings(self, link: &Link) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        let rate = self.mbps.map(|mbps| ("link.port_rate_gbps", f64::from(mbps) / 1e3));
        let layer = self.layer.filter(|layer| *layer != link.layer());
        let changed = layer.map(|layer| match layer {
            LinkLayer::Ethernet => (1.0, PREAMBLE_AND_GAP),
            LinkLayer::Infiniband => (0.0, BETWEEN_PACKETS),
        });
        let layer =
            changed.map(|(roce, overhead)| [("link.roce", roce), ("link.packet_overhead_bytes", overhead)]);
        rate.into_iter().chain(layer.into_iter().flatten())
    }
}

/// The name of a link layer in a [`LinkChange`].
const fn name(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::Infiniband => "ib",
        LinkLayer::Ethernet => "roce",
    }
}

/// A rate in Gb/s with at most three decimals, in thousandths of Gb/s.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(whole) && digits(part) && part.len() <= 3).then_some(())?;
    let part: u32 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(part)
}

impl FromStr for LinkChange {
    type Err = String;

    fn from_str(text: &str) -> Result<LinkChange, String> {
        let lower = text.to_ascii_lowercase();
        let layers = [LinkLayer::Infiniband, LinkLayer::Ethernet];
        let named = layers.into_iter().find_map(|layer| Some((lower.strip_suffix(name(layer))?, layer)));
        let (rate, layer) = named.map_or((lower.as_str(), None), |(rate, layer)| (rate, Some(layer)));
        let mbps = match rate {
            "" => Some(None),
            rate => thousandths(rate).map(Some),
        };
        match mbps {
            Some(mbps) if mbps.is_some() || layer.is_some() => Ok(LinkChange { mbps, layer }),
            _ => Err(format!(
                "link is `{text}`, but must be Gb/s after encoding with at most three decimals, ib or roce, or \
                 both, such as 200, roce or 100roce"
            )),
        }
    }
}

impl fmt::Display for LinkChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(mbps) = self.mbps {
            write!(f, "{}", f64::from(mbps) / 1e3)?;
        }
        f.write_str(self.layer.map_or("", name))
    }
}

/// Conversions that serde uses.
macro_rules! as_text {
    ($type:ident) => {
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<$type, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }
    };
}
as_text!(PcieSlot);
as_text!(LinkChange);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    #[test]
    fn rates_of_lanes_follow_from_transfers_and_encodings() {
        let rates = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0].into_iter();
        let encodings = [(8, 10), (8, 10), (128, 130), (128, 130), (128, 130), (236, 256)];
        for ((generation, transfers), (data, all)) in
            PcieGeneration::ALL.into_iter().zip(rates).zip(encodings)
        {
            let exact = transfers * 1e3 / 8.0 * f64::from(data) / f64::from(all);
            assert!((generation.lane_mb_per_s() - exact).abs() <= 0.05, "{generation:?}: {exact}");
        }
    }

    #[test]
    fn a_slot_is_written_as_it_is_read() {
        for text in ["gen1x1", "gen3x8", "gen4x16", "gen5x4", "gen6x16"] {
            let slot: PcieSlot = text.parse().unwrap();
            assert_eq!(slot.to_string(), text);
            assert_eq!(text.to_ascii_uppercase().parse(), Ok(slot));
        }
        let settings: Vec<_> = "gen4x16".parse::<PcieSlot>().unwrap().settings().collect();
        assert_eq!(settings, [("pcie.lanes", 16.0), ("pcie.lane_mb_per_s", 1969.2)]);
        assert_eq!("gen6x8".parse::<PcieSlot>().unwrap().settings().count(), 3);
        for text in
            ["", "gen4", "x16", "gen0x16", "gen7x16", "gen4x3", "gen4x", "gen04x16", "gen4x16x", "4x16"]
        {
            let error = text.parse::<PcieSlot>().unwrap_err();
            assert!(error.starts_with(&format!("pcie is `{text}`, but must be")), "{error}");
        }
    }

    #[test]
    fn a_link_is_written_as_it_is_read() {
        for text in ["200", "200ib", "100roce", "54.54", "0.1", "ib", "roce", "54.545ib"] {
            let change: LinkChange = text.parse().unwrap();
            assert_eq!(change.to_string(), text);
            assert_eq!(text.to_ascii_uppercase().parse(), Ok(change));
        }
        for text in
            ["", "fast", "200eth", "-1", "1e3", "2.", ".5", "54.5454", "ib200", "99999999999", "roceib"]
        {
            let error = text.parse::<LinkChange>().unwrap_err();
            assert!(error.starts_with(&format!("link is `{text}`, but must be")), "{error}");
        }
    }

    #[test]
    fn a_link_changes_its_overhead_only_with_its_layer() {
        let cib = Profile::named("cib").unwrap();
        let of = |text: &str, link: &Link| -> Vec<(&str, f64)> {
            text.parse::<LinkChange>().unwrap().settings(link).collect()
        };
        let ib = cib.device.link;
        assert_eq!(of("54.54ib", &ib), [("link.port_rate_gbps", 54.54)]);
        let roce = [("link.roce", 1.0), ("link.packet_overhead_bytes", 20.0)];
        assert_eq!(of("roce", &ib), roce);
        let there = Link { roce: true, packet_overhead: 20, ..ib };
        assert_eq!(of("roce", &there), []);
        assert_eq!(of("ib", &there), [("link.roce", 0.0), ("link.packet_overhead_bytes", 15.0)]);
    }
}
