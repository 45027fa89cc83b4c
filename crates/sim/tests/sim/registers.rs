//! Doorbell registers, locks of the driver, and queue pairs that threads share.

use crate::common::{Node, Reader, profile, read_run};
use doorbell_nic::{Device, DriverSettings, Host, Profile, Registers};
use doorbell_sim::{Metrics, SimCluster, SimConfig};
use doorbell_verbs::{
    Cluster, ConnectAttr, Context, Cq, Endpoint, Mr, PageSize, Program, Provider, Qp, QpCap, QpInitAttr,
    QpType, RemoteAddr, SendFlags, SendOp, SendWr, SharedQp, Span, Task, Time, VerbsError, Wc,
};

/// cib with the doorbell registers of its driver.
fn with_registers(total: u32, low_latency: u32) -> Profile {
    let cib = profile("cib");
    let registers = Some(Registers { total, low_latency, blueflame: 256 });
    Profile { device: Device { registers, ..cib.device }, ..cib }
}

/// Picoseconds of a post of one READ by MMIO, without locks. The next function adds the wait until the MMIO
/// has left the core.
fn post(host: &Host) -> u64 {
    [host.post_call, host.build_wqe, host.build_line, host.mmio_line].map(|span| span.as_ps()).iter().sum()
}

fn drained(host: &Host) -> u64 {
    post(host) + host.mmio_drain.as_ps()
}

/// Creates QPs, and posts one WRITE to each QP twice. Returns the time of each second post.
struct PostsToEach {
    qps: u32,
}

impl Program for PostsToEach {
    type Output = Vec<u64>;

    fn run<P: Provider>(self, p: P) -> Vec<u64> {
        let own = Node::new(&p, 4096, 16);
        let target = own.connect(&p, "poster 0", "target 0");
        let cap = QpCap { max_send_wr: 16, ..QpCap::default() };
        let attr = QpInitAttr::new(QpType::Uc, cap);
        let qps: Vec<Qp<P>> =
            (1..self.qps).map(|_| own.pd.create_qp(&own.cq, &own.cq, None, &attr).expect("a QP")).collect();
        let remote = Endpoint::from_bytes(&p.lookup("target 0/qp")).expect("an endpoint");
        qps.iter().for_each(|qp| qp.connect(1, &remote, &ConnectAttr::default()).expect("a connection"));
        let all: Vec<Qp<P>> = std::iter::once(own.qp.clone()).chain(qps).collect();
        let mut took = Vec::new();
        for round in 0..2 {
            for qp in &all {
                // Other posts have left the core.
                p.compute(Span::from_us(1));
                let sge = [own.mr.sge(0, 8)];
                let began = p.now();
                qp.post_send(&[SendWr::new(0, SendOp::Write(target), &sge)]).expect("room");
                if round > 0 {
                    took.push((p.now() - began).as_ps());
                }
            }
        }
        p.publish("over 0", &[]);
        took
    }
}

/// Times of posts to QPs of a thread, in the order of their creation.
fn posts(profile: &Profile, driver: DriverSettings, qps: u32) -> Vec<u64> {
    let mut cluster = SimCluster::new(profile, SimConfig { driver, ..SimConfig::new(2) });
    let task = cluster.spawn(0, 0, PostsToEach { qps });
    cluster.spawn(1, 0, Target(0));
    cluster.run().expect("the run ends");
    task.take().expect("times")
}

#[test]
fn the_nth_qp_takes_the_lock_of_its_register() {
    let profile = with_registers(16, 4);
    let host = &profile.host;
    let alone = post(host);
    // The lock is in the core's own cache: an atomic, and a store.
    let locked = drained(host) + 2 * host.l1_hit.as_ps() + host.atomic_op.as_ps();
    let took = posts(&profile, DriverSettings::default(), 20);
    assert_eq!(took[..4], [alone; 4], "low-latency registers");
    assert_eq!(took[4..], [locked; 16], "shared registers");
    let more = DriverSettings { total_uuars: Some(32), ..DriverSettings::default() };
    let took = posts(&profile, more, 22);
    assert_eq!((took[19], took[20]), (alone, locked), "32 registers have 20 low-latency ones");
    for driver in [
        DriverSettings { thread_domains: true, ..DriverSettings::default() },
        DriverSettings { single_threaded: true, ..DriverSettings::default() },
    ] {
        assert_eq!(posts(&profile, driver, 20), [alone; 20], "{driver:?}");
    }
    assert_eq!(posts(&super::common::profile("cib"), DriverSettings::default(), 20), [alone; 20]);
}

