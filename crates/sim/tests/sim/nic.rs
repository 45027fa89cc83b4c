//! Properties of NICs and links beyond the protocol.

use crate::common::{ALL, Node, Passive, Reader, profile};
use doorbell_nic::cost::Costs;
use doorbell_nic::{Part, Profile};
use doorbell_sim::{DeviceSlot, Machine, SimCluster, SimConfig};
use doorbell_verbs::{
    AccessFlags, Cluster, ConnectAttr, Context, Endpoint, Mem, PageSize, Program, Provider, QpCap,
    QpInitAttr, QpType, SendFlags, SendOp, SendWr, Sge, Span, Time, Wc, WcStatus,
};

const WORDS: u64 = 64;

/// Shares a record of equal words, and rewrites it repeatedly, word by word.
struct Rewrites {
    mem: Mem,
    until: Time,
}

impl Program for Rewrites {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let mut n = 0;
        while p.now() < self.until {
            n += 1;
            for word in 0..WORDS {
                p.store_u64(self.mem, 8 * word, n);
            }
        }
    }
}

/// Serves memory for remote READs, and waits.
struct Serves {
    mem: Mem,
}

impl Program for Serves {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 4096, 16);
        let mr = node.pd.reg_mr(self.mem, ALL).expect("an MR");
        p.publish("record", &mr.remote(0).to_bytes());
        node.connect(&p, "b", "a");
        p.lookup("a/over");
    }
}

/// READs the record `rounds` times. Returns how often its words differed, and how often all were new.
struct Inspects {
    rounds: u64,
}

impl Program for Inspects {
    type Output = (u64, u64);

    fn run<P: Provider>(self, p: P) -> (u64, u64) {
        let node = Node::new(&p, 4096, 16);
        node.connect(&p, "a", "b");
        let record = doorbell_verbs::RemoteAddr::from_bytes(&p.lookup("record")).expect("an address");
        let (mut torn, mut last, mut new) = (0, 0, 0);
        for n in 0..self.rounds {
            let sge = [node.mr.sge(0, 8 * WORDS as u32)];
            let wr = SendWr::new(n, SendOp::Read(record), &sge).flags(SendFlags::SIGNALED);
            node.qp.post_send(&[wr]).expect("room");
            node.cq.wait(Time::NEVER).expect("a CQ");
            let words: Vec<u64> = (0..WORDS).map(|w| p.load_u64(node.mr.mem(), 8 * w)).collect();
            torn += u64::from(words.iter().any(|w| *w != words[0]));
            new += u64::from(words[0] != last);
            last = words[0];
        }
        p.publish("a/over", &[]);
        (torn, new)
    }
}

#[test]
fn a_read_can_see_a_record_half_written() {
    let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(2));
    let mem = cluster.alloc(1, 8 * WORDS, PageSize::Huge).expect("memory");
    let until = Time::from_ps(400_000_000);
    cluster.spawn(1, 1, Rewrites { mem, until });
    cluster.spawn(1, 0, Serves { mem });
    let task = cluster.spawn(0, 0, Inspects { rounds: 50 });
    cluster.run().expect("the run ends");
    let (torn, new) = task.take().expect("a result");
    assert!(torn > 10, "{torn} of 50 READs were torn");
    assert!(new > 40, "{new} of 50 READs saw something new");
}

/// Waits for a long WRITE into its memory. Watches the first and the last byte.
struct Watches;

impl Program for Watches {
    type Output = (Time, Time);

    fn run<P: Provider>(self, p: P) -> (Time, Time) {
        let node = Node::new(&p, 4096, 16);
        node.connect(&p, "b", "a");
        let seen = |offset| {
            while p.load_u8(node.mr.mem(), offset) == 0 {
                p.pause(Time::NEVER);
            }
            p.now()
        };
        let (first, last) = (seen(0), seen(4095));
        p.publish("seen", &[]);
        (first, last)
    }
}

/// WRITEs 4096 bytes of ones.
struct Fills;

