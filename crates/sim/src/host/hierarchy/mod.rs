//! A memory model with cache sizes. Three levels of caches have limited sizes and are kept coherent with
//! devices. Cores continue past a cache miss.
//!
//! The last level includes the other levels. For each of its lines, it records which cores hold the line, and
//! whether one of them may write the line. To other agents, a socket with its caches is one agent
//! (`coherence`).

mod cache;
mod coherence;
mod copies;
mod counters;
mod dram;
mod fills;
mod pipeline;
mod prefetch;
#[cfg(test)]
mod tests;

pub use counters::Uncore;

use super::lines::{CoreSet, Sets};
use super::memory::{LINE, LineBytes, MemPlace};
use super::reach::{Access, AccessKind, Agent, Lines, ScanSteps};
use crate::core::index::CoreId;
use crate::core::ps::Ps;
use crate::core::server::MeterWindow;
use cache::{LineId, Replacement, SetCache};
use coherence::{CoherenceRequest, Mesif, Snooped};
use copies::Copies;
use doorbell_nic::{Hierarchy as HierarchyCosts, Host};
use doorbell_verbs::{PageSize, Touch};
use dram::Dram;
use fills::Fills;
use pipeline::{Pipeline, PipelineBuffers};
use prefetch::{Prefetcher, Prefetchers};
use std::collections::HashMap;

/// Maximum number of cores that the last level can tell apart.
const CORES: usize = 64;

/// A line in the last level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HeldLine {
    state: Mesif,
    /// Cores that hold the line in their own caches, one bit each.
    holders: u64,
    /// Whether the only holder may write the line without a request.
    owned: bool,
    /// Whether a prefetcher brought the line, and no core has asked for it since.
    prefetched: bool,
    /// Whether a device wrote the line, and no core has asked for it since.
    written: bool,
    /// The time until which the line moves between cores, or an atomic holds it. Other cores' requests wait
    /// until then.
    busy: Ps,
}

/// The caches of a core, and its accesses in flight.
struct Private {
    /// The value of a line says that a prefetcher brought the line, and that no load or store has used it
    /// since.
    l1: SetCache<bool>,
    l2: SetCache<()>,
    /// Lines on their way into the first level, and lines that prefetchers bring into the second level.
    fills: Fills,
    prefetches: Fills,
    prefetcher: Prefetcher,
    pipeline: Pipeline,
}

/// Latencies from a core's request.
struct Times {
    l1: Ps,
    l2: Ps,
    llc: Ps,
    /// Extra time if another core has changed the line.
    other_core: Ps,
    atomic: Ps,
    copy_line: Ps,
    /// Time for which a write-back forced by a device occupies the path to memory.
    write_back: Ps,
}

/// Properties of devices' requests.
struct Io {
    /// The request that a device's read sends.
    read: CoherenceRequest,
    /// Whether devices' requests are coherent with the caches.
    coherent: bool,
    /// Ways of the last level that a device's writes may use. At 0, the writes go to memory.
    ways: usize,
}

/// The reason for a core's request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Load,
    Store,
    /// For a prefetcher.
    Ahead,
}

/// The caches and the memory of a host.
pub(crate) struct Hierarchy {
    times: Times,
    buffers: PipelineBuffers,
    io: Io,
    make: HierarchyCosts,
    /// Page size of each allocation.
    pages: Vec<PageSize>,
    cores: Vec<Private>,
    llc: SetCache<HeldLine>,
    dram: Dram,
    /// When the path for forced write-backs is free.
    forced: Ps,
    /// Cached bytes that differ from memory's; none if devices are coherent.
    copies: Option<Copies>,
    watchers: HashMap<LineId, CoreSet>,
    /// Cores to wake because a line that their threads watch has changed or left their caches.
    woken: CoreSet,
    pub(super) sets: Sets,
    pub(in crate::host) measured: MeterWindow,
    counts: Uncore,
}