#[test]
fn register_zero_has_neither_blueflame_nor_a_lock() {
    let profile = with_registers(2, 1);
    let host = &profile.host;
    let alone = post(host);
    let rung = alone - host.mmio_line.as_ps() + host.doorbell.as_ps();
    assert_eq!(posts(&profile, DriverSettings::default(), 4), [alone, rung, rung, rung]);
    let off = DriverSettings { shut_up_bf: true, ..DriverSettings::default() };
    assert_eq!(posts(&profile, off, 2), [rung; 2]);
    assert_eq!(posts(&super::common::profile("cib"), off, 2), [rung; 2], "without registers, too");
    let only_inline = DriverSettings { bf_only_inline: true, ..DriverSettings::default() };
    assert_eq!(posts(&profile, only_inline, 1), [rung], "the payload is not inline");
}

/// READs without completions, as fast as the thread can post. Several of these threads run on one machine.
/// The first creates the shared QP, if there is one.
struct Posts {
    number: u32,
    /// Whether all threads post to the first one's QP.
    share: bool,
    threads: u32,
    posts: u32,
}

/// A QP, and what is needed to post to it.
struct Poster<P: Provider> {
    qp: Qp<P>,
    mr: Mr<P>,
    target: RemoteAddr,
    _cq: Cq<P>,
}

impl Posts {
    fn open<P: Provider>(&self, p: &P) -> Poster<P> {
        let Posts { number, share, .. } = *self;
        if number == 0 || !share {
            let node = Node::new(p, 4096, 1024);
            let target = node.connect(p, &format!("poster {number}"), &format!("target {number}"));
            if share {
                p.publish("shared", &node.qp.share().to_bytes());
                p.publish("target", &target.to_bytes());
            }
            return Poster { qp: node.qp, mr: node.mr, target, _cq: node.cq };
        }
        let shared = SharedQp::from_bytes(&p.lookup("shared")).expect("a shared QP");
        let target = RemoteAddr::from_bytes(&p.lookup("target")).expect("an address");
        let context = Context::open(p, 0).expect("a device");
        let joined = context.join(&shared).expect("the provider shares");
        let mem = p.alloc(4096, PageSize::Huge).expect("memory");
        let mr = joined.pd.reg_mr(mem, crate::common::ALL).expect("an MR");
        Poster { qp: joined.qp, mr, target, _cq: joined.send_cq }
    }

    fn meet<P: Provider>(&self, p: &P, what: &str) {
        p.publish(&format!("{what} {}", self.number), &[]);
        (0..self.threads).for_each(|thread| drop(p.lookup(&format!("{what} {thread}"))));
    }
}

impl Program for Posts {
    type Output = Vec<Time>;

    fn run<P: Provider>(self, p: P) -> Vec<Time> {
        let Poster { qp, mr, target, _cq } = self.open(&p);
        self.meet(&p, "open");
        let mut times = Vec::new();
        for _ in 0..self.posts {
            let sge = [mr.sge(0, 8)];
            qp.post_send(&[SendWr::new(0, SendOp::Read(target), &sge)]).expect("room");
            times.push(p.now());
        }
        self.meet(&p, "over");
        times
    }
}

/// The responder of a [`Posts`].
struct Target(u32);

impl Program for Target {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 4096, 16);
        node.connect(&p, &format!("target {}", self.0), &format!("poster {}", self.0));
        p.lookup(&format!("over {}", self.0));
    }
}

const POSTS: u32 = 60;

/// Picoseconds between two posts of all threads together, while all of them post in turn.
fn period(profile: &Profile, share: bool, threads: u32) -> f64 {
    let config = SimConfig { one_context: true, ..SimConfig::new(2) };
    let mut cluster = SimCluster::new(profile, config);
    let posters: Vec<Task<Vec<Time>>> = (0..threads)
        .map(|number| cluster.spawn(0, number, Posts { number, share, threads, posts: POSTS }))
        .collect();
    let targets = if share { 1 } else { threads };
    (0..targets).for_each(|number| drop(cluster.spawn(1, number, Target(number))));
    cluster.run().expect("the run ends");
    let times = posters[0].take().expect("times");
    (times[49] - times[9]).as_ps() as f64 / 40.0 / f64::from(threads)
}

