//! A host whose devices are not coherent with its caches: unflushed data is stale. CoNEXT'13 says that RDMA
//! on such hosts is broken for programs that do not know this (claim `conext13-s42-nonio-coherent`).

use crate::common::{Node, profile};
use doorbell_nic::Profile;
use doorbell_sim::{DeviceSlot, Machine, SimCluster, SimConfig};
use doorbell_verbs::{Cluster, Program, Provider, RecvWr, SendFlags, SendOp, SendWr, Span, Time};

const BYTES: u64 = 4096;

/// A host like CoNEXT'13's, with or without coherent devices.
fn host(coherent: bool) -> Profile {
    let mut profile = profile("e7520-t4");
    profile.hierarchy.as_mut().expect("a profile with caches that have sizes").io_coherent = coherent;
    profile
}

/// Stores to all of its buffer and sends it.
struct Sender {
    flushes: bool,
    inline: bool,
}

/// Has its whole buffer in its caches when a message arrives. Returns the contents before and after a flush.
struct Receiver;

impl Program for Sender {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, BYTES, 4);
        node.connect(&p, "sender", "receiver");
        let mem = node.mr.mem();
        let len = if self.inline { 64 } else { BYTES };
        p.write(mem, 0, &all(STORED));
        if self.flushes {
            p.flush(mem, 0, BYTES);
        }
        p.lookup("posted");
        let sge = [node.mr.sge(0, len as u32)];
        let flags = if self.inline { SendFlags::SIGNALED | SendFlags::INLINE } else { SendFlags::SIGNALED };
        node.qp.post_send(&[SendWr::new(0, SendOp::Send, &sge).flags(flags)]).expect("room");
        node.cq.wait(Time::NEVER).expect("a CQ");
        p.lookup("received");
    }
}

impl Program for Receiver {
    type Output = [Vec<u8>; 2];

    fn run<P: Provider>(self, p: P) -> [Vec<u8>; 2] {
        let node = Node::new(&p, BYTES, 4);
        let mem = node.mr.mem();
        let found = || {
            let mut bytes = vec![0; BYTES as usize];
            p.read(mem, 0, &mut bytes);
            bytes
        };
        found();
        node.connect(&p, "receiver", "sender");
        node.qp.post_recv(&[RecvWr { wr_id: 0, sg_list: &[node.mr.sge(0, BYTES as u32)] }]).expect("room");
        p.publish("posted", &[]);
        node.cq.wait(Time::NEVER).expect("a CQ");
        let at_once = found();
        p.flush(mem, 0, BYTES);
        let flushed = found();
        p.publish("received", &[]);
        [at_once, flushed]
    }
}

/// The bytes that a receiver finds. `there` and `here` say whether devices are coherent at sender and
/// receiver.
fn run(sender: Sender, there: bool, here: bool) -> [Vec<u8>; 2] {
    let hosts = [there, here].map(host);
    let devices = hosts.each_ref().map(|profile| [DeviceSlot { profile, socket: 0 }]);
    let machines = [0, 1].map(|i| Machine { host: &hosts[i], devices: &devices[i] });
    let mut cluster = SimCluster::of(&machines, SimConfig::new(2));
    cluster.spawn(0, 0, sender);
    let receiver = cluster.spawn(1, 0, Receiver);
    cluster.run().expect("both come to their end");
    receiver.take().expect("it has ended")
}

const BEFORE: u8 = 0;
const STORED: u8 = 7;

fn all(value: u8) -> Vec<u8> {
    vec![value; BYTES as usize]
}

#[test]
fn what_was_stored_and_not_flushed_is_not_sent() {
    let sent = |flushes, coherent| run(Sender { flushes, inline: false }, coherent, true)[0].clone();
    // All of the buffer is still in the sender's caches.
    assert_eq!(sent(false, false), all(BEFORE));
    assert_eq!(sent(true, false), all(STORED));
    assert_eq!(sent(false, true), all(STORED));
}

#[test]
fn what_came_is_not_seen_in_caches_until_they_are_flushed() {
    let found = |coherent| run(Sender { flushes: true, inline: false }, true, coherent);
    assert_eq!(found(false), [all(BEFORE), all(STORED)]);
    assert_eq!(found(true), [all(STORED), all(STORED)]);
}

#[test]
fn a_core_copies_its_own_bytes_into_a_wqe() {
    let found = run(Sender { flushes: false, inline: true }, false, true);
    assert_eq!(found[0][..64], all(STORED)[..64]);
}

/// Stores to half a line. Its peer WRITEs the other half. Then flushes the line and returns its contents.
struct Shares;

/// WRITEs the other half of the line.
struct Writer;

impl Program for Shares {
    type Output = (u64, u64);

    fn run<P: Provider>(self, p: P) -> (u64, u64) {
        let node = Node::new(&p, BYTES, 4);
        node.connect(&p, "shares", "writer");
        let mem = node.mr.mem();
        p.store_u64(mem, 0, 1);
        p.publish("stored", &[]);
        p.lookup("written");
        p.flush(mem, 0, 64);
        (p.load_u64(mem, 0), p.load_u64(mem, 32))
    }
}

impl Program for Writer {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, BYTES, 4);
        let remote = node.connect(&p, "writer", "shares");
        p.lookup("stored");
        p.store_u64(node.mr.mem(), 0, 2);
        p.flush(node.mr.mem(), 0, 8);
        let sge = [node.mr.sge(0, 8)];
        let write = SendWr::new(0, SendOp::Write(remote.at(32)), &sge).flags(SendFlags::SIGNALED);
        node.qp.post_send(&[write]).expect("room");
        node.cq.wait(Time::NEVER).expect("a CQ");
        // The data is on its way to memory before the WRITE completes, but may not be there yet.
        p.work(Span::from_us(10));
        p.publish("written", &[]);
    }
}

#[test]
fn a_line_goes_to_memory_as_a_whole() {
    let shared = |coherent| {
        let mut cluster = SimCluster::new(&host(coherent), SimConfig::new(2));
        let shares = cluster.spawn(0, 0, Shares);
        cluster.spawn(1, 0, Writer);
        cluster.run().expect("both come to their end");
        shares.take().expect("it has ended")
    };
    assert_eq!(shared(true), (1, 2));
    assert_eq!(shared(false), (1, 0), "what the device wrote is lost with a line that was changed here");
}
