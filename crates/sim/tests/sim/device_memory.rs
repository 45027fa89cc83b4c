//! Memory on a NIC (ibv_alloc_dm(3)): its data, its PCIe traffic, and what it refuses.

use crate::common::{ALL, Node, profile};
use doorbell_nic::Profile;
use doorbell_sim::{PcieUse, SimCluster, SimConfig};
use doorbell_verbs::{
    Cluster, Context, Mr, PageSize, Program, Provider, RemoteAddr, RunError, SendFlags, SendOp, SendWr, Sge,
    Time, VerbsError, WcStatus,
};

const BYTES: u64 = 8192;

/// A section that gives a NIC some memory.
const SECTION: &str = r#"
[device_memory]
bytes = { value = 8192, basis = "assumed", reason = "a test", alternative = "none" }
access_ns = { value = 50, basis = "assumed", reason = "a test", alternative = "none" }
write_hold_ns = { value = 45, basis = "assumed", reason = "a test", alternative = "none" }
atomic_hold_ns = { value = 111, basis = "assumed", reason = "a test", alternative = "none" }
fetch_add_ns = { value = 26, basis = "assumed", reason = "a test", alternative = "none" }
"#;

/// The NIC of a profile with memory.
fn with_memory(base: &str) -> Profile {
    let text = format!("name = \"dm\"\ntitle = \"with memory\"\nbase = \"{base}\"\n{SECTION}");
    Profile::parse("dm.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

/// An operation on `remote` with the data of `sge`, and its end.
fn carry_out<P: Provider>(node: &Node<P>, op: SendOp, sge: Sge) {
    let wr = SendWr::new(1, op, std::slice::from_ref(&sge)).flags(SendFlags::SIGNALED);
    node.qp.post_send(&[wr]).expect("room");
    let wc = node.cq.wait(Time::NEVER).expect("a CQ").expect("a completion");
    assert_eq!(wc.status, WcStatus::Success, "{op:?}");
}

/// Exposes memory of its NIC, and of its host, until its peer is done. Returns a copy of its host's memory.
struct Exposes;

impl Program for Exposes {
    type Output = Vec<u8>;

    fn run<P: Provider>(self, p: P) -> Vec<u8> {
        let node = Node::new(&p, 4096, 16);
        let own = node.context.alloc_dm(4096).expect("device memory");
        let region = node.pd.reg_mr(own, ALL).expect("a region");
        p.publish("own", &region.remote(0).to_bytes());
        node.connect(&p, "b", "a");
        p.lookup("a/over");
        let mut bytes = vec![0; 256];
        p.read(node.mr.mem(), 0, &mut bytes);
        bytes
    }
}

/// Repeats an operation on the peer's memory on the NIC.
struct Repeats {
    op: fn(RemoteAddr) -> SendOp,
    bytes: u32,
    rounds: u64,
}

impl Program for Repeats {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 4096, 16);
        let own = RemoteAddr::from_bytes(&p.lookup("own")).expect("an address");
        node.connect(&p, "a", "b");
        (0..self.rounds).for_each(|_| carry_out(&node, (self.op)(own), node.mr.sge(0, self.bytes)));
        p.publish("a/over", &[]);
    }
}

/// PCIe traffic of the responder.
fn traffic(op: fn(RemoteAddr) -> SendOp, bytes: u32, rounds: u64) -> PcieUse {
    let mut cluster = SimCluster::new(&with_memory("cib"), SimConfig::new(2));
    cluster.spawn(0, 0, Repeats { op, bytes, rounds });
    cluster.spawn(1, 0, Exposes);
    cluster.run().expect("the run ends");
    cluster.metrics().pcie[1]
}

#[test]
fn device_memory_is_reached_without_pcie() {
    let cas = |remote| SendOp::CompareSwap { remote, compare: 0, swap: 0 };
    let faa = |remote| SendOp::FetchAdd { remote, add: 1 };
    let all: [(fn(RemoteAddr) -> SendOp, u32); 6] = [
        (SendOp::Write, 8),
        (SendOp::Write, 4096),
        (SendOp::Read, 8),
        (SendOp::Read, 4096),
        (cas, 8),
        (faa, 8),
    ];
    for (number, (op, bytes)) in all.into_iter().enumerate() {
        assert_eq!(traffic(op, bytes, 1), traffic(op, bytes, 9), "operation {number}");
    }
}

/// Accesses all kinds of memory by all verbs. Each value is read back.
struct Accesses;

