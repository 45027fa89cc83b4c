//! Costs of a NIC's translation misses.

use crate::common::{ALL, profile};
use doorbell_nic::Profile;
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_verbs::{
    Cluster, ConnectAttr, Context, Endpoint, PageSize, Program, Provider, QpCap, QpInitAttr, QpType,
    RemoteAddr, SendFlags, SendOp, SendWr, Time,
};

const PAGE: u64 = 4096;
const PAGES: u64 = 8;

/// The pages that an operation uses at each end, and the number of operations in flight.
#[derive(Clone, Copy)]
struct Use {
    local: fn(u64) -> u64,
    remote: fn(u64) -> u64,
    window: u64,
    size: u32,
    op: fn(RemoteAddr) -> SendOp,
}

const FIRST: fn(u64) -> u64 = |_| 0;
const TURNS: fn(u64) -> u64 = |n| n % PAGES;

/// Posts operations, or serves as their target. Returns the mean time of an operation.
struct End {
    does: Option<Use>,
    /// Number of this pair of ends.
    pair: u32,
}

impl Program for End {
    type Output = u64;

    fn run<P: Provider>(self, p: P) -> u64 {
        let names = ["a", "b"].map(|name| format!("{name}{}", self.pair));
        let [me, peer] = if self.does.is_some() { &names } else { &[names[1].clone(), names[0].clone()] };
        let over = format!("over{}", self.pair);
        let context = Context::open(&p, 0).expect("a device");
        let pd = context.alloc_pd().expect("a PD");
        let cq = context.create_cq(64).expect("a CQ");
        let mr = pd.reg_mr(p.alloc(PAGES * PAGE, PageSize::Small).expect("memory"), ALL).expect("an MR");
        let cap = QpCap { max_send_wr: 32, ..QpCap::default() };
        let qp = pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap)).expect("a QP");
        p.publish(&format!("{me}/qp"), &qp.endpoint(1).expect("port 1").to_bytes());
        p.publish(&format!("{me}/mem"), &mr.remote(0).to_bytes());
        let endpoint = Endpoint::from_bytes(&p.lookup(&format!("{peer}/qp"))).expect("an endpoint");
        qp.connect(1, &endpoint, &ConnectAttr::default()).expect("a connection");
        p.publish(&format!("{me}/ready"), &[]);
        p.lookup(&format!("{peer}/ready"));
        let Some(does) = self.does else {
            p.lookup(&over);
            return 0;
        };
        let remote = RemoteAddr::from_bytes(&p.lookup(&format!("{peer}/mem"))).expect("an address");
        let post = |n: u64| {
            let sge = [mr.sge(PAGE * (does.local)(n), does.size)];
            let op = (does.op)(remote.at(PAGE * (does.remote)(n)));
            qp.post_send(&[SendWr::new(n, op, &sge).flags(SendFlags::SIGNALED)]).expect("room");
        };
        let (warm, all) = (32, 544);
        let mut begun = Time::START;
        (0..does.window).for_each(post);
        for n in 0..all {
            cq.wait(Time::NEVER).expect("a CQ");
            if n == warm {
                begun = p.now();
            }
            post(does.window + n);
        }
        let took = (p.now().as_ps() - begun.as_ps()) / (all - warm);
        for _ in 0..does.window {
            cq.wait(Time::NEVER).expect("a CQ");
        }
        p.publish(&over, &[]);
        took / 1000
    }
}

/// Nanoseconds of an operation.
fn takes(profile: &Profile, does: Use) -> u64 {
    of_pairs(profile, does, 1)
}

/// Nanoseconds of the first thread's operations. Each thread has its own peer, and later ones use longer
/// operations.
fn of_pairs(profile: &Profile, does: Use, pairs: u32) -> u64 {
    let mut cluster = SimCluster::new(profile, SimConfig::new(2));
    let begin = |pair| {
        cluster.spawn(1, pair, End { does: None, pair });
        let does = Use { size: does.size * (1 + pair), ..does };
        cluster.spawn(0, pair, End { does: Some(does), pair })
    };
    let tasks: Vec<_> = (0..pairs).map(begin).collect();
    cluster.run().expect("the run ends");
    tasks[0].take().expect("a result")
}

/// A NIC that holds `entries` translations.
fn with_entries(entries: u32) -> Profile {
    let mut profile = profile("cx3");
    profile.device.caches.translation_entries = entries;
    profile
}

fn ns(profile: &Profile) -> u64 {
    (profile.device.caches.translation_stall + profile.device.pcie.read_latency).as_ps() / 1000
}

#[test]
fn an_operation_waits_for_each_translation_that_is_missing() {
    let (few, all) = (with_entries(1), with_entries(64));
    let alone = |op, local, remote| Use { local, remote, window: 1, size: 64, op };
    for op in [SendOp::Read as fn(RemoteAddr) -> SendOp, SendOp::Write] {
        let least = takes(&all, alone(op, TURNS, TURNS));
        let adds = |local, remote| takes(&few, alone(op, local, remote)) - least;
        let stall = ns(&few);
        // A WRITE's ACK does not wait until the data is in memory.
        let at_responder = u64::from(matches!(op(RemoteAddr { addr: 0, rkey: 0 }), SendOp::Read(_)));
        for (found, misses) in
            [(adds(FIRST, FIRST), 0), (adds(TURNS, FIRST), 1), (adds(FIRST, TURNS), at_responder)]
        {
            assert!(found.abs_diff(misses * stall) < stall / 4, "{found} ns for {misses} misses of {stall}");
        }
    }
}

#[test]
fn a_miss_holds_its_unit() {
    let (few, all) = (with_entries(1), with_entries(64));
    for op in [SendOp::Read as fn(RemoteAddr) -> SendOp, SendOp::Write] {
        for (local, remote) in [(TURNS, FIRST), (FIRST, TURNS)] {
            let does = Use { local, remote, window: 16, size: 64, op };
            let (hit, miss) = (takes(&all, does), takes(&few, does));
            assert!(hit < ns(&few) && miss > ns(&few), "{miss} ns with misses, {hit} without");
        }
    }
}

/// A write of several lines may follow one that waited for a translation. The link keeps their order.
#[test]
fn what_waits_is_not_overtaken() {
    const AT_TIMES: fn(u64) -> u64 = |n| if n.is_multiple_of(3) { n % PAGES } else { 0 };
    for (entries, size) in [(1, 70), (2, 65), (4, 80)] {
        let does = Use { local: FIRST, remote: AT_TIMES, window: 16, size, op: SendOp::Write };
        let [some, none] = [entries, 64].map(|entries| of_pairs(&with_entries(entries), does, 3));
        assert!(some > none, "{some} ns with misses, {none} without");
    }
}
