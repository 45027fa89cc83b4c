//! Hosts with several sockets: traffic between sockets, and its cost.

use crate::common::{ALL, profile};
use doorbell_nic::{Profile, Sockets};
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_verbs::{
    Cluster, ConnectAttr, Context, Cpu, Endpoint, Mem, PageSize, Program, Provider, QpCap, QpInitAttr,
    QpType, RemoteAddr, SendFlags, SendOp, SendWr, Span, Time,
};

const HOP: u64 = 70;
const PCIE_HOP: u64 = 1000;

/// Machines with two sockets of eight cores. They differ from others only in time.
fn two_sockets(adapters: u32) -> Profile {
    let sockets = Sockets {
        count: 2,
        adapters,
        llc: 0,
        hop: Span::from_ns(HOP),
        pcie_hop: Span::from_ns(PCIE_HOP),
        unit_write: Span::from_ns(0),
        unit_read: Span::from_ns(0),
    };
    Profile { sockets: Some(sockets), ..profile("cx3") }
}

/// The first core of each socket.
const NEAR: u32 = 0;
const FAR: u32 = 8;

/// The positions of a thread and its memory.
#[derive(Clone, Copy)]
struct Placed {
    core: u32,
    memory: u32,
    /// Whether the thread stores to its memory before any other agent accesses it.
    fills: bool,
    device: u32,
}

impl Placed {
    const fn at(core: u32) -> Placed {
        Placed { core, memory: core, fills: true, device: 0 }
    }
}

/// READs or WRITEs one after another, or serves as the target. Returns the time of the last operation.
struct End {
    placed: Placed,
    me: &'static str,
    peer: &'static str,
    /// The operation of the first end; none for the second end.
    does: Option<fn(RemoteAddr) -> SendOp>,
}

impl Program for End {
    type Output = u64;

    fn run<P: Provider>(self, p: P) -> u64 {
        let context = Context::open(&p, self.placed.device).expect("a device");
        let pd = context.alloc_pd().expect("a PD");
        let cq = context.create_cq(16).expect("a CQ");
        let mem = p.alloc_near(self.placed.memory, 4096, PageSize::Huge).expect("memory");
        if self.placed.fills {
            p.write(mem, 0, &[1; 64]);
        }
        let mr = pd.reg_mr(mem, ALL).expect("an MR");
        let qp = pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, QpCap::default())).expect("a QP");
        p.publish(&format!("{}/qp", self.me), &qp.endpoint(1).expect("port 1").to_bytes());
        p.publish(&format!("{}/mem", self.me), &mr.remote(0).to_bytes());
        let peer = Endpoint::from_bytes(&p.lookup(&format!("{}/qp", self.peer))).expect("an endpoint");
        qp.connect(1, &peer, &ConnectAttr::default()).expect("a connection");
        p.publish(&format!("{}/ready", self.me), &[]);
        p.lookup(&format!("{}/ready", self.peer));
        let Some(op) = self.does else {
            p.lookup("over");
            return 0;
        };
        let remote = RemoteAddr::from_bytes(&p.lookup(&format!("{}/mem", self.peer))).expect("an address");
        let mut took = 0;
        for n in 0..4 {
            let begun = p.now();
            let sge = [mr.sge(0, 64)];
            qp.post_send(&[SendWr::new(n, op(remote), &sge).flags(SendFlags::SIGNALED)]).expect("room");
            cq.wait(Time::NEVER).expect("a CQ");
            took = p.now().as_ps() - begun.as_ps();
        }
        p.publish("over", &[]);
        took
    }
}

/// Nanoseconds of an operation.
fn takes(profile: &Profile, op: fn(RemoteAddr) -> SendOp, requester: Placed, responder: Placed) -> u64 {
    let mut cluster = SimCluster::new(profile, SimConfig::new(2));
    let end = |placed, me, peer, does| End { placed, me, peer, does };
    let took = cluster.spawn(0, requester.core, end(requester, "a", "b", Some(op)));
    cluster.spawn(1, responder.core, end(responder, "b", "a", None));
    cluster.run().expect("the run ends");
    took.take().expect("a result") / 1000
}

const READ: fn(RemoteAddr) -> SendOp = SendOp::Read;
const WRITE: fn(RemoteAddr) -> SendOp = SendOp::Write;

/// Extra time of an operation between ends placed as given, compared with ends at the sockets of their NICs.
fn adds(op: fn(RemoteAddr) -> SendOp, requester: Placed, responder: Placed) -> u64 {
    let near = Placed::at(NEAR);
    takes(&two_sockets(1), op, requester, responder) - takes(&two_sockets(1), op, near, near)
}

/// Compares times. A poll may come up to a pass late.
#[track_caller]
fn about(found: u64, expected: u64, why: &str) {
    assert!(found.abs_diff(expected) <= 12, "{found} ns, not {expected}: {why}");
}

#[test]
fn one_socket_is_as_none() {
    let one = Sockets { count: 1, ..two_sockets(1).sockets.expect("sockets") };
    let near = Placed::at(NEAR);
    let without = takes(&profile("cx3"), READ, near, near);
    assert_eq!(
        takes(&Profile { sockets: Some(one), ..profile("cx3") }, READ, Placed::at(FAR), near),
        without
    );
    assert_eq!(takes(&two_sockets(1), READ, near, near), without);
}