impl Program for Fills {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 4096, 16);
        let remote = node.connect(&p, "a", "b");
        p.write(node.mr.mem(), 0, &[1; 4096]);
        let sge = [node.mr.sge(0, 4096)];
        node.qp.post_send(&[SendWr::new(0, SendOp::Write(remote), &sge)]).expect("room");
        p.lookup("seen");
    }
}

#[test]
fn a_write_becomes_visible_line_by_line_the_last_byte_last() {
    let mut cluster = SimCluster::new(&profile("cx3"), SimConfig::new(2));
    cluster.spawn(0, 0, Fills);
    let task = cluster.spawn(1, 0, Watches);
    cluster.run().expect("the run ends");
    let (first, last) = task.take().expect("a result");
    // 63 lines at the speed of PCIe 3.0 x8 are more than 500 ns.
    assert!(last.since(first).as_ns() > 400, "first byte at {first:?}, last at {last:?}");
}

/// Connects through its own port `port` to the endpoint of its peer, and WRITEs once if `writes`.
struct Crosses {
    port: u8,
    me: &'static str,
    peer: &'static str,
    writes: bool,
}

impl Program for Crosses {
    type Output = Option<WcStatus>;

    fn run<P: Provider>(self, p: P) -> Option<WcStatus> {
        let node = Node::new(&p, 4096, 16);
        p.publish(self.me, &node.qp.endpoint(self.port).expect("a port").to_bytes());
        let remote = Endpoint::from_bytes(&p.lookup(self.peer)).expect("an endpoint");
        let attr = ConnectAttr { timeout: 1, ..ConnectAttr::default() };
        node.qp.connect(self.port, &remote, &attr).expect("a connection");
        if !self.writes {
            p.publish("mem", &node.mr.remote(0).to_bytes());
            p.lookup("over");
            return None;
        }
        let memory = doorbell_verbs::RemoteAddr::from_bytes(&p.lookup("mem")).expect("an address");
        let sge = [node.mr.sge(0, 8)];
        let wr = SendWr::new(0, SendOp::Write(memory), &sge).flags(SendFlags::SIGNALED);
        node.qp.post_send(&[wr]).expect("room");
        let wc = node.cq.wait(Time::NEVER).expect("a CQ");
        p.publish("over", &[]);
        wc.map(|wc| wc.status)
    }
}

#[test]
fn ports_reach_only_ports_of_their_number() {
    for (ports, expected) in
        [([1, 1], WcStatus::Success), ([2, 2], WcStatus::Success), ([1, 2], WcStatus::RetryExcErr)]
    {
        let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(2));
        cluster.spawn(1, 0, Crosses { port: ports[1], me: "b", peer: "a", writes: false });
        let task = cluster.spawn(0, 0, Crosses { port: ports[0], me: "a", peer: "b", writes: true });
        cluster.run().expect("the run ends");
        assert_eq!(task.take().expect("a result"), Some(expected), "ports {ports:?}");
    }
}

/// WRITEs over UC as fast as WRITEs complete, until a time. Returns the number of completions.
struct Floods {
    me: String,
    until: Time,
    size: u32,
}

impl Program for Floods {
    type Output = u64;

    fn run<P: Provider>(self, p: P) -> u64 {
        let context = Context::open(&p, 0).expect("device 0");
        let pd = context.alloc_pd().expect("a PD");
        let cq = context.create_cq(256).expect("a CQ");
        let mr =
            pd.reg_mr(p.alloc(1 << 16, PageSize::Huge).expect("memory"), AccessFlags::all()).expect("an MR");
        let cap = QpCap { max_send_wr: 128, ..QpCap::default() };
        let qp = pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Uc, cap)).expect("a QP");
        p.publish(&self.me, &qp.endpoint(1).expect("port 1").to_bytes());
        let remote = Endpoint::from_bytes(&p.lookup(&format!("sink/{}", self.me))).expect("an endpoint");
        qp.connect(1, &remote, &ConnectAttr::default()).expect("a connection");
        let memory = doorbell_verbs::RemoteAddr::from_bytes(&p.lookup("sink")).expect("an address");
        let sge = [mr.sge(0, self.size)];
        let wr = SendWr::new(0, SendOp::Write(memory), &sge).flags(SendFlags::SIGNALED);
        let (mut outstanding, mut completed) = (0, 0);
        let mut wc = [Wc::default(); 16];
        while p.now() < self.until {
            if outstanding < 64 {
                qp.post_send(&[wr]).expect("room");
                outstanding += 1;
                continue;
            }
            let n = cq.poll(&mut wc).expect("a CQ").len() as u64;
            outstanding -= n;
            completed += n;
            if n == 0 {
                p.pause(self.until);
            }
        }
        completed
    }
}