#[test]
fn two_threads_on_one_qp_take_the_time_of_its_lines() {
    let cib = profile("cib");
    let [transfer, atomic] = [cib.host.line_transfer, cib.host.atomic_op].map(|span| span.as_ps());
    assert_eq!(period(&cib, true, 1), post(&cib.host) as f64, "nobody shares the QP");
    // Of two threads, one posts while the other spins. The holder's store invalidates the copy of the other
    // thread, which loads the line again and tries an atomic. Then the three guarded lines come over.
    let two = period(&cib, true, 2);
    assert_eq!(two, (6 * transfer + atomic + drained(&cib.host)) as f64);
}

#[test]
fn two_threads_on_one_register_take_the_time_of_its_line() {
    // Register 1 is the only one that is used, and it is shared.
    let profile = with_registers(2, 0);
    let Host { line_transfer, atomic_op, mmio_line, mmio_drain, .. } = profile.host;
    let [transfer, atomic, mmio, drain] =
        [line_transfer, atomic_op, mmio_line, mmio_drain].map(|span| span.as_ps());
    // A thread builds its WQE while the other holds the lock.
    assert_eq!(period(&profile, false, 2), (3 * transfer + atomic + mmio + drain) as f64);
    // With a register each, threads do not wait for each other.
    let apart = period(&with_registers(16, 4), false, 2);
    assert_eq!(apart, post(&profile.host) as f64 / 2.0);
}

#[test]
fn a_lock_is_handed_over_more_slowly_among_more_threads() {
    let cib = profile("cib");
    let shared: Vec<f64> = [2, 3, 4, 6, 8, 12].map(|threads| period(&cib, true, threads)).into();
    assert!(shared.is_sorted_by(|fewer, more| fewer < more), "{shared:?}");
    // Each further thread that spins loads the line, tries an atomic, and loads the line again.
    let Host { llc_hit, dma_line, line_transfer_queued, atomic_op, .. } = cib.host;
    let load = llc_hit.max(dma_line).as_ps();
    let least = (2 * load + line_transfer_queued.as_ps() + atomic_op.as_ps()) as f64;
    let each = (shared[5] - shared[4]) / 4.0;
    // The holder's own work hides a part of it.
    assert!(each > 0.7 * least && each < 1.3 * least, "{each} ps of {least}");
}

/// Polls the empty CQ of the first thread's QP. Returns the time of each poll.
struct Polls(Posts);

impl Program for Polls {
    type Output = Vec<Time>;

    fn run<P: Provider>(self, p: P) -> Vec<Time> {
        let Poster { qp: _qp, _cq: cq, .. } = self.0.open(&p);
        self.0.meet(&p, "open");
        let mut times = Vec::new();
        for _ in 0..self.0.posts {
            assert!(cq.poll(&mut [Wc::default()]).expect("a CQ").is_empty());
            times.push(p.now());
        }
        self.0.meet(&p, "over");
        times
    }
}

#[test]
fn two_threads_on_one_cq_take_the_time_of_its_lines() {
    let cib = profile("cib");
    let mut cluster = SimCluster::new(&cib, SimConfig::new(2));
    let polls = |number| Polls(Posts { number, share: true, threads: 2, posts: POSTS });
    let tasks: Vec<Task<Vec<Time>>> = (0..2).map(|number| cluster.spawn(0, number, polls(number))).collect();
    cluster.spawn(1, 0, Target(0));
    cluster.run().expect("the run ends");
    let times = tasks[0].take().expect("times");
    let Host { line_transfer, atomic_op, poll_empty, .. } = cib.host;
    let [transfer, atomic, poll] = [line_transfer, atomic_op, poll_empty].map(|span| span.as_ps());
    // The lock's line: a store, a load, and an atomic. Then the doorbell record comes over.
    let period = (times[49] - times[9]).as_ps() / 40 / 2;
    assert_eq!(period, 4 * transfer + atomic + poll);
}

/// Posts READs, and polls for a while. Threads that share a CQ find completions of each other.
struct Reads(Posts);

impl Program for Reads {
    type Output = (u32, Time);

    fn run<P: Provider>(self, p: P) -> (u32, Time) {
        let Poster { qp, mr, target, _cq: cq } = self.0.open(&p);
        self.0.meet(&p, "open");
        for n in 0..self.0.posts {
            let sge = [mr.sge(0, 8)];
            let wr = SendWr::new(n.into(), SendOp::Read(target), &sge).flags(SendFlags::SIGNALED);
            qp.post_send(&[wr]).expect("room");
        }
        let (mut found, mut wc) = (0, [Wc::default(); 4]);
        let deadline = p.now() + Span::from_us(200);
        while p.now() < deadline {
            found += cq.poll(&mut wc).expect("a CQ").len() as u32;
            p.pause(deadline);
        }
        let over = p.now();
        self.0.meet(&p, "over");
        (found, over)
    }
}

