//! The output of `ibv_devinfo -v`.

use super::NamedText;
use super::facts::MachineFacts;
use super::nic_names;
use crate::format::FabricKind;
use doorbell_schema::SchemaError;

/// A device in the output.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DeviceInfo {
    /// Name, such as `mlx5_0`.
    pub(super) name: String,
    part: Option<u32>,
    fabric: Option<FabricKind>,
    lanes: Option<f64>,
    lane_gbps: Option<f64>,
}

impl DeviceInfo {
    /// Facts about the device's machine.
    pub(super) fn facts(&self) -> MachineFacts {
        MachineFacts {
            nic: self.part.and_then(nic_names::name_of).map(str::to_owned),
            link_gbps: self.lanes.zip(self.lane_gbps).map(|(lanes, gbps)| lanes * gbps),
            fabric: self.fabric.clone(),
            ..MachineFacts::default()
        }
    }

    /// Takes a line `key: value`. Of several ports, the first counts.
    fn take(&mut self, key: &str, value: &str) {
        match key {
            "vendor_part_id" => self.part = self.part.or(value.parse().ok()),
            "link_layer" => {
                let fabric = match value {
                    "InfiniBand" => Some(FabricKind::InfiniBand),
                    "Ethernet" => Some(FabricKind::Roce),
                    _ => None,
                };
                self.fabric = self.fabric.take().or(fabric);
            }
            "active_width" => self.lanes = self.lanes.or(number_before(value, "X")),
            "active_speed" => self.lane_gbps = self.lane_gbps.or(number_before(value, "Gbps")),
            _ => {}
        }
    }
}

/// The number at the start of a text, which `unit` follows: 25 in `25.0 Gbps (32)`.
fn number_before(text: &str, unit: &str) -> Option<f64> {
    let (number, _) = text.split_once(unit)?;
    number.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

/// The devices in the output.
///
/// # Errors
/// If there is none.
pub(super) fn devices(file: NamedText<'_>) -> Result<Vec<DeviceInfo>, SchemaError> {
    let mut devices: Vec<DeviceInfo> = Vec::new();
    for line in file.text.lines() {
        let Some((key, value)) = line.trim().split_once(':') else { continue };
        let value = value.trim();
        if key == "hca_id" {
            devices.push(DeviceInfo { name: value.to_owned(), ..DeviceInfo::default() });
        } else if let Some(device) = devices.last_mut() {
            device.take(key, value);
        }
    }
    if devices.is_empty() {
        return Err(file.error(1, "this is not the output of ibv_devinfo -v: no line begins with hca_id"));
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\tvendor_id:\t\t\t0x02c9\n\
        \tvendor_part_id:\t\t\t4123\n\tmax_qp_wr:\t\t\t32768\n\t\tport:\t1\n\t\t\tlink_layer:\t\tInfiniBand\n\
        \t\t\tactive_width:\t\t4X (2)\n\t\t\tactive_speed:\t\t50.0 Gbps (64)\n\n\
        hca_id: mlx5_1\n        vendor_part_id:                 4119\n        \
        link_layer:             Ethernet\n        active_width:           4X (2)\n        \
        active_speed:           25.0 Gbps (32)\n";

    #[test]
    fn devices_have_nic_link_and_fabric() {
        let devices = devices(NamedText { name: "d", text: TWO }).unwrap();
        let facts: Vec<_> = devices
            .iter()
            .map(|device| (device.name.clone(), device.facts()))
            .map(|(name, facts)| (name, facts.nic.unwrap(), facts.link_gbps.unwrap(), facts.fabric.unwrap()))
            .collect();
        let own = |name: &str, nic: &str, gbps, fabric| (name.to_owned(), nic.to_owned(), gbps, fabric);
        assert_eq!(facts[0], own("mlx5_0", "ConnectX-6", 200.0, FabricKind::InfiniBand));
        assert_eq!(facts[1], own("mlx5_1", "ConnectX-5", 100.0, FabricKind::Roce));
    }

    #[test]
    fn unknown_values_are_absent() {
        let text =
            "hca_id: rxe0\nvendor_part_id: 0\nactive_width: unknown (9)\nactive_speed: invalid speed (0)\n";
        let devices = devices(NamedText { name: "d", text }).unwrap();
        assert_eq!(devices[0].facts(), MachineFacts::default());
        let error = super::devices(NamedText { name: "d", text: "No IB devices found\n" }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "d:1: this is not the output of ibv_devinfo -v: no line begins with hca_id"
        );
    }
}