/// Receives the WRITEs of its peers.
struct Sink {
    from: Vec<String>,
    until: Time,
}

impl Program for Sink {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let context = Context::open(&p, 0).expect("device 0");
        let pd = context.alloc_pd().expect("a PD");
        let cq = context.create_cq(16).expect("a CQ");
        let mr =
            pd.reg_mr(p.alloc(1 << 16, PageSize::Huge).expect("memory"), AccessFlags::all()).expect("an MR");
        p.publish("sink", &mr.remote(0).to_bytes());
        let mut qps = Vec::new();
        for name in &self.from {
            let qp =
                pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Uc, QpCap::default())).expect("a QP");
            let remote = Endpoint::from_bytes(&p.lookup(name)).expect("an endpoint");
            qp.connect(1, &remote, &ConnectAttr::default()).expect("a connection");
            p.publish(&format!("sink/{name}"), &qp.endpoint(1).expect("port 1").to_bytes());
            qps.push(qp);
        }
        while p.now() < self.until {
            p.pause(self.until);
        }
    }
}

/// Bytes per second that complete when `machines` machines WRITE to one, as a share of its port's rate.
fn flood(machines: u32, size: u32) -> f64 {
    let profile = profile("cx3");
    let until = Time::from_ps(3_000_000_000);
    let mut cluster = SimCluster::new(&profile, SimConfig::new(machines + 1));
    let names: Vec<String> = (0..machines).map(|m| format!("m{m}")).collect();
    let tasks: Vec<_> = (0..machines)
        .map(|m| cluster.spawn(m + 1, 0, Floods { me: names[m as usize].clone(), until, size }))
        .collect();
    cluster.spawn(0, 0, Sink { from: names, until });
    cluster.run().expect("the run ends");
    let completed: u64 = tasks.iter().map(|t| t.take().expect("a result")).sum();
    (completed * u64::from(size)) as f64 / 3e-3 / profile.device.link.port_bytes_per_s as f64
}

#[test]
fn unreliable_writes_complete_no_faster_than_the_link_takes_them() {
    for machines in [1, 4] {
        let share = flood(machines, 2048);
        assert!((0.9..1.0).contains(&share), "{machines} machines got {share} of the link");
    }
}

/// Fetch-and-adds per requester. Only the second half is timed, when all requesters have begun.
const ADDS: u64 = 200;

/// Fetch-and-adds on a word of its peer, one at a time. Returns the time of the second half.
struct FetchAdds {
    me: String,
    peer: String,
    offset: u64,
}

impl Program for FetchAdds {
    type Output = Span;

    fn run<P: Provider>(self, p: P) -> Span {
        let node = Node::new(&p, 4096, 16);
        let words = node.connect(&p, &self.me, &self.peer);
        let add = SendOp::FetchAdd { remote: words.at(self.offset), add: 1 };
        let mut half = p.now();
        for n in 0..ADDS {
            if n == ADDS / 2 {
                half = p.now();
            }
            let sge = [node.mr.sge(0, 8)];
            node.qp.post_send(&[SendWr::new(n, add, &sge).flags(SendFlags::SIGNALED)]).expect("room");
            node.cq.wait(Time::NEVER).expect("a CQ");
        }
        let took = p.now().since(half);
        p.publish(&format!("{}/over", self.me), &[]);
        took
    }
}

