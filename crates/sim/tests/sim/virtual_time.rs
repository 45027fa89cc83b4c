//! Virtual time: repeatable runs, skipped passes, deadlocks, panics, and shared memory.

use crate::common::{Node, PingPong, ping_pong_run, profile, read_run};
use doorbell_nic::Profile;
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_verbs::{
    Cluster, Mem, PageSize, Program, Provider, RunError, SendFlags, SendOp, SendWr, Span, Time,
};

#[test]
fn the_same_run_twice_is_the_same_event_by_event() {
    let run = || read_run(SimConfig::new(2), "cib", 4, 16, 20);
    let (times, metrics) = run();
    let (again, again_metrics) = run();
    assert_eq!(times, again);
    assert_eq!(metrics, again_metrics);
    let (_, other) = read_run(SimConfig::new(2), "cib", 4, 15, 20);
    assert_ne!(metrics.event_hash, other.event_hash, "the hash tells runs apart");
}

#[test]
fn skipping_passes_changes_nothing() {
    for name in ["cx", "cx3", "cib"] {
        for work in [0, 1, 7, 1000] {
            let work = Span::from_ps(work * 333);
            let run = |skip_pauses| {
                let config = SimConfig { skip_pauses, ..SimConfig::new(2) };
                ping_pong_run(config, name, 200, work)
            };
            let (skipped, with) = run(true);
            let (walked, without) = run(false);
            assert_eq!(skipped, walked, "{name}, {work:?}: when each side saw each value");
            assert_eq!(with.event_hash, without.event_hash, "{name}, {work:?}: every NIC event");
        }
        let run = |skip_pauses| read_run(SimConfig { skip_pauses, ..SimConfig::new(2) }, name, 3, 5, 50);
        let ((skipped, with), (walked, without)) = (run(true), run(false));
        assert_eq!(skipped, walked, "{name}: when each round of READs was done");
        assert_eq!(with.event_hash, without.event_hash, "{name}: every NIC event");
    }
}

/// Waits for a word that is never written.
struct WaitsInVain;

impl Program for WaitsInVain {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let mem = p.alloc(4096, PageSize::Small).expect("memory");
        while p.load_u64(mem, 128) == 0 {
            p.pause(Time::NEVER);
        }
    }
}

/// Waits for a key that is never published.
struct WaitsForKey;

impl Program for WaitsForKey {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        p.lookup("nobody says this");
    }
}

#[test]
fn a_deadlock_says_who_waits_for_what() {
    let mut cluster = SimCluster::new(&profile("cx3"), SimConfig::new(2));
    cluster.spawn(0, 3, WaitsInVain);
    cluster.spawn(1, 0, WaitsForKey);
    let Err(RunError::Deadlock(text)) = cluster.run() else { panic!("a deadlock") };
    assert!(text.contains("core 3 of machine 0 waits for a change of byte 128"), "{text}");
    assert!(text.contains("core 0 of machine 1 waits for the key \"nobody says this\""), "{text}");
}

#[test]
fn a_deadlock_of_many_is_told_in_short() {
    let mut cluster = SimCluster::new(&profile("cx3"), SimConfig::new(2));
    for core in 0..200 {
        cluster.spawn(0, core, WaitsForKey);
    }
    let Err(RunError::Deadlock(text)) = cluster.run() else { panic!("a deadlock") };
    assert!(text.contains("core 3 of machine 0") && text.ends_with("; and 196 more"), "{text}");
}

/// Pauses until a deadline. Returns when it noticed the deadline.
struct Sleeps(Time);

impl Program for Sleeps {
    type Output = (Time, u64);

    fn run<P: Provider>(self, p: P) -> (Time, u64) {
        let mem = p.alloc(64, PageSize::Small).expect("memory");
        let mut passes = 0;
        while p.now() < self.0 {
            p.load_u64(mem, 0);
            p.work(Span::from_ps(777));
            passes += 1;
            p.pause(self.0);
        }
        (p.now(), passes)
    }
}

#[test]
fn a_pause_ends_in_the_pass_that_contains_its_deadline() {
    let run = |skip_pauses, deadline| {
        let config = SimConfig { skip_pauses, ..SimConfig::new(1) };
        let mut cluster = SimCluster::new(&profile("cib"), config);
        let task = cluster.spawn(0, 0, Sleeps(deadline));
        cluster.run().expect("the run ends");
        task.take().expect("a result")
    };
    for ps in [1_000_000, 1_234_567, 1_234_568, 1_300_001] {
        let deadline = Time::from_ps(ps);
        let (skipped, few) = run(true, deadline);
        let (walked, many) = run(false, deadline);
        assert_eq!(skipped, walked, "deadline {deadline:?}");
        assert!(few < 10 && many > 100, "{few} passes instead of {many}");
    }
}

/// Lets time pass, then looks at a word, stores another, and pauses. Returns when it saw the word change.
struct LooksThenStores(Mem);