impl Program for Accesses {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 4096, 16);
        let mem = node.mr.mem();
        let mine: Mr<P> =
            node.pd.reg_mr(node.context.alloc_dm(512).expect("device memory"), ALL).expect("a region");
        let there = RemoteAddr::from_bytes(&p.lookup("own")).expect("an address");
        let host = node.connect(&p, "a", "b");
        let bytes: Vec<u8> = (1..=100).collect();
        p.write(mem, 0, &bytes);
        carry_out(&node, SendOp::Write(there.at(64)), node.mr.sge(0, 100));
        carry_out(&node, SendOp::Read(there.at(60)), node.mr.sge(256, 108));
        let mut read = vec![9; 108];
        p.read(mem, 256, &mut read);
        assert_eq!((&read[..4], &read[4..104], &read[104..]), (&[0; 4][..], &bytes[..], &[0; 4][..]));
        // Two of three compare-and-swaps find the value that they expect.
        for (compare, swap, found) in [(0, 7, 0), (7, 8, 7), (7, 9, 8)] {
            let op = SendOp::CompareSwap { remote: there.at(512), compare, swap };
            carry_out(&node, op, node.mr.sge(1024, 8));
            assert_eq!(p.load_u64(mem, 1024), found);
        }
        for before in [8, 13] {
            carry_out(&node, SendOp::FetchAdd { remote: there.at(512), add: 5 }, node.mr.sge(1024, 8));
            assert_eq!(p.load_u64(mem, 1024), before);
        }
        // The requester's NIC puts returned data into its own memory, and sends payload from there.
        carry_out(&node, SendOp::Read(there.at(64)), mine.sge(0, 100));
        carry_out(&node, SendOp::FetchAdd { remote: there.at(512), add: 0 }, mine.sge(104, 8));
        carry_out(&node, SendOp::Write(host.at(0)), mine.sge(0, 112));
        p.publish("a/over", &[]);
    }
}

#[test]
fn device_memory_has_the_data_that_were_written_at_both_ends() {
    // A NIC that speaks iWARP has no atomics.
    let generation = profile("cib").device.generation;
    for base in ["cib", "cx3-dual", "e7520-on-die"] {
        let mut of_base = with_memory(base);
        of_base.device.generation = generation;
        let mut cluster = SimCluster::new(&of_base, SimConfig::new(2));
        cluster.spawn(0, 0, Accesses);
        let seen = cluster.spawn(1, 0, Exposes);
        cluster.run().unwrap_or_else(|e| panic!("{base}: {e}"));
        let seen = seen.take().expect("the thread ends");
        let bytes: Vec<u8> = (1..=100).collect();
        assert_eq!((&seen[..100], &seen[104..112]), (&bytes[..], &18u64.to_le_bytes()[..]), "{base}");
    }
}

/// Asks for device memory in vain.
struct AsksInVain;

impl Program for AsksInVain {
    type Output = Vec<VerbsError>;

    fn run<P: Provider>(self, p: P) -> Vec<VerbsError> {
        let context = Context::open(&p, 0).expect("a device");
        let pd = context.alloc_pd().expect("a PD");
        let mut refused = vec![context.alloc_dm(BYTES + 1).unwrap_err(), context.alloc_dm(0).unwrap_err()];
        if p.num_devices() > 1 {
            let other = Context::open(&p, 1).expect("a device");
            let mem = other.alloc_dm(64).expect("memory of the other device");
            refused.push(pd.reg_mr(mem, ALL).err().expect("refused"));
            // All of the memory fits, in pieces of whole lines.
            context.alloc_dm(BYTES - 64).expect("memory");
            context.alloc_dm(1).expect("the last line");
            refused.push(context.alloc_dm(1).unwrap_err());
        }
        refused
    }
}

fn refusals(profile: &Profile) -> Vec<String> {
    let mut cluster = SimCluster::new(profile, SimConfig::new(1));
    let refused = cluster.spawn(0, 0, AsksInVain);
    cluster.run().expect("the run ends");
    refused.take().expect("the thread ends").iter().map(ToString::to_string).collect()
}

#[test]
fn device_memory_that_is_not_there_is_refused() {
    let none = refusals(&profile("cib"));
    assert!(none.iter().all(|why| why.contains("profile cib has no section [device_memory]")), "{none:?}");
    let few = refusals(&with_memory("cx3-dual-split"));
    for (why, wanted) in few.iter().zip([
        "has 8192 bytes, of which 8192 are left, but 8193 are asked for",
        "an allocation has at least 1 byte",
        "belongs to another machine or to another device",
        "has 8192 bytes, of which 0 are left, but 1 are asked for",
    ]) {
        assert!(why.contains(wanted), "{few:?}");
    }
    assert_eq!(few.len(), 4);
}

/// Loads from device memory, which no core can.
struct Loads;

impl Program for Loads {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let context = Context::open(&p, 0).expect("a device");
        let mem = context.alloc_dm(64).expect("device memory");
        p.load_u64(mem, 0);
    }
}

/// Sends inline payload from device memory, which no core can.
struct Inlines;

impl Program for Inlines {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 64, 16);
        let own = node.pd.reg_mr(node.context.alloc_dm(64).expect("device memory"), ALL).expect("a region");
        let remote = node.mr.remote(0);
        let sge = [own.sge(0, 8)];
        let wr = SendWr::new(1, SendOp::Write(remote), &sge).flags(SendFlags::INLINE);
        let refused = node.qp.post_send(&[wr]).expect_err("refused").to_string();
        assert!(refused.contains("inline data lies outside the machine's memory"), "{refused}");
        p.alloc(64, PageSize::Small).expect("memory");
    }
}

#[test]
fn cores_do_not_reach_device_memory() {
    let mut cluster = SimCluster::new(&with_memory("cib"), SimConfig::new(1));
    cluster.spawn(0, 0, Loads);
    let Err(RunError::Panicked { message, .. }) = cluster.run() else { panic!("a panic") };
    assert!(message.contains("accesses memory of another machine, or of a NIC"), "{message}");
    let mut cluster = SimCluster::new(&with_memory("cib"), SimConfig::new(1));
    cluster.spawn(0, 0, Inlines);
    cluster.run().expect("the run ends");
}
