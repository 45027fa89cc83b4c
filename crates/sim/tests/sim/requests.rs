//! The store of requests in flight.

use crate::common::{Node, Passive, profile};
use doorbell_nic::{NicCache, Profile};
use doorbell_sim::{DeviceSlot, Machine, Metrics, SimCluster, SimConfig, WaitKind};
use doorbell_verbs::{Cluster, Program, Provider, SendFlags, SendOp, SendWr, Span, Time};

/// Requests that a program posts at a time.
const REQUESTS: usize = 8;

/// `cib` with a store of four requests. A response that misses its WQE costs 1 us. `tx_ns` is a sending
/// unit's time for any request, and `one_way_ns` the time on the cable.
fn with_store(tx_ns: u32, one_way_ns: u32) -> Profile {
    let entry = |key: &str, value: u32| {
        format!("{key} = {{ value = {value}, basis = \"assumed\", reason = \"r\", range = [0, 9999] }}\n")
    };
    let times = ["send_ns", "read_request_ns", "atomic_request_ns", "response_ns"].map(|key| (key, tx_ns));
    let none = ["idle_qp_ns", "payload_dma_ns", "gather_ns", "fetched_wqe_ns"].map(|key| (key, 0));
    let tx: String = times.into_iter().chain(none).map(|(key, value)| entry(key, value)).collect();
    let link = entry("one_way_ns", one_way_ns);
    let store = entry("entries", 4) + &entry("stall_ns", 1000);
    let text =
        format!("name = \"x\"\ntitle = \"x\"\nbase = \"cib\"\n[link]\n{link}[tx]\n{tx}[requests]\n{store}");
    Profile::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// Posts one request, so that its QP context is cached. Then posts all requests, and waits for them.
struct Posts {
    read: bool,
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
        let wrs = [SendWr::new(0, op, &sge).flags(SendFlags::SIGNALED); REQUESTS];
        let wait = || node.cq.wait(Time::NEVER).expect("a CQ");
        node.qp.post_send(&wrs[..1]).expect("room");
        wait();
        let per_post = if self.list { REQUESTS } else { 1 };
        wrs.chunks(per_post).for_each(|list| node.qp.post_send(list).expect("room"));
        wrs.iter().for_each(|_| drop(wait()));
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

#[test]
fn the_oldest_requests_in_flight_are_read_again_when_responses_complete_them() {
    let store = with_store(1, 9000);
    for read in [true, false] {
        // All eight requests are in flight before the first response comes. The store keeps the last four.
        // The request before them finds its WQE.
        let metrics = run(&store, Posts { read, list: false });
        assert_eq!(found(&metrics, NicCache::WqeInFlight), Some((5, 4)), "read {read}");
        assert_eq!(found(&metrics, NicCache::Wqe), Some((9, 0)), "read {read}");
        // A DMA read of a line for each miss.
        let plain = run(&profile("cib"), Posts { read, list: false });
        let again = metrics.pcie[0].dma_read_bytes - plain.pcie[0].dma_read_bytes;
        assert_eq!(again, 4 * 64, "read {read}");
        let stalled = metrics.waits.iter().find(|of| of.kind == WaitKind::Entry(NicCache::WqeInFlight));
        let us = stalled.expect("units stalled").mean * 1000.0;
        assert!((us - 4.0).abs() < 1e-6, "read {read}: {us} us");
    }
}

#[test]
fn a_request_that_a_doorbell_announced_enters_the_store_when_it_is_sent() {
    let slow = with_store(1000, 400);
    // By MMIO, all WQEs arrive while the unit works on the first request. The second request is no longer
    // among the last four. It enters again, and evicts the next one.
    let mmio = run(&slow, Posts { read: true, list: false });
    assert_eq!(found(&mmio, NicCache::Wqe), Some((2, 7)));
    // A WQE that the NIC reads by DMA is there when its request is sent.
    let list = run(&slow, Posts { read: true, list: true });
    assert_eq!(found(&list, NicCache::Wqe), Some((1, 0)));
}

#[test]
fn a_profile_without_a_store_has_two_caches() {
    let metrics = run(&profile("cib"), Posts { read: false, list: false });
    assert_eq!(found(&metrics, NicCache::WqeInFlight), None);
}
