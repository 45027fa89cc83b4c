//! Kernel TCP: the guarantees of sockets, the load on links and PCIe, and the core time of interrupts.

use crate::common::{Node, profile};
use allocation_counter::measure;
use doorbell_nic::{Profile, Tcp};
use doorbell_sim::{Meter, Metrics, SimCluster, SimConfig, Tracing};
use doorbell_verbs::{
    Cluster, PageSize, Program, Provider, RunError, Scan, SendFlags, SendOp, SendWr, SocketError,
    SocketHandle, Span, TcpListener, TcpStream, Time, Touch,
};
use proptest::prelude::*;
use std::net::SocketAddr;

/// Data bytes of an Ethernet frame with TCP timestamps.
const MSS: u64 = 1448;

fn e7520() -> Profile {
    profile("e7520-t4")
}

fn with(change: impl FnOnce(&mut Tcp)) -> Profile {
    let mut profile = e7520();
    change(profile.tcp.as_mut().expect("a profile with TCP"));
    profile
}

/// Byte `number` of a stream.
fn byte(stream: u64, number: u64) -> u8 {
    (number.wrapping_mul(0x9e37_79b9).wrapping_add(stream * 77) >> 7) as u8
}

/// Defines a program with a generic body, as programs are generic.
macro_rules! program {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* } -> $out:ty, |$self:ident, $p:ident| $body:block) => {
        $(#[$doc])*
        #[derive(Clone)]
        struct $name { $($field: $type),* }

        impl Program for $name {
            type Output = $out;
            fn run<P: Provider>($self, $p: P) -> $out $body
        }
    };
}

fn announce<P: Provider>(p: &P) -> TcpListener<P> {
    let listener = TcpListener::bind(p).expect("a port");
    p.publish("address", listener.address().to_string().as_bytes());
    listener
}

fn address<P: Provider>(p: &P) -> SocketAddr {
    String::from_utf8(p.lookup("address")).expect("text").parse().expect("an address")
}

/// Sends a stream in pieces of these sizes.
fn send_stream<P: Provider>(p: &P, to: &TcpStream<P>, stream: u64, pieces: &[u64]) {
    let most = pieces.iter().copied().max().unwrap_or(0).max(1);
    let mem = p.alloc(most + 64, PageSize::Huge).expect("memory");
    let mut sent = 0;
    for (n, piece) in (0..).zip(pieces) {
        let offset = n % 64;
        let bytes: Vec<u8> = (sent..sent + piece).map(|i| byte(stream, i)).collect();
        p.write(mem, offset, &bytes);
        to.send(mem, offset, *piece).expect("a connection");
        sent += piece;
    }
}

/// Receives a stream to its end, in pieces of at most these sizes, in turn. Returns the stream's length.
fn take_stream<P: Provider>(p: &P, from: &TcpStream<P>, stream: u64, pieces: &[u64]) -> u64 {
    let most = pieces.iter().copied().max().expect("some pieces");
    let mem = p.alloc(most + 64, PageSize::Huge).expect("memory");
    let mut taken = 0;
    for (n, piece) in (0..).zip(pieces.iter().cycle()) {
        let offset = n % 64;
        let got = from.recv(mem, offset, *piece).expect("a connection");
        if got == 0 {
            break;
        }
        let mut bytes = vec![0; got as usize];
        p.read(mem, offset, &mut bytes);
        let same = (taken..).zip(&bytes).all(|(i, b)| *b == byte(stream, i));
        assert!(same, "bytes {taken} to {} of stream {stream} are what was sent", taken + got);
        taken += got;
    }
    taken
}

program! {
    /// Sends a stream to the first peer that connects.
    Sender { pieces: Vec<u64> } -> (), |self, p| {
        let peer = announce(&p).accept().expect("a connection");
        send_stream(&p, &peer, 0, &self.pieces);
    }
}

program! {
    /// Receives a stream. Returns its length and the time of its end. Stays until nothing more happens.
    Taker { pieces: Vec<u64>, wait: Span } -> (u64, Time), |self, p| {
        let peer = TcpStream::connect(&p, address(&p)).expect("a server");
        p.work(self.wait);
        let taken = take_stream(&p, &peer, 0, &self.pieces);
        let at = p.now();
        drop(peer);
        p.work(Span::from_ms(1));
        p.publish("over", &[]);
        (taken, at)
    }
}