fn reads(skip_pauses: bool) -> (Vec<(u32, Time)>, Metrics) {
    let threads = 4;
    let config = SimConfig { skip_pauses, ..SimConfig::new(2) };
    let mut cluster = SimCluster::new(&profile("cib"), config);
    let tasks: Vec<Task<(u32, Time)>> = (0..threads)
        .map(|number| cluster.spawn(0, number, Reads(Posts { number, share: true, threads, posts: 10 })))
        .collect();
    cluster.spawn(1, 0, Target(0));
    cluster.run().expect("the run ends");
    (tasks.into_iter().map(|task| task.take().expect("a count")).collect(), cluster.metrics())
}

#[test]
fn threads_that_share_a_cq_find_each_completion_once() {
    let (found, metrics) = reads(true);
    assert_eq!(found.iter().map(|(found, _)| found).sum::<u32>(), 40, "{found:?}");
    let (again, same) = reads(true);
    assert_eq!((&found, metrics.event_hash), (&again, same.event_hash), "equal runs are equal");
    let (walked, without) = reads(false);
    assert_eq!((found, metrics.event_hash), (walked, without.event_hash), "skipped passes change nothing");
}

/// Tries to use the QP of the first thread of machine 0.
struct Joins;

impl Program for Joins {
    type Output = Result<(), VerbsError>;

    fn run<P: Provider>(self, p: P) -> Result<(), VerbsError> {
        let shared = SharedQp::from_bytes(&p.lookup("shared"))?;
        let joined = Context::open(&p, 0)?.join(&shared).map(|_| ());
        p.publish("tried", &[]);
        joined
    }
}

/// Shares a QP. Has other QPs, and creates one more after another thread has joined.
struct Shares;

impl Program for Shares {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 64, 4);
        let older = [Node::new(&p, 64, 4), Node::new(&p, 64, 4)];
        p.publish("shared", &node.qp.share().to_bytes());
        p.lookup("tried");
        let newer = Node::new(&p, 64, 4);
        drop((older, newer, node));
    }
}

#[test]
fn a_qp_that_cannot_be_shared_is_refused() {
    let join = |profile: &Profile, driver, machine| {
        let mut cluster = SimCluster::new(profile, SimConfig { driver, ..SimConfig::new(2) });
        cluster.spawn(0, 0, Shares);
        let task = cluster.spawn(machine, 1, Joins);
        cluster.run().expect("the run ends");
        task.take().expect("an answer").map_err(|error| error.to_string())
    };
    let (cib, usual) = (with_registers(16, 4), DriverSettings::default());
    assert_eq!(join(&cib, usual, 0), Ok(()));
    assert_eq!(join(&profile("cx3"), usual, 0), Ok(()));
    for (driver, machine, why) in [
        (DriverSettings { thread_domains: true, ..usual }, 0, "in a thread domain"),
        (DriverSettings { single_threaded: true, ..usual }, 0, "if MLX5_SINGLE_THREADED is set"),
        (usual, 1, "there is no such QP"),
    ] {
        let error = join(&cib, driver, machine).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn what_is_off_changes_no_event() {
    // Threads with registers of their own, and small WQEs: everything is as without registers.
    let run = |profile: &Profile, driver| {
        let mut cluster = SimCluster::new(profile, SimConfig { driver, ..SimConfig::new(2) });
        let (me, peer) = ("a".to_owned(), "b".to_owned());
        let task = cluster.spawn(0, 0, Reader { me: me.clone(), peer: peer.clone(), window: 8, rounds: 30 });
        cluster.spawn(1, 0, crate::common::Passive { me: peer, peer: me });
        cluster.run().expect("the run ends");
        (task.take().expect("times"), cluster.metrics().event_hash)
    };
    let usual = run(&profile("cib"), DriverSettings::default());
    assert_eq!(run(&with_registers(16, 4), DriverSettings::default()), usual, "a low-latency register");
    let domains = DriverSettings { thread_domains: true, ..DriverSettings::default() };
    assert_eq!(run(&with_registers(2, 0), domains), usual);
    assert_ne!(run(&with_registers(2, 0), DriverSettings::default()), usual, "a lock");
    // Settings of registers are of no effect without them.
    assert_eq!(run(&profile("cib"), domains), usual);
    let (times, _) = read_run(SimConfig::new(2), "cib", 1, 8, 30);
    assert_eq!(times.len(), 1);
}
