//! The warden: a thread of the log machine that connects engines, writes the head, and closes holes.

use super::config::Full;
use super::layout::{HEAD, Layout, TAIL};
use super::mark::{ENGINES, Mark, MarkKind};
use crate::device::{self, Device};
use crate::{Interval, SystemError, memory_server};
use doorbell_verbs::{AccessFlags, Mem, Program, Provider, Qp, Span, Time};

/// Largest number of marks that the warden passes before it writes the head.
const PASS: u64 = 64;

/// Access rights that engines and readers need to the log.
const ACCESS: AccessFlags =
    AccessFlags::REMOTE_READ.union(AccessFlags::REMOTE_WRITE).union(AccessFlags::REMOTE_ATOMIC);

/// The program of the log machine's thread.
#[derive(Clone, Debug)]
pub struct Warden {
    /// The name under which the connections and the log are published.
    pub service: &'static str,
    /// The layout of the log.
    pub layout: Layout,
    /// Whether appends wait or are refused when the log is full.
    pub full: Full,
    /// The log.
    pub log: Mem,
    /// Number of readers on other machines. Their QPs follow the QPs of the engines.
    pub readers: u32,
    /// The word by which a reader on this machine reports how far it has read. Without a reader, positions
    /// that the warden has passed count as read.
    pub read: Option<Mem>,
    /// Time for which the warden sees a hole before it destroys the QPs of the hole's possible owners.
    pub patience: Span,
    /// The warden ends at the end of this interval.
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

/// The state of the running warden.
struct HoleWatch<P: Provider> {
    cpu: P,
    warden: Warden,
    /// The QPs of the engines, then of the readers. `None` for a fenced engine.
    qps: Vec<Option<Qp<P>>>,
    /// The first position that the warden has not passed.
    next: u64,
    head: u64,
    /// The hole that the warden watches, and when it first saw the hole.
    hole: Option<(u64, Time)>,
    /// For each engine, the position after its last mark that the warden saw beyond a hole. All positions of
    /// the engine below this one are marked.
    shown: Vec<u64>,
}

impl<P: Provider> HoleWatch<P> {
    fn new(cpu: &P, warden: Warden, qps: Vec<Qp<P>>) -> HoleWatch<P> {
        let shown = vec![0; warden.layout.engines as usize];
        let qps = qps.into_iter().map(Some).collect();
        HoleWatch { cpu: cpu.clone(), warden, qps, next: 0, head: 0, hole: None, shown }
    }

    /// The latest time of the warden's next pass, even if no memory changes.
    fn due(&self) -> Time {
        self.hole.map_or(Time::NEVER, |(_, since)| since + self.warden.patience)
    }

    /// Passes marked positions, or handles a hole. Returns whether it did anything.
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

    /// Whether a position is marked. A log that refuses has as many positions as slots.
    fn is_marked(&self, position: u64) -> bool {
        let ends = self.warden.full == Full::Refuse && position >= self.warden.layout.slots;
        !ends && self.mark_at(position).is_some()
    }

    /// Writes the head. Returns whether the head has moved. In a log that refuses, the head stays 0.
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

    /// The end of the positions that may be marked by now, exclusive.
    fn limit(&self) -> u64 {
        let slots = self.warden.layout.slots;
        let most = if self.warden.full == Full::Refuse { slots } else { self.head + slots };
        self.cpu.load_u64(self.warden.log, TAIL).min(most)
    }

    /// Handles a hole at the next position, if there is one. If the warden has seen the hole for `patience`,
    /// fences the possible owners. Closes the hole if all possible owners are fenced. Returns `false` if
    /// there is no hole, or if the warden has to wait.
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

    /// The possible owners of an unmarked position. The word of a possible owner names this position or an
    /// earlier one. A possible owner has marked no later position, because each engine marks its positions in
    /// order.
    fn possible_owners(&self, hole: u64) -> Vec<u32> {
        let may_own = |engine: &u32| {
            let word = self.cpu.load_u64(self.warden.log, self.warden.layout.word(*engine));
            word.checked_sub(1).is_some_and(|floor| floor <= hole) && self.shown[*engine as usize] <= hole
        };
        (0..self.warden.layout.engines).filter(may_own).collect()
    }

    /// Notes which engines have marked positions after a hole.
    fn look_beyond(&mut self, hole: u64, limit: u64) {
        for position in hole + 1..limit {
            if let Some(Mark { writer, .. }) = self.mark_at(position)
                && let Some(shown) = self.shown.get_mut(writer as usize)
            {
                *shown = position + 1;
            }
        }
    }

    /// Destroys the QPs of engines. After that, no work request of these engines changes the log.
    fn fence(&mut self, engines: &[u32]) {
        for engine in engines {
            self.qps[*engine as usize] = None;
        }
    }

    /// Marks the hole void if it is still unmarked. All WRITEs that could mark the hole must have been placed
    /// or refused.
    fn close(&mut self, hole: u64) {
        if self.mark_at(hole).is_some() {
            return;
        }
        let Warden { layout, log, .. } = self.warden;
        let void = Mark { lap: layout.lap(hole), writer: ENGINES, kind: MarkKind::Void };
        self.cpu.store_u64(log, layout.mark(hole), void.bits());
    }
}