impl Private {
    fn new(c: &HierarchyCosts, replacement: Replacement) -> Private {
        let which =
            Prefetchers { next_line: c.next_line, adjacent_line: c.adjacent_line, streamer: c.streamer };
        Private {
            l1: SetCache::new(c.l1, LINE, c.l1_ways, replacement),
            l2: SetCache::new(c.l2, LINE, c.l2_ways, replacement),
            fills: Fills::new(c.fill_buffers),
            prefetches: Fills::new(c.prefetch_buffers),
            prefetcher: Prefetcher::new(which),
            pipeline: Pipeline::default(),
        }
    }

    /// When a cached line is there. The line may still be on its way.
    fn ready(&self, line: LineId, at: Ps) -> Ps {
        self.fills.ready(line, self.prefetches.ready(line, at))
    }
}

const fn replacement(c: &HierarchyCosts) -> Replacement {
    if c.random_replacement { Replacement::Random } else { Replacement::Lru }
}

/// A bijection of numbers below `2^bits` that scatters neighbours, because pages lie anywhere in memory.
fn frame(page: u64, bits: u32) -> u64 {
    let mask = (1 << bits) - 1;
    let mixed = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
    let mixed = (mixed ^ (mixed >> (bits / 2))).wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask;
    mixed ^ (mixed >> (bits / 2))
}

impl Hierarchy {
    pub(crate) fn new(make: &HierarchyCosts, host: &Host, measured: MeterWindow) -> Hierarchy {
        let c = make;
        Hierarchy {
            times: Times {
                l1: c.l1_latency.into(),
                l2: c.l2_latency.into(),
                llc: c.llc_latency.into(),
                other_core: c.other_core.into(),
                atomic: host.atomic_op.into(),
                copy_line: host.copy_line.into(),
                write_back: c.forced_write_back.into(),
            },
            buffers: PipelineBuffers {
                reorder: u64::from(c.reorder),
                stores: c.store_buffer as usize,
                store_lines: c.store_lines as usize,
                instruction: Ps::from(c.instruction).max(Ps(1)),
            },
            io: Io {
                read: if c.reads_own { CoherenceRequest::RdInvOwn } else { CoherenceRequest::RdCur },
                coherent: c.io_coherent,
                ways: c.write_ways.min(c.llc_ways) as usize,
            },
            make: *c,
            pages: Vec::new(),
            cores: Vec::new(),
            llc: SetCache::new(c.llc, LINE, c.llc_ways, replacement(c)),
            dram: Dram::new(c.dram_latency.into(), Ps(LINE * 1_000_000_000_000 / c.dram_rate)),
            forced: Ps::ZERO,
            copies: (!c.io_coherent).then(Copies::default),
            watchers: HashMap::new(),
            woken: CoreSet::EMPTY,
            sets: Sets::default(),
            measured,
            counts: Uncore::default(),
        }
    }

    /// Adds an allocation with pages of this size.
    pub(crate) fn allocated(&mut self, page: PageSize) {
        self.pages.push(page);
    }

    /// The counts in the metering window.
    pub(crate) fn counts(&self) -> Uncore {
        self.counts
    }

    /// The number of the line at `place` in physical memory. Rings lie in large pages.
    fn line(&self, place: MemPlace) -> LineId {
        let page = self.pages.get(place.allocation as usize).copied().unwrap_or(PageSize::Huge);
        // There are at most 2^32 allocations of at most 2^28 lines each.
        let number = (u64::from(place.allocation) << 28) | (place.offset / LINE);
        let in_page = (page.bytes() / LINE).trailing_zeros();
        let line = (frame(number >> in_page, 60 - in_page) << in_page) | (number & ((1 << in_page) - 1));
        // Frames of small pages are never frames of large pages.
        line | (u64::from(page == PageSize::Huge) << 60)
    }

    /// State of a core, created when the core first reaches memory.
    fn private(&mut self, core: CoreId) -> &mut Private {
        let number = usize::from(core.0);
        assert!(number < CORES, "profiles with a hierarchy have at most {CORES} cores");
        while self.cores.len() <= number {
            self.cores.push(Private::new(&self.make, replacement(&self.make)));
        }
        &mut self.cores[number]
    }

