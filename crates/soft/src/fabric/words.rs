//! Locks for atomics on words outside the arenas. A process that cannot map such a word reads the word and
//! then writes it. Meanwhile a lock keeps all other processes and threads from the word.
//!
//! There are two kinds of locks:
//! - An *own* lock is in the segment of the process that owns the region. The word's address selects one of
//!   256 own locks.
//! - An *object* lock depends on the memory object of the word and on the word's offset in this object. So
//!   every process finds this lock, whichever region its request names. An object lock is on a byte of the
//!   registry's file. The kernel releases the lock if its holder is killed.
//!
//! A word has these locks:
//! - A word that only one process can change has an own lock.
//! - A word that several processes can register has an object lock.
//! - A word of a System V segment has both locks. All processes of the segment's IPC namespace map the
//!   segment, use the processor's atomics, and acquire the own lock. A process of another IPC namespace
//!   cannot map the segment. It acquires the object lock as well.

use super::registry::Registry;
use crate::memory::lock;
use crate::memory::maps::{self, MapsOf};
use crate::memory::objects::{Object, ObjectNumber};
use crate::memory::segment::Segment;
use crate::point::{Point, reach};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Offset and number of the bytes in the registry's file whose locks protect words. They lie far behind the
/// end of the file.
const LOCKS_AT: u64 = 1 << 61;
const LOCKS: u64 = 1 << 61;
/// Number of mutexes that exclude other threads of this process. A lock on a byte of a file excludes only
/// other processes.
const MUTEXES: usize = 64;
/// Time after which a thread stops waiting for a lock, and time during which it does not wait for this lock
/// again (compare `memory/lock.rs`).
const GIVE_UP: Duration = Duration::from_millis(50);
const REMEMBERED: Duration = Duration::from_millis(500);

thread_local! {
    /// The lock that this thread last stopped waiting for, and when.
    static GIVEN_UP: Cell<Option<(u64, Instant)>> = const { Cell::new(None) };
}

/// Mutexes that exclude other threads of this process.
#[derive(Debug)]
pub(super) struct WordMutexes([Mutex<()>; MUTEXES]);

impl Default for WordMutexes {
    fn default() -> WordMutexes {
        WordMutexes(std::array::from_fn(|_| Mutex::new(())))
    }
}

/// A word outside the arena of the process that owns its region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    /// The segment of the process that owns the region.
    pub(crate) segment: &'a Segment,
    /// The word's address in the process that owns the region.
    pub(crate) addr: u64,
    pub(crate) object: Object,
    /// Whether the processor's own atomics are used, because the word is mapped here.
    pub(crate) is_mapped: bool,
}

/// The locks of a word. Dropping the value releases them.
pub(crate) struct WordGuard<'a> {
    _object: Option<ObjectGuard<'a>>,
    _own: Option<lock::Guard<'a>>,
}

/// The lock of a word in its object.
struct ObjectGuard<'a> {
    registry: &'a Registry,
    at: u64,
    _mutex: MutexGuard<'a, ()>,
}

impl Drop for ObjectGuard<'_> {
    fn drop(&mut self) {
        // If the call fails, this process has no lock to release.
        let _ = self.registry.unlock_byte(self.at);
    }
}

/// All locks for words that this process may change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordLocks<'a> {
    pub(super) mutexes: &'a WordMutexes,
    pub(super) registry: &'a Registry,
}

impl<'a> WordLocks<'a> {
    /// Locks a word for an atomic. `owner` is the process that owns the region. Returns `None` if another
    /// holder does not release a lock in time (50 ms), or if the word's memory object cannot be found out.
    pub(crate) fn lock_word(self, word: Word<'a>, owner: MapsOf) -> Option<WordGuard<'a>> {
        let Word { segment, addr, object, is_mapped } = word;
        let object = maps::object_of_word(object, owner, addr)?;
        let is_system_v = object.is_system_v();
        let shared = match object {
            Object::Shared { number, at } if (!is_mapped || !is_system_v) && !doorbell_launch::say::broken("n-words") => Some((number, at)),
            Object::Shared { .. } | Object::Private | Object::Unknown => None,
        };
        let own = match shared {
            Some(_) if !is_system_v => None,
            _ => Some(segment.atomic_lock(addr).lock()?),
        };
        let object = match shared {
            Some((number, at)) => Some(self.lock_object(number, at)?),
            None => None,
        };
        reach(Point::LockHeld);
        Some(WordGuard { _object: object, _own: own })
    }

    fn lock_object(self, number: ObjectNumber, at: u64) -> Option<ObjectGuard<'a>> {
        let lock = number.lock_of(at);
        // Another thread holds this mutex for at most `GIVE_UP` while it waits for the byte's lock, and then
        // for one copy.
        let mutex = crate::sync::lock(&self.mutexes.0[lock as usize % MUTEXES]);
        let registry = self.registry;
        let guard = ObjectGuard { registry, at: LOCKS_AT + lock % LOCKS, _mutex: mutex };
        let begin = Instant::now();
        let is_given_up =
            GIVEN_UP.get().is_some_and(|(given_up, when)| given_up == lock && begin - when < REMEMBERED);
        while !registry.lock_byte(guard.at, true).unwrap_or(false) {
            if is_given_up || begin.elapsed() > GIVE_UP {
                GIVEN_UP.set(Some((lock, Instant::now())));
                return None;
            }
            std::thread::yield_now();
        }
        Some(guard)
    }
}
