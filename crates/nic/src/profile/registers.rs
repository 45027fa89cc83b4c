//! Doorbell registers and BlueFlame of a NIC's driver.

use super::parameter::{ProfileError, ProfileReader, Section, Unit, section};
use crate::Generation;
use crate::generation::{DriverSettings, Uuars};
use toml::Spanned;

section! {
    /// Doorbell registers of a process's context, and BlueFlame. They replace the rule of the generation. A
    /// profile without this section has a register for each QP, and its driver takes no locks.
    Registers in "registers" {
        /// Doorbell registers of a context, unless the user asks for another number.
        total: u32 = "total" Count 1..=512;
        /// Low-latency registers, which serve one QP each. Register 0 has no BlueFlame and needs no lock. The
        /// others are shared under locks.
        low_latency: u32 = "low_latency" Count 0..=511;
        /// Bytes of a BlueFlame buffer. The driver writes a WQE to the NIC only if it is no larger.
        blueflame: u32 = "blueflame_bytes" Bytes 0..=4096;
    }
}

impl Registers {
    /// Checks that the section fits the generation, and its numbers each other. The error says what does not
    /// fit.
    pub(super) fn check(&self, generation: Generation) -> Result<(), String> {
        if generation != Generation::Mlx5 {
            return Err(format!("[registers] describes the driver of mlx5, but generation is {generation}"));
        }
        Uuars::new(self.total, self.low_latency).map(|_| ()).map_err(|why| format!("registers.total: {why}"))
    }

    /// The registers of a context with these settings.
    ///
    /// # Errors
    /// See [`Uuars::new`].
    pub fn uuars(&self, settings: &DriverSettings) -> Result<Uuars, String> {
        let total = settings.total_uuars.unwrap_or(self.total);
        Uuars::new(total, settings.num_low_lat_uuars.unwrap_or(self.low_latency))
    }
}