/// Mean time of an atomic with `requesters` requesters, in nanoseconds. The word of requester i is in its own
/// page, at `stride` times i.
fn atomics(name: &str, requesters: u32, stride: u64) -> f64 {
    let mut cluster = SimCluster::new(&profile(name), SimConfig::new(2));
    let tasks: Vec<_> = (0..requesters)
        .map(|t| {
            let (me, peer) = (format!("r{t}"), format!("p{t}"));
            cluster.spawn(1, t, Passive { me: peer.clone(), peer: me.clone() });
            cluster.spawn(0, t, FetchAdds { me, peer, offset: u64::from(t) * stride })
        })
        .collect();
    cluster.run().expect("the run ends");
    let took = tasks.iter().map(|t| t.take().expect("a result").as_ps() as f64 / 1e3);
    took.sum::<f64>() / f64::from(requesters) / (ADDS / 2) as f64
}

/// Nanoseconds that an atomic holds its lock: the time to read its word, and a little longer.
fn held(p: &Profile) -> f64 {
    let pcie = Costs::new(p).pcie;
    let read = pcie.read_requests(8) + pcie.read_latency + pcie.completions(8);
    (read + p.device.atomics.hold.as_ps()) as f64 / 1e3
}

/// Equal offsets in pages of different memory share a lock on both NICs. Other offsets use other locks if the
/// NIC has several.
#[test]
fn atomics_on_one_lock_wait_for_each_other() {
    const REQUESTERS: u32 = 14;
    for name in ["cib", "cx3"] {
        let p = profile(name);
        let alone = atomics(name, 1, 0);
        let in_turn = alone.max(f64::from(REQUESTERS) * held(&p));
        let apart = if p.device.atomics.slot(64) == p.device.atomics.slot(0) { in_turn } else { alone };
        for (stride, expected) in [(0, in_turn), (64, apart)] {
            let took = atomics(name, REQUESTERS, stride);
            assert!((took / expected - 1.0).abs() < 0.001, "{name}, {stride}: {took} ns, not {expected}");
        }
    }
}

/// WRITEs 16 KiB once, from `buffers` consecutive buffers.
struct Gathers {
    buffers: u32,
}

const GATHERED: u32 = 16 << 10;

impl Program for Gathers {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 4096, 16);
        let mem = p.alloc(u64::from(GATHERED), PageSize::Huge).expect("memory");
        let mr = node.pd.reg_mr(mem, ALL).expect("an MR");
        let cap = QpCap { max_send_sge: self.buffers, ..QpCap::default() };
        let qp =
            node.pd.create_qp(&node.cq, &node.cq, None, &QpInitAttr::new(QpType::Rc, cap)).expect("a QP");
        let own = Node { qp, mr, ..node };
        let remote = own.connect(&p, "a", "b");
        let each = GATHERED / self.buffers;
        let sges: Vec<Sge> = (0..self.buffers).map(|i| own.mr.sge(u64::from(i * each), each)).collect();
        let wr = SendWr::new(0, SendOp::Write(remote), &sges).flags(SendFlags::SIGNALED);
        own.qp.post_send(&[wr]).expect("room");
        assert_eq!(own.cq.wait(Time::NEVER).expect("a CQ").map(|wc| wc.status), Some(WcStatus::Success));
        p.publish("over", &[]);
    }
}

/// Serves as the target of the WRITE.
struct Holds;

impl Program for Holds {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, u64::from(GATHERED), 16);
        node.connect(&p, "b", "a");
        p.lookup("over");
    }
}

/// Picoseconds that the sending units of machine 0 work for a WRITE from `buffers` buffers.
fn gathering(buffers: u32) -> u64 {
    let window = Span::from_us(100);
    let config = SimConfig { window: (Time::START, window), ..SimConfig::new(2) };
    let mut cluster = SimCluster::new(&profile("cib"), config);
    cluster.spawn(0, 0, Gathers { buffers });
    cluster.spawn(1, 0, Holds);
    cluster.run().expect("the run ends");
    let metrics = cluster.metrics();
    let busy =
        metrics.resources.iter().find(|r| r.machine == 0 && r.meter.part() == Part::BusiestSendingUnit);
    (busy.expect("sending units").utilization * window.as_ps() as f64).round() as u64
}

