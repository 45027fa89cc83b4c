//! Tests random traces against an independent small cache and a reference memory.

use super::*;
use doorbell_nic::Profile;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A small hierarchy: first level of two sets with two ways, then four sets with two, then four with four.
fn costs() -> HierarchyCosts {
    let ns = |n: u64| doorbell_verbs::Span::from_ps(n * 1000);
    HierarchyCosts {
        l1: 4 * LINE,
        l1_ways: 2,
        l1_latency: ns(2),
        l2: 8 * LINE,
        l2_ways: 2,
        l2_latency: ns(5),
        llc: 16 * LINE,
        llc_ways: 4,
        llc_latency: ns(20),
        random_replacement: false,
        other_core: ns(30),
        dram_latency: ns(100),
        dram_rate: 64_000_000_000,
        fill_buffers: 10,
        prefetch_buffers: 16,
        reorder: 128,
        store_buffer: 32,
        store_lines: 10,
        instruction: ns(1),
        next_line: false,
        adjacent_line: false,
        streamer: 0,
        io_coherent: true,
        reads_own: true,
        write_ways: 0,
        forced_write_back: ns(0),
    }
}

fn hierarchy(costs: &HierarchyCosts) -> Hierarchy {
    let host = Profile::named("cib").expect("a built-in profile").host;
    let mut all = Hierarchy::new(costs, &host, MeterWindow { from: Ps::ZERO, to: Ps::NEVER });
    all.allocated(PageSize::Huge);
    all
}

fn place(line: u64) -> MemPlace {
    MemPlace { allocation: 0, offset: line * LINE }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Load(u8),
    Store(u8),
    Atomic(u8),
    Prefetch(u8),
    DeviceReads,
    DeviceWrites,
}

fn step(cores: u8) -> impl Strategy<Value = (Step, u64)> {
    let step = prop_oneof![
        4 => (0..cores).prop_map(Step::Load),
        4 => (0..cores).prop_map(Step::Store),
        1 => (0..cores).prop_map(Step::Atomic),
        1 => (0..cores).prop_map(Step::Prefetch),
        2 => Just(Step::DeviceReads),
        2 => Just(Step::DeviceWrites),
    ];
    (step, 0..48u64)
}

/// Takes a step. Returns its time in picoseconds.
fn take(all: &mut Hierarchy, now: &mut Ps, step: Step, line: u64) -> u64 {
    let lines = Lines::at(place(line));
    let begun = *now;
    *now = match step {
        Step::Load(core) => all.core(begun, CoreId(core), lines, AccessKind::Load).done,
        Step::Store(core) => {
            let done = all.core(begun, CoreId(core), lines, AccessKind::Store).done;
            all.stored(done, CoreId(core))
        }
        Step::Atomic(core) => all.core(begun, CoreId(core), lines, AccessKind::Atomic).done,
        Step::Prefetch(core) => {
            all.core(begun, CoreId(core), lines, AccessKind::Prefetch).done + Ps(1_000_000)
        }
        Step::DeviceReads => all.device(begun, lines, AccessKind::Load).done,
        Step::DeviceWrites => all.device(begun, lines, AccessKind::Store).done,
    };
    (*now - begun).0
}

/// A cache as a list of lines per set, the last used one last. Its code is independent of [`SetCache`].
struct Simple {
    sets: Vec<Vec<u64>>,
    ways: usize,
}

impl Simple {
    fn new(sets: usize, ways: usize) -> Simple {
        Simple { sets: vec![Vec::new(); sets], ways }
    }

    fn set(&mut self, line: u64) -> &mut Vec<u64> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(line % sets) as usize]
    }

    fn hit(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let had = set.iter().position(|l| *l == line).map(|at| set.remove(at));
        set.extend(had);
        had.is_some()
    }

    fn bring(&mut self, line: u64) -> Option<u64> {
        let ways = self.ways;
        let set = self.set(line);
        set.push(line);
        (set.len() > ways).then(|| set.remove(0))
    }

    fn drop(&mut self, line: u64) {
        self.set(line).retain(|l| *l != line);
    }
}

