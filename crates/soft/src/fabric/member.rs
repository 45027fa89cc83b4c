//! A process of a fabric, and its slot in the registry.

use crate::memory::records::SLOTS;
use doorbell_launch::process_start::ProcessStart;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A process that uses the device, as its peers see it in the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FabricMember {
    /// PID; 0 if the slot is free.
    pub(crate) pid: u32,
    /// The number of the process's file descriptor for its segment.
    pub(crate) fd: u32,
    /// The first slot that the process took, and the number of slots that it took before this slot.
    pub(crate) first_slot: u32,
    pub(crate) place: u32,
    /// Start time of the process in clock ticks since boot; a random number if the member has no PID.
    pub(crate) start_time: u64,
}

/// Stands for the PID of a member that is identified by its slot and a random number only.
const NO_PID: u32 = u32::MAX;

impl FabricMember {
    /// This process as a member of a fabric that may span PID namespaces, where a PID does not identify a
    /// process.
    pub(super) fn joined() -> io::Result<FabricMember> {
        let mut random = [0; 8];
        // getrandom(2) returns all requested bytes in one call, up to 256 bytes.
        getrandom(&mut random, GetRandomFlags::empty())?;
        let start_time = u64::from_ne_bytes(random);
        Ok(FabricMember { pid: NO_PID, fd: 0, start_time, first_slot: 0, place: 0 })
    }

    /// Whether the member is identified by its PID.
    pub(crate) fn has_pid(&self) -> bool {
        self.pid != NO_PID
    }

    /// The PID; 0 if the member has none.
    pub(crate) fn number(&self) -> u32 {
        if self.has_pid() { self.pid } else { 0 }
    }

    /// Process `pid` as a member; `None` if no such process is alive.
    pub(crate) fn of(pid: u32, fd: u32) -> io::Result<Option<FabricMember>> {
        let found = ProcessStart::of(pid)?;
        Ok(found.map(|ProcessStart { pid, start_time }| FabricMember {
            pid,
            fd,
            start_time,
            first_slot: 0,
            place: 0,
        }))
    }

    /// Whether this process is still running. A process that reuses its PID has another start time.
    ///
    /// # Errors
    /// If /proc cannot be read. The caller must then not treat the process as dead.
    pub(crate) fn is_alive(&self) -> io::Result<bool> {
        ProcessStart { pid: self.pid, start_time: self.start_time }.is_alive()
    }

    /// The member in the format of the registry.
    pub(super) fn slot(self) -> MemberSlot {
        let FabricMember { pid, fd, start_time, first_slot, place } = self;
        MemberSlot { pid, fd, start_time, first_slot, place, sum: self.sum() }
    }

    fn sum(&self) -> u64 {
        let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        // Fibonacci hashing of each word.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let words = [two(self.pid, self.fd), self.start_time, two(self.first_slot, self.place)];
        words.into_iter().fold(0, |sum: u64, word| (sum ^ word).wrapping_mul(FACTOR))
    }
}

/// A slot of the registry's file.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
pub(super) struct MemberSlot {
    pid: u32,
    fd: u32,
    start_time: u64,
    first_slot: u32,
    place: u32,
    /// Checksum of the other fields, which detects half-written slots.
    sum: u64,
}

impl MemberSlot {
    /// The member in the slot; `None` if the slot is free or half written.
    pub(super) fn member(self) -> Option<FabricMember> {
        let MemberSlot { pid, fd, start_time, first_slot, place, sum } = self;
        let member = FabricMember { pid, fd, start_time, first_slot, place };
        (pid != 0 && member.sum() == sum && (place as usize) < SLOTS).then_some(member)
    }
}

/// The content of a free slot.
pub(super) const FREE: FabricMember = FabricMember { pid: 0, fd: 0, start_time: 0, first_slot: 0, place: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_survives_its_slot() {
        let member =
            FabricMember { pid: 77, fd: 5, start_time: 0x1122_3344_5566_7788, first_slot: 9, place: 3 };
        assert_eq!(member.slot().member(), Some(member));
        let half = MemberSlot { pid: 0x0909_0909, fd: 0x0909_0909, ..member.slot() };
        assert_eq!(half.member(), None);
        assert_eq!(FabricMember { place: SLOTS as u32, ..member }.slot().member(), None);
        assert_eq!(FREE.slot().member(), None);
    }

    #[test]
    fn only_the_same_process_is_alive() {
        let me =
            FabricMember::of(std::process::id(), 0).expect("it can be read").expect("this process lives");
        let is_alive = |member: FabricMember| member.is_alive().expect("it can be read");
        assert!(is_alive(me));
        assert!(!is_alive(FabricMember { start_time: me.start_time + 2, ..me }));
        assert!(!is_alive(FREE));
    }
}