#[test]
fn a_packet_pays_for_the_buffers_that_hold_its_own_bytes() {
    let tx = profile("cib").device.tx;
    let (dma, line) = (tx.payload_dma.as_ps(), tx.extra_line.as_ps());
    // Packets have 4096 bytes. A WQE takes one line for one SGE, two for four, three for eight.
    assert_eq!(gathering(4) - gathering(1), line, "each packet of its own buffer");
    assert_eq!(gathering(8) - gathering(4), 4 * dma + line, "each packet of two");
}

/// READs once through each of its devices. The peer has one QP for each device.
struct ThroughEach;

impl Program for ThroughEach {
    type Output = (Vec<String>, Option<String>, Vec<u64>);

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut names = Vec::new();
        let mut read = Vec::new();
        for index in 0..p.num_devices() {
            let node = Node::on_device(&p, index, 4096, 16);
            names.push(node.context.query_device().expect("attributes").name);
            let remote = node.connect(&p, &format!("a{index}"), &format!("b{index}"));
            let sge = [node.mr.sge(0, 8)];
            let wr = SendWr::new(0, SendOp::Read(remote), &sge).flags(SendFlags::SIGNALED);
            node.qp.post_send(&[wr]).expect("room");
            assert_eq!(node.cq.wait(Time::NEVER).expect("a CQ").map(|wc| wc.status), Some(WcStatus::Success));
            read.push(p.load_u64(node.mr.mem(), 0));
        }
        let beyond = Context::open(&p, p.num_devices()).err().map(|e| e.to_string());
        p.publish("over", &[]);
        (names, beyond, read)
    }
}

/// Serves a different number to READ through each of `qps` QPs.
struct Numbers {
    qps: u64,
}

impl Program for Numbers {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let nodes: Vec<Node<P>> = (0..self.qps).map(|_| Node::new(&p, 4096, 16)).collect();
        for (n, node) in (0..).zip(&nodes) {
            p.store_u64(node.mr.mem(), 0, 100 + n);
            node.connect(&p, &format!("b{n}"), &format!("a{n}"));
        }
        p.lookup("over");
    }
}

#[test]
fn a_machine_may_have_several_devices_and_be_unlike_others() {
    let (cib, cx3) = (profile("cib"), profile("cx3"));
    let [fast, slow] = [&cib, &cx3].map(|profile| DeviceSlot { profile, socket: 0 });
    let machines = [
        Machine { host: &cib, devices: &[fast, slow, DeviceSlot { socket: 1, ..fast }] },
        Machine { host: &cx3, devices: &[slow] },
    ];
    let mut cluster = SimCluster::of(&machines, SimConfig::new(2));
    let task = cluster.spawn(0, 0, ThroughEach);
    cluster.spawn(1, 0, Numbers { qps: 3 });
    cluster.run().expect("the run ends");
    let (names, beyond, read) = task.take().expect("a result");
    assert_eq!(names, ["cib_sim", "cx3_sim", "cib_sim"]);
    assert_eq!(read, [100, 101, 102]);
    assert_eq!(beyond.as_deref(), Some("no such device: a simulated machine has devices 0 to 2, not 3"));
    let metrics = cluster.metrics();
    let devices = metrics.resources.iter().filter(|r| r.machine == 0 && r.meter.part() == Part::PcieToHost);
    let names: Vec<String> = devices.map(|r| r.meter.to_string()).collect();
    assert_eq!(names, ["PCIe to host of device 0", "PCIe to host of device 1", "PCIe to host of device 2"]);
    assert_eq!(metrics.pcie.iter().map(|p| p.machine).collect::<Vec<_>>(), [0, 0, 0, 1]);
    assert!(metrics.pcie.iter().all(|p| p.dma_read_bytes + p.dma_write_bytes > 0), "each has been used");
}

const STREAM: u32 = 1 << 16;

/// WRITEs ones until its peer has ended.
struct Streams;