/// The caches of one core, in the simplest way. `find` returns the latency of the level that has the line.
struct Levels {
    l1: Simple,
    l2: Simple,
    llc: Simple,
    latencies: [u64; 4],
}

impl Levels {
    /// Levels with the sizes of a profile.
    fn new(c: &HierarchyCosts) -> Levels {
        let level =
            |bytes: u64, ways: u32| Simple::new((bytes / LINE) as usize / ways as usize, ways as usize);
        Levels {
            l1: level(c.l1, c.l1_ways),
            l2: level(c.l2, c.l2_ways),
            llc: level(c.llc, c.llc_ways),
            latencies: [c.l1_latency, c.l2_latency, c.llc_latency, c.dram_latency].map(|span| span.as_ps()),
        }
    }

    fn find(&mut self, line: u64) -> u64 {
        let [l1, l2, llc, dram] = self.latencies;
        if self.l1.hit(line) {
            return l1;
        }
        let found = if self.l2.hit(line) {
            l2
        } else {
            let has = self.llc.hit(line);
            if !has && let Some(gone) = self.llc.bring(line) {
                self.l1.drop(gone);
                self.l2.drop(gone);
            }
            self.l2.bring(line);
            if has { llc } else { dram }
        };
        self.l1.bring(line);
        found
    }
}

/// Sizes, ways and latencies of all levels. Each level is smaller than the level below it.
fn geometry() -> impl Strategy<Value = HierarchyCosts> {
    let ways = || prop_oneof![Just(1u32), Just(2), Just(4)];
    let sets = || prop_oneof![Just(1u64), Just(2), Just(3)];
    (sets(), ways(), sets(), ways(), sets(), ways(), 1..9u64).prop_map(|(s1, w1, s2, w2, s3, w3, ns)| {
        let level = |sets: u64, ways: u32| sets * u64::from(ways) * LINE;
        let span = |times: u64| doorbell_verbs::Span::from_ps(ns * times * 1000);
        HierarchyCosts {
            l1: level(s1, w1),
            l1_ways: w1,
            l1_latency: span(1),
            l2: level(s2, w2),
            l2_ways: w2,
            l2_latency: span(3),
            llc: level(s3 + 1, w3 * 2),
            llc_ways: w3 * 2,
            llc_latency: span(10),
            dram_latency: span(50),
            ..costs()
        }
    })
}

proptest! {
    #[test]
    fn a_core_finds_lines_where_a_simple_cache_has_them(
        trace in prop::collection::vec(step(1), 1..300),
        costs in geometry(),
    ) {
        let mut all = hierarchy(&costs);
        let mut simple = Levels::new(&costs);
        // A line's position in memory selects its set.
        let (first, mut now) = (all.line(place(0)), Ps::ZERO);
        for (step, line) in trace {
            now += Ps(1_000_000); // Nothing is in flight, and memory is idle.
            let number = first + line;
            match step {
                Step::DeviceReads | Step::DeviceWrites => {
                    take(&mut all, &mut now, step, line);
                    for cache in [&mut simple.l1, &mut simple.l2, &mut simple.llc] {
                        cache.drop(number);
                    }
                }
                Step::Prefetch(_) | Step::Store(_) | Step::Atomic(_) => {
                    take(&mut all, &mut now, step, line);
                    simple.find(number);
                }
                Step::Load(_) => {
                    prop_assert_eq!(take(&mut all, &mut now, step, line), simple.find(number));
                }
            }
        }
    }

    #[test]
    fn nobody_reads_what_is_old(
        trace in prop::collection::vec(step(3), 1..400),
        reads_own: bool,
        ways in prop_oneof![Just(0u32), Just(2)],
        random_replacement: bool,
        streamer in 0..8u32,
    ) {
        let some = streamer % 2 == 0;
        let costs = HierarchyCosts {
            reads_own, write_ways: ways, random_replacement, streamer, next_line: some, adjacent_line: !some, ..costs()
        };
        let mut all = hierarchy(&costs);
        let mut reference = Reference::default();
        let mut now = Ps::ZERO;
        for (step, line) in trace {
            let before = all.counts;
            take(&mut all, &mut now, step, line);
            reference.follow(&all, step, line, before);
        }
    }
}

