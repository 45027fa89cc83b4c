//! Sets of file descriptors that can be read without a lock. Any call of a program and the child of a fork(2)
//! may read them.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Upper bound on the numbers of the file descriptors that a set can hold, exclusive. A higher number is
/// refused as if too many files were open (`EMFILE`).
pub(crate) const MOST: usize = 1 << 16;

/// A set of file descriptors: one bit for each number. Relaxed: a bit publishes no other data.
#[derive(Debug)]
pub(crate) struct Descriptors([AtomicU64; MOST / 64]);

impl Descriptors {
    pub(crate) const fn new() -> Descriptors {
        Descriptors([const { AtomicU64::new(0) }; MOST / 64])
    }

    #[inline(always)]
    pub(crate) fn has(&self, fd: RawFd) -> bool {
        let word = self.0.get(fd as usize / 64);
        word.is_some_and(|word| word.load(Relaxed) >> (fd as usize % 64) & 1 != 0)
    }

    /// Adds a descriptor; `false` if its number is too high.
    pub(crate) fn add(&self, fd: RawFd) -> bool {
        let word = self.0.get(fd as usize / 64);
        word.is_some_and(|word| {
            word.fetch_or(1 << (fd as usize % 64), Relaxed);
            true
        })
    }

    pub(crate) fn remove(&self, fd: RawFd) {
        if let Some(word) = self.0.get(fd as usize / 64) {
            word.fetch_and(!(1 << (fd as usize % 64)), Relaxed);
        }
    }

    /// All members from the number `first` on, in ascending order.
    pub(crate) fn from(&self, first: RawFd) -> impl Iterator<Item = RawFd> {
        (first.max(0)..MOST as RawFd).filter(|fd| self.has(*fd))
    }
}

/// The descriptors that a child of a fork(2) must close.
static PRIVATE: Descriptors = Descriptors::new();

/// A descriptor that only this process may keep open. A child of a fork(2) closes its copy, so that peers
/// detect the exit of this process.
#[derive(Debug)]
pub(crate) struct Private<T: AsRawFd = OwnedFd>(T);

impl<T: AsRawFd> Private<T> {
    /// # Errors
    /// `EMFILE` if the descriptor's number is too high.
    pub(crate) fn new(fd: T) -> std::io::Result<Private<T>> {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            // SAFETY: a function of this library, which is never unloaded.
            unsafe { libc::pthread_atfork(None, None, Some(close_all)) };
        });
        match PRIVATE.add(fd.as_raw_fd()) {
            true => Ok(Private(fd)),
            false => Err(std::io::Error::from_raw_os_error(libc::EMFILE)),
        }
    }

    pub(crate) fn get(&self) -> &T {
        &self.0
    }
}

impl<T: AsRawFd> Drop for Private<T> {
    fn drop(&mut self) {
        PRIVATE.remove(self.0.as_raw_fd());
    }
}

/// Closes the private descriptors in the child of a fork(2), where nothing uses them.
extern "C" fn close_all() {
    for fd in PRIVATE.from(0) {
        PRIVATE.remove(fd);
        // This calls libc, because the owner of the descriptor cannot be dropped here. SAFETY: the descriptor
        // is the child's own copy. The value that owns it belongs to the parent and is never dropped in the
        // child.
        unsafe { libc::close(fd) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_added() {
        static SET: Descriptors = Descriptors::new();
        assert!(SET.add(0) && SET.add(65) && SET.add(MOST as RawFd - 1) && !SET.add(MOST as RawFd));
        assert!(!SET.has(-1) && !SET.has(1) && !SET.has(MOST as RawFd) && SET.has(65));
        assert_eq!(SET.from(1).collect::<Vec<_>>(), [65, MOST as RawFd - 1]);
        SET.remove(65);
        assert!(!SET.has(65) && SET.has(0));
    }
}