impl Program for Streams {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, STREAM.into(), 64);
        let remote = node.connect(&p, "a", "b");
        p.write(node.mr.mem(), 0, &vec![1; STREAM as usize]);
        let sge: Vec<[Sge; 1]> = (0..64).map(|n| [node.mr.sge(1024 * n, 1024)]).collect();
        let list: Vec<SendWr<'_>> =
            (0..).zip(&sge).map(|(n, sge)| SendWr::new(n, SendOp::Write(remote.at(1024 * n)), sge)).collect();
        node.qp.post_send(&list).expect("room");
        p.lookup("b/over");
    }
}

/// Destroys its QP after a while. Returns the number of ones in memory directly after that, and later.
struct Destroys {
    after: Span,
}

impl Program for Destroys {
    type Output = (usize, usize);

    fn run<P: Provider>(self, p: P) -> (usize, usize) {
        let Node { qp, mr, cq, .. } = {
            let node = Node::new(&p, STREAM.into(), 64);
            node.connect(&p, "b", "a");
            node
        };
        let wait = |span: Span| {
            cq.wait(p.now() + span).expect("a CQ");
        };
        let ones = || {
            let mut found = vec![0; STREAM as usize];
            p.read(mr.mem(), 0, &mut found);
            found.iter().filter(|byte| **byte == 1).count()
        };
        wait(self.after);
        drop(qp);
        let at_once = ones();
        wait(Span::from_us(200));
        p.publish("b/over", &[]);
        (at_once, ones())
    }
}

#[test]
fn what_a_destroyed_qp_has_accepted_is_in_memory() {
    for name in ["cx3", "cib", "cx3-dual"] {
        let mut parts = 0;
        for ns in (2_000..40_000).step_by(1501) {
            let mut cluster = SimCluster::new(&profile(name), SimConfig::new(2));
            cluster.spawn(0, 0, Streams);
            let destroys = cluster.spawn(1, 0, Destroys { after: Span::from_ns(ns) });
            cluster.run().expect("an end");
            let (at_once, later) = destroys.take().expect("a result");
            assert_eq!(at_once, later, "{name}, {ns} ns");
            parts += u32::from((1..STREAM as usize).contains(&at_once));
        }
        assert!(parts > 5, "{name}: all or nothing was there, but {parts} times");
    }
}

/// READs from its peer with `window` READs outstanding. Returns the nanoseconds of each READ.
struct Reads {
    me: &'static str,
    peer: &'static str,
    window: u64,
    reads: u64,
}

impl Program for Reads {
    type Output = Vec<u64>;

    fn run<P: Provider>(self, p: P) -> Vec<u64> {
        let node = Node::new(&p, 4096, 16);
        let remote = node.connect(&p, self.me, self.peer);
        let mut posted = Vec::new();
        let post = |posted: &mut Vec<Time>| {
            // A unit takes longer for this response than for the request, so responses wait.
            let sge = [node.mr.sge(0, 1000)];
            let wr = SendWr::new(0, SendOp::Read(remote), &sge).flags(SendFlags::SIGNALED);
            posted.push(p.now());
            node.qp.post_send(&[wr]).expect("room");
        };
        (0..self.window).for_each(|_| post(&mut posted));
        let took = (0..self.reads).map(|n| {
            let wc = node.cq.wait(Time::NEVER).expect("a CQ");
            assert_eq!(wc.map(|wc| wc.status), Some(WcStatus::Success));
            let took = p.now() - posted[n as usize];
            if n + self.window < self.reads {
                post(&mut posted);
            }
            took.as_ps() / 1000
        });
        let took = took.collect();
        p.publish(&format!("{}/over", self.me), &[]);
        p.lookup(&format!("{}/over", self.peer));
        took
    }
}

/// Each of two machines READs through their one connection.
fn reads_both_ways(window: u64) -> Vec<u64> {
    let mut cluster = SimCluster::new(&profile("cx3"), SimConfig::new(2));
    let one = cluster.spawn(0, 0, Reads { me: "a", peer: "b", window: 1, reads: 100 });
    cluster.spawn(1, 0, Reads { me: "b", peer: "a", window, reads: 100 * window });
    cluster.run().expect("the run ends");
    one.take().expect("an outcome")
}

