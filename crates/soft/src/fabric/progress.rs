//! Retries work requests that could not be carried out when they were posted.
//!
//! The program's own threads retry these work requests when they poll. A *helper thread* retries them, too.
//! The helper thread also detects peers that exit, and notifies sleeping programs that missed a completion.
//! The process starts this thread when it is first needed.

use super::peer::Peer;
use crate::sync::lock;
use crate::thread::spawn;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::{read, write};
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// The longest sleep of the helper thread while a work request waits. It is short because a QP may be
/// destroyed meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// The shortest sleep of the helper thread while a work request waits.
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);
/// The epoll(7) data of the event that wakes the thread. The data of a peer's event is the peer's address.
const WAKE: u64 = 0;
/// Period of two checks of the helper thread. One check finds exited peers, because the exit of some peers
/// causes no event. The other check finds sleeping programs that were not notified of a completion.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Polls try to start the thread at most once in this time, because an attempt that fails is costly.
const START_EVERY: Duration = Duration::from_millis(100);

/// An object with work requests that could not be carried out yet.
pub(crate) trait Waiting: std::fmt::Debug + Send + Sync {
    /// Retries the waiting work requests. Returns when to retry next; `None` if no work request waits.
    fn advance(&self) -> Option<Instant>;

    /// Whether a work request waits, or may begin to wait at this moment. The call never blocks, because its
    /// caller holds the lock of the list of waiting objects. An object that begins to wait acquires the lock
    /// of the list after its own lock.
    fn waits(&self) -> bool;
}

/// An object with completions, whose sleeping program may have missed a notification.
pub(crate) trait Sleeping: std::fmt::Debug + Send + Sync {
    /// Notifies the program if it sleeps although completions are ready. Called every [`LOOK_EVERY`].
    fn look(&self);
}

/// The waiting objects of this process.
#[derive(Debug)]
pub(crate) struct Progress {
    waiting: Mutex<Vec<Arc<dyn Waiting>>>,
    /// Length of `waiting`. A poll tests the length without the lock. The length is a hint that orders
    /// nothing: a poll that finds objects acquires the lock.
    count: AtomicUsize,
    /// Living peers that this process has met, by their slots.
    peers: Mutex<HashMap<u32, Watched>>,
    sleeping: Mutex<Vec<Weak<dyn Sleeping>>>,
    /// An eventfd that wakes the thread. It is opened before the thread starts, because a process without
    /// free file descriptors needs the thread most.
    wake: OwnedFd,
    /// The epoll(7) instance with everything that the thread waits for.
    all: OwnedFd,
    /// Whether the thread runs.
    started: Mutex<bool>,
    /// A copy of `started`, which is read without the lock.
    runs: AtomicBool,
    /// The last time when the thread could not be started.
    failed: Mutex<Option<Instant>>,
}

/// A peer that may exit.
#[derive(Clone, Debug)]
struct Watched {
    peer: Arc<Peer>,
    /// Whether the thread gets an event when the peer exits.
    told: bool,
}

