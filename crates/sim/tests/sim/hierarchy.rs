//! Cache sizes, and effects of a NIC's DMA on the caches: a buffer is scanned, sent, and scanned again.

use crate::common::{Node, profile, read_run};
use doorbell_nic::Profile;
use doorbell_sim::{SimCluster, SimConfig, Uncore};
use doorbell_verbs::{
    Cluster, PageSize, Program, Provider, RecvWr, Scan, SendFlags, SendOp, SendWr, Span, Time, Touch,
};

const BYTES: u64 = 64 << 10;
const LINES: u64 = BYTES / 64;

/// Sends a buffer. Scans this buffer or another one before and after the send. Returns the time of the second
/// scan.
struct Server {
    touch: Touch,
    sent: bool,
}

struct Client;

fn never() -> Time {
    Time::from_ps(u64::MAX / 2)
}

impl Program for Server {
    type Output = Span;

    fn run<P: Provider>(self, p: P) -> Span {
        let node = Node::new(&p, BYTES, 4);
        node.connect(&p, "server", "client");
        let other = p.alloc(BYTES, PageSize::Huge).expect("memory");
        let scanned = if self.sent { node.mr.mem() } else { other };
        let scan = Scan { touch: self.touch, step: 8, instructions: 8 };
        p.scan(scanned, 0, BYTES, scan);
        let sge = [node.mr.sge(0, BYTES as u32)];
        node.qp.post_send(&[SendWr::new(0, SendOp::Send, &sge).flags(SendFlags::SIGNALED)]).expect("room");
        node.cq.wait(never()).expect("a CQ");
        let begun = p.now();
        p.scan(scanned, 0, BYTES, scan);
        p.now() - begun
    }
}

impl Program for Client {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, BYTES, 4);
        node.connect(&p, "client", "server");
        node.qp.post_recv(&[RecvWr { wr_id: 0, sg_list: &[node.mr.sge(0, BYTES as u32)] }]).expect("room");
        node.cq.wait(never()).expect("a CQ");
    }
}

/// The time of the second scan, and the counts of the server's uncore in the whole run.
fn run(profile: &Profile, touch: Touch, sent: bool) -> (Span, Uncore) {
    let window = (Time::START, Span::from_ms(5));
    let config = SimConfig { end: Time::START + Span::from_ms(5), window, ..SimConfig::new(2) };
    let mut cluster = SimCluster::new(profile, config);
    let server = cluster.spawn(0, 0, Server { touch, sent });
    cluster.spawn(1, 0, Client);
    cluster.run().expect("both come to their end");
    let (machine, counts) = cluster.metrics().uncore[0];
    assert_eq!(machine, 0);
    (server.take().expect("it has ended"), counts)
}

fn e7520() -> Profile {
    profile("e7520-t4")
}

fn with(change: impl FnOnce(&mut doorbell_nic::Hierarchy)) -> Profile {
    let mut profile = e7520();
    change(profile.hierarchy.as_mut().expect("a profile with caches that have sizes"));
    profile
}

#[test]
fn reads_with_ownership_take_away_what_was_scanned() {
    for touch in [Touch::Load, Touch::Store(1)] {
        let (warm, kept) = run(&e7520(), touch, false);
        let (cold, taken) = run(&e7520(), touch, true);
        assert!(cold.as_ps() > warm.as_ps() * 5 / 4, "{touch:?}: {warm:?} and {cold:?}");
        // About one line in twenty is in two segments of the stream, and is snooped for each.
        assert!(kept.snoop_hit_rate() < Some(0.05) && taken.snoop_hit_rate() > Some(0.9), "{taken:?}");
        assert_eq!((kept.remote_rd, taken.remote_rd), (0, 0));
        assert!((LINES..LINES + 50).contains(&taken.remote_rfo), "{taken:?}");
        let forced = if touch == Touch::Load { 0 } else { LINES };
        assert!((forced..forced + 50).contains(&taken.implicit_wbs), "{taken:?}");
        // Both scans miss if the DMA takes the lines away. Otherwise the second scan hits.
        let missed = |counts: Uncore| counts.llc_misses + counts.prefetch_misses;
        assert!(missed(taken) > 19 * LINES / 10 && missed(kept) < 11 * LINES / 10, "{kept:?} {taken:?}");
    }
}

#[test]
fn snapshots_leave_what_was_scanned() {
    let (warm, _) = run(&with(|h| h.reads_own = false), Touch::Load, false);
    let (scanned, counts) = run(&with(|h| h.reads_own = false), Touch::Load, true);
    assert!(scanned.as_ps() <= warm.as_ps() * 21 / 20, "{warm:?} and {scanned:?}");
    assert!(counts.remote_rd >= LINES && counts.remote_rfo < 50, "{counts:?}");
}

#[test]
fn without_coherence_nobody_is_asked() {
    let (_, counts) = run(&with(|h| h.io_coherent = false), Touch::Store(1), true);
    assert_eq!((counts.snps, counts.implicit_wbs), (0, 0));
}

#[test]
fn prefetchers_help_only_where_lines_are_cold() {
    let none = with(|h| (h.next_line, h.adjacent_line, h.streamer) = (false, false, 0));
    let time = |profile: &Profile, sent| run(profile, Touch::Load, sent).0.as_ps();
    assert!(time(&none, true) > 2 * time(&e7520(), true));
    assert!(time(&none, false) < 2 * time(&e7520(), false));
}

#[test]
fn a_nic_on_the_chip_answers_within_a_microsecond() {
    let slowest = |name: &str| {
        let done = &read_run(SimConfig::new(2), name, 1, 1, 1200).0[0];
        // The first 512 rounds go through the rings. After that their lines are in the caches.
        done.windows(2).skip(600).map(|pair| pair[1] - pair[0]).max().expect("rounds")
    };
    assert!(slowest("e7520-on-die") < Span::from_us(1), "{:?}", slowest("e7520-on-die"));
    assert!(slowest("e7520-t4") > Span::from_us(3));
}

/// Receives a message into a buffer that the caches do not hold. Returns the time to scan the buffer.
struct Scans;

impl Program for Scans {
    type Output = Span;

    fn run<P: Provider>(self, p: P) -> Span {
        let node = Node::new(&p, BYTES, 4);
        node.connect(&p, "client", "server");
        node.qp.post_recv(&[RecvWr { wr_id: 0, sg_list: &[node.mr.sge(0, BYTES as u32)] }]).expect("room");
        node.cq.wait(never()).expect("a CQ");
        let begun = p.now();
        p.scan(node.mr.mem(), 0, BYTES, Scan { touch: Touch::Load, step: 8, instructions: 8 });
        p.now() - begun
    }
}

#[test]
fn what_a_device_writes_into_the_last_level_is_warm() {
    let scanned = |profile: &Profile| {
        let mut cluster = SimCluster::new(profile, SimConfig::new(2));
        cluster.spawn(0, 0, Server { touch: Touch::Load, sent: false });
        let scans = cluster.spawn(1, 0, Scans);
        cluster.run().expect("both come to their end");
        scans.take().expect("it has ended").as_ps()
    };
    let none =
        |ways| with(|h| (h.write_ways, h.next_line, h.adjacent_line, h.streamer) = (ways, false, false, 0));
    // Two of 24 ways hold 1.5 MB, and the buffer has 64 kB.
    assert!(scanned(&none(0)) > 2 * scanned(&none(2)));
}
