//! XRC domains: who has opened the same file has the same, in whichever process (ibv_open_xrcd(3)).
//!
//! A domain is a number, made of the file's device and inode. Each process that has it open holds a lock on the byte of the
//! registry's file, far behind its end, that the number names: so it is known whether a domain is open anywhere, and that
//! it is not any more when the last process that had it was killed.

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
use std::time::{Duration, Instant};

/// Domains of no file have it set, and never meet another.
const PRIVATE: u64 = 1 << 63;
/// Where the bytes begin that name domains, and how many there are.
const LOCKS_AT: u64 = 1 << 62;
const LOCKS: u64 = 1 << 62;
/// How long somebody who sees whether it is the first to open a domain is waited for.
const PATIENCE: Duration = Duration::from_millis(10);

/// The number of a domain; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DomainId(u64);

impl DomainId {
    /// As it stands in records, where 0 is none.
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

    /// Where in the registry's file its lock is.
    fn lock_at(self) -> u64 {
        LOCKS_AT + self.0 % LOCKS
    }
}

/// An opened domain.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) id: DomainId,
    /// Keeps the inode from being another file's.
    file: Option<File>,
}

/// What a program says of a domain that it opens.
#[derive(Debug)]
pub(crate) struct Opening {
    /// The file that names it.
    pub(crate) file: Option<File>,
    /// Whether it may be made (O_CREAT), and must be (O_EXCL).
    pub(crate) creates: bool,
    pub(crate) is_exclusive: bool,
}

/// The domains of files that this process has open, and how often.
#[derive(Debug, Default)]
pub(crate) struct Domains(Mutex<HashMap<DomainId, u32>>);

impl Domains {
    /// Opens a domain; `slot` is this process's in the registry. Refuses as the kernel does.
    pub(crate) fn open(&self, registry: &Registry, slot: u32, opening: Opening) -> Result<Domain, Errno> {
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
            // That it can be given back is all that matters; it goes with the process at the latest.
            let _ = registry.unlock_byte(domain.id.lock_at());
        }
    }
}

/// Takes this process's lock of a domain that it has not open.
fn hold(registry: &Registry, id: DomainId, creates: bool, is_exclusive: bool) -> Result<(), Errno> {
    let (at, begin) = (id.lock_at(), Instant::now());
    if !creates && !registry.is_byte_locked(at)? {
        return Err(EAGAIN);
    }
    if is_exclusive {
        if !registry.lock_byte(at, true)? {
            return Err(EINVAL);
        }
        reach(Point::DomainAlone);
    }
    // Others have the same lock, unless one has just asked to be the only one, and gives that up at once.
    while !registry.lock_byte(at, false)? {
        if begin.elapsed() > PATIENCE {
            return Err(EAGAIN);
        }
        std::thread::yield_now();
    }
    reach(Point::DomainLocked);
    Ok(())
}