/// Versions of lines: the newest, memory's, and the version in each core's caches.
#[derive(Default)]
struct Reference {
    newest: BTreeMap<u64, u64>,
    memory: BTreeMap<u64, u64>,
    copies: BTreeMap<(usize, u64), u64>,
    dirty: BTreeMap<u64, u64>,
}

impl Reference {
    /// Follows a step. Panics if the hierarchy's result is impossible.
    fn follow(&mut self, all: &Hierarchy, step: Step, line: u64, before: Uncore) {
        let number = all.line(place(line));
        let writes = matches!(step, Step::Store(_) | Step::Atomic(_) | Step::DeviceWrites);
        let by_device_to_memory = matches!(step, Step::DeviceWrites) && all.io.ways == 0;
        let old = std::mem::take(&mut self.dirty);
        *self.newest.entry(number).or_default() += u64::from(writes);
        if by_device_to_memory {
            self.memory.insert(number, self.newest[&number]);
        }
        // Lines that are no longer newer than memory must have been written back, once each.
        let held: BTreeMap<u64, HeldLine> = all.llc.lines().collect();
        let modified = |line: &u64| held.get(line).is_some_and(|h| h.state == Mesif::Modified);
        self.dirty = held
            .keys()
            .filter(|l| modified(l))
            .map(|l| (*l, self.newest.get(l).copied().unwrap_or(0)))
            .collect();
        let gone: Vec<u64> = old.keys().copied().filter(|l| !modified(l)).collect();
        let written =
            all.counts.implicit_wbs + all.counts.write_backs - before.implicit_wbs - before.write_backs;
        // A prefetched line may have evicted the line that was just stored to.
        let at_once = matches!(step, Step::Store(_) | Step::Atomic(_)) && !modified(&number);
        let again = at_once && !old.contains_key(&number);
        let changed = gone.len() as u64 + u64::from(again);
        assert_eq!(written, changed, "{step:?} of {line}: what was changed goes back to memory once");
        for line in gone {
            if !(by_device_to_memory && line == number) {
                self.memory.insert(line, old[&line]);
            }
        }
        if at_once {
            self.memory.insert(number, self.newest[&number]);
        }
        for (line, newest) in self.newest.clone() {
            let known = held.get(&line).copied().unwrap_or_default();
            let in_memory = self.memory.get(&line).copied().unwrap_or(0);
            assert!(
                known.state == Mesif::Modified || in_memory == newest,
                "memory has an old line that nobody has"
            );
            self.copies(all, line, newest, known);
        }
    }

    /// Checks that each holder has the newest version, that a core that may write is the only holder, and
    /// that the last level knows all holders.
    fn copies(&mut self, all: &Hierarchy, line: u64, newest: u64, held: HeldLine) {
        let mut holders = 0;
        for (core, private) in all.cores.iter().enumerate() {
            if !private.l1.has(line) && !private.l2.has(line) {
                self.copies.remove(&(core, line));
                continue;
            }
            holders |= 1 << core;
            let alone = held.owned && held.holders == 1 << core && held.state == Mesif::Modified;
            let copy = self.copies.entry((core, line)).or_insert(newest);
            if alone {
                *copy = newest; // This core may be the writer.
            }
            assert_eq!(*copy, newest, "core {core} would read what is old");
        }
        assert_eq!(holders, held.holders, "the last level includes the others, and knows who has a line");
        assert!(!held.owned || holders.count_ones() == 1, "one owner");
    }
}

