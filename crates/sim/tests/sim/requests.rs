//! The store of requests in flight.

use crate::common::{Node, Passive, profile};
use doorbell_nic::{NicCache, Profile};
use doorbell_sim::{DeviceSlot, Machine, Metrics, SimCluster, SimConfig, WaitKind};
use doorbell_verbs::{Cluster, Program, Provider, SendFlags, SendOp, SendWr, Span, Time};

/// Requests that a program posts at a time.
const REQUESTS: usize = 8;

/// `cib` with a store of `entries` requests. A response that misses its WQE costs 1 us. `tx_ns` is a sending
/// unit's time for any request, and `one_way_ns` the time on the cable.
fn with_store(entries: u32, tx_ns: u32, one_way_ns: u32) -> Profile {
    let entry = |key: &str, value: u32| {
        format!("{key} = {{ value = {value}, basis = \"assumed\", reason = \"r\", range = [0, 9999] }}\n")
    };
    let times = ["send_ns", "read_request_ns", "atomic_request_ns", "response_ns"].map(|key| (key, tx_ns));
    let none = ["idle_qp_ns", "payload_dma_ns", "gather_ns", "fetched_wqe_ns"].map(|key| (key, 0));
    let tx: String = times.into_iter().chain(none).map(|(key, value)| entry(key, value)).collect();
    let link = entry("one_way_ns", one_way_ns);
    let store = entry("entries", entries) + &entry("stall_ns", 1000);
    let text =
        format!("name = \"x\"\ntitle = \"x\"\nbase = \"cib\"\n[link]\n{link}[tx]\n{tx}[requests]\n{store}");
    Profile::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// Posts one request, so that its QP context is cached. Then posts all requests, and waits for the signalled
/// ones.
struct Posts {
    read: bool,
    /// Whether all requests are signalled. Otherwise only the last one is.
    signal_all: bool,
    /// Whether the requests are one list, which a Doorbell announces. Otherwise each WQE goes by MMIO.
    list: bool,
}

impl Program for Posts {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 4096, 16);
        let remote = node.connect(&p, "a", "b");
        let op = if self.read { SendOp::Read(remote) } else { SendOp::Write(remote) };
        let sge = [node.mr.sge(0, 8)];
        let signalled = SendWr::new(0, op, &sge).flags(SendFlags::SIGNALED);
        let mut wrs = [if self.signal_all { signalled } else { SendWr::new(0, op, &sge) }; REQUESTS];
        wrs[REQUESTS - 1] = signalled;
        let wait = || node.cq.wait(Time::NEVER).expect("a CQ");
        node.qp.post_send(&[signalled]).expect("room");
        wait();
        let per_post = if self.list { REQUESTS } else { 1 };
        wrs.chunks(per_post).for_each(|list| node.qp.post_send(list).expect("room"));
        for _ in wrs.iter().filter(|wr| wr.flags.contains(SendFlags::SIGNALED)) {
            wait();
        }
        // The NIC may still read the last WQE again.
        p.work(Span::from_us(10));
        p.publish("a/over", &[]);
    }
}

/// The metrics of a run. The responder has profile cib.
fn run(requester: &Profile, posts: Posts) -> Metrics {
    let cib = profile("cib");
    let slots = [requester, &cib].map(|profile| [DeviceSlot { profile, socket: 0 }]);
    let machines = [0, 1].map(|n| Machine { host: slots[n][0].profile, devices: &slots[n] });
    let config = SimConfig { window: (Time::START, Span::from_us(1000)), ..SimConfig::new(2) };
    let mut cluster = SimCluster::of(&machines, config);
    cluster.spawn(1, 0, Passive { me: "b".to_owned(), peer: "a".to_owned() });
    cluster.spawn(0, 0, posts);
    cluster.run().expect("the run ends");
    cluster.metrics()
}

/// Hits and misses of a cache of machine 0; `None` if it has no such cache.
fn found(metrics: &Metrics, cache: NicCache) -> Option<(u64, u64)> {
    let of = metrics.caches.iter().find(|of| of.machine == 0 && of.cache == cache)?;
    Some((of.hits, of.misses))
}

/// Requests in flight whose responses all come after the last request was sent.
fn all_in_flight(entries: u32, read: bool, signal_all: bool) -> Metrics {
    run(&with_store(entries, 1, 9000), Posts { read, signal_all, list: false })
}

#[test]
fn requests_that_the_store_no_longer_holds_are_read_again_when_responses_complete_them() {
    for read in [true, false] {
        let plain = run(&profile("cib"), Posts { read, signal_all: true, list: false });
        // Before the eight requests in flight, there is one that finds its WQE. A store for seven lacks the
        // first of the eight. When the NIC has read it again, the store lacks the second, and so on.
        for (entries, misses) in [(8, 0), (7, 8)] {
            let metrics = all_in_flight(entries, read, true);
            assert_eq!(found(&metrics, NicCache::WqeInFlight), Some((9 - misses, misses)), "read {read}");
            assert_eq!(found(&metrics, NicCache::Wqe), Some((9, 0)), "read {read}");
            // A DMA read of a line, and 1 us of the receiving unit, for each miss.
            let again = metrics.pcie[0].dma_read_bytes - plain.pcie[0].dma_read_bytes;
            assert_eq!(again, misses * 64, "read {read}");
            let kind = WaitKind::Entry(NicCache::WqeInFlight);
            let us = metrics.waits.iter().find(|of| of.kind == kind).map_or(0.0, |of| of.mean * 1000.0);
            assert!((us - misses as f64).abs() < 1e-6, "read {read}: {us} us");
        }
    }
}

#[test]
fn a_request_that_a_doorbell_announced_enters_the_store_when_it_is_sent() {
    let slow = with_store(4, 1000, 400);
    // By MMIO, all WQEs arrive while the unit works on the first request. The second request is no longer
    // among the last four. It enters again, and evicts the next one.
    let mmio = run(&slow, Posts { read: true, signal_all: true, list: false });
    assert_eq!(found(&mmio, NicCache::Wqe), Some((2, 7)));
    // A WQE that the NIC reads by DMA is there when its request is sent.
    let list = run(&slow, Posts { read: true, signal_all: true, list: true });
    assert_eq!(found(&list, NicCache::Wqe), Some((1, 0)));
}

#[test]
fn only_data_and_cqes_need_the_wqe_of_a_completed_request() {
    // Of the eight requests, only the last is signalled. The request before them is signalled, too.
    let looked_up = |read| found(&all_in_flight(7, read, false), NicCache::WqeInFlight);
    assert_eq!(looked_up(true), Some((1, 8)));
    assert_eq!(looked_up(false), Some((2, 0)));
}

#[test]
fn a_profile_without_a_store_has_two_caches() {
    let metrics = run(&profile("cib"), Posts { read: false, signal_all: true, list: false });
    assert_eq!(found(&metrics, NicCache::WqeInFlight), None);
}
