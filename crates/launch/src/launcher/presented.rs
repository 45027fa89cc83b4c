//! The NIC as which the device presents itself.

use super::LaunchError;
use crate::limits::{Limits, OWN};
use crate::variables;
use doorbell_nic::{DeviceId, Parameter, ShownNic};
use std::process::Command;

/// A NIC with known ids.
pub(super) struct Presented<'a> {
    name: &'a str,
    id: DeviceId,
    nic: ShownNic,
}

impl<'a> Presented<'a> {
    /// The NIC of a model, of a built-in profile or of a profile's file.
    pub(super) fn named_or_file(name: &'a str) -> Result<Presented<'a>, LaunchError> {
        let nic = ShownNic::named_or_file(name)?;
        let id = nic.device_id.clone().ok_or_else(|| LaunchError::NoDeviceId(name.into()))?;
        Ok(Presented { name, id, nic })
    }

    fn limits(&self) -> Limits {
        Limits::of(&self.nic.limits)
    }

    /// Sets the environment variables that make the device show this NIC.
    pub(super) fn set(&self, command: &mut Command) {
        command.env(variables::DEVICE_LIMITS, self.limits().text());
        let DeviceId { vendor_id, vendor_part_id, .. } = self.id;
        command.env(variables::DEVICE_ID, format!("{vendor_id}:{vendor_part_id}"));
    }

    /// A line that names the shown limits that nobody has published. `None` if all are published.
    pub(super) fn caveat(&self) -> Option<String> {
        let limit = |p: &Parameter| format!("{} {}", p.name.rsplit('.').next().unwrap_or(&p.name), p.value);
        let assumed: Vec<String> = self.nic.assumed().map(limit).collect();
        let name = self.name;
        let cqe = self.limits().cqe;
        let instead = match cqe > OWN.cqe {
            true => format!(" The device shows at most its own max_cqe, {}, not {cqe}.", OWN.cqe),
            false => String::new(),
        };
        (!assumed.is_empty()).then(|| {
            format!(
                "these limits of {name} are assumed, not published: {}.{instead} `doorbell profiles {name}` \
                 has the sources",
                assumed.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assumed_limits_are_named() {
        let caveat = |name| Presented::named_or_file(name).expect("it is known").caveat();
        let cx5 = "these limits of cx5 are assumed, not published: max_inline_bytes 828. The device shows at most \
                   its own max_cqe, 1048576, not 4194303. `doorbell profiles cx5` has the sources";
        assert_eq!(caveat("cx5").as_deref(), Some(cx5));
        let cx7 = caveat("cx7").expect("nothing was published");
        assert!(cx7.contains("max_qp_wr 32768") && cx7.contains("max_dm_bytes 131072"), "{cx7}");
        let t4 = caveat("e7520-t4").expect("some are assumed");
        assert!(t4.contains("max_cqe 16384") && !t4.contains("max_sge"), "one is published: {t4}");
    }

    #[test]
    fn unknown_nics_are_refused() {
        let Err(error) = Presented::named_or_file("cx9") else { panic!("it is not known") };
        let text = error.to_string();
        assert!(
            text.starts_with("there is no profile cx9") && text.ends_with("model: cx5, cx6, cx7"),
            "{text}"
        );
    }
}