    /// Whether devices are coherent with the caches. If so, the caches' bytes are memory's.
    pub(crate) fn io_coherent(&self) -> bool {
        self.io.coherent
    }

    /// The caches' bytes of the line at `place`, if they may differ from memory's.
    pub(super) fn copy(&self, place: MemPlace) -> Option<&LineBytes> {
        self.copies.as_ref()?.get(self.line(place))
    }

    /// Mutable bytes of the line at `place`, if the caches hold the line. They start as the bytes that
    /// `memory` returns.
    pub(super) fn copy_mut(
        &mut self,
        place: MemPlace,
        memory: impl FnOnce() -> LineBytes,
    ) -> Option<&mut LineBytes> {
        let line = self.line(place);
        let held = self.llc.has(line);
        let begins = MemPlace { offset: place.offset - place.offset % LINE, ..place };
        self.copies.as_mut().filter(|_| held).map(|copies| copies.of(line, begins, memory))
    }

    /// Takes the changed lines that have left the caches. They go to memory now.
    pub(super) fn take_leaving(&mut self) -> Vec<(MemPlace, LineBytes)> {
        self.copies.as_mut().map_or_else(Vec::new, Copies::take_leaving)
    }

    /// Whether a core has the line at `place` in its first level.
    pub(crate) fn holds(&self, place: MemPlace, core: CoreId) -> bool {
        let line = self.line(place);
        self.cores.get(usize::from(core.0)).is_some_and(|private| private.l1.has(line))
    }

    /// Time to load lines that are in the core's first level.
    pub(crate) fn at_hand(&self, lines: u64) -> Ps {
        if lines == 0 { Ps::ZERO } else { self.times.l1 + self.times.copy_line * (lines - 1) }
    }

    pub(crate) fn watch(&mut self, place: MemPlace, core: CoreId) {
        let line = self.line(place);
        self.sets.insert(self.watchers.entry(line).or_default(), core);
    }

    /// Lets a core do other work of length `span` from `at` on. Returns when the work is done.
    pub(crate) fn work(&mut self, at: Ps, core: CoreId, span: Ps) -> Ps {
        let buffers = self.buffers;
        let instructions = span / buffers.instruction;
        let rest = span - buffers.instruction * instructions;
        self.private(core).pipeline.run(&buffers, at, instructions) + rest
    }

    /// When everything that a core has loaded by `at` is there. A branch that depends on it waits until then.
    pub(crate) fn loaded(&mut self, at: Ps, core: CoreId) -> Ps {
        self.private(core).pipeline.loaded(at)
    }

    /// When everything that a core has stored by `at` is in its cache. A store to a device waits until then.
    pub(crate) fn stored(&mut self, at: Ps, core: CoreId) -> Ps {
        let pipeline = &mut self.private(core).pipeline;
        let at = pipeline.loaded(at);
        pipeline.stored(at)
    }

    /// Lets a core access lines.
    pub(crate) fn core(&mut self, at: Ps, core: CoreId, lines: Lines, kind: AccessKind) -> Access {
        let done = match kind {
            AccessKind::Load | AccessKind::Spin => self.load(at, core, lines),
            AccessKind::Store => self.store(at, core, lines),
            AccessKind::Atomic => self.atomic(at, core, lines),
            AccessKind::Prefetch => self.prefetch(at, core, lines),
            AccessKind::Flush => self.flush(at, lines),
        };
        Access { done, woken: CoreSet::EMPTY }
    }

    /// Loads lines, and waits for all of them.
    fn load(&mut self, at: Ps, core: CoreId, lines: Lines) -> Ps {
        let mut done = at;
        for (i, place) in (0..).zip(lines.places()) {
            let line = self.line(place);
            let ready = self.fetch(at + self.times.copy_line * i, core, line, Why::Load);
            done = done.max(ready);
        }
        done
    }

