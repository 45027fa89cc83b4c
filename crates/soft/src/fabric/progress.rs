//! Work requests that could not be carried out when they were posted.
//!
//! They are tried again whenever the program polls, and by one thread, which this process starts
//! when it first needs it. The same thread learns of peers that end.

use super::peer::Peer;
use crate::sync::lock;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The longest that the thread sleeps while a work request waits: a QP may have been destroyed.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// What has work requests that could not be carried out yet.
pub(crate) trait Waiting: std::fmt::Debug + Send + Sync {
    /// Tries again what waits; returns when it is to be tried next, `None` where nothing waits.
    fn advance(&self) -> Option<Instant>;

    /// Whether a work request waits, or may begin to at this moment. Never blocks: it is asked with the
    /// list of those that wait locked, which who begins to wait locks second.
    fn waits(&self) -> bool;
}

/// What waits in this process.
#[derive(Debug)]
pub(crate) struct Progress {
    waiting: Mutex<Vec<Arc<dyn Waiting>>>,
    /// Length of `waiting`, to see without the lock that there is nothing.
    count: AtomicUsize,
    watched: Mutex<Vec<Arc<Peer>>>,
    /// Wakes the thread. Made before the thread is: who has no file descriptor left needs it most.
    wake: OwnedFd,
    /// Whether the thread runs.
    started: Mutex<bool>,
}

impl Progress {
    /// Without a thread.
    ///
    /// # Errors
    /// As eventfd(2).
    pub(crate) fn new() -> io::Result<Progress> {
        // SAFETY: a new file descriptor or -1.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        let wake = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Progress {
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            watched: Mutex::default(),
            wake,
            started: Mutex::new(false),
        })
    }

    /// Has a QP's work requests tried again until none is left.
    pub(crate) fn add(&'static self, qp: Arc<dyn Waiting>) {
        let mut waiting = lock(&self.waiting);
        if !waiting.iter().any(|other| Arc::ptr_eq(other, &qp)) {
            waiting.push(qp);
            self.count.store(waiting.len(), Release);
        }
        drop(waiting);
        self.wake();
    }

    /// Tries what waits, on the program's own thread.
    #[inline]
    pub(crate) fn help(&self) {
        if self.count.load(Relaxed) > 0 {
            self.attempt();
        }
    }

    /// Tries what waits; returns when the next retry is due.
    fn attempt(&self) -> Option<Instant> {
        let qps = lock(&self.waiting).clone();
        let mut next = None;
        for qp in qps {
            match qp.advance() {
                Some(due) => next = Some(next.map_or(due, |n: Instant| n.min(due))),
                None => {
                    let mut waiting = lock(&self.waiting);
                    // Something may have begun to wait just now.
                    if !qp.waits() {
                        waiting.retain(|other| !Arc::ptr_eq(other, &qp));
                        self.count.store(waiting.len(), Release);
                    }
                }
            }
        }
        next
    }

    /// Learns of it when the peer ends.
    pub(crate) fn watch(&'static self, peer: Arc<Peer>) {
        lock(&self.watched).push(peer);
        self.wake();
    }

    fn wake(&'static self) {
        let mut started = lock(&self.started);
        if !*started {
            // Where there is no room for a thread now there may be later; the program's polls help as well.
            *started = start(self);
        }
        drop(started);
        let one = 1u64;
        // SAFETY: writes 8 bytes of `one` to an eventfd of our own.
        unsafe { libc::write(self.wake.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

/// Starts the thread, if there is room for one.
fn start(progress: &'static Progress) -> bool {
    let builder = std::thread::Builder::new().name("doorbell".into()).stack_size(256 << 10);
    // The program's signals are for its own threads.
    // SAFETY: sets of signals on this stack, and this thread's mask, restored below.
    let before = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    };
    let started = builder.spawn(move || run(progress));
    // SAFETY: the mask that was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    started.is_ok()
}

fn run(progress: &'static Progress) {
    let wake = progress.wake.as_raw_fd();
    loop {
        let due = progress.attempt();
        let mut peers = lock(&progress.watched).clone();
        peers.retain(|peer| !peer.is_dead());
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds: Vec<libc::pollfd> =
            std::iter::once(wake).chain(peers.iter().map(|p| p.process_fd())).map(poll).collect();
        let sleep = due.map(|due| due.saturating_duration_since(Instant::now()).min(LONGEST_SLEEP));
        let timeout =
            sleep.map(|s| libc::timespec { tv_sec: 0, tv_nsec: s.subsec_nanos().max(50_000).into() });
        let timeout_ptr = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: as many entries as told; the time-out, if any, lives.
        unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as _, timeout_ptr, std::ptr::null()) };
        let mut ended = false;
        for (peer, fd) in peers.iter().zip(&fds[1..]) {
            if fd.revents != 0 {
                peer.set_dead();
                ended = true;
            }
        }
        if ended {
            lock(&progress.watched).retain(|peer| !peer.is_dead());
        }
        if fds[0].revents != 0 {
            let mut count = 0u64;
            // SAFETY: reads 8 bytes into `count`.
            unsafe { libc::read(wake, (&raw mut count).cast(), 8) };
        }
    }
}
