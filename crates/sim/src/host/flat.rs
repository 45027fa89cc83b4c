//! A memory model without cache sizes. No cache evicts a line, and each kind of access takes a constant time.

use super::fills::FillBuffers;
use super::lines::{CoreSet, LineState, Sets};
use super::memory::{LINE, MemPlace};
use super::reach::{Access, AccessKind, Lines, ScanSteps};
use super::rings::{RingEntry, RingQueue};
use super::sockets::{CpuSocket, Sockets};
use super::streams::{FetchTime, LineNumber, Streams};
use super::touched::Touched;
use crate::core::fetch::fetch;
use crate::core::index::CoreId;
use crate::core::ps::Ps;
use doorbell_nic::Host as HostCosts;
use doorbell_nic::cost::CpuCost;
use doorbell_verbs::Touch;

/// The source from which a core reaches a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The core's own cache.
    Own,
    /// The last-level cache, where the NIC or another core left the line.
    LastLevel,
    /// Another core's cache, because that core has changed the line, or holds a copy that a store removes.
    OtherCore,
    /// Memory, because no cache holds the line.
    Dram,
}

/// The kind of access by which a core reaches a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReachBy {
    Load,
    Store,
    Prefetch,
}

impl ReachBy {
    const fn storing(store: bool) -> ReachBy {
        if store { ReachBy::Store } else { ReachBy::Load }
    }
}

/// A line that a core has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReachedLine {
    /// Whether the line comes in a stream. If so, the next lines come no faster than the stream.
    streams: bool,
    /// When the core has the line.
    there: Ps,
}

/// The cached lines of an allocation that is larger than the caches: the lines last fetched from DRAM.
struct CachedLines {
    lines: Vec<u32>,
    capacity: usize,
    next: usize,
}

impl CachedLines {
    /// Adds a fetched line. Returns the line that it evicts.
    fn fetched(&mut self, line: u32) -> Option<u32> {
        if self.lines.len() < self.capacity {
            self.lines.push(line);
            return None;
        }
        let evicted = std::mem::replace(&mut self.lines[self.next], line);
        self.next = (self.next + 1) % self.capacity;
        Some(evicted)
    }
}

/// Maximum number of lines of an allocation that stores the states of all its lines: 128 MB, with 32 MB of
/// states. Larger allocations store states and bytes only of touched lines.
const MANY: usize = 1 << 21;
/// Number of lines of a larger allocation that are created together, with their states and their bytes. The
/// states take 64 bytes, a cache line of the simulating processor.
const TOGETHER: usize = 4;

/// The states of an allocation's lines.
enum KnownLines {
    All(Vec<LineState>),
    Touched(Touched<LineState, TOGETHER>),
}

impl KnownLines {
    fn of(lines: usize) -> KnownLines {
        match lines {
            ..=MANY => KnownLines::All(vec![LineState::default(); lines]),
            _ => KnownLines::Touched(Touched::zeroed(lines)),
        }
    }

    fn len(&self) -> usize {
        match self {
            KnownLines::All(lines) => lines.len(),
            KnownLines::Touched(lines) => lines.len(),
        }
    }

    #[inline]
    fn get(&self, line: usize) -> LineState {
        match self {
            KnownLines::All(lines) => lines[line],
            KnownLines::Touched(lines) => {
                lines.get(line..line + 1).map_or(LineState::default(), |line| line[0])
            }
        }
    }

    #[inline]
    fn get_mut(&mut self, line: usize) -> &mut LineState {
        match self {
            KnownLines::All(lines) => &mut lines[line],
            KnownLines::Touched(lines) => &mut lines.get_mut(line..line + 1)[0],
        }
    }
}

/// The last writers of an allocation, and their times. If a line is written while it is on its way to a core,
/// the core must request the line again.
#[derive(Clone, Copy, Default)]
struct LastWrites {
    /// The core that wrote last; none if a device did.
    by: Option<CoreId>,
    /// Time of the last write before `by` began to write. The next field is the time of the last write.
    before: Ps,
    last: Ps,
}

impl LastWrites {
    fn again(&mut self, by: Option<CoreId>, at: Ps) {
        if self.by != by {
            (self.by, self.before) = (by, self.last);
        }
        self.last = self.last.max(at);
    }