    /// Requests lines. Waits for a free buffer, but not for the lines.
    fn prefetch(&mut self, at: Ps, core: CoreId, lines: Lines) -> Ps {
        let mut now = at;
        for place in lines.places() {
            let line = self.line(place);
            self.fetch(now, core, line, Why::Load);
            now = self.work(now, core, self.buffers.instruction);
        }
        now
    }

    /// Stores within a line. The core goes on while the line is on its way.
    fn store(&mut self, at: Ps, core: CoreId, lines: Lines) -> Ps {
        let line = self.line(lines.first);
        let now = self.store_word(at, core, line);
        self.wake(line);
        self.work(now, core, self.buffers.instruction)
    }

    /// Stores to a line. Returns when the store is in flight.
    fn store_word(&mut self, at: Ps, core: CoreId, line: LineId) -> Ps {
        let buffers = self.buffers;
        let ready = if self.may_write(core, line) {
            self.private(core).ready(line, at)
        } else {
            let asks = self.private(core).pipeline.store_line_from(&buffers, at);
            let ready = self.fetch(asks, core, line, Why::Store);
            self.private(core).pipeline.store_waits_for(ready);
            ready
        };
        self.private(core).pipeline.store(&buffers, at, ready)
    }

    /// Whether a core has a line in its first level and may write the line without a request.
    fn may_write(&mut self, core: CoreId, line: LineId) -> bool {
        let Some(held) = self.llc.peek(line) else { return false };
        let may = held.state == Mesif::Modified && held.owned && held.holders == bit(core);
        may && self.private(core).l1.use_line(line).is_some()
    }

    /// Executes an atomic. It waits for all earlier accesses, and all later accesses wait for it.
    fn atomic(&mut self, at: Ps, core: CoreId, lines: Lines) -> Ps {
        let line = self.line(lines.first);
        let begins = self.stored(at, core);
        let done = self.fetch(begins, core, line, Why::Store) + self.times.atomic;
        // A prefetched line may have evicted this one.
        if let Some(held) = self.llc.peek(line) {
            held.busy = done;
        }
        self.wake(line);
        done
    }

    /// Lets a core access a line in steps. The core goes on when the last step is in flight.
    pub(crate) fn scan(&mut self, at: Ps, core: CoreId, line: MemPlace, steps: ScanSteps) -> Access {
        let line = self.line(line);
        Access { done: self.step_through(at, core, line, steps), woken: CoreSet::EMPTY }
    }

    fn step_through(&mut self, at: Ps, core: CoreId, line: LineId, steps: ScanSteps) -> Ps {
        let ScanSteps { touch, accesses, instructions } = steps;
        let buffers = self.buffers;
        let mut now = at;
        if touch == Touch::Load {
            let ready = self.fetch(now, core, line, Why::Load);
            for _ in 0..accesses {
                let pipeline = &mut self.private(core).pipeline;
                pipeline.load(ready);
                now = pipeline.run(&buffers, now, instructions.into());
            }
            return now;
        }
        if matches!(touch, Touch::StoreAround(_)) {
            now = self.store_around(now, core, line);
        }
        for _ in 0..accesses {
            if matches!(touch, Touch::Store(_)) {
                now = self.store_word(now, core, line);
            }
            now = self.private(core).pipeline.run(&buffers, now, instructions.into());
        }
        self.wake(line);
        now
    }

    /// Writes a line around the caches. Returns when a write-combining buffer is free for the line.
    fn store_around(&mut self, at: Ps, core: CoreId, line: LineId) -> Ps {
        self.expel(at, line);
        let at = self.private(core).fills.room(at);
        let written = self.dram.write(at);
        self.private(core).fills.push(line, written);
        at
    }

    /// Writes lines back to memory, and removes them from all caches.
    fn flush(&mut self, at: Ps, lines: Lines) -> Ps {
        let mut now = at;
        for place in lines.places() {
            let line = self.line(place);
            self.expel(now, line);
            now += self.times.llc;
        }
        now
    }

