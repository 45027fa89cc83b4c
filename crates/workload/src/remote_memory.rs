//! Memory on the responders' NICs that one-sided operations access.

use crate::error::invalid;
use crate::taking::Taking;
use crate::{Buffers, Resolved, WorkloadError};
use doorbell_nic::{Profile, counted};

/// Bytes that an allocation of device memory begins at a multiple of.
const ALIGNMENT: u64 = 64;

impl Resolved {
    /// Bytes of device memory that the threads of this workload use on each responding machine, without
    /// counters.
    fn device_bytes(&self) -> u64 {
        let threads = if self.at_one_address() { 1 } else { u64::from(self.threads) };
        let each = if self.reaches_buffers() { Buffers::remote(self).bytes() } else { 0 };
        threads.saturating_mul(each.next_multiple_of(ALIGNMENT))
    }

    /// Checks that the responders' NICs have memory, if operations access it, and that some operations do.
    pub(crate) fn check_remote_memory(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        if !self.in_device_memory() {
            return Ok(());
        }
        if self.operations().iter().all(|operation| operation.verb.consumes_recv()) {
            return invalid(format!(
                "remote_memory is for WRITE, READ and atomics, not for {}, because RECVs have buffers in host \
                 memory",
                self.verb_names()
            ));
        }
        if let Some(socket) = self.peer_memory_socket {
            return invalid(format!(
                "peer_memory_socket is {socket}, but remote_memory is on the NIC: leave one of them out"
            ));
        }
        check_device_bytes(std::slice::from_ref(self), taking)
    }
}

/// Checks that the device memory of each responder holds the buffers and counters of all classes of threads.
pub(crate) fn check_device_bytes(classes: &[Resolved], taking: &Taking<'_>) -> Result<(), WorkloadError> {
    if !classes.iter().any(Resolved::in_device_memory) {
        return Ok(());
    }
    let counters = classes.iter().find_map(|own| own.counters).map_or(0, |counters| counters.bytes());
    let buffers = classes.iter().fold(0, |sum: u64, own| sum.saturating_add(own.device_bytes()));
    let needed = buffers.saturating_add(counters.next_multiple_of(ALIGNMENT));
    taking.responders.iter().try_for_each(|profile| check_profile(profile, needed))
}

fn check_profile(profile: &Profile, needed: u64) -> Result<(), WorkloadError> {
    let name = &profile.name;
    match profile.device.device_memory {
        None => invalid(format!(
            "remote_memory is device, but profile {name} has no section [device_memory] that describes \
             memory on its NIC"
        )),
        Some(_) if profile.adapters() > 1 => invalid(format!(
            "remote_memory is device, but a machine of profile {name} has {}, and threads share the memory \
             of one",
            counted(profile.adapters().into(), "NIC")
        )),
        Some(memory) if needed > memory.bytes => invalid(format!(
            "the buffers of a responder take {needed} bytes, but the NIC of profile {name} has {} bytes of \
             memory: use fewer threads, a smaller window, remote_region or remote_addresses same",
            memory.bytes
        )),
        Some(_) => Ok(()),
    }
}