impl Program for LooksThenStores {
    type Output = Time;

    fn run<P: Provider>(self, p: P) -> Time {
        let until = p.now() + Span::from_us(1);
        while p.now() < until {
            p.pause(until);
        }
        let deadline = p.now() + Span::from_us(100);
        let mut stored = false;
        while p.load_u64(self.0, 0) == 0 && p.now() < deadline {
            if !std::mem::replace(&mut stored, true) {
                p.store_u64(self.0, 64, 1);
            }
            p.pause(deadline);
        }
        p.now()
    }
}

/// Works for a while, then stores the word.
struct StoresAfter(Mem, Span);

impl Program for StoresAfter {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        p.work(self.1);
        p.store_u64(self.0, 0, 1);
    }
}

/// After its store, the thread pauses without a look in between, as it did while it only let time pass.
#[test]
fn who_pauses_behind_an_effect_is_not_taken_to_be_where_it_only_lets_time_pass() {
    let run = |skip_pauses| {
        let mut cluster = SimCluster::new(&profile("cib"), SimConfig { skip_pauses, ..SimConfig::new(1) });
        let mem = cluster.alloc(0, 4096, PageSize::Small).expect("memory");
        let looks = cluster.spawn(0, 0, LooksThenStores(mem));
        cluster.spawn(0, 1, StoresAfter(mem, Span::from_us(5)));
        cluster.run().expect("it ends");
        looks.take().expect("it ended")
    };
    let (skipped, walked) = (run(true), run(false));
    assert_eq!(skipped, walked);
    assert!(skipped < Time::START + Span::from_us(6), "{skipped:?}");
}

struct Panics;

impl Program for Panics {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let mem = p.alloc(8, PageSize::Small).expect("memory");
        p.load_u64(mem, 8);
    }
}

#[test]
fn a_panic_of_a_program_ends_the_run_with_its_message() {
    let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(1));
    cluster.spawn(0, 1, Panics);
    let Err(RunError::Panicked { thread, message }) = cluster.run() else { panic!("a panic") };
    assert!(thread.contains("core 1 of machine 0"), "{thread}");
    assert!(message.contains("8..16"), "{message}");
}

#[test]
fn a_bad_setup_is_refused() {
    let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(1));
    cluster.spawn(0, 1, WaitsForKey);
    cluster.spawn(0, 1, WaitsForKey);
    assert!(matches!(cluster.run(), Err(RunError::Setup(_))));
    let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(1));
    cluster.spawn(1, 0, WaitsForKey);
    assert!(matches!(cluster.run(), Err(RunError::Setup(_))));
}

#[test]
fn a_run_ends_at_its_end_whatever_the_threads_do() {
    let config = SimConfig { end: Time::from_ps(50_000_000), ..SimConfig::new(2) };
    let mut cluster = SimCluster::new(&profile("cib"), config);
    let rounds = 1 << 40;
    let task = cluster.spawn(0, 0, PingPong { first: true, rounds, work: Span::ZERO });
    cluster.spawn(1, 0, PingPong { first: false, rounds, work: Span::ZERO });
    cluster.run().expect("the end is no error");
    assert!(task.take().is_none(), "the thread did not come to its end");
    assert!(cluster.metrics().accounts.ended > 10);
}

/// Adds to a shared counter as fast as possible.
struct Adds {
    mem: Mem,
    times: u64,
}

impl Program for Adds {
    type Output = Time;

    fn run<P: Provider>(self, p: P) -> Time {
        for _ in 0..self.times {
            p.fetch_add_u64(self.mem, 0, 1);
        }
        p.now()
    }
}

/// When the last of `threads` threads has added 1000 times, to its own line or to a shared one.
fn adding_on(profile: &Profile, threads: u32, shared: bool) -> u64 {
    let mut cluster = SimCluster::new(profile, SimConfig::new(1));
    let mem = cluster.alloc(0, 4096, PageSize::Huge).expect("memory");
    let tasks: Vec<_> = (0..threads)
        .map(|t| {
            let mem = if shared { mem } else { mem.slice(64 * u64::from(t), 8) };
            cluster.spawn(0, t, Adds { mem, times: 1000 })
        })
        .collect();
    cluster.run().expect("the run ends");
    tasks.iter().map(|t| t.take().expect("a result").as_ps()).max().expect("threads")
}

#[test]
fn a_shared_line_is_passed_from_core_to_core() {
    let unhurried = passing_on(|host| host.line_transfer);
    let host = unhurried.host;
    let alone = adding_on(&unhurried, 1, true);
    assert_eq!(adding_on(&unhurried, 8, false), alone, "lines of their own do not slow threads down");
    let passed = adding_on(&unhurried, 8, true);
    // 8000 additions one after another, nearly all after a transfer between cores.
    let each = (host.line_transfer + host.atomic_op).as_ps();
    assert!(passed > 7000 * each && passed < 8200 * each, "{passed} ps, {each} ps each");
}

