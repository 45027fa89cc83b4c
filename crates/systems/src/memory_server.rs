//! A server that only provides memory: clients access it by one-sided verbs, without the server's processor.

use crate::device::{self, Device};
use crate::site::{Dress, Site};
use crate::{Interval, Record, SystemError};
use doorbell_verbs::{AccessFlags, Cluster, Mem, Program, Provider, RemoteAddr};

/// Adds the server to a site. It has `clients` QPs, and `access` is their access to its memory.
pub fn put_up<C: Cluster, R: Record, D: Dress>(
    site: &mut Site<'_, C, R, D>,
    service: &'static str,
    clients: u32,
    memory: Mem,
    access: AccessFlags,
) {
    let interval = site.server_interval();
    site.add_server(MemoryServer { service, clients, memory, access, interval });
}

/// The server's thread. It registers the memory, connects its clients, and then only waits.
struct MemoryServer {
    /// Prefix of all keys that are published.
    service: &'static str,
    clients: u32,
    memory: Mem,
    access: AccessFlags,
    interval: Interval,
}

impl Program for MemoryServer {
    type Output = Result<(), SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let mr = device.register(self.memory, AccessFlags::LOCAL_WRITE | self.access)?;
        publish(&p, self.service, mr.remote(0));
        let qps = device::serve_rc(&device, self.clients, self.service)?;
        while !self.interval.is_over(&p) {
            p.pause(self.interval.look());
        }
        drop(qps);
        Ok(())
    }
}

/// Publishes the address of the memory.
pub(crate) fn publish<P: Provider>(cpu: &P, service: &str, memory: RemoteAddr) {
    cpu.publish(&key(service), &memory.to_bytes());
}

/// The address of the server's memory. Waits until the memory is registered.
///
/// # Errors
/// If the published bytes are not an address.
pub fn find<P: Provider>(cpu: &P, service: &str) -> Result<RemoteAddr, SystemError> {
    Ok(RemoteAddr::from_bytes(&cpu.lookup(&key(service)))?)
}

fn key(service: &str) -> String {
    format!("{service}/memory")
}