    /// Removes a line from all caches, and writes it to memory if it is newer.
    fn expel(&mut self, at: Ps, line: LineId) {
        if let Some(about) = self.llc.remove(line) {
            self.went(at, line, about);
        }
    }

    /// Lets a core request a line at `at`. Returns when the line is in the core's first level, ready to be
    /// read or written.
    fn fetch(&mut self, at: Ps, core: CoreId, line: LineId, why: Why) -> Ps {
        let l1 = self.times.l1;
        let private = self.private(core);
        if let Some(ahead) = private.l1.use_line(line) {
            let ahead = std::mem::take(ahead);
            let ready = private.ready(line, at).max(at + l1);
            if ahead {
                self.demanded(at, line);
            }
            return if why == Why::Store { self.own(ready, core, line, false) } else { ready };
        }
        let at = private.fills.room(at);
        let next = if why == Why::Load { private.prefetcher.next_line(line) } else { None };
        let ready = self.fetch_below(at, core, line, why);
        if let Some(next) = next {
            let private = self.private(core);
            if !private.l1.has(next) && private.fills.has_room(at) {
                self.fetch_below(at, core, next, Why::Ahead);
            }
        }
        ready
    }

    /// Fetches a line that the first level lacks. Returns when the line is there. Prefetchers see the first
    /// level's requests to the second level. They run after the line has been put into the caches.
    fn fetch_below(&mut self, at: Ps, core: CoreId, line: LineId, why: Why) -> Ps {
        let l2 = self.times.l2;
        let private = self.private(core);
        let has = private.l2.use_line(line).is_some();
        let streamed = private.prefetcher.stream(line);
        let pair = if has { None } else { private.prefetcher.adjacent_line(line) };
        let mut ready = match has {
            true => private.ready(line, at).max(at + l2),
            false => self.ask_llc(at, core, line, why),
        };
        if !has {
            self.put_in_l2(core, line);
        }
        if why == Why::Store {
            ready = self.own(ready, core, line, !has);
        }
        self.put_in_l1(core, line, ready, why == Why::Ahead);
        if why != Why::Ahead {
            self.demanded(at, line);
        }
        for ahead in streamed.chain(pair) {
            self.fetch_ahead(at, core, ahead);
        }
        ready
    }

    /// Fetches a prefetcher's line into the second level, unless the line is there or no buffer is free.
    fn fetch_ahead(&mut self, at: Ps, core: CoreId, line: LineId) {
        let private = self.private(core);
        if !private.l2.has(line) && !private.l1.has(line) && private.prefetches.has_room(at) {
            let ready = self.ask_llc(at, core, line, Why::Ahead);
            self.put_in_l2(core, line);
            self.private(core).prefetches.push(line, ready);
        }
    }

    /// Records that a core has asked for a line, which a prefetcher may have brought.
    fn demanded(&mut self, at: Ps, line: LineId) {
        if let Some(held) = self.llc.peek(line)
            && std::mem::take(&mut held.prefetched)
        {
            self.count(at, |counts| counts.used_prefetches += 1);
        }
    }

    /// Requests a line from the last level, because a core's own caches lack it. Returns when the line is
    /// there.
    fn ask_llc(&mut self, at: Ps, core: CoreId, line: LineId, why: Why) -> Ps {
        let ahead = why == Why::Ahead;
        let Some(held) = self.llc.use_line(line) else {
            self.count(at, |counts| match ahead {
                true => counts.prefetch_misses += 1,
                false => counts.llc_misses += 1,
            });
            let request =
                if why == Why::Store { CoherenceRequest::RdInvOwn } else { CoherenceRequest::RdData };
            // No other socket has the line, and the I/O hub keeps none.
            let state = request.granted(false);
            let ready = self.dram.read(at);
            let held = HeldLine {
                state,
                holders: bit(core),
                owned: true,
                prefetched: ahead,
                written: false,
                busy: Ps::ZERO,
            };
            self.put_in_llc(at, line, held);
            return ready;
        };
        let others = held.holders & !bit(core);
        let changed = held.owned && others != 0;
        let begins = if others == 0 { at } else { at.max(held.busy) };
        let ready = begins + self.times.llc + if changed { self.times.other_core } else { Ps::ZERO };
        if changed {
            held.busy = ready;
        }
        held.holders |= bit(core);
        held.owned = others == 0 && held.state.is_owned();
        held.written = false;
        self.count(at, |counts| match ahead {
            true => counts.prefetch_hits += 1,
            false => counts.llc_hits += 1,
        });
        ready
    }