    /// Time of the last write by an agent other than this core.
    fn by_others(&self, core: CoreId) -> Ps {
        if self.by == Some(core) { self.before } else { self.last }
    }
}

/// The lines of an allocation.
struct AllocationLines {
    /// The socket of the allocation's memory.
    home: CpuSocket,
    /// The socket whose last-level cache holds untouched lines, because they were zeroed there.
    zeroed_at: Option<CpuSocket>,
    lines: KnownLines,
    /// The cached lines, if caches do not hold the whole allocation.
    cached: Option<CachedLines>,
    written: LastWrites,
}

impl AllocationLines {
    /// The state of a line that an agent reaches.
    #[inline]
    fn reached(&mut self, line: usize, sets: &mut Sets) -> &mut LineState {
        let line = self.lines.get_mut(line);
        if let Some(socket) = self.zeroed_at.filter(|_| !line.is_cached()) {
            line.in_last_level(socket, sets);
        }
        line
    }

    /// Records a line that came from DRAM, which may evict another line.
    fn fetched(&mut self, line: usize, sets: &mut Sets) {
        if let Some(evicted) = self.cached.as_mut().and_then(|cached| cached.fetched(line as u32)) {
            self.lines.get_mut(evicted as usize).evicted(sets);
        }
    }
}

/// Times of the profile's host.
struct Times {
    l1_hit: Ps,
    llc_hit: Ps,
    dma_line: Ps,
    line_transfer: Ps,
    line_transfer_queued: Ps,
    /// Fetch of a line from DRAM of the core's own socket.
    dram: FetchTime,
    /// Fetch of a line from DRAM of another socket.
    dram_elsewhere: FetchTime,
    /// Fetch of a line from the last-level cache of another socket, by a load that overlaps with earlier
    /// loads.
    cache_elsewhere: FetchTime,
    /// Fetch of a line from the last-level cache of another socket, by a store or by a load that does not
    /// overlap with earlier loads.
    cache_elsewhere_alone: FetchTime,
    /// Extra time if another socket has the line.
    hop: Ps,
    atomic_op: Ps,
    copy_line: Ps,
    /// Writing a line of a send WQE into its ring.
    send_line: Ps,
    /// Loading a CQE that the NIC has written.
    cqe: Ps,
}

impl Times {
    /// Time to transfer a line to a core that has `waited` for other cores. The longer the wait, the larger
    /// the part of the request's travel time that the wait hid.
    fn transfer_after(&self, waited: Ps) -> Ps {
        let (alone, queued) = (self.line_transfer, self.line_transfer_queued);
        let saved = alone.saturating_sub(queued);
        queued + saved.share(alone.0, (alone + waited).0.max(1))
    }
}

/// State of a core's accesses.
struct CoreState {
    /// Whether the core's next load of a line outside its own cache waits for all earlier accesses. Set by an
    /// atomic, an MMIO store or the end of a pass.
    serialized: bool,
    /// Fill buffers for prefetched lines.
    fills: FillBuffers,
    /// The core's sequential accesses.
    streams: Streams,
}

impl Default for CoreState {
    fn default() -> CoreState {
        CoreState { serialized: true, fills: FillBuffers::default(), streams: Streams::default() }
    }
}

/// The state of all lines of a host.
pub(crate) struct Flat {
    times: Times,
    sockets: Sockets,
    /// Number of fill buffers per core.
    fill_buffers: usize,
    /// The state of each core that has reached a line.
    cores: Vec<CoreState>,
    allocations: Vec<AllocationLines>,
    pub(crate) sets: Sets,
}

