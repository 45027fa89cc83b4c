//! The log machine's thread: it lets engines in, says what has been read, and closes holes.

use super::config::Full;
use super::layout::{HEAD, Layout, TAIL};
use super::mark::{ENGINES, Mark, MarkKind};
use crate::device::{self, Device};
use crate::{Interval, SystemError, memory_server};
use doorbell_verbs::{AccessFlags, Mem, Program, Provider, Qp, Span, Time};

/// Marks that it looks at before it says how far it is.
const PASS: u64 = 64;

/// What engines and readers do with the log.
const ACCESS: AccessFlags =
    AccessFlags::REMOTE_READ.union(AccessFlags::REMOTE_WRITE).union(AccessFlags::REMOTE_ATOMIC);

/// The thread.
#[derive(Clone, Debug)]
pub struct Warden {
    /// What is published is below this.
    pub service: &'static str,
    /// Where all lies.
    pub layout: Layout,
    /// What becomes of an append where the log is full.
    pub full: Full,
    /// The log.
    pub log: Mem,
    /// Readers of other machines, whose QPs follow those of the engines.
    pub readers: u32,
    /// The word by which a reader of this machine says how far it has read; without one, what the warden has passed counts as read.
    pub read: Option<Mem>,
    /// After how long it takes the QPs away of those that a hole may be of.
    pub patience: Span,
    /// When it ends.
    pub interval: Interval,
}

impl Program for Warden {
    type Output = Result<(), SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let mr = device.register(self.log, AccessFlags::LOCAL_WRITE | ACCESS)?;
        memory_server::publish(&p, self.service, mr.remote(0));
        let qps = device::serve_rc(&device, self.layout.engines + self.readers, self.service)?;
        let interval = self.interval.clone();
        let mut watch = HoleWatch::new(&p, self, qps);
        while !interval.is_over(&p) {
            if !watch.pass() {
                p.pause(interval.look().min(watch.due()));
            }
        }
        Ok(())
    }
}

/// What the warden knows.
struct HoleWatch<P: Provider> {
    cpu: P,
    warden: Warden,
    /// Ends of the engines' connections; none of one that was taken away. Those of readers follow.
    qps: Vec<Option<Qp<P>>>,
    /// The first position that is not marked, as far as it has looked.
    next: u64,
    head: u64,
    /// The hole that it waits for, and since when.
    hole: Option<(u64, Time)>,
    /// Of each engine a position behind the last that was seen marked by it: none of its own below that is unmarked.
    shown: Vec<u64>,
}

impl<P: Provider> HoleWatch<P> {
    fn new(cpu: &P, warden: Warden, qps: Vec<Qp<P>>) -> HoleWatch<P> {
        let shown = vec![0; warden.layout.engines as usize];
        let qps = qps.into_iter().map(Some).collect();
        HoleWatch { cpu: cpu.clone(), warden, qps, next: 0, head: 0, hole: None, shown }
    }

    /// When it looks again, whatever happens.
    fn due(&self) -> Time {
        self.hole.map_or(Time::NEVER, |(_, since)| since + self.warden.patience)
    }

    /// Goes on over marks, or looks after a hole; whether it did anything.
    fn pass(&mut self) -> bool {
        let from = self.next;
        while self.next < from + PASS && self.is_marked(self.next) {
            self.next += 1;
        }
        let moved = self.next > from;
        let tells = self.tell_head();
        if moved {
            self.hole = None;
            return true;
        }
        self.look_after_hole() || tells
    }

    fn mark_at(&self, position: u64) -> Option<Mark> {
        let layout = &self.warden.layout;
        layout.mark_of(position, self.cpu.load_u64(self.warden.log, layout.mark(position)))
    }

    /// In a log that refuses, there is nothing behind its slots.
    fn is_marked(&self, position: u64) -> bool {
        let ends = self.warden.full == Full::Refuse && position >= self.warden.layout.slots;
        !ends && self.mark_at(position).is_some()
    }

    /// Tells engines what has been read; whether that is news. In a log that refuses, nothing is ever given up.
    fn tell_head(&mut self) -> bool {
        if self.warden.full == Full::Refuse {
            return false;
        }
        let read = self.warden.read.map_or(u64::MAX, |read| self.cpu.load_u64(read, 0));
        let head = self.next.min(read);
        let news = head > self.head;
        if news {
            self.head = head;
            self.cpu.store_u64(self.warden.log, HEAD, head);
        }
        news
    }

    /// The position behind the last that may be marked by now.
    fn limit(&self) -> u64 {
        let slots = self.warden.layout.slots;
        let most = if self.warden.full == Full::Refuse { slots } else { self.head + slots };
        self.cpu.load_u64(self.warden.log, TAIL).min(most)
    }

    /// Closes the hole at the next position, if there is one, once it is nobody's that lives; whether it did anything.
    fn look_after_hole(&mut self) -> bool {
        let hole = self.next;
        let limit = self.limit();
        if hole >= limit {
            self.hole = None;
            return false;
        }
        let now = self.cpu.now();
        let since = match self.hole {
            Some((position, since)) if position == hole => since,
            _ => {
                self.hole = Some((hole, now));
                now
            }
        };
        let owners = self.possible_owners(hole);
        let lives = |engine: &u32| self.qps[*engine as usize].is_some();
        if owners.iter().any(lives) {
            if now < since + self.warden.patience {
                return false;
            }
            self.look_beyond(hole, limit);
            self.fence(&self.possible_owners(hole));
        }
        self.close(hole);
        true
    }

    /// The engines that an unmarked position may be of: those whose word says that something of theirs is unmarked, not from behind it on, and that
    /// have marked nothing behind it, as each marks its positions in order.
    fn possible_owners(&self, hole: u64) -> Vec<u32> {
        let may_own = |engine: &u32| {
            let word = self.cpu.load_u64(self.warden.log, self.warden.layout.word(*engine));
            word.checked_sub(1).is_some_and(|floor| floor <= hole) && self.shown[*engine as usize] <= hole
        };
        (0..self.warden.layout.engines).filter(may_own).collect()
    }

    /// Looks who has marked anything behind a hole.
    fn look_beyond(&mut self, hole: u64, limit: u64) {
        for position in hole + 1..limit {
            if let Some(Mark { writer, .. }) = self.mark_at(position)
                && let Some(shown) = self.shown.get_mut(writer as usize)
            {
                *shown = position + 1;
            }
        }
    }

    /// Takes engines' connections away: once that is done, nothing that they have posted changes the log any more.
    fn fence(&mut self, engines: &[u32]) {
        for engine in engines {
            self.qps[*engine as usize] = None;
        }
    }

    /// Whatever was to come has come: what is still unmarked will never be. It is marked void.
    fn close(&mut self, hole: u64) {
        if self.mark_at(hole).is_some() {
            return;
        }
        let Warden { layout, log, .. } = self.warden;
        let void = Mark { lap: layout.lap(hole), writer: ENGINES, kind: MarkKind::Void };
        self.cpu.store_u64(log, layout.mark(hole), void.bits());
    }
}