#[test]
fn pages_are_strangers_and_lines_are_unique() {
    let mut all = hierarchy(&costs());
    all.allocated(PageSize::Small);
    let mut seen = std::collections::HashSet::new();
    for allocation in [0, 1, u32::MAX, u32::MAX - 1] {
        for line in 0..100_000 {
            assert!(seen.insert(all.line(MemPlace { allocation, offset: line * LINE })));
        }
    }
    let small = |line: u64| all.line(MemPlace { allocation: 1, offset: line * LINE });
    assert_eq!(small(63), small(0) + 63);
    assert_ne!(small(64), small(0) + 64);
}

#[test]
fn a_snapshot_takes_nothing_away_and_ownership_does() {
    for (reads_own, forced, left) in [(true, 1, false), (false, 0, true)] {
        let mut all = hierarchy(&HierarchyCosts { reads_own, ..costs() });
        let mut now = Ps::ZERO;
        take(&mut all, &mut now, Step::Store(0), 1);
        take(&mut all, &mut now, Step::Load(0), 2);
        take(&mut all, &mut now, Step::DeviceReads, 1);
        take(&mut all, &mut now, Step::DeviceReads, 2);
        take(&mut all, &mut now, Step::DeviceReads, 3);
        let Uncore { snps, remote_rd, remote_rfo, implicit_wbs, .. } = all.counts();
        assert_eq!((snps, implicit_wbs), (3, forced));
        assert_eq!((remote_rd, remote_rfo), if reads_own { (0, 2) } else { (2, 0) });
        assert_eq!([1, 2].map(|line| all.holds(place(line), CoreId(0))), [left; 2]);
    }
}

#[test]
fn what_devices_write_goes_to_a_few_ways() {
    let mut all = hierarchy(&HierarchyCosts { write_ways: 2, ..costs() });
    let mut now = Ps::ZERO;
    // Fill a set of the last level, then write as many lines by the device.
    let lines = |from: u64| (from..from + 4).map(|i| i * 4);
    for line in lines(0) {
        take(&mut all, &mut now, Step::Load(0), line);
    }
    for line in lines(4) {
        take(&mut all, &mut now, Step::DeviceWrites, line);
    }
    let held: Vec<bool> = lines(0).map(|line| all.llc.has(all.line(place(line)))).collect();
    assert_eq!(held.iter().filter(|held| **held).count(), 2, "{held:?}");
}

#[test]
fn memory_has_a_bandwidth() {
    let mut dram = Dram::new(Ps(100), Ps(10));
    assert_eq!([0, 0, 50].map(|at| dram.read(Ps(at))), [100, 110, 150].map(Ps));
    dram.write(Ps(50));
    assert_eq!(dram.read(Ps(50)), Ps(170));
}

#[test]
fn memory_that_nobody_touches_costs_nothing() {
    let profile = Profile::named("e7520-t4").expect("a built-in profile");
    let costs = profile.hierarchy.expect("caches that have sizes");
    let mut all = Hierarchy::new(&costs, &profile.host, MeterWindow { from: Ps::ZERO, to: Ps::NEVER });
    all.allocated(PageSize::Small);
    let lines = (2 << 30) / LINE;
    assert_eq!((all.llc.used_sets(), all.cores.len()), (0, 0), "nothing is kept of 2 GiB");
    let mut now = Ps::ZERO;
    for line in [0, lines / 2, lines - 1] {
        take(&mut all, &mut now, Step::Load(0), line);
        take(&mut all, &mut now, Step::DeviceWrites, line);
        take(&mut all, &mut now, Step::DeviceReads, line);
    }
    // The adjacent-line prefetcher has brought one more line for each.
    assert_eq!((all.llc.used_sets(), all.cores.len()), (6, 1));
}

/// Nanoseconds per atomic if `cores` cores execute 100 atomics each on one line.
fn contended(cores: u8) -> f64 {
    let mut all = hierarchy(&costs());
    let mut clocks = vec![Ps::ZERO; cores.into()];
    for _ in 0..100 * u32::from(cores) {
        let (core, clock) = (0..).zip(&mut clocks).min_by_key(|(_, clock)| **clock).expect("cores");
        *clock = all.core(*clock, CoreId(core), Lines::at(place(0)), AccessKind::Atomic).done;
    }
    let last = clocks.into_iter().max().expect("cores");
    last.0 as f64 / 1e3 / 100.0 / f64::from(cores)
}