impl Flat {
    pub(crate) fn new(costs: &HostCosts, sockets: Sockets, driver: &CpuCost) -> Flat {
        let dram = Ps::from(costs.dram);
        let stream = (dram, Ps::from(costs.stream_line));
        let alone = Ps::from(costs.llc_hit.max(costs.dma_line));
        Flat {
            sockets,
            times: Times {
                l1_hit: costs.l1_hit.into(),
                llc_hit: costs.llc_hit.into(),
                dma_line: costs.dma_line.into(),
                line_transfer: costs.line_transfer.into(),
                line_transfer_queued: costs.line_transfer_queued.into(),
                dram: FetchTime::of(dram, stream),
                dram_elsewhere: FetchTime::of(dram + sockets.hop, stream),
                cache_elsewhere: FetchTime::of(Ps::from(costs.dma_line) + sockets.hop, stream),
                cache_elsewhere_alone: FetchTime::of(alone + sockets.hop, stream),
                hop: sockets.hop,
                atomic_op: costs.atomic_op.into(),
                copy_line: costs.copy_line.into(),
                send_line: Ps(driver.send_line),
                cqe: Ps(driver.cqe),
            },
            fill_buffers: costs.fill_buffers as usize,
            cores: Vec::new(),
            allocations: Vec::new(),
            sets: Sets::default(),
        }
    }

    /// Adds an allocation of `len` bytes at socket `home`, which a core of socket `zeroed` has zeroed.
    pub(crate) fn allocated(&mut self, home: CpuSocket, zeroed: CpuSocket, len: u64) {
        let lines = KnownLines::of(len.div_ceil(LINE) as usize);
        let zeroed_at = (len <= self.sockets.llc).then_some(zeroed);
        self.allocations.push(AllocationLines {
            home,
            zeroed_at,
            lines,
            cached: None,
            written: LastWrites::default(),
        });
    }

    pub(crate) fn limit_cached(&mut self, allocation: u32, bytes: u64) {
        let capacity = (bytes / LINE).max(1) as usize;
        let allocation = &mut self.allocations[allocation as usize];
        let all = allocation.lines.len();
        let held = capacity.min(all);
        let lines: Vec<u32> = (0..held).map(|i| (i * all / held) as u32).collect();
        for line in &lines {
            allocation.lines.get_mut(*line as usize).in_last_level(allocation.home, &mut self.sets);
        }
        allocation.cached = Some(CachedLines { lines, capacity, next: 0 });
        allocation.zeroed_at = None;
    }

    fn line(&self, place: MemPlace) -> LineState {
        self.allocations[place.allocation as usize].lines.get((place.offset / LINE) as usize)
    }

    fn line_mut(&mut self, place: MemPlace) -> &mut LineState {
        self.allocations[place.allocation as usize].lines.get_mut((place.offset / LINE) as usize)
    }

    pub(crate) fn holds(&self, place: MemPlace, core: CoreId) -> bool {
        self.sets.contains(self.line(place).holders, core)
    }

    /// Time to load lines that are in the core's own cache.
    pub(crate) fn at_hand(&self, lines: u64) -> Ps {
        if lines == 0 { Ps::ZERO } else { self.times.l1_hit + self.times.copy_line * (lines - 1) }
    }

    pub(crate) fn watch(&mut self, place: MemPlace, core: CoreId) {
        let Flat { allocations, sets, .. } = self;
        let line = allocations[place.allocation as usize].lines.get_mut((place.offset / LINE) as usize);
        sets.insert(&mut line.watchers, core);
    }

    /// Lets a core's next load of a line outside its own cache wait for all earlier accesses.
    #[inline]
    pub(crate) fn serialize(&mut self, core: CoreId) {
        of_core(&mut self.cores, core).serialized = true;
    }

    /// Lets a core access lines.
    #[inline]
    pub(crate) fn core(&mut self, at: Ps, core: CoreId, lines: Lines, kind: AccessKind) -> Access {
        let first = lines.first;
        match kind {
            AccessKind::Load if lines.count() == 0 => Access { done: at, woken: CoreSet::EMPTY },
            AccessKind::Load => {
                let mut done = self.reach(at, core, first, ReachBy::Load).there;
                for place in lines.places().skip(1) {
                    // The hardware prefetcher fetches the lines after the first while they are copied. From
                    // DRAM and from another socket they come no faster than the lines in flight allow.
                    let next = self.reach(at, core, place, ReachBy::Load);
                    done += self.times.copy_line;
                    if next.streams {
                        done = done.max(next.there);
                    }
                }
                Access { done, woken: CoreSet::EMPTY }
            }
            AccessKind::Prefetch => {
                let mut now = at;
                for place in lines.places() {
                    now = self.prefetch(now, core, place) + self.times.l1_hit;
                }
                Access { done: now, woken: CoreSet::EMPTY }
            }
            AccessKind::Store => {
                let done = self.reach(at, core, first, ReachBy::Store).there;
                Access { done, woken: self.take_watchers(first) }
            }
            AccessKind::Atomic => {
                let done = self.reach(at, core, first, ReachBy::Store).there + self.times.atomic_op;
                self.serialize(core);
                self.line_mut(first).busy_until = done;
                Access { done, woken: self.take_watchers(first) }
            }
            // Devices see the contents of caches.
            AccessKind::Flush => Access { done: at, woken: CoreSet::EMPTY },
            AccessKind::Spin => unreachable!("threads spin only on rings"),
        }
    }

