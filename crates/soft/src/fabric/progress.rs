//! Work requests that could not be carried out when they were posted.
//!
//! They are tried again whenever the program polls, and by one thread, which this process starts
//! when it first needs it. The same thread learns of peers that end.

use super::peer::Peer;
use crate::sync::lock;
use crate::thread::spawn;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::{read, write};
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// The longest that the thread sleeps while a work request waits: a QP may have been destroyed.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);
/// The event that wakes it; those of peers are named by where these are.
const WAKE: u64 = 0;
/// How often it looks whether peers have ended that it is not told of, and whether programs sleep that should not.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What has work requests that could not be carried out yet.
pub(crate) trait Waiting: std::fmt::Debug + Send + Sync {
    /// Tries again what waits; returns when it is to be tried next, `None` where nothing waits.
    fn advance(&self) -> Option<Instant>;

    /// Whether a work request waits, or may begin to at this moment. Never blocks: it is asked with the
    /// list of those that wait locked, which who begins to wait locks second.
    fn waits(&self) -> bool;
}

/// What may have completions that its sleeping program was not told of.
pub(crate) trait Sleeping: std::fmt::Debug + Send + Sync {
    /// Looks whether that is so, and tells it then. Called every [`LOOK_EVERY`].
    fn look(&self);
}

/// What waits in this process.
#[derive(Debug)]
pub(crate) struct Progress {
    waiting: Mutex<Vec<Arc<dyn Waiting>>>,
    /// Length of `waiting`, to see without the lock that there is nothing.
    count: AtomicUsize,
    /// The peers that were met and live, by their slots.
    peers: Mutex<HashMap<u32, Watched>>,
    sleeping: Mutex<Vec<Weak<dyn Sleeping>>>,
    /// Wakes the thread. Made before the thread is: who has no file descriptor left needs it most.
    wake: OwnedFd,
    /// All that the thread waits for (epoll(7)).
    all: OwnedFd,
    /// Whether the thread runs.
    started: Mutex<bool>,
}

/// A peer that may end.
#[derive(Clone, Debug)]
struct Watched {
    peer: Arc<Peer>,
    /// Whether the thread is told of that.
    told: bool,
}

impl Progress {
    /// Without a thread.
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
        let id = id_of(&peer);
        let told = peer.process().as_ref().is_some_and(|process| wait_for(&self.all, process, id).is_ok());
        lock(&self.peers).insert(peer.slot, Watched { peer, told });
        self.wake();
    }

    /// The peer in this slot, if it was met and lives.
    pub(crate) fn peer(&self, slot: u32) -> Option<Arc<Peer>> {
        let peers = lock(&self.peers);
        peers.get(&slot).map(|watched| &watched.peer).filter(|peer| !peer.is_dead()).cloned()
    }

    /// Has this looked at from now on, until there is nothing of it left.
    pub(crate) fn look_at(&'static self, what: Weak<dyn Sleeping>) {
        lock(&self.sleeping).push(what);
        self.wake();
    }

    /// Looks at what may sleep.
    fn look(&self) {
        let all = lock(&self.sleeping).clone();
        all.iter().filter_map(Weak::upgrade).for_each(|sleeping| sleeping.look());
        lock(&self.sleeping).retain(|sleeping| sleeping.strong_count() > 0);
    }

    /// Waits until it is woken, or a peer ends, or this time has passed; returns which peers have ended, by their ids.
    fn wait(&self, timeout: Option<Duration>) -> Vec<u64> {
        let timeout = timeout.and_then(|span| Timespec::try_from(span.max(SHORTEST_SLEEP)).ok());
        // epoll_wait(2) counts in milliseconds.
        if poll(&mut [PollFd::new(&self.all, PollFlags::IN)], timeout.as_ref()).is_err() {
            std::thread::sleep(SHORTEST_SLEEP);
        }
        let mut room = [MaybeUninit::uninit(); 64];
        let found = epoll::wait(&self.all, &mut room, Some(&Timespec::default()));
        let found = found.map_or(&[][..], |(found, _)| found);
        let mut ended: Vec<u64> = found.iter().map(|event| event.data.u64()).collect();
        if ended.contains(&WAKE) {
            ended.retain(|id| *id != WAKE);
            // Nothing is there where another has read it.
            let _ = read(&self.wake, &mut [0; 8]);
        }
        ended
    }

    /// Lets those be known that have ended: of these ids, or that are found to have.
    fn bury(&self, ended: &[u64], look: bool) {
        // Closed file descriptors are of no epoll(7) any more.
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
            // Where there is no room for a thread now there may be later; the program's polls help as well.
            *started = start(self);
        }
        drop(started);
        // It fails where the count is full, which wakes as well.
        let _ = write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// Starts the thread, if there is room for one.
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

/// Has what can be read of a file descriptor be an event with this id.
pub(crate) fn wait_for(all: &OwnedFd, file: impl AsFd, id: u64) -> io::Result<()> {
    Ok(epoll::add(all, file, epoll::EventData::new_u64(id), epoll::EventFlags::IN)?)
}
