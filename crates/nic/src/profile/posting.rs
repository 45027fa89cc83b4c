//! How the driver of a NIC announces WQEs.

use super::device::Device;
use crate::generation::{BlueFlame, DriverSettings, PostingRule};

impl Device {
    /// How the driver announces WQEs to the NIC.
    pub fn posting_rule(&self, settings: &DriverSettings) -> PostingRule {
        match &self.registers {
            Some(registers) => PostingRule::BlueFlame(BlueFlame {
                buffer: registers.blueflame,
                without_inline: !settings.bf_only_inline,
                off: settings.shut_up_bf,
            }),
            None if settings.shut_up_bf => PostingRule::Doorbell,
            None => PostingRule::Count(self.generation.posting()),
        }
    }
}
