//! The limits that the device shows to programs: its own, or smaller ones of a NIC that it imitates.

use doorbell_launch::limits::{Limits, OWN};
use doorbell_launch::say::say;
use doorbell_launch::variables::DEVICE_LIMITS;
use std::sync::OnceLock;

/// The limits of this process's device.
pub(crate) fn limits() -> &'static Limits {
    static LIMITS: OnceLock<Limits> = OnceLock::new();
    LIMITS.get_or_init(|| {
        let Ok(text) = std::env::var(DEVICE_LIMITS) else { return OWN };
        let Some(shown) = Limits::parse(&text) else {
            say(format_args!(
                "{DEVICE_LIMITS} is {text:?}, but must be eight numbers such as {}; the device uses its own \
                 limits",
                OWN.text()
            ));
            return OWN;
        };
        shown.least(OWN)
    })
}