/// The MMIO write crosses the sockets, and so does the write of the READ's CQE. For the CQE, the home of the
/// CQ is asked first.
#[test]
fn a_requester_at_another_socket_pays_twice() {
    let near = Placed::at(NEAR);
    about(adds(READ, Placed::at(FAR), near), 2 * PCIE_HOP + HOP, "the MMIO and the CQE");
    about(adds(WRITE, Placed::at(FAR), near), 3 * PCIE_HOP + 2 * HOP, "the payload, too");
}

/// The caches that hold the responder's memory matter more than the memory's home.
#[test]
fn a_responder_pays_for_lines_that_another_socket_holds() {
    let near = Placed::at(NEAR);
    about(adds(READ, near, Placed::at(FAR)), PCIE_HOP + HOP, "the far cache has it");
    let filled_from_far = Placed { memory: NEAR, ..Placed::at(FAR) };
    about(adds(READ, near, filled_from_far), PCIE_HOP, "its home is near, and says who has it");
    let filled_from_near = Placed { memory: FAR, ..near };
    about(adds(READ, near, filled_from_near), 0, "the near cache has it");
    let untouched = Placed { memory: FAR, fills: false, ..near };
    about(adds(READ, near, untouched), PCIE_HOP + HOP, "memory has it");
    about(adds(WRITE, near, Placed::at(FAR)), 0, "an ACK does not wait until a WRITE is in memory");
}

/// Memory that fits into a cache is in a cache from the beginning, at the socket that zeroed it.
#[test]
fn memory_is_in_the_cache_of_who_allocated_it() {
    let near = Placed::at(NEAR);
    let sockets = Sockets { llc: 4096, ..two_sockets(1).sockets.expect("sockets") };
    let cached = Profile { sockets: Some(sockets), ..profile("cx3") };
    let untouched = |core, memory| Placed { core, memory, fills: false, device: 0 };
    let adds = |responder| takes(&cached, READ, near, responder) - takes(&cached, READ, near, near);
    about(adds(untouched(NEAR, FAR)), 0, "zeroed by a near core");
    about(adds(untouched(FAR, NEAR)), PCIE_HOP, "zeroed by a far core");
}

/// The second NIC is at the second socket.
#[test]
fn a_nic_of_its_own_makes_a_socket_near() {
    let (near, far) = (Placed::at(NEAR), Placed { device: 1, ..Placed::at(FAR) });
    let two = two_sockets(2);
    assert_eq!(takes(&two, READ, far, far), takes(&two, READ, near, near));
    let crossed = Placed { device: 1, ..near };
    let by_the_other = takes(&two, READ, crossed, far) - takes(&two, READ, near, near);
    about(by_the_other, 2 * PCIE_HOP + HOP, "each socket is far from the other's NIC");
}

/// Loads or stores lines one after another on a core of a socket. Returns the time per line.
struct Loads {
    mem: Mem,
    /// Key of the thread that uses the memory before this thread; `None` for the first thread.
    after: Option<&'static str>,
    tells: &'static str,
    stores: bool,
}

impl Program for Loads {
    type Output = u64;

    fn run<P: Provider>(self, p: P) -> u64 {
        if let Some(key) = self.after {
            p.lookup(key);
        }
        let took = each(&p, self.mem, self.stores);
        p.publish(self.tells, &[]);
        took
    }
}

/// Nanoseconds of a load of a line or a store to a line.
fn each<C: Cpu>(cpu: &C, mem: Mem, stores: bool) -> u64 {
    let begun = cpu.now();
    // Lines in descending order, because ascending ones would be prefetched.
    for line in (0..16).rev() {
        match stores {
            true => cpu.store_u64(mem, 64 * line, 1),
            false => drop(cpu.load_u64(mem, 64 * line)),
        }
    }
    (cpu.now().as_ps() - begun.as_ps()) / 16_000
}

/// Nanoseconds per line of each core, when cores use the memory one after another.
fn in_turn<const N: usize>(home: u32, cores: [(u32, bool); N]) -> [u64; N] {
    const KEYS: [&str; 4] = ["0", "1", "2", "3"];
    let mut cluster = SimCluster::new(&two_sockets(1), SimConfig::new(1));
    let mem = cluster.alloc_near(0, home, 4096, PageSize::Huge).expect("memory");
    let mut number = 0;
    let tasks = cores.map(|(core, stores)| {
        let after = (number > 0).then(|| KEYS[number - 1]);
        number += 1;
        cluster.spawn(0, core, Loads { mem, after, tells: KEYS[number - 1], stores })
    });
    cluster.run().expect("the run ends");
    tasks.map(|task| task.take().expect("a result"))
}

#[test]
fn loads_pay_for_the_way_to_where_the_line_is() {
    let of = profile("cx3").host;
    let ns = |span: Span| span.as_ps() / 1000;
    let (dram, transfer) = (ns(of.dram), ns(of.line_transfer));
    assert_eq!(in_turn(NEAR, [(NEAR, false)]), [dram]);
    assert_eq!(in_turn(FAR, [(NEAR, false)]), [dram + HOP], "memory of the other socket");
    // The socket that changed the line last holds it, whatever the line's home.
    assert_eq!(in_turn(FAR, [(FAR, true), (NEAR, false)]), [dram, transfer + HOP]);
    assert_eq!(in_turn(FAR, [(NEAR, true), (NEAR + 1, false)]), [dram + HOP, transfer]);
    // A copy in the core's own socket is enough for a load. A store must remove all copies.
    assert_eq!(
        in_turn(NEAR, [(NEAR, false), (FAR, false), (NEAR + 1, true)]),
        [dram, ns(of.dma_line) + HOP, transfer + HOP]
    );
}
