//! The cost of accesses to one address: atomics in host memory, and all accesses to device memory.

use crate::{Atomics, DeviceMemory};
use doorbell_verbs::{Opcode, Span};

/// How long atomics hold their locks, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockCost {
    hold: u64,
    fetch_add: u64,
}

impl LockCost {
    fn new(hold: Span, fetch_add: Span) -> LockCost {
        LockCost { hold: hold.as_ps(), fetch_add: fetch_add.as_ps() }
    }

    /// The locks of atomics on host memory. The PCIe read of the word precedes the time here.
    pub(super) fn of_host_memory(atomics: &Atomics) -> LockCost {
        LockCost::new(atomics.hold, atomics.fetch_add)
    }

    /// Time for which an atomic holds its lock. `opcode` is the atomic's.
    #[inline]
    pub const fn hold(&self, opcode: Opcode) -> u64 {
        match opcode {
            Opcode::FetchAdd => self.hold + self.fetch_add,
            _ => self.hold,
        }
    }
}

/// Time of accesses to memory on the NIC, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemoryCost {
    /// A read, from its issue until the data are there.
    pub access: u64,
    /// Time for which a write holds its lock.
    pub write_hold: u64,
    /// Times for which atomics hold their locks.
    pub atomics: LockCost,
}

impl DeviceMemoryCost {
    pub(super) fn new(memory: &DeviceMemory) -> DeviceMemoryCost {
        DeviceMemoryCost {
            access: memory.access.as_ps(),
            write_hold: memory.write_hold.as_ps(),
            atomics: LockCost::new(memory.atomic_hold, memory.fetch_add),
        }
    }
}