    /// Makes a core the only holder of a line, which the core has from `ready` on. Returns when the core is
    /// the only holder. `asked` says that the core's request to the last level already asked for ownership.
    fn own(&mut self, ready: Ps, core: CoreId, line: LineId, asked: bool) -> Ps {
        let held = self.llc.peek(line).expect(INCLUDED);
        let others = held.holders & !bit(core);
        (held.owned, held.state, held.holders) = (true, Mesif::Modified, bit(core));
        if others == 0 {
            return ready;
        }
        let owns = if asked { ready } else { ready.max(held.busy) + self.times.llc };
        held.busy = owns;
        self.drop_from(others, line);
        owns
    }

    fn put_in_l1(&mut self, core: CoreId, line: LineId, ready: Ps, ahead: bool) {
        let private = self.private(core);
        private.fills.push(line, ready);
        if let Some((gone, _)) = private.l1.insert(line, ahead) {
            self.left(core, gone);
        }
    }

    fn put_in_l2(&mut self, core: CoreId, line: LineId) {
        if let Some((gone, ())) = self.private(core).l2.insert(line, ()) {
            self.left(core, gone);
        }
    }

    /// Records that a line was evicted from one of a core's caches.
    fn left(&mut self, core: CoreId, line: LineId) {
        let private = self.private(core);
        if !private.l1.has(line) && !private.l2.has(line) {
            let held = self.llc.peek(line).expect(INCLUDED);
            held.holders &= !bit(core);
            held.owned = false;
        }
    }

    fn put_in_llc(&mut self, at: Ps, line: LineId, held: HeldLine) {
        if let Some((gone, about)) = self.llc.insert(line, held) {
            self.went(at, gone, about);
        }
    }

    /// Handles a line that has left the last level. Removes it from the cores' caches, and writes it to
    /// memory if it is newer.
    fn went(&mut self, at: Ps, line: LineId, about: HeldLine) {
        self.drop_from(about.holders, line);
        self.wake(line);
        let modified = about.state == Mesif::Modified;
        if let Some(copies) = &mut self.copies {
            copies.left(line, modified);
        }
        if modified {
            self.dram.write(at);
            self.count(at, |counts| counts.write_backs += 1);
        }
    }

    /// Removes a line from the caches of these cores.
    fn drop_from(&mut self, holders: u64, line: LineId) {
        let mut left = holders;
        while left != 0 {
            let private = &mut self.cores[left.trailing_zeros() as usize];
            private.l1.remove(line);
            private.l2.remove(line);
            left &= left - 1;
        }
    }

    /// Takes the cores to wake.
    pub(crate) fn take_woken(&mut self) -> CoreSet {
        std::mem::take(&mut self.woken)
    }

    /// Wakes the threads that watch a line, so that they load it again.
    fn wake(&mut self, line: LineId) {
        if let Some(watchers) = self.watchers.remove(&line) {
            for core in self.sets.take(watchers) {
                self.sets.insert(&mut self.woken, core);
            }
        }
    }

    fn count(&mut self, at: Ps, count: impl FnOnce(&mut Uncore)) {
        if self.measured.contains(at) {
            count(&mut self.counts);
        }
    }