#[test]
fn a_line_goes_from_one_core_to_another_before_a_third_has_it() {
    let atomic = Profile::named("cib").expect("a built-in profile").host.atomic_op.as_ps() as f64 / 1e3;
    let HierarchyCosts { l1_latency, llc_latency, other_core, .. } = costs();
    let alone = l1_latency.as_ps() as f64 / 1e3 + atomic;
    let handed_on = (llc_latency + other_core).as_ps() as f64 / 1e3 + atomic;
    assert!((contended(1) / alone - 1.0).abs() < 0.1, "{}", contended(1));
    for cores in [2, 3] {
        assert!((contended(cores) / handed_on - 1.0).abs() < 0.05, "{cores}: {}", contended(cores));
    }
}

/// A hierarchy with room for all lines of these tests, and without prefetchers.
fn roomy() -> HierarchyCosts {
    HierarchyCosts { l1: 1 << 15, l1_ways: 8, l2: 1 << 18, l2_ways: 8, llc: 1 << 24, llc_ways: 16, ..costs() }
}

/// Time of a scan of `lines` until all accesses are done. No cache holds these lines at first. Also returns
/// the counts.
fn cold_scan(costs: &HierarchyCosts, touch: Touch, lines: impl Iterator<Item = u64>) -> (u64, Uncore) {
    let mut all = hierarchy(costs);
    let steps = ScanSteps { touch, accesses: 8, instructions: 1 };
    let mut now = Ps::ZERO;
    for line in lines {
        now = all.scan(now, CoreId(0), place(line), steps).done;
    }
    (all.stored(now, CoreId(0)).0, all.counts())
}

#[test]
fn a_drawn_line_goes_where_that_is_said() {
    // Use one line more than a set has ways, in turn. The least recently used line is always the next one.
    let misses = |random_replacement| {
        let mut all = hierarchy(&HierarchyCosts { random_replacement, llc: 4 * LINE, ..costs() });
        let mut now = Ps::ZERO;
        for round in 0..100 {
            take(&mut all, &mut now, Step::Load(0), round % 5);
        }
        all.counts().llc_misses
    };
    assert_eq!(misses(false), 100);
    assert!(misses(true) < 80, "{}", misses(true));
}

#[test]
fn misses_overlap_as_far_as_each_buffer_goes() {
    let time = |touch, costs: HierarchyCosts| cold_scan(&costs, touch, 0..256).0;
    let all = roomy();
    let loads = time(Touch::Load, all);
    assert!(time(Touch::Load, HierarchyCosts { fill_buffers: 2, ..all }) > 3 * loads, "lines under way");
    assert!(time(Touch::Load, HierarchyCosts { reorder: 16, ..all }) > 3 * loads, "instructions under way");
    assert_eq!(time(Touch::Load, HierarchyCosts { store_lines: 1, store_buffer: 1, ..all }), loads);
    let stores = time(Touch::Store(1), all);
    // There are eight stores per line, so the full-size buffer holds the stores of four lines.
    assert!(
        time(Touch::Store(1), HierarchyCosts { store_buffer: 8, ..all }) > 2 * stores,
        "stores under way"
    );
    assert!(
        time(Touch::Store(1), HierarchyCosts { store_lines: 1, ..all }) > 3 * stores,
        "lines that stores wait for"
    );
    assert_eq!(time(Touch::Store(1), HierarchyCosts { reorder: 16, ..all }), stores);
}

