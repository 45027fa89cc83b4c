//! Sets of file descriptors that are asked without a lock: amid any call of a program, and in the child of a fork(2).

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Descriptors that can be in a set; those of one that can have more are refused as if there were too many.
pub(crate) const MOST: usize = 1 << 16;

/// A set of descriptors.
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

    /// Whether there is room for it.
    pub(crate) fn add(&self, fd: RawFd) -> bool {
        let word = self.0.get(fd as usize / 64);
        word.is_some_and(|word| {
            word.fetch_or(1 << (fd as usize % 64), AcqRel);
            true
        })
    }

    pub(crate) fn remove(&self, fd: RawFd) {
        if let Some(word) = self.0.get(fd as usize / 64) {
            word.fetch_and(!(1 << (fd as usize % 64)), AcqRel);
        }
    }

    /// All, from one number on.
    pub(crate) fn from(&self, first: RawFd) -> impl Iterator<Item = RawFd> {
        (first.max(0)..MOST as RawFd).filter(|fd| self.has(*fd))
    }
}

/// What a child of a fork(2) must not keep open.
static PRIVATE: Descriptors = Descriptors::new();

/// A descriptor of this process alone: a child of a fork(2) closes it, so that others see when this process ends.
#[derive(Debug)]
pub(crate) struct Private<T: AsRawFd = OwnedFd>(T);

impl<T: AsRawFd> Private<T> {
    /// # Errors
    /// `EMFILE` where its number is too high.
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

/// In the child of a fork(2), where nobody uses the parent's.
extern "C" fn close_all() {
    for fd in PRIVATE.from(0) {
        PRIVATE.remove(fd);
        // By libc, as no owner can be dropped here.
        // SAFETY: the child's own copy; what owns it is the parent's and never dropped here.
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
