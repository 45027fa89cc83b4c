//! Clients compare-and-swap a word of the server's memory by RDMA (CLUSTER'21, III-E).

use super::config::Release;
use super::layout::Layout;
use super::lock::{Design, Lock};
use super::reach::{Last, Reach};
use crate::site::{Dress, Site, SiteError};
use crate::{Interval, Record, SystemError, memory_server};
use doorbell_verbs::{AccessFlags, Cluster, Provider};

/// Prefix of the keys that are published.
const SERVICE: &str = "spinlock";

/// Clients' access to the memory.
const ACCESS: AccessFlags =
    AccessFlags::REMOTE_READ.union(AccessFlags::REMOTE_WRITE).union(AccessFlags::REMOTE_ATOMIC);

/// Allocates locks and their data in the server's memory, and a server that lets clients access them.
pub(super) fn put_up<C: Cluster, R: Record, D: Dress>(
    site: &mut Site<'_, C, R, D>,
    clients: u32,
    layout: &Layout,
) -> Result<(), SiteError> {
    let memory = site.alloc(layout.bytes())?;
    memory_server::put_up(site, SERVICE, clients, memory, ACCESS);
    Ok(())
}

/// A client's access to that memory.
pub(super) fn reach<P: Provider>(cpu: &P, number: u32, layout: &Layout) -> Result<Reach<P>, SystemError> {
    Reach::open(cpu, SERVICE, number, layout.slot())
}

/// Returns an error if a released lock had the mark of another client.
pub(super) fn given_back(lock: u32, seen: u64, mark: u64) -> Result<(), SystemError> {
    match seen == mark {
        true => Ok(()),
        false => Err(SystemError::Protocol(format!("lock {lock} of client {mark} was taken by {seen}"))),
    }
}

/// Locks in the server's memory.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    layout: Layout,
    release: Release,
}

impl Remote {
    /// Allocates the locks.
    ///
    /// # Errors
    /// If the server has no more memory.
    pub fn put_up<C: Cluster, R: Record, D: Dress>(
        site: &mut Site<'_, C, R, D>,
        clients: u32,
        layout: Layout,
        release: Release,
    ) -> Result<Remote, SiteError> {
        put_up(site, clients, &layout)?;
        Ok(Remote { layout, release })
    }
}

impl Design for Remote {
    type Lock<P: Provider> = Words<P>;

    fn open<P: Provider>(&self, cpu: &P, number: u32) -> Result<Words<P>, SystemError> {
        let reach = reach(cpu, number, &self.layout)?;
        Ok(Words { reach, locks: *self, mark: u64::from(number) + 1 })
    }
}

/// A client's access to the locks.
pub struct Words<P: Provider> {
    reach: Reach<P>,
    locks: Remote,
    mark: u64,
}

impl<P: Provider> Lock for Words<P> {
    fn attempt(&mut self, lock: u32, interval: &Interval) -> Result<bool, SystemError> {
        let take = Last::CompareSwap { compare: 0, swap: self.mark };
        let seen = self.reach.write_then((0, &[]), self.locks.layout.word(lock), take, interval)?;
        Ok(seen == Some(0))
    }

    fn read(&mut self, lock: u32, into: &mut [u8], interval: &Interval) -> Result<bool, SystemError> {
        self.reach.read(self.locks.layout.data(lock, 0), into, interval)
    }

    fn release(&mut self, lock: u32, data: &[u8], interval: &Interval) -> Result<bool, SystemError> {
        let Remote { layout, release } = self.locks;
        let last = match release {
            Release::Write => Last::Zero,
            Release::Cas => Last::CompareSwap { compare: self.mark, swap: 0 },
        };
        let written = (layout.data(lock, 0), data);
        let Some(seen) = self.reach.write_then(written, layout.word(lock), last, interval)? else {
            return Ok(false);
        };
        if release == Release::Cas {
            given_back(lock, seen, self.mark)?;
        }
        Ok(true)
    }
}