    /// Prefetches a line. A load of the line waits until the line is there. Returns when the fetch begins.
    fn prefetch(&mut self, at: Ps, core: CoreId, place: MemPlace) -> Ps {
        if self.holds(place, core) {
            return at;
        }
        let begins = of_core(&mut self.cores, core).fills.free_at(at, self.fill_buffers);
        let there = self.reach(begins, core, place, ReachBy::Prefetch).there;
        of_core(&mut self.cores, core).fills.put(there);
        begins
    }

    /// Lets a core access a line in steps. The first step reaches the line, and the others find it in the
    /// core's own cache.
    pub(crate) fn scan(
        &mut self,
        at: Ps,
        core: CoreId,
        line: MemPlace,
        ScanSteps { touch, accesses, .. }: ScanSteps,
    ) -> Access {
        let store = touch != Touch::Load;
        let done = self.reach(at, core, line, ReachBy::storing(store)).there;
        let done = done + self.times.l1_hit * u64::from(accesses.max(1) - 1);
        let woken = if store { self.take_watchers(line) } else { CoreSet::EMPTY };
        Access { done, woken }
    }

    /// Time of a core's access to a ring. The states of the ring's lines do not matter, because the driver's
    /// cost is known as a total. RECVs and empty polls are included in the driver's own times.
    #[inline]
    pub(crate) fn ring(&self, entry: RingEntry<'_>, kind: AccessKind) -> Ps {
        match (entry.queue(), kind) {
            (RingQueue::Send, AccessKind::Store) => self.times.send_line * entry.lines().count(),
            (RingQueue::Completion, AccessKind::Load) => self.times.cqe,
            _ => Ps::ZERO,
        }
    }

    /// Lets a device access lines. A written line goes to a last-level cache and leaves the caches of all
    /// cores. A read line stays in its caches. Extra time of a write to another socket is added when the
    /// write is sent.
    #[inline]
    pub(crate) fn device(&mut self, at: Ps, socket: CpuSocket, lines: Lines, kind: AccessKind) -> Access {
        let mut woken = CoreSet::EMPTY;
        if kind == AccessKind::Load {
            return Access { done: at + self.dma_hop(socket, lines), woken };
        }
        if kind == AccessKind::Store {
            let Flat { allocations, sets, .. } = self;
            let MemPlace { allocation, offset } = lines.first;
            let allocation = &mut allocations[allocation as usize];
            let home = allocation.home;
            allocation.written.again(None, at);
            let line = allocation.reached((offset / LINE) as usize, sets);
            line.in_last_level(line.written_at(socket, home), sets);
            woken = std::mem::take(&mut line.watchers);
        }
        Access { done: at, woken }
    }

    /// Extra time for a device at a socket to reach lines, if another socket holds one of the lines, in
    /// caches or in memory.
    #[inline]
    pub(super) fn dma_hop(&self, device: CpuSocket, lines: Lines) -> Ps {
        if !self.sockets.are_several() {
            return Ps::ZERO;
        }
        let AllocationLines { home, zeroed_at, .. } = self.allocations[lines.first.allocation as usize];
        let begins = zeroed_at.unwrap_or(home);
        let elsewhere = |place| is_elsewhere(&self.line(place), device, begins, false);
        if lines.places().any(elsewhere) { self.sockets.dma(home != device) } else { Ps::ZERO }
    }

    /// Prefetches the state of a line into the simulating processor's cache.
    #[inline]
    pub(super) fn fetch(&self, place: MemPlace) {
        if let KnownLines::All(lines) = &self.allocations[place.allocation as usize].lines
            && let Some(line) = lines.get((place.offset / LINE) as usize)
        {
            fetch(line);
        }
    }

