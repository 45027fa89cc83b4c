//! XRC domains. Processes that open one file share its domain (ibv_open_xrcd(3)).
//!
//! A domain's number is a hash of the file's device and inode numbers. The number selects a byte position far
//! behind the end of the registry's file. Each process that has the domain open holds a shared lock on this
//! byte. So every process can test whether any process has the domain open. A second byte is locked
//! exclusively by a process that creates the domain with `O_EXCL`. The kernel releases the locks of a process
//! that is killed.

use super::registry::Registry;
use crate::errno::{EAGAIN, EINVAL, Errno};
use crate::point::{Point, reach};
use crate::sync::lock;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// Bit that is set in the numbers of domains without a file. Such a domain is never shared.
const PRIVATE: u64 = 1 << 63;
/// Offset and number of the bytes in the registry's file whose shared locks stand for open domains.
const LOCKS_AT: u64 = 1 << 62;
const LOCKS: u64 = 1 << 62;
/// Offset and number of the bytes for the locks of creation.
const CREATIONS_AT: u64 = 1 << 60;
const CREATIONS: u64 = 1 << 60;

/// The number of a domain; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DomainId(u64);

impl DomainId {
    /// The number of the domain in records, where 0 means no domain.
    pub(crate) fn in_record(self) -> u64 {
        self.0
    }

    fn of_file(file: &File) -> Result<DomainId, Errno> {
        let found = file.metadata()?;
        let mut hash = Sha256::new();
        hash.update(found.dev().to_ne_bytes());
        hash.update(found.ino().to_ne_bytes());
        let word = hash.finalize().first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Ok(DomainId((word & !PRIVATE).max(1)))
    }

    /// Offset of the domain's shared lock in the registry's file.
    fn lock_at(self) -> u64 {
        LOCKS_AT + self.0 % LOCKS
    }

    /// Offset of the domain's lock of creation in the registry's file.
    fn creation_at(self) -> u64 {
        CREATIONS_AT + self.0 % CREATIONS
    }
}

/// An opened domain.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) id: DomainId,
    /// The open file keeps its inode number from being reused for another file.
    file: Option<File>,
}

/// The arguments of ibv_open_xrcd(3).
#[derive(Debug)]
pub(crate) struct Opening {
    /// The file that names the domain; `None` for a domain without a file.
    pub(crate) file: Option<File>,
    /// Whether the domain may be created (O_CREAT), and whether it must be (O_EXCL).
    pub(crate) creates: bool,
    pub(crate) is_exclusive: bool,
}

/// The domains that this process has open by files, and how often each is open.
#[derive(Debug, Default)]
pub(crate) struct Domains(Mutex<HashMap<DomainId, u32>>);

impl Domains {
    /// Opens a domain. `slot` is this process's slot in the registry.
    ///
    /// Fails like the kernel: with `EINVAL` if the domain must be created but is open, and with `EAGAIN` if
    /// it may not be created and is not open.
    pub(crate) fn open(&self, registry: &Registry, slot: u32, opening: Opening) -> Result<Domain, Errno> {
        // A counter: it orders nothing.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let Opening { file, creates, is_exclusive } = opening;
        let Some(file) = file else {
            let number = u64::from(slot) << 32 | u64::from(NEXT.fetch_add(1, Relaxed));
            return Ok(Domain { id: DomainId(PRIVATE | number), file: None });
        };
        let id = DomainId::of_file(&file)?;
        let mut open = lock(&self.0);
        match open.get_mut(&id) {
            Some(_) if is_exclusive => return Err(EINVAL),
            Some(times) => *times += 1,
            None => {
                hold(registry, id, creates, is_exclusive)?;
                open.insert(id, 1);
            }
        }
        Ok(Domain { id, file: Some(file) })
    }

    pub(crate) fn close(&self, registry: &Registry, domain: &Domain) {
        if domain.file.is_none() {
            return;
        }
        let mut open = lock(&self.0);
        let Some(times) = open.get_mut(&domain.id) else { return };
        *times -= 1;
        if *times == 0 {
            open.remove(&domain.id);
            // A failure does not matter, because the lock ends when the process exits.
            let _ = registry.unlock_byte(domain.id.lock_at());
        }
    }
}

/// Acquires the shared lock of a domain that this process does not have open yet. No process waits for
/// another process, which may be stopped.
fn hold(registry: &Registry, id: DomainId, creates: bool, is_exclusive: bool) -> Result<(), Errno> {
    if !creates && !registry.is_byte_locked(id.lock_at())? {
        return Err(EAGAIN);
    }
    if is_exclusive { hold_first(registry, id) } else { share(registry, id) }
}

/// Acquires the shared lock if no process has the domain open. Of all processes that call this function at
/// one time, only the holder of the domain's lock of creation can succeed. A process that opens the domain
/// without `O_EXCL` between the test and `share` counts as the second to open it.
fn hold_first(registry: &Registry, id: DomainId) -> Result<(), Errno> {
    let creation = id.creation_at();
    if !registry.lock_byte(creation, true)? {
        return Err(EINVAL);
    }
    reach(Point::DomainAlone);
    let held = match registry.is_byte_locked(id.lock_at()) {
        Ok(false) => share(registry, id),
        Ok(true) => Err(EINVAL),
        Err(error) => Err(error.into()),
    };
    // A failure does not matter, because the lock ends when the process exits.
    let _ = registry.unlock_byte(creation);
    held
}

fn share(registry: &Registry, id: DomainId) -> Result<(), Errno> {
    if !registry.lock_byte(id.lock_at(), false)? {
        // No process with this build of the library locks the byte exclusively.
        return Err(Errno(libc::EBUSY));
    }
    reach(Point::DomainLocked);
    Ok(())
}