impl Progress {
    /// Creates the state. The thread is not started yet.
    ///
    /// # Errors
    /// As eventfd(2) and epoll_create1(2).
    pub(crate) fn new() -> io::Result<Progress> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        wait_for(&all, &wake, WAKE)?;
        Ok(Progress {
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            peers: Mutex::default(),
            sleeping: Mutex::default(),
            wake,
            all,
            started: Mutex::new(false),
            runs: AtomicBool::new(false),
            failed: Mutex::default(),
        })
    }

    /// Adds a QP whose work requests are retried until none of them waits.
    pub(crate) fn add(&'static self, qp: Arc<dyn Waiting>) {
        let mut waiting = lock(&self.waiting);
        if !waiting.iter().any(|other| Arc::ptr_eq(other, &qp)) {
            waiting.push(qp);
            self.count.store(waiting.len(), Relaxed);
        }
        drop(waiting);
        self.wake();
    }

    /// Whether work requests wait.
    pub(crate) fn has_waiting(&self) -> bool {
        // Relaxed: the caller looks again later.
        self.count.load(Relaxed) > 0
    }

    /// Retries waiting work requests on the program's own thread.
    #[inline]
    pub(crate) fn help(&self) {
        if self.count.load(Relaxed) > 0 {
            self.attempt();
        }
    }

    /// Retries waiting work requests. Returns when the next retry is due; `None` if no work request waits.
    fn attempt(&self) -> Option<Instant> {
        let qps = lock(&self.waiting).clone();
        let mut next = None;
        for qp in qps {
            match qp.advance() {
                Some(due) => next = Some(next.map_or(due, |n: Instant| n.min(due))),
                None => {
                    let mut waiting = lock(&self.waiting);
                    // Another thread may have posted a work request that waits since `advance` returned.
                    if !qp.waits() {
                        waiting.retain(|other| !Arc::ptr_eq(other, &qp));
                        self.count.store(waiting.len(), Relaxed);
                    }
                }
            }
        }
        next
    }

    /// Watches a peer, to detect its exit.
    pub(crate) fn watch(&'static self, peer: Arc<Peer>) {
        let id = id_of(&peer);
        let told = peer.process().as_ref().is_some_and(|process| wait_for(&self.all, process, id).is_ok());
        lock(&self.peers).insert(peer.slot, Watched { peer, told });
        self.wake();
    }

    /// The living peer in this slot, if this process has met it.
    pub(crate) fn peer(&self, slot: u32) -> Option<Arc<Peer>> {
        let peers = lock(&self.peers);
        peers.get(&slot).map(|watched| &watched.peer).filter(|peer| !peer.is_dead()).cloned()
    }

    /// Checks an object every [`LOOK_EVERY`] as long as it exists.
    pub(crate) fn look_at(&'static self, what: Weak<dyn Sleeping>) {
        lock(&self.sleeping).push(what);
        self.wake();
    }

    /// Checks an object like [`Progress::look_at`], but only once the thread runs for another reason.
    pub(crate) fn look_at_later(&self, what: Weak<dyn Sleeping>) {
        lock(&self.sleeping).push(what);
    }

    /// Starts the thread if it does not run. Does nothing if an attempt has failed less than [`START_EVERY`]
    /// ago.
    #[inline]
    pub(crate) fn start(&'static self) {
        // Relaxed: an old value only leads to another call of `wake`.
        if !self.runs.load(Relaxed) && self.may_start() {
            self.wake();
        }
    }

    #[cold]
    fn may_start(&self) -> bool {
        lock(&self.failed).is_none_or(|failed| failed.elapsed() >= START_EVERY)
    }

    /// Checks all sleeping objects.
    fn look(&self) {
        let all = lock(&self.sleeping).clone();
        all.iter().filter_map(Weak::upgrade).for_each(|sleeping| sleeping.look());
        lock(&self.sleeping).retain(|sleeping| sleeping.strong_count() > 0);
    }

    /// Waits until the thread is woken, a peer exits, or the time has passed. Returns the ids of exited
    /// peers.
    fn wait(&self, timeout: Option<Duration>) -> Vec<u64> {
        let timeout = timeout.and_then(|span| Timespec::try_from(span.max(SHORTEST_SLEEP)).ok());
        // ppoll(2) measures the time, because epoll_wait(2) takes only milliseconds.
        if poll(&mut [PollFd::new(&self.all, PollFlags::IN)], timeout.as_ref()).is_err() {
            std::thread::sleep(SHORTEST_SLEEP);
        }
        let mut room = [MaybeUninit::uninit(); 64];
        let found = epoll::wait(&self.all, &mut room, Some(&Timespec::default()));
        let found = found.map_or(&[][..], |(found, _)| found);
        let mut ended: Vec<u64> = found.iter().map(|event| event.data.u64()).collect();
        if ended.contains(&WAKE) {
            ended.retain(|id| *id != WAKE);
            // The read fails if the eventfd's counter is 0 again. The failure does not matter.
            let _ = read(&self.wake, &mut [0; 8]);
        }
        ended
    }

    /// Marks exited peers as dead and stops watching them. `ended` has the ids of peers whose exit caused an
    /// event. If `look` is set, the other peers are checked too.
    fn bury(&self, ended: &[u64], look: bool) {
        // `set_dead` closes the peer's pidfd, which also removes it from the epoll(7) instance.
        lock(&self.peers).retain(|_, Watched { peer, told }| {
            let has_ended = *told && ended.contains(&id_of(peer)) || !*told && look && peer.has_ended();
            if has_ended {
                peer.set_dead();
            }
            !has_ended
        });
    }

    fn wake(&'static self) {
        let mut started = lock(&self.started);
        if !*started {
            // If the thread cannot be started now, the next call tries again. The program's polls help too.
            *started = start(self);
            self.runs.store(*started, Relaxed);
            *lock(&self.failed) = (!*started).then(Instant::now);
        }
        drop(started);
        // The write fails if the counter is full, but then the thread wakes anyway.
        let _ = write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// Starts the thread, if that is possible.
fn start(progress: &'static Progress) -> bool {
    spawn(c"doorbell", move || run(progress)).is_ok()
}

fn run(progress: &'static Progress) {
    let mut looked = Instant::now();
    loop {
        let due = progress.attempt();
        let sleep = due.map(|due| due.saturating_duration_since(Instant::now()).min(LONGEST_SLEEP));
        let untold = lock(&progress.peers).values().any(|watched| !watched.told);
        let looks = untold || !lock(&progress.sleeping).is_empty();
        let ended = progress.wait(sleep.into_iter().chain(looks.then_some(LOOK_EVERY)).min());
        let look = looks && looked.elapsed() >= LOOK_EVERY;
        if look {
            looked = Instant::now();
            progress.look();
        }
        if look || !ended.is_empty() {
            progress.bury(&ended, look);
        }
    }
}

fn id_of(peer: &Arc<Peer>) -> u64 {
    Arc::as_ptr(peer).addr() as u64
}

/// Adds a file descriptor to an epoll(7) instance. An event with this id is reported when the descriptor is
/// readable.
pub(crate) fn wait_for(all: &OwnedFd, file: impl AsFd, id: u64) -> io::Result<()> {
    Ok(epoll::add(all, file, epoll::EventData::new_u64(id), epoll::EventFlags::IN)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_seldom_try_to_start_a_thread_that_cannot_start() {
        let progress = Progress::new().expect("there are descriptors");
        assert!(progress.may_start());
        *lock(&progress.failed) = Some(Instant::now() + START_EVERY);
        assert!(!progress.may_start());
        *lock(&progress.failed) = Instant::now().checked_sub(START_EVERY);
        assert!(progress.may_start());
    }
}