program! {
    /// Receives everything until the stream ends.
    Drain { } -> (), |self, p| {
        let peer = TcpStream::connect(&p, address(&p)).expect("a server");
        let mem = p.alloc(1 << 20, PageSize::Huge).expect("memory");
        while peer.recv(mem, 0, 1 << 20).expect("a connection") > 0 {}
    }
}

fn config(machines: u32) -> SimConfig {
    SimConfig { window: (Time::START, Span::from_ms(1000)), ..SimConfig::new(machines) }
}

/// Sends a stream from one machine to another.
fn stream(profile: &Profile, sent: &[u64], taken: &[u64], wait: Span) -> (u64, Time, Metrics) {
    let mut cluster = SimCluster::new(profile, config(2));
    cluster.spawn(0, 0, Sender { pieces: sent.to_vec() });
    let taker = cluster.spawn(1, 0, Taker { pieces: taken.to_vec(), wait });
    cluster.run().expect("both come to their end");
    let (bytes, at) = taker.take().expect("it has ended");
    (bytes, at, cluster.metrics())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Bytes arrive in order, for any sizes of pieces, offloads and buffers.
    #[test]
    fn bytes_arrive_in_order(
        sent in prop::collection::vec(prop_oneof![0u64..100, 1400u64..1500, 1u64..90_000], 1..8),
        taken in prop::collection::vec(prop_oneof![1u64..100, 1000u64..200_000], 1..4),
        offload: bool,
        merged in prop_oneof![Just(1u32), Just(2u32), Just(17u32)],
        buffers in prop_oneof![Just((4096u64, 4096u64)), Just((5000, 70_001)), Just((1 << 20, 1 << 21))],
        wait in 0u64..3000,
        mtu in prop_oneof![Just(1500u32), Just(576), Just(9000)],
    ) {
        let profile = with(|tcp| {
            (tcp.mtu, tcp.segmentation_offload, tcp.merged_frames) = (mtu, offload, merged);
            (tcp.send_buffer, tcp.receive_buffer) = buffers;
        });
        // Receiving a long stream in tiny pieces would take long.
        let most = sent.iter().sum::<u64>() / 400;
        let taken: Vec<u64> = taken.into_iter().map(|n| n.max(most)).collect();
        let (bytes, ..) = stream(&profile, &sent, &taken, Span::from_us(wait));
        prop_assert_eq!(bytes, sent.iter().sum::<u64>());
    }
}

#[test]
fn the_same_run_twice_is_the_same() {
    let run = || stream(&e7520(), &[300_000, 1, 5_000], &[20_000], Span::from_us(50));
    let (one, other) = (run(), run());
    assert_eq!(one, other);
    assert!(one.2.event_hash != 0);
}

program! {
    /// Sends and receives a stream on each of several connections, which are made one after another.
    Both { serves: bool, bytes: u64, connections: u64 } -> Vec<u64>, |self, p| {
        let listener = self.serves.then(|| announce(&p));
        let peers: Vec<TcpStream<P>> = (0..self.connections)
            .map(|_| match &listener {
                Some(listener) => listener.accept().expect("a connection"),
                None => TcpStream::connect(&p, address(&p)).expect("a server"),
            })
            .collect();
        for (n, peer) in (0..).zip(&peers) {
            send_stream(&p, peer, n, &[self.bytes]);
        }
        let mem = p.alloc(self.bytes, PageSize::Huge).expect("memory");
        let take = |(n, peer): (u64, &TcpStream<P>)| {
            peer.recv_exact(mem, 0, self.bytes).expect("a stream");
            let mut bytes = vec![0; self.bytes as usize];
            p.read(mem, 0, &mut bytes);
            assert!((0..).zip(&bytes).all(|(i, b)| *b == byte(n, i)));
            self.bytes
        };
        (0..).zip(&peers).map(take).collect()
    }
}

#[test]
fn both_directions_of_several_connections_at_once() {
    let mut cluster = SimCluster::new(&e7520(), config(2));
    let tasks = [true, false]
        .map(|serves| cluster.spawn(u32::from(serves), 0, Both { serves, bytes: 100_000, connections: 3 }));
    cluster.run().expect("both come to their end");
    for task in tasks {
        assert_eq!(task.take(), Some(vec![100_000; 3]));
    }
}

