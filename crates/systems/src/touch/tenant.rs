//! Another program on the server's machine, which loads memory again and again.

use super::walk::LineWalk;
use crate::measure::Phase;
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Mem, Program, Provider, Touch};

/// A thread that scans memory and measures each pass.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The walk through the memory.
    pub walk: LineWalk,
    /// The memory that it loads.
    pub memory: Mem,
    /// When it measures, and when it ends.
    pub interval: Interval,
}

impl Program for Tenant {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut measured = Measured::default();
        while !self.interval.is_over(&p) {
            let began = p.now();
            self.walk.go(&p, self.memory, Touch::Load);
            measured.spent(&self.interval, Phase::TenantPass, began, p.now());
        }
        Ok(measured)
    }
}
