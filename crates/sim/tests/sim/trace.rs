//! Traces and captures of runs that the command does not make: faulty links, several devices, time-outs,
//! resets.

use crate::common::trace::{Buffer, Captured, Trace, check_psns, names, read_pcapng};
use crate::common::{Node, PingPong, Reader, profile};
use doorbell_sim::{DeviceSlot, Layers, Machine, Metrics, PathsOf, SimCluster, SimConfig, Traced, Tracing};
use doorbell_verbs::{
    Cluster, ConnectAttr, Endpoint, Program, Provider, QpAttr, QpState, SendFlags, SendOp, SendWr, Span, Time,
};
use std::io::Write;

/// The results of a traced run.
struct Seen {
    metrics: Metrics,
    traced: Traced,
    trace: Trace,
    packets: Vec<Captured>,
}

/// Runs a cluster twice, without and with a trace. The trace must change nothing.
fn traced(operations: u64, mut make: impl FnMut() -> SimCluster) -> Seen {
    let mut without = make();
    without.run().expect("a run to its end");
    let (trace, pcap) = (Buffer::default(), Buffer::default());
    let mut cluster = make();
    cluster.trace(Tracing {
        trace: Some(Box::new(trace.clone())),
        pcap: Some(Box::new(pcap.clone())),
        from: Some(Time::START),
        operations,
        paths: None,
    });
    cluster.run().expect("a run to its end");
    let traced = cluster.end_trace().expect("a trace");
    assert!(cluster.end_trace().is_none(), "a trace ends once");
    let metrics = cluster.metrics();
    assert_eq!(metrics, without.metrics(), "a trace changes nothing");
    let (trace, packets) = (Trace::read(&trace.take()), read_pcapng(&pcap.take()));
    Seen { metrics, traced, trace, packets }
}

/// WRITEs and READs two packets' worth in turn, `rounds` times.
struct Works {
    rounds: u64,
}

impl Program for Works {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 1 << 16, 64);
        let remote = node.connect_hastily(&p, "a", "b");
        let sge = [node.mr.sge(0, 6000)];
        for _ in 0..self.rounds {
            for op in [SendOp::Write(remote), SendOp::Read(remote)] {
                let wr = SendWr::new(1, op, &sge).flags(SendFlags::SIGNALED);
                node.qp.post_send(&[wr]).expect("room");
                node.cq.wait(Time::NEVER).expect("a CQ").expect("a completion");
            }
        }
        p.publish("over", &[]);
    }
}

/// Serves as the target of the peer's WRITEs and READs.
struct Serves;

impl Program for Serves {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 1 << 16, 64);
        node.connect_hastily(&p, "b", "a");
        p.lookup("over");
    }
}

fn on_bad_links(layers: Layers) -> Seen {
    traced(200, || {
        let config = SimConfig { layers: Layers { reliable: true, ..layers }, seed: 3, ..SimConfig::new(2) };
        let mut cluster = SimCluster::new(&profile("cib"), config);
        cluster.spawn(0, 0, Works { rounds: 100 });
        cluster.spawn(1, 0, Serves);
        cluster
    })
}

#[test]
fn packets_that_are_lost_are_marked() {
    let seen = on_bad_links(Layers { loss_ppm: 30_000, ..Layers::NONE });
    assert_eq!(seen.traced.operations, 200);
    assert!(seen.metrics.lost > 3, "{}", seen.metrics.lost);
    let lost = seen.packets.iter().filter(|c| c.comment.as_deref() == Some("lost on its link")).count();
    assert_eq!(lost as u64, seen.metrics.lost);
    check_psns(&seen.packets, 4096);
    let operations = seen.trace.operations();
    let waits =
        operations.iter().filter(|(_, stages)| names(stages).contains(&"waits for a time-out or NAK"));
    assert!(waits.clone().count() > 3);
    for (operation, stages) in waits {
        let names = names(stages);
        let at = names.iter().position(|name| *name == "waits for a time-out or NAK").unwrap();
        assert_eq!(names[at - 1], "link: packet lost", "{operation:?}");
        assert_eq!(*names.last().unwrap(), "poll", "{operation:?}: it is sent again");
    }
}

#[test]
fn packets_that_are_doubled_or_held_up_are_marked() {
    let layers = Layers { duplicate_ppm: 50_000, delay_ppm: 50_000, delay: Span::from_us(1), ..Layers::NONE };
    let seen = on_bad_links(layers);
    let with = |what: &str| {
        seen.packets.iter().filter(|c| c.comment.as_ref().is_some_and(|c| c.contains(what))).count()
    };
    assert!(with("arrives twice") > 3 && with("delayed by") > 3);
    assert!(seen.packets.is_sorted_by_key(|c| c.time));
    assert_eq!(seen.trace.operations().len(), 200);
}

#[test]
fn machines_with_several_devices_say_which() {
    let (cib, cx3) = (profile("cib"), profile("cx3"));
    let slots = [DeviceSlot { profile: &cib, socket: 0 }, DeviceSlot { profile: &cx3, socket: 1 }];
    let seen = traced(10, || {
        let machines =
            [Machine { host: &cib, devices: &slots }, Machine { host: &cx3, devices: &slots[1..] }];
        let mut cluster = SimCluster::of(&machines, SimConfig::new(2));
        let [a, b] = [("a", "b"), ("b", "a")].map(|(me, peer)| (me.to_owned(), peer.to_owned()));
        cluster.spawn(0, 0, Reader { me: a.0, peer: a.1, window: 2, rounds: 3 });
        cluster.spawn(1, 0, Reader { me: b.0, peer: b.1, window: 2, rounds: 3 });
        cluster
    });
    let operations = seen.trace.operations();
    let mut tracks: Vec<(&str, &str)> = operations.iter().map(|(o, _)| (&*o.process, &*o.track)).collect();
    tracks.sort_unstable();
    tracks.dedup();
    assert_eq!(tracks, [("machine 0 (cib, cx3)", "device 0 QP 64"), ("machine 1 (cx3)", "QP 64")]);
    assert_eq!(operations.len(), 10);
    assert!(seen.traced.reached_limit && seen.traced.unfinished == 0, "{:?}", seen.traced);
}