    /// Lets a device access lines.
    pub(crate) fn device(&mut self, at: Ps, lines: Lines, kind: AccessKind) -> Access {
        let mut done = at;
        for place in lines.places() {
            let line = self.line(place);
            let ready = match kind {
                AccessKind::Store => self.device_writes(at, line),
                _ => self.device_reads(at, line),
            };
            done = done.max(ready);
        }
        Access { done, woken: CoreSet::EMPTY }
    }

    /// Lets an agent access lines of a ring that no cache may hold. If devices are not coherent, rings lie in
    /// such memory (dma_alloc_coherent). Returns when the access is done, or when a core's store is in
    /// flight.
    pub(crate) fn uncached(&mut self, at: Ps, who: Agent, lines: Lines, kind: AccessKind) -> Ps {
        let mut done = at;
        for place in lines.places() {
            let line = self.line(place);
            done = match (who, kind) {
                // A poll that finds nothing can be repeated without end, so it takes no bandwidth.
                (_, AccessKind::Spin) => done.max(at + Ps::from(self.make.dram_latency)),
                (Agent::Core(core), AccessKind::Store) => {
                    let written = self.dram.write(done);
                    let buffers = self.buffers;
                    self.private(core).pipeline.store(&buffers, done, written)
                }
                (Agent::Device { .. }, AccessKind::Store) => {
                    self.wake(line);
                    self.dram.write(at);
                    done
                }
                _ => done.max(self.dram.read(at)),
            };
        }
        done
    }

    /// Lets a device read a line. Returns when the device has the line.
    fn device_reads(&mut self, at: Ps, line: LineId) -> Ps {
        if !self.io.coherent {
            return self.dram.read(at);
        }
        let snoop = self.io.read.snoop();
        let state = self.llc.peek(line).map_or(Mesif::Invalid, |held| held.state);
        let Snooped { response, state: left } = state.snooped(snoop);
        self.count(at, |counts| counts.snooped(snoop, state.is_valid(), response));
        if !state.is_valid() {
            return self.dram.read(at);
        }
        let mut ready = at + self.times.llc;
        if response.writes_back() {
            self.forced = self.forced.max(at) + self.times.write_back;
            // The transfer may be far in the future. It is booked at the time of the request, so that other
            // agents' reads do not wait that long.
            self.dram.write(at);
            ready = ready.max(self.forced);
        }
        if left.is_valid() {
            self.llc.peek(line).expect(INCLUDED).state = left;
        } else {
            self.lose(line);
        }
        if response.forwards() { ready } else { ready.max(self.dram.read(at)) }
    }

    /// Lets a device write a line. Returns when other agents can see the write.
    fn device_writes(&mut self, at: Ps, line: LineId) -> Ps {
        if !self.io.coherent {
            self.dram.write(at);
            return at;
        }
        self.wake(line);
        if self.io.ways == 0 {
            let snoop = CoherenceRequest::InvItoE.snoop();
            let state = self.llc.peek(line).map_or(Mesif::Invalid, |held| held.state);
            let Snooped { response, .. } = state.snooped(snoop);
            self.count(at, |counts| counts.snooped(snoop, state.is_valid(), response));
            self.lose(line);
            self.dram.write(at);
            return at;
        }
        let written = HeldLine { state: Mesif::Modified, written: true, ..HeldLine::default() };
        if let Some(held) = self.llc.peek(line) {
            let holders = std::mem::replace(held, written).holders;
            self.drop_from(holders, line);
        } else if let Some((gone, about)) = self.llc.insert_among(line, written, self.io.ways, |h| h.written)
        {
            self.went(at, gone, about);
        }
        at
    }

    /// Removes a line from all caches.
    fn lose(&mut self, line: LineId) {
        if let Some(held) = self.llc.remove(line) {
            self.drop_from(held.holders, line);
        }
        self.wake(line);
    }
}

/// Message of a panic if a core's line is not in the last level.
const INCLUDED: &str = "the last level includes the others";

const fn bit(core: CoreId) -> u64 {
    1 << core.0
}