/// Requests of a QP wait for one response at most, whatever its peer has outstanding. Responses wait for one
/// request at most.
#[test]
fn requests_and_answers_of_a_qp_take_turns() {
    let [few, many] = [2, 16].map(|window| reads_both_ways(window)[10..90].iter().sum::<u64>() / 80);
    let tx = profile("cx3").device.tx;
    let [request, answer] =
        [tx.read_request, tx.response + tx.larger_payload].map(|span| span.as_ps() / 1000);
    assert!(many <= few + request + answer, "{many} ns beside 16 READs, {few} ns beside 2");
}

/// `cib` with a pipeline that begins a request every `ns` nanoseconds, and a QP's own unit for each request.
fn with_pipeline(ns: u32) -> Profile {
    let entry = format!("{{ value = {ns}, basis = \"assumed\", reason = \"r\", range = [0, 1000] }}");
    let text = format!("name = \"x\"\ntitle = \"x\"\nbase = \"cib\"\n[pipeline]\nrequest_ns = {entry}\n");
    Profile::parse("x.toml", &text).expect("a profile")
}

/// Two threads of a machine with profile `requester` each READ in rounds from a machine with profile
/// `responder`, in one round `window` READs of each thread. Returns when the last round of each thread was
/// done, and the metrics.
fn reading(requester: &Profile, responder: &Profile, window: u64) -> ([Time; 2], doorbell_sim::Metrics) {
    let slots = [requester, responder].map(|profile| [DeviceSlot { profile, socket: 0 }]);
    let machines = [0, 1].map(|n| Machine { host: slots[n][0].profile, devices: &slots[n] });
    let config = SimConfig { window: (Time::START, Span::from_us(1000)), ..SimConfig::new(2) };
    let mut cluster = SimCluster::of(&machines, config);
    let tasks = [0, 1].map(|n| {
        let (me, peer) = (format!("a{n}"), format!("b{n}"));
        cluster.spawn(1, n, Passive { me: peer.clone(), peer: me.clone() });
        cluster.spawn(0, n, Reader { me, peer, window, rounds: 4 })
    });
    cluster.run().expect("the run ends");
    let ends = tasks.map(|task| *task.take().expect("a result").last().expect("a round"));
    (ends, cluster.metrics())
}

/// Share of the window for which a part of a machine was busy, if the machine has the part.
fn utilization(metrics: &doorbell_sim::Metrics, machine: u32, part: Part) -> Option<f64> {
    let found = metrics.resources.iter().find(|r| r.machine == machine && r.meter.part() == part);
    found.map(|r| r.utilization)
}

#[test]
fn the_pipeline_begins_requests_of_all_units_one_after_the_other() {
    let (cib, slow) = (profile("cib"), with_pipeline(1000));
    // 2 QPs x 4 rounds x 8 READs pass the pipeline at intervals of 1 us, because the threads post faster.
    let (ends, metrics) = reading(&slow, &cib, 8);
    let (before, plain) = reading(&cib, &cib, 8);
    let last = ends[0].max(ends[1]);
    let passed = utilization(&metrics, 0, Part::SendingPipeline).expect("a pipeline") * 1000.0;
    assert!((passed - 64.0).abs() < 1e-6, "{passed} us in the pipeline");
    assert!(last.as_ns() > 63_000 && last.as_ns() < 64_000 + before[0].max(before[1]).as_ns(), "{last:?}");
    // A unit that waits for the pipeline is not busy.
    for part in [Part::SendingUnits, Part::BusiestSendingUnit] {
        assert_eq!(utilization(&metrics, 0, part), utilization(&plain, 0, part), "{part:?}");
    }
    assert_eq!(utilization(&plain, 0, Part::SendingPipeline), None);
}

#[test]
fn responses_do_not_pass_the_pipeline() {
    let (cib, slow) = (profile("cib"), with_pipeline(1000));
    let (ends, metrics) = reading(&cib, &slow, 8);
    assert_eq!(ends, reading(&cib, &cib, 8).0);
    assert_eq!(utilization(&metrics, 1, Part::SendingPipeline), Some(0.0));
}