    /// Takes the cores that wait for the line to be written.
    fn take_watchers(&mut self, place: MemPlace) -> CoreSet {
        std::mem::take(&mut self.line_mut(place).watchers)
    }

    /// Lets a core reach a line from `at` on, after the line's present transfer. Returns when the core has
    /// the line.
    #[inline]
    fn reach(&mut self, at: Ps, core: CoreId, place: MemPlace, by: ReachBy) -> ReachedLine {
        let Flat { times, cores, allocations, sets, sockets, .. } = self;
        let CoreState { serialized, streams, .. } = of_core(cores, core);
        let allocation = &mut allocations[place.allocation as usize];
        let number = (place.offset / LINE) as usize;
        let home = allocation.home;
        if by == ReachBy::Store {
            allocation.written.again(Some(core), at);
        }
        let written = allocation.written.by_others(core);
        let line = allocation.reached(number, sets);
        let begins = line.busy_until.max(at);
        let socket = sockets.of_core(core);
        let store = by == ReachBy::Store;
        let hop = if is_elsewhere(line, socket, home, store) { times.hop } else { Ps::ZERO };
        let from =
            if store { store_to(line, (core, socket), sets) } else { load_from(line, (core, socket), sets) };
        // A prefetch instruction takes a fill buffer and is in no stream.
        let way = match from {
            _ if by == ReachBy::Prefetch => None,
            Reach::Dram if hop == Ps::ZERO => Some(times.dram),
            Reach::Dram => Some(times.dram_elsewhere),
            // A line in a cache is no further away than a line in the memory beside the cache.
            Reach::LastLevel if hop > Ps::ZERO && (store || *serialized) => Some(times.cache_elsewhere_alone),
            Reach::LastLevel if hop > Ps::ZERO => Some(times.cache_elsewhere),
            _ => None,
        };
        // If another agent wrote while the line was on its way, the stream does not bring the line.
        let way = way.filter(|way| from == Reach::Dram || written + way.whole <= begins);
        let there = match (from, way) {
            (_, Some(way)) => {
                let at = LineNumber { allocation: place.allocation, line: number as u32 };
                streams.there(begins, at, way).max(begins + times.l1_hit)
            }
            (Reach::Own, None) => return ReachedLine { streams: false, there: begins + times.l1_hit },
            (Reach::LastLevel, None) if store => begins + times.llc_hit + hop,
            (Reach::LastLevel, None) if !*serialized => begins + times.dma_line + hop,
            (Reach::LastLevel, None) => begins + times.llc_hit.max(times.dma_line) + hop,
            (Reach::OtherCore, None) => begins + times.transfer_after(begins - at) + hop,
            (Reach::Dram, None) => begins + times.dram.whole + hop,
        };
        line.busy_until = there;
        *serialized = false;
        if from == Reach::Dram {
            allocation.fetched(number, sets);
        }
        ReachedLine { streams: way.is_some(), there }
    }
}

/// The state of a core, which is created at first use.
#[inline]
fn of_core(all: &mut Vec<CoreState>, core: CoreId) -> &mut CoreState {
    let number = usize::from(core.0);
    if all.len() <= number {
        add_cores(all, number + 1);
    }
    &mut all[number]
}

#[cold]
#[inline(never)]
fn add_cores(all: &mut Vec<CoreState>, count: usize) {
    all.resize_with(count, CoreState::default);
}

/// Whether a core at this socket must go to another socket to load or store the line, if its own cache does
/// not hold it.
#[inline]
fn is_elsewhere(line: &LineState, socket: CpuSocket, home: CpuSocket, store: bool) -> bool {
    match line.is_cached() {
        // Other copies must be removed.
        true if store => line.is_cached_beside(socket),
        true => !line.is_cached_at(socket),
        false => home != socket,
    }
}

/// Lets a core load the line. Returns the line's source.
#[inline]
fn load_from(line: &mut LineState, (core, socket): (CoreId, CpuSocket), sets: &mut Sets) -> Reach {
    let reach = if sets.contains(line.holders, core) {
        return Reach::Own;
    } else if line.is_modified() {
        Reach::OtherCore
    } else if line.is_cached() {
        Reach::LastLevel
    } else {
        Reach::Dram
    };
    line.loaded_by((core, socket), sets);
    reach
}