/// Posts READs, and resets its QP before they complete.
struct Resets;

impl Program for Resets {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 1 << 16, 64);
        let remote = node.connect_hastily(&p, "a", "b");
        let sge = [node.mr.sge(0, 64)];
        for round in 0..2 {
            let wr = SendWr::new(round, SendOp::Read(remote), &sge).flags(SendFlags::SIGNALED);
            node.qp.post_send(&[wr, wr]).expect("room");
            node.qp.modify(&QpAttr::state(QpState::Reset)).expect("a reset");
            let peer = Endpoint::from_bytes(&p.lookup("b/qp")).expect("an endpoint");
            node.qp.connect(1, &peer, &ConnectAttr::default()).expect("a connection");
        }
        p.publish("over", &[]);
    }
}

#[test]
fn operations_of_a_qp_that_is_reset_are_given_up() {
    let seen = traced(10, || {
        let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(2));
        cluster.spawn(0, 0, Resets);
        cluster.spawn(1, 0, Serves);
        cluster
    });
    let operations = seen.trace.operations();
    let ends: Vec<&str> = operations.iter().map(|(o, _)| o.texts["end"].as_str()).collect();
    assert_eq!(ends, ["the QP was reset", "the QP was reset", "unfinished", "unfinished"]);
}

/// A file on a disk with room for this many bytes. Once a write has failed, further writes succeed.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let left = self.0.checked_sub(bytes.len());
        self.0 = left.unwrap_or(usize::MAX);
        left.map(|_| bytes.len()).ok_or(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_run_outlives_its_files() {
    for room in [0, 100_000] {
        let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(2));
        cluster.spawn(0, 0, Works { rounds: 300 });
        cluster.spawn(1, 0, Serves);
        let trace: Option<Box<dyn Write + Send>> = Some(Box::new(Full(room)));
        cluster.trace(Tracing { trace, pcap: None, from: Some(Time::START), operations: 1000, paths: None });
        cluster.run().expect("a run to its end");
        let traced = cluster.end_trace().expect("a trace");
        assert_eq!(traced.trace.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        assert!(traced.pcap.is_ok());
        assert_eq!(traced.operations, 600);
    }
}

/// Posts READs one after another, without polling in between.
struct PostsOn;

impl Program for PostsOn {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 1 << 16, 64);
        let remote = node.connect_hastily(&p, "a", "b");
        let sge = [node.mr.sge(0, 64)];
        for _ in 0..4 {
            let wr = SendWr::new(1, SendOp::Read(remote), &sge).flags(SendFlags::SIGNALED);
            node.qp.post_send(&[wr]).expect("room");
        }
        for _ in 0..4 {
            node.cq.wait(Time::NEVER).expect("a CQ").expect("a completion");
        }
        p.publish("over", &[]);
    }
}

#[test]
fn each_post_is_seen_with_its_mmio() {
    let seen = traced(4, || {
        let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(2));
        cluster.spawn(0, 0, PostsOn);
        cluster.spawn(1, 0, Serves);
        cluster
    });
    let operations = seen.trace.operations();
    assert_eq!(operations.len(), 4);
    for (operation, stages) in operations {
        assert_eq!(names(&stages)[..3], ["post", "MMIO", "PCIe"], "{operation:?}");
    }
}

/// The stages of a message of 8 bytes by WRITE, from the post until a thread finds it.
const MESSAGE: [&str; 9] = [
    "program",
    "post",
    "MMIO",
    "PCIe",
    "sending unit",
    "link",
    "receiving unit",
    "DMA write: message",
    "waits for the program",
];

#[test]
fn messages_that_threads_mark_form_one_path() {
    const ROUNDS: u64 = 6;
    let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(2));
    let work = Span::ZERO;
    let first = cluster.spawn(0, 0, PingPong { first: true, rounds: ROUNDS, work });
    cluster.spawn(1, 0, PingPong { first: false, rounds: ROUNDS, work });
    let paths = Some(PathsOf::MarkedOperations);
    cluster.trace(Tracing { trace: None, pcap: None, from: Some(Time::START), operations: 4, paths });
    cluster.run().expect("a run to its end");
    let found = first.take().expect("a result");
    let Traced { paths, without_path, operations, .. } = cluster.end_trace().expect("a trace");
    assert_eq!((paths.len(), without_path, operations), (4, 0, 8));
    for (path, found) in paths.iter().zip(&found) {
        assert_eq!((path.name.as_str(), path.machine), ("WRITE 8 B, WRITE 8 B", 0));
        assert!(path.stages.windows(2).all(|pair| pair[0].to == pair[1].from), "{path:?}");
        assert_eq!(path.stages.last().map(|stage| stage.to), Some(*found), "{path:?}");
    }
    // The NICs are warm from the second round on.
    for path in &paths[1..] {
        let names: Vec<&str> = path.stages.iter().map(|stage| stage.stage.name()).collect();
        assert_eq!(names, [MESSAGE, MESSAGE].concat());
        let machines: Vec<Option<u32>> = path.stages.iter().map(|stage| stage.machine).collect();
        let (own, other) = (Some(0), Some(1));
        let there = [own, own, own, own, own, None, other, other, other];
        let back = [other, other, other, other, other, None, own, own, own];
        assert_eq!(machines, [there, back].concat());
    }
}