#[test]
fn a_line_that_others_wait_for_is_passed_faster() {
    let [quick, unhurried] = [passing_on(|_| Span::from_ns(10)), passing_on(|host| host.line_transfer)];
    let each = |threads: u32, on: &Profile| adding_on(on, threads, true) / u64::from(1000 * threads);
    let [two, eight, all] = [2, 8, 14].map(|threads| each(threads, &quick));
    assert!(two > eight && eight > all, "{two}, {eight} and {all} ps each");
    let least = (Span::from_ns(10) + quick.host.atomic_op).as_ps();
    assert!(all > least && 2 * all < each(14, &unhurried), "{all} ps each");
}

/// A host with the given time to transfer a line to a core that has waited long.
fn passing_on(queued: impl Fn(&doorbell_nic::Host) -> Span) -> Profile {
    let mut profile = profile("cib");
    profile.host.line_transfer_queued = queued(&profile.host);
    profile
}

#[test]
fn an_atomic_waits_until_what_was_written_by_mmio_has_left() {
    let mut profile = profile("cib");
    let mut took = |drain: u64, posts: bool, work: u64| {
        profile.host.mmio_drain = Span::from_ns(drain);
        let mut cluster = SimCluster::new(&profile, SimConfig::new(1));
        let mem = cluster.alloc(0, 64, PageSize::Small).expect("memory");
        let task = cluster.spawn(0, 0, AddsAfter { mem, posts, work: Span::from_ns(work) });
        cluster.run().expect("the run ends");
        task.take().expect("it ran to its end").as_ps() / 1000
    };
    let alone = took(500, false, 0);
    assert_eq!(took(0, true, 0), alone);
    assert_eq!(took(500, true, 0), alone + 500);
    assert_eq!(took(500, true, 200), alone + 300, "what is done meanwhile costs nothing");
    assert_eq!(took(500, true, 600), alone);
}

/// Works for `work`, after a post if `posts`, and then adds. Returns the time of the addition.
struct AddsAfter {
    mem: Mem,
    posts: bool,
    work: Span,
}

impl Program for AddsAfter {
    type Output = Span;

    fn run<P: Provider>(self, p: P) -> Span {
        let node = Node::new(&p, 64, 16);
        let remote = node.connect(&p, "me", "me");
        p.fetch_add_u64(self.mem, 0, 1);
        p.work(Span::from_us(1));
        if self.posts {
            let payload = [node.mr.sge(0, 8)];
            let write = SendWr::new(0, SendOp::Write(remote), &payload).flags(SendFlags::INLINE);
            node.qp.post_send(&[write]).expect("room");
        }
        p.work(self.work);
        let begun = p.now();
        p.fetch_add_u64(self.mem, 0, 1);
        p.now() - begun
    }
}

#[test]
fn a_cluster_runs_again_with_its_memory_as_it_was() {
    let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(1));
    let mem = cluster.alloc(0, 64, PageSize::Small).expect("memory");
    for runs in 1..=2 {
        let first = cluster.spawn(0, 0, Adds { mem, times: 5 });
        cluster.spawn(0, 1, Adds { mem, times: 5 });
        cluster.run().expect("the run ends");
        assert!(first.take().is_some());
        let sum = cluster.spawn(0, 0, Reads { mem });
        cluster.run().expect("the run ends");
        assert_eq!(sum.take(), Some(10 * runs));
    }
}

/// Returns the value of a shared word.
struct Reads {
    mem: Mem,
}

impl Program for Reads {
    type Output = u64;

    fn run<P: Provider>(self, p: P) -> u64 {
        p.load_u64(self.mem, 0)
    }
}

/// Adds to a counter shared by all threads of its machine. Returns the last value that it saw.
struct Counts(Mem);

impl Program for Counts {
    type Output = u64;

    fn run<P: Provider>(self, p: P) -> u64 {
        let mut seen = 0;
        for _ in 0..20 {
            seen = p.fetch_add_u64(self.0, 0, 1) + 1;
            p.load_u64(self.0, 64);
        }
        while p.load_u64(self.0, 0) < 20 * 256 {
            p.pause(Time::NEVER);
        }
        seen
    }
}

#[test]
fn a_machine_has_256_cores() {
    let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(1));
    let mem = cluster.alloc(0, 4096, PageSize::Huge).expect("memory");
    let tasks: Vec<_> = (0..256).map(|core| cluster.spawn(0, core, Counts(mem))).collect();
    cluster.run().expect("the run ends");
    let last = tasks.iter().map(|task| task.take().expect("a result")).max();
    assert_eq!(last, Some(20 * 256), "every addition counts, and all see the last");
    cluster.spawn(0, 256, Counts(mem));
    let Err(RunError::Setup(why)) = cluster.run() else { panic!("a refusal") };
    assert_eq!(why, "a simulated machine has cores 0 to 255, not 256");
}