#[test]
fn each_prefetcher_is_a_switch_and_helps_in_order_only() {
    // A line takes as many instructions as fit in flight, so nothing else overlaps.
    let none = HierarchyCosts { reorder: 8, ..roomy() };
    let some = [
        HierarchyCosts { next_line: true, ..none },
        HierarchyCosts { adjacent_line: true, ..none },
        HierarchyCosts { streamer: 8, ..none },
    ];
    let far = || (0..256).map(|i| i * 67 % 256 * 128);
    for costs in some {
        let (serial, without) = cold_scan(&none, Touch::Load, 0..256);
        let (ahead, with) = cold_scan(&costs, Touch::Load, 0..256);
        assert!(ahead < serial * 4 / 5, "{costs:?}: {ahead} and {serial}");
        assert_eq!((without.used_prefetches, without.prefetch_misses), (0, 0));
        assert!(with.used_prefetches >= 100 && with.llc_misses + with.used_prefetches == 256, "{with:?}");
        let (one_by_one, _) = cold_scan(&none, Touch::Load, far());
        let (scattered, _) = cold_scan(&costs, Touch::Load, far());
        assert!(scattered >= one_by_one, "{costs:?}: {scattered} and {one_by_one}");
    }
}

#[test]
fn stores_around_the_caches_leave_nothing_there() {
    let costs = roomy();
    let (_, counts) = cold_scan(&costs, Touch::StoreAround(1), 0..64);
    assert_eq!(counts, Uncore::default());
    let mut all = hierarchy(&costs);
    let mut now = Ps::ZERO;
    take(&mut all, &mut now, Step::Store(0), 3);
    let steps = ScanSteps { touch: Touch::StoreAround(1), accesses: 8, instructions: 1 };
    all.scan(now, CoreId(0), place(3), steps);
    assert_eq!(
        (all.llc.lines().count(), all.counts().write_backs),
        (0, 1),
        "what was there goes to memory before"
    );
}

#[test]
fn what_a_program_prefetches_is_there_when_it_is_loaded() {
    let mut all = hierarchy(&roomy());
    let mut now = Ps::ZERO;
    let lines = Lines::of(place(0), 8 * LINE);
    now = all.core(now, CoreId(0), lines, AccessKind::Prefetch).done;
    assert!(now < Ps(20_000), "it does not wait: {now:?}");
    now += Ps(1_000_000);
    for line in 0..8 {
        assert_eq!(take(&mut all, &mut now, Step::Load(0), line), roomy().l1_latency.as_ps());
    }
}

#[test]
fn memory_is_as_fast_as_its_profile_says() {
    let slow = HierarchyCosts { streamer: 20, dram_rate: 640_000_000, ..roomy() };
    let (time, _) = cold_scan(&slow, Touch::Load, 0..256);
    assert!((256 * 100_000..258 * 100_000 + 100_000).contains(&time), "100 ns a line: {time}");
    let mut all = hierarchy(&costs());
    let mut now = Ps::ZERO;
    for line in 0..16 + 8 {
        take(&mut all, &mut now, Step::Store(0), line);
    }
    assert_eq!(all.counts().write_backs, 8, "what was changed goes back where there is no room");
}

#[test]
fn write_backs_that_a_device_forces_may_keep_it_waiting() {
    let read = |forced_write_back| {
        let mut all = hierarchy(&HierarchyCosts { forced_write_back, ..costs() });
        let mut now = Ps::ZERO;
        for line in 0..4 {
            take(&mut all, &mut now, Step::Store(0), line);
        }
        let lines = Lines::of(place(0), 4 * LINE);
        ((all.device(now, lines, AccessKind::Load).done - now).0, all.counts().implicit_wbs)
    };
    let span = doorbell_verbs::Span::from_ps(70_000);
    assert_eq!([read(doorbell_verbs::Span::ZERO), read(span)], [(20_000, 4), (4 * 70_000, 4)]);
}

#[test]
fn a_first_level_of_64_kb_holds_what_one_of_32_kb_does_not() {
    let again = |l1| {
        let mut all = hierarchy(&HierarchyCosts { l1, ..roomy() });
        let mut now = Ps::ZERO;
        let lines = 48 * 1024 / LINE;
        let mut pass = || (0..lines).map(|line| take(&mut all, &mut now, Step::Load(0), line)).sum::<u64>();
        pass();
        pass() / lines
    };
    assert_eq!([again(1 << 15), again(1 << 16)], [5_000, 2_000]);
}
