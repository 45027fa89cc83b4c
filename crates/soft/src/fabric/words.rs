//! Locks for atomics on words outside the arenas. A process that cannot map such a word reads it and then
//! writes it. Locks keep all others from the word meanwhile:
//!
//! - A word that one process alone can change has a lock in the segment of that process. It is one of 256, by
//!   the word's address.
//! - A word that several processes can register has a lock by its place in the memory object. Every process
//!   finds this lock, whichever region the request names. It is a lock on a byte of the registry's file, so
//!   it is released if its holder is killed.
//! - Every process maps a System V segment, and uses the processor's own atomics there. Only a process of
//!   another IPC namespace cannot. So the words of such a segment have the first lock, and that process also
//!   acquires the second one.

use super::process::Process;
use super::registry::Registry;
use crate::memory::lock;
use crate::memory::maps;
use crate::memory::objects::{Object, ObjectNumber};
use crate::memory::segment::Segment;
use crate::point::{Point, reach};
use std::cell::Cell;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Offset and number of the bytes of the registry's file that stand for words.
const LOCKS_AT: u64 = 1 << 61;
const LOCKS: u64 = 1 << 61;
/// Locks that keep threads of this process apart. A lock on a byte keeps only processes apart.
const MUTEXES: usize = 64;
/// Time after which waiting for a lock ends, and time during which the lock is not waited for again. See
/// `memory/lock.rs`.
const GIVE_UP: Duration = Duration::from_millis(50);
const REMEMBERED: Duration = Duration::from_millis(500);

thread_local! {
    /// The lock that this thread gave up last, and the time.
    static GIVEN_UP: Cell<Option<(u64, Instant)>> = const { Cell::new(None) };
}

/// The locks that keep threads of this process apart.
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
    /// The segment of the process.
    pub(crate) segment: &'a Segment,
    /// The word's address in the process.
    pub(crate) addr: u64,
    pub(crate) object: Object,
    /// Whether the processor's own atomics are used, because the word is mapped here.
    pub(crate) is_mapped: bool,
}

/// Keeps all others from a word until it is dropped.
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
        // If this fails, there is no lock.
        let _ = self.registry.unlock_byte(self.at);
    }
}

impl Process {
    /// Locks a word of a process for an atomic. `pid` is the PID of the process or `self`. `None` if a lock
    /// is not released in time, or cannot be found.
    pub(crate) fn lock_word<'a>(&'a self, word: Word<'a>, pid: impl Display) -> Option<WordGuard<'a>> {
        let Word { segment, addr, object, is_mapped } = word;
        let object = maps::object_of_word(object, pid, addr)?;
        let is_system_v = object.is_system_v();
        let shared = match object {
            Object::Shared { number, at } if !is_mapped || !is_system_v => Some((number, at)),
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

    fn lock_object(&self, number: ObjectNumber, at: u64) -> Option<ObjectGuard<'_>> {
        let lock = number.lock_of(at);
        // Another thread holds it for one copy at most, after it has waited for `GIVE_UP` at most.
        let mutex = crate::sync::lock(&self.word_mutexes.0[lock as usize % MUTEXES]);
        let registry = self.registry();
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