/// Lets a core store to the line. The core becomes the line's only holder. Returns the line's source.
#[inline]
fn store_to(line: &mut LineState, (core, socket): (CoreId, CpuSocket), sets: &mut Sets) -> Reach {
    let reach = if sets.is_only(line.holders, core) {
        Reach::Own
    } else if !line.holders.is_empty() {
        // The line was changed by another core, or is shared: the other copies must be removed.
        Reach::OtherCore
    } else if line.is_cached() {
        Reach::LastLevel
    } else {
        Reach::Dram
    };
    line.stored_by((core, socket), sets);
    reach
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_nic::Profile;

    /// Untouched memory of a profile's host, with `lines` lines at each of two sockets.
    fn memory(profile: &Profile, lines: u64) -> Flat {
        let mut flat = Flat::new(&profile.host, Sockets::of(profile), &CpuCost::new(&profile.host, None));
        of_core(&mut flat.cores, CoreId(0)).serialized = false;
        for socket in [0, 1] {
            flat.allocated(socket, 0, lines * LINE);
            flat.allocations[usize::from(socket)].zeroed_at = None;
        }
        flat
    }

    /// Picoseconds that a core takes for `lines` lines, from `line` on, of the memory at a socket.
    fn takes(flat: &mut Flat, now: &mut Ps, (socket, line): (u32, u64), lines: u64, kind: AccessKind) -> u64 {
        let place = MemPlace { allocation: socket, offset: line * LINE };
        let begun = *now;
        *now = flat.core(begun, CoreId(0), Lines::of(place, lines * LINE), kind).done;
        (*now - begun).0
    }

    fn of_two_sockets() -> Profile {
        Profile::named("cx3-dual").expect("a built-in profile")
    }

    #[test]
    fn what_is_fetched_evicts_the_oldest() {
        let profile = Profile::named("cib").expect("a built-in profile");
        let costs = profile.host;
        let mut flat = memory(&profile, 800);
        flat.limit_cached(0, 2 * LINE);
        let mut now = Ps::ZERO;
        let mut load = |line: u64| takes(&mut flat, &mut now, (0, line), 1, AccessKind::Load);
        let (own, llc, dram) = (costs.l1_hit.as_ps(), costs.dma_line.as_ps(), costs.dram.as_ps());
        assert_eq!([load(400), load(100)], [llc, dram], "0 and 400 were there, 0 went");
        assert_eq!([load(0), load(100), load(0)], [dram, own, own]);
        assert_eq!([load(200), load(100), load(0)], [dram, dram, dram]);
    }

    #[test]
    fn a_walk_goes_at_the_pace_of_its_lines_and_steps_at_random_do_not() {
        let profile = of_two_sockets();
        let (dram, line) = (profile.host.dram.as_ps(), profile.host.stream_line.as_ps());
        let hop = profile.sockets.expect("two").hop.as_ps();
        let far = line * (dram + hop) / dram;
        for kind in [AccessKind::Load, AccessKind::Store] {
            for (socket, way, interval) in [(0, dram, line), (1, dram + hop, far)] {
                let (mut flat, mut now) = (memory(&profile, 1000), Ps::ZERO);
                let mut one = |line: u64| takes(&mut flat, &mut now, (socket, line), 1, kind);
                assert_eq!([one(10), one(11), one(12)], [way, interval, interval], "{kind:?}");
                assert_eq!([one(500), one(100), one(900)], [way; 3], "{kind:?}");
            }
        }
    }

    #[test]
    fn lines_in_a_cache_of_another_socket_come_no_later_than_from_its_memory() {
        let profile = of_two_sockets();
        let (costs, hop) = (profile.host, profile.sockets.expect("two").hop.as_ps());
        let (dram, line) = (costs.dram.as_ps(), costs.stream_line.as_ps());
        let from_dram = line * (dram + hop) / dram;
        for (kind, own) in
            [(AccessKind::Load, costs.dma_line.as_ps()), (AccessKind::Store, costs.llc_hit.as_ps())]
        {
            let (mut flat, mut now) = (memory(&profile, 1000), Ps(1_000_000));
            flat.allocations[1].zeroed_at = Some(1);
            let mut lines = |first: u64, lines: u64| takes(&mut flat, &mut now, (1, first), lines, kind);
            let interval = line * (own + hop) / dram;
            assert_eq!(
                [lines(10, 1), lines(11, 1), lines(12, 1)],
                [own + hop, interval, interval],
                "{kind:?}"
            );
            assert!(interval < from_dram, "{interval} {from_dram}");
            assert_eq!([lines(500, 1), lines(100, 1)], [own + hop; 2], "{kind:?}");
            if kind == AccessKind::Load {
                assert_eq!(lines(101, 7), 7 * interval, "a block is a walk");
            }
            // A device writes here all the time, as to a queue that a core reads.
            lines(600, 1);
            for line in 601..604 {
                let place = MemPlace { allocation: 1, offset: line * LINE };
                flat.device(now, 1, Lines::at(place), AccessKind::Store);
                assert_eq!(takes(&mut flat, &mut now, (1, line), 1, kind), own + hop, "{kind:?}");
            }
        }
    }

    #[test]
    fn lines_of_a_block_come_no_faster_than_those_of_a_walk() {
        let profile = of_two_sockets();
        let (dram, line) = (profile.host.dram.as_ps(), profile.host.stream_line.as_ps());
        let (mut flat, mut now) = (memory(&profile, 1000), Ps::ZERO);
        let mut block = |from: u64| takes(&mut flat, &mut now, (0, from), 8, AccessKind::Load);
        assert_eq!([block(0), block(8), block(500)], [dram + 7 * line, 8 * line, dram + 7 * line]);
        let at_hand = flat.at_hand(8).0;
        assert_eq!(takes(&mut flat, &mut now, (0, 0), 8, AccessKind::Load), at_hand, "the core has them");
        // Copying takes longer than fetching lines at this pace.
        let mut quick = profile;
        quick.host.stream_line = doorbell_verbs::Span::from_ps(1);
        let (mut flat, mut now) = (memory(&quick, 1000), Ps::ZERO);
        let copied = dram + 7 * quick.host.copy_line.as_ps();
        assert_eq!(takes(&mut flat, &mut now, (0, 0), 8, AccessKind::Load), copied);
    }

    #[test]
    fn what_instructions_prefetch_is_in_no_stream() {
        let profile = of_two_sockets();
        let (dram, issue) = (profile.host.dram.as_ps(), profile.host.l1_hit.as_ps());
        let (mut flat, mut now) = (memory(&profile, 1000), Ps::ZERO);
        assert_eq!(takes(&mut flat, &mut now, (0, 0), 4, AccessKind::Prefetch), 4 * issue);
        let last = takes(&mut flat, &mut now, (0, 3), 1, AccessKind::Load);
        assert_eq!(last, dram, "as it was asked for, not behind the first three");
        assert_eq!(
            takes(&mut flat, &mut now, (0, 4), 1, AccessKind::Load),
            dram,
            "nothing goes on from them"
        );
    }

    #[test]
    fn who_prefetches_more_lines_than_there_are_buffers_waits() {
        let profile = Profile::named("cib").expect("a built-in profile");
        let mut costs = profile.host;
        costs.fill_buffers = 2;
        let mut flat = Flat::new(&costs, Sockets::of(&profile), &CpuCost::new(&costs, None));
        of_core(&mut flat.cores, CoreId(0)).serialized = false;
        flat.allocated(0, 0, 8 * LINE);
        let mut now = Ps::ZERO;
        let mut prefetch = |line: u64| {
            let place = MemPlace { allocation: 0, offset: line * LINE };
            now = flat.core(now, CoreId(0), Lines::at(place), AccessKind::Prefetch).done;
            now.0
        };
        let (issue, dram) = (costs.l1_hit.as_ps(), costs.dram.as_ps());
        assert_eq!([prefetch(0), prefetch(1)], [issue, 2 * issue]);
        assert_eq!(prefetch(2), dram + issue, "when the first is there");
        assert_eq!(prefetch(0), dram + 2 * issue, "it is there");
        assert_eq!(prefetch(3), dram + 3 * issue, "the second is there by then");
    }
}