program! {
    /// Makes requests that must fail.
    Refused {} -> (), |self, p| {
        let listening = address(&p);
        let nobody = SocketAddr::new(listening.ip(), 40_000);
        assert_eq!(TcpStream::connect(&p, nobody).err(), Some(SocketError::Refused(nobody)));
        let far = SocketAddr::new([10, 200, 0, 1].into(), 32_768);
        assert!(matches!(TcpStream::connect(&p, far).err(), Some(SocketError::Errno { .. })));
        let own = TcpListener::bind(&p).expect("a port").address();
        assert!(matches!(TcpStream::connect(&p, own).err(), Some(SocketError::Unsupported(_))));
        let mem = p.alloc(64, PageSize::Huge).expect("memory");
        assert!(matches!(p.tcp_send(SocketHandle(1 << 20), mem, 0, 1), Err(SocketError::Invalid(_))));
        assert!(matches!(p.tcp_recv(SocketHandle(0), mem, 0, 1), Err(SocketError::Invalid(_))));
        assert!(matches!(p.tcp_poll(&[SocketHandle(77)], p.now()), Err(SocketError::Invalid(_))));
        p.publish("over", &[]);
    }
}

program! {
    /// Listens, but accepts no connection.
    Deaf {} -> (), |self, p| {
        let listener = announce(&p);
        p.lookup("over");
        drop(listener);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut cluster = SimCluster::new(&e7520(), config(2));
    cluster.spawn(0, 0, Deaf {});
    cluster.spawn(1, 0, Refused {});
    cluster.run().expect("both come to their end");
}

program! {
    /// Tries to listen. Returns the error.
    Listens {} -> String, |self, p| {
        TcpListener::bind(&p).err().expect("a machine without TCP").to_string()
    }
}

#[test]
fn a_profile_without_tcp_says_so_in_a_sentence() {
    let mut cluster = SimCluster::new(&profile("cib"), config(1));
    let task = cluster.spawn(0, 0, Listens {});
    cluster.run().expect("it comes to its end");
    let why = task.take().expect("it has ended");
    assert!(why.contains("[tcp]"), "{why}");
}

program! {
    /// Sends twice, with a pause in between, and closes.
    Slowly { pause: Span } -> (), |self, p| {
        let peer = announce(&p).accept().expect("a connection");
        let mem = p.alloc(64, PageSize::Huge).expect("memory");
        peer.send(mem, 0, 10).expect("a connection");
        p.work(self.pause);
        peer.send(mem, 0, 20).expect("a connection");
    }
}

program! {
    /// Polls. Checks readiness, times and costs.
    Polls { pause: Span } -> (), |self, p| {
        let peer = TcpStream::connect(&p, address(&p)).expect("a server");
        let mem = p.alloc(64, PageSize::Huge).expect("memory");
        assert!(peer.poll(Time::NEVER).expect("a connection"));
        assert_eq!(peer.recv(mem, 0, 64), Ok(10));
        let begun = p.now();
        let deadline = begun + Span::from_us(30);
        assert!(!peer.poll(deadline).expect("a connection"), "nothing comes before the deadline");
        assert!(p.now() >= deadline && p.now() < deadline + Span::from_us(10));
        assert!(!peer.poll(begun).expect("a connection"), "a deadline that has passed is now");
        assert!(peer.poll(begun + self.pause + Span::from_us(100)).expect("a connection"));
        assert!(p.now() < begun + self.pause + Span::from_us(100), "it is woken by what comes");
        assert_eq!(peer.recv(mem, 0, 64), Ok(20));
        assert!(peer.poll(Time::NEVER).expect("a connection"), "the end is something to take");
        assert_eq!((peer.recv(mem, 0, 64), peer.recv(mem, 0, 64)), (Ok(0), Ok(0)));
    }
}

#[test]
fn a_poll_ends_at_its_deadline_or_when_something_comes() {
    let pause = Span::from_us(300);
    let mut cluster = SimCluster::new(&e7520(), config(2));
    cluster.spawn(0, 0, Slowly { pause });
    let task = cluster.spawn(1, 0, Polls { pause });
    cluster.run().expect("both come to their end");
    assert_eq!(task.take(), Some(()));
}

program! {
    /// Sends `bytes` bytes. Returns when all were in the socket's buffer.
    Fills { bytes: u64 } -> Time, |self, p| {
        let peer = announce(&p).accept().expect("a connection");
        send_stream(&p, &peer, 0, &[self.bytes]);
        p.now()
    }
}

#[test]
fn a_sender_waits_where_buffers_are_full() {
    let wait = Span::from_ms(5);
    let sent = |bytes: u64| {
        let profile = with(|tcp| (tcp.send_buffer, tcp.receive_buffer) = (100_000, 200_000));
        let mut cluster = SimCluster::new(&profile, config(2));
        let sender = cluster.spawn(0, 0, Fills { bytes });
        let taker = cluster.spawn(1, 0, Taker { pieces: vec![1 << 20], wait });
        cluster.run().expect("both come to their end");
        (sender.take().expect("it has ended"), taker.take().expect("it has ended"))
    };
    // A waiting sender goes on when a third of its buffer is free. Two frames may wait for their ACK.
    let (fits, _) = sent(300_000 - 100_000 / 3 - 3 * MSS);
    assert!(fits < Time::START + wait, "both buffers take it");
    let (waits, (taken, at)) = sent(300_001);
    assert!(waits > Time::START + wait, "a byte waits until the peer takes some");
    assert!(taken == 300_001 && at > waits);
}

program! {
    /// Keeps sending to a peer that has closed.
    SendsOn {} -> (), |self, p| {
        let peer = announce(&p).accept().expect("a connection");
        let mem = p.alloc(4096, PageSize::Huge).expect("memory");
        assert_eq!(peer.recv(mem, 0, 64), Ok(0), "the peer has closed");
        assert_eq!(peer.send(mem, 0, 1000), Ok(()), "it cannot know yet that nobody takes it");
        p.work(Span::from_us(200));
        assert_eq!(peer.send(mem, 0, 1000), Err(SocketError::Reset));
        assert_eq!(peer.recv(mem, 0, 64), Err(SocketError::Reset));
    }
}

program! {
    /// Connects and closes.
    Closes {} -> (), |self, p| {
        drop(TcpStream::connect(&p, address(&p)).expect("a server"));
        p.work(Span::from_ms(1));
    }
}

#[test]
fn a_peer_that_has_closed_resets() {
    let mut cluster = SimCluster::new(&e7520(), config(2));
    cluster.spawn(0, 0, SendsOn {});
    cluster.spawn(1, 0, Closes {});
    cluster.run().expect("both come to their end");
}

#[test]
fn who_waits_for_nobody_is_a_deadlock() {
    let mut cluster = SimCluster::new(&e7520(), config(1));
    cluster.spawn(0, 0, Fills { bytes: 1 });
    let why = cluster.run();
    assert!(matches!(&why, Err(RunError::Deadlock(why)) if why.contains("socket")), "{why:?}");
}

/// Time in the window for which a port sent, in picoseconds.
fn sending(metrics: &Metrics, machine: u32) -> u64 {
    let port = |u: &&doorbell_sim::ResourceUse| u.machine == machine && u.meter == Meter::port_out(1);
    let used = metrics.resources.iter().find(port).expect("a port");
    (used.utilization * metrics.window_ps as f64).round() as u64
}

#[test]
fn bytes_on_the_link_and_over_pcie_are_those_of_the_headers() {
    const FRAMES: u64 = 100;
    let (bytes, _, metrics) = stream(&e7520(), &[FRAMES * MSS], &[1 << 20], Span::ZERO);
    assert_eq!(bytes, FRAMES * MSS);
    let (server, client) = (metrics.tcp[0], metrics.tcp[1]);
    // SYN ACK, FIN, and an ACK of the peer's FIN, besides segments of at most 45 frames.
    assert_eq!((server.acks_out, server.segments_out, server.frames_out), (3, 6, FRAMES + 3));
    assert_eq!((client.frames_in, server.frames_in), (server.frames_out, client.frames_out));
    assert_eq!(client.frames_out, client.acks_out);
    // Ethernet 14 and 4, IP 20, TCP 32, preamble and gap 20 bytes; 800 ps per byte at 10 Gb/s.
    assert_eq!(sending(&metrics, 0), (FRAMES * (MSS + 90) + 3 * 90) * 800);
    assert_eq!(sending(&metrics, 1), client.frames_out * 90 * 800);
    let (sends, takes) = (metrics.pcie[0], metrics.pcie[1]);
    // The NIC reads sent data, a descriptor of 128 bytes per segment, and 64 bytes per refill of 8 frame
    // buffers.
    let refills = |frames: u64| frames / 8 * 64;
    assert_eq!(sends.dma_read_bytes, FRAMES * MSS + 128 * server.segments_out + refills(server.frames_in));
    assert_eq!(takes.dma_read_bytes, 128 * client.segments_out + refills(client.frames_in));
    // The NIC writes received frames with headers but without FCS, and a descriptor of 64 bytes per frame.
    assert_eq!(takes.dma_write_bytes, FRAMES * (MSS + 66) + 3 * 66 + 64 * client.frames_in);
    assert_eq!(sends.dma_write_bytes, (66 + 64) * server.frames_in);
    // A frame begins 2 bytes after the beginning of its buffer.
    assert_eq!(takes.itom, FRAMES * 24 + 3 * 2 + client.frames_in);
    assert_eq!(sends.mmio_bytes, 8 * (server.segments_out + server.frames_in / 8));
}

#[test]
fn interrupts_coalesce() {
    let interrupts = |profile: &Profile| {
        let (_, at, metrics) = stream(profile, &[1 << 20], &[1 << 20], Span::ZERO);
        (metrics.tcp[1].interrupts, at, metrics.tcp[1].frames_in)
    };
    let (few, _, frames) = interrupts(&e7520());
    let (most, ..) = interrupts(&with(|tcp| tcp.coalesce_frames = 1));
    let (fewest, ..) = interrupts(&with(|tcp| {
        (tcp.coalesce, tcp.coalesce_frames) = (Span::from_us(40), 64);
    }));
    assert!(fewest < few && few < most && most <= frames, "{fewest}, {few}, {most} of {frames}");
    assert!(few < frames / 3, "{few} of {frames}");
}

program! {
    /// Works without receiving. Returns the time of the work.
    Works { scans: bool } -> Span, |self, p| {
        let peer = TcpStream::connect(&p, address(&p)).expect("a server");
        let mem = p.alloc(64 << 10, PageSize::Huge).expect("memory");
        let scan = Scan { touch: Touch::Load, step: 8, instructions: 8 };
        p.scan(mem, 0, 64 << 10, scan);
        p.publish("ready", &[]);
        let begun = p.now();
        if self.scans {
            for _ in 0..20 {
                p.scan(mem, 0, 64 << 10, scan);
            }
        } else {
            p.work(Span::from_us(200));
        }
        // The work is done when the next operation begins.
        p.store_u64(mem, 0, 1);
        let took = p.now() - begun;
        drop(peer);
        took
    }
}

program! {
    /// Sends `bytes` bytes once its peer works.
    Disturbs { bytes: u64 } -> (), |self, p| {
        let peer = announce(&p).accept().expect("a connection");
        let mem = p.alloc(self.bytes.max(64), PageSize::Huge).expect("memory");
        p.lookup("ready");
        peer.send(mem, 0, self.bytes).expect("a connection");
        p.work(Span::from_ms(2));
    }
}

#[test]
fn interrupts_take_the_core_from_what_it_does() {
    for scans in [true, false] {
        let took = |bytes: u64| {
            let mut cluster = SimCluster::new(&e7520(), config(2));
            cluster.spawn(0, 0, Disturbs { bytes });
            let task = cluster.spawn(1, 0, Works { scans });
            cluster.run().expect("both come to their end");
            let frames = cluster.metrics().tcp[1].frames_in;
            (task.take().expect("it has ended").as_ps(), frames)
        };
        let (alone, _) = took(0);
        let (disturbed, _) = took(100 * MSS);
        // The driver takes 400 ns per frame, besides the time for segments and interrupts.
        assert!(disturbed > alone + 100 * 400_000, "{alone} and {disturbed}, scans: {scans}");
        assert!(disturbed < alone + 100 * 2_000_000, "{alone} and {disturbed}, scans: {scans}");
    }
}

program! {
    /// Scans a buffer and sends it by TCP, several times. Returns the times of the last send and the last
    /// scan.
    SendsScanned { cold: bool } -> (Span, Span), |self, p| {
        let peer = announce(&p).accept().expect("a connection");
        let mem = p.alloc(SCANNED, PageSize::Huge).expect("memory");
        let scan = Scan { touch: Touch::Load, step: 8, instructions: 8 };
        let mut last = (Span::ZERO, Span::ZERO);
        for _ in 0..3 {
            let begun = p.now();
            p.scan(mem, 0, SCANNED, scan);
            let scanned = p.now();
            if self.cold {
                p.flush(mem, 0, SCANNED);
            }
            let sends = p.now();
            peer.send(mem, 0, SCANNED).expect("a connection");
            last = (p.now() - sends, scanned - begun);
            p.work(Span::from_ms(1));
        }
        last
    }
}

program! {
    /// Scans a buffer and sends it by RDMA, several times. Returns the time of the last scan.
    SendsByRdma { sent: bool } -> Span, |self, p| {
        let node = Node::new(&p, SCANNED, 4);
        let remote = node.connect(&p, "server", "client");
        let other = p.alloc(SCANNED, PageSize::Huge).expect("memory");
        let scanned = if self.sent { node.mr.mem() } else { other };
        let scan = Scan { touch: Touch::Load, step: 8, instructions: 8 };
        let mut last = Span::ZERO;
        for _ in 0..3 {
            let begun = p.now();
            p.scan(scanned, 0, SCANNED, scan);
            last = p.now() - begun;
            let sge = [node.mr.sge(0, SCANNED as u32)];
            node.qp.post_send(&[SendWr::new(0, SendOp::Write(remote), &sge).flags(SendFlags::SIGNALED)]).expect("room");
            node.cq.wait(Time::NEVER).expect("a CQ");
            p.work(Span::from_ms(1));
        }
        p.publish("over", &[]);
        last
    }
}

program! {
    /// Serves as the target of the WRITEs.
    Written {} -> (), |self, p| {
        let node = Node::new(&p, SCANNED, 4);
        node.connect(&p, "client", "server");
        p.lookup("over");
    }
}

const SCANNED: u64 = 64 << 10;

#[test]
fn a_cold_cache_is_hidden_from_who_sends_by_tcp() {
    let tcp = |profile: &Profile, cold: bool| {
        let mut cluster = SimCluster::new(profile, config(2));
        let task = cluster.spawn(0, 0, SendsScanned { cold });
        cluster.spawn(1, 0, Drain {});
        cluster.run().expect("both come to their end");
        task.take().expect("it has ended")
    };
    let rdma = |sent: bool| {
        let mut cluster = SimCluster::new(&e7520(), config(2));
        let task = cluster.spawn(0, 0, SendsByRdma { sent });
        cluster.spawn(1, 0, Written {});
        cluster.run().expect("both come to their end");
        task.take().expect("it has ended").as_ps()
    };
    let ((warm, scan), (cold, _)) = (tcp(&e7520(), false), tcp(&e7520(), true));
    let (untouched, taken_away) = (rdma(false), rdma(true));
    // The copy prefetches its misses. The rest is limited by memory bandwidth, which is 6.4 ns per line.
    let lines = SCANNED / 64;
    assert!((cold.as_ps() - warm.as_ps()) / lines < 8_000, "{warm:?} and {cold:?}");
    let mut bare = with(|tcp| tcp.copy_prefetch = 0);
    let caches = bare.hierarchy.as_mut().expect("caches that have sizes");
    (caches.next_line, caches.adjacent_line, caches.streamer) = (false, false, 0);
    let ((warm, _), (cold, _)) = (tcp(&bare, false), tcp(&bare, true));
    assert!((cold.as_ps() - warm.as_ps()) / lines > 12_000, "without any prefetch: {warm:?} and {cold:?}");
    // TCP leaves the program's buffer in the caches, while a NIC's DMA does not.
    assert!(scan.as_ps() < untouched * 21 / 20, "{scan:?} and {untouched}");
    assert!(taken_away > untouched * 5 / 4, "{untouched} and {taken_away}");
}

program! {
    /// Polls a word while its kernel receives a stream. Returns when the word has changed.
    Spins {} -> Time, |self, p| {
        let node = Node::new(&p, 4096, 4);
        node.connect(&p, "spins", "writes");
        let listener = announce(&p);
        let peer = listener.accept().expect("a connection");
        p.publish("ready", &[]);
        while p.load_u64(node.mr.mem(), 0) == 0 {
            p.work(Span::from_ns(130));
            p.pause(Time::NEVER);
        }
        let at = p.now();
        drop(peer);
        p.publish("over", &[]);
        at
    }
}

program! {
    /// Sends a stream, and then writes to its peer's memory.
    Writes {} -> (), |self, p| {
        let node = Node::new(&p, 4096, 4);
        let remote = node.connect(&p, "writes", "spins");
        let peer = TcpStream::connect(&p, address(&p)).expect("a server");
        p.lookup("ready");
        send_stream(&p, &peer, 0, &[60_000]);
        p.work(Span::from_ns(7_777));
        p.store_u64(node.mr.mem(), 0, 1);
        let sge = [node.mr.sge(0, 8)];
        node.qp.post_send(&[SendWr::new(0, SendOp::Write(remote), &sge).flags(SendFlags::SIGNALED)]).expect("room");
        p.lookup("over");
    }
}

#[test]
fn interrupts_take_the_core_from_passes_that_are_skipped() {
    let run = |skip_pauses: bool| {
        let mut cluster = SimCluster::new(&e7520(), SimConfig { skip_pauses, ..config(2) });
        let task = cluster.spawn(0, 0, Spins {});
        cluster.spawn(1, 0, Writes {});
        cluster.run().expect("both come to their end");
        let metrics = cluster.metrics();
        (task.take().expect("it has ended"), metrics.event_hash, metrics.tcp)
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_host_whose_caches_have_no_sizes_has_it_too() {
    let profile = Profile { tcp: e7520().tcp, ..profile("cib") };
    let mut cluster = SimCluster::new(&profile, config(2));
    // The interrupted core runs no thread.
    cluster.spawn(0, 3, Sender { pieces: vec![200_000] });
    let taker = cluster.spawn(1, 3, Taker { pieces: vec![30_000], wait: Span::ZERO });
    cluster.run().expect("both come to their end");
    assert_eq!(taker.take().expect("it has ended").0, 200_000);
}

#[test]
fn a_trace_of_it_changes_nothing() {
    let run = |traced: bool| {
        let mut cluster = SimCluster::new(&e7520(), config(2));
        if traced {
            let (trace, pcap) = (Some(Box::new(std::io::sink()) as _), Some(Box::new(std::io::sink()) as _));
            cluster.trace(Tracing { trace, pcap, from: Some(Time::START), operations: 1, paths: None });
        }
        cluster.spawn(0, 0, Sender { pieces: vec![200_000] });
        cluster.spawn(1, 0, Taker { pieces: vec![30_000], wait: Span::ZERO });
        cluster.run().expect("both come to their end");
        cluster.metrics()
    };
    assert_eq!(run(false), run(true));
}

program! {
    /// Sends requests and receives answers, or the opposite, `rounds` times.
    Rounds { asks: bool, rounds: u64 } -> (), |self, p| {
        let mem = p.alloc(64 << 10, PageSize::Huge).expect("memory");
        let peer = match self.asks {
            true => TcpStream::connect(&p, address(&p)).expect("a server"),
            false => announce(&p).accept().expect("a connection"),
        };
        for _ in 0..self.rounds {
            if self.asks {
                peer.send(mem, 0, 64).expect("a connection");
                assert!(peer.poll(Time::NEVER).expect("a connection"));
                peer.recv_exact(mem, 0, 64 << 10).expect("an answer");
            } else {
                peer.recv_exact(mem, 0, 64).expect("a request");
                peer.send(mem, 0, 64 << 10).expect("a connection");
            }
        }
    }
}

#[test]
fn a_longer_run_takes_no_more_allocations() {
    let allocations = |rounds: u64| {
        let mut cluster = SimCluster::new(&e7520(), config(2));
        for asks in [false, true] {
            cluster.spawn(u32::from(asks), 0, Rounds { asks, rounds });
        }
        measure(|| cluster.run().expect("both come to their end")).count_total
    };
    let (short, long) = (allocations(40), allocations(240));
    // Some queues reach their greatest length late.
    assert!(long <= short + 32, "{short} and {long}");
}
