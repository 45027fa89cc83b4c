//! Tests UD multicast: a datagram to a group arrives at all attached QPs of all processes of the fabric.

use crate::common::running::{Running, alone, hear, role, say};
use crate::common::verbs::{Node, PORT, SIGNALED, Wr, call, state, to_gid};
use crate::common::{counting, launch, leaves_something, of_qps};
use doorbell_abi::ibv_qp_attr_mask::{IBV_QP_QKEY, IBV_QP_STATE};
use doorbell_abi::{IBV_WC_GRH, ibv_ah, ibv_ah_attr, ibv_gid, ibv_qp, ibv_qp_attr, ibv_wc};
use doorbell_launch::{Launch, Link, Ptrace};
use doorbell_verbs::{QpState, QpType, SendOp};
use libc::{EBUSY, EINVAL, c_int};
use serde_json::json;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    match &role()[..] {
        "refused ib" => refused(0xc001),
        "refused roce" => refused(0),
        role => serve(role.parse().expect("an index of the GID table")),
    }
}

const BYTES: usize = 16384;
/// Offset of the RECV buffers, with `ROOM` bytes for each QP. Payload to send is at offset 0.
const ARRIVALS: usize = 4096;
const ROOM: usize = 1024;
const MLID: u16 = 0xc123;
const MULTICAST_QPN: u32 = 0xff_ffff;
const QPS: usize = 3;

/// The GID of the group `number`: an IPv4-mapped address if the entry `index` of the GID table is one,
/// otherwise an IPv6 address.
fn group(node: &Node, index: u8, number: u8) -> ibv_gid {
    let mut raw = [0; 16];
    match node.gid(index).raw[..12] {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] => {
            raw[10..].copy_from_slice(&[0xff, 0xff, 239, 1, 2, number]);
        }
        _ => (raw[0], raw[1], raw[15]) = (0xff, 0x12, number),
    }
    ibv_gid { raw }
}

fn attach(qp: *mut ibv_qp, gid: ibv_gid, lid: u16) -> c_int {
    call!(c"ibv_attach_mcast"(qp => *mut ibv_qp, &raw const gid => *const ibv_gid, lid => u16) -> c_int)
}

fn detach(qp: *mut ibv_qp, gid: ibv_gid, lid: u16) -> c_int {
    call!(c"ibv_detach_mcast"(qp => *mut ibv_qp, &raw const gid => *const ibv_gid, lid => u16) -> c_int)
}

fn destroy(qp: *mut ibv_qp) -> c_int {
    call!(c"ibv_destroy_qp"(qp => *mut ibv_qp) -> c_int)
}

/// Carries out the test's commands. All paths use the entry `index` of the GID table.
fn serve(index: u8) {
    let node = Node::open_as(QpType::Ud, BYTES, QPS);
    (0..QPS).for_each(|qp| node.connect(qp, &node.endpoint(qp)));
    let ah = |number: u8| node.ah(ibv_ah_attr { dlid: MLID, ..to_gid(index, group(&node, index, number)) });
    let to_lid = |lid: u16| node.ah(ibv_ah_attr { dlid: lid, port_num: PORT, ..ibv_ah_attr::default() });
    loop {
        let line = hear();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u32>().expect("a number");
        let group_of = |at: usize| group(&node, index, number(at) as u8);
        let qp = |at: usize| node.qps[number(at) as usize];
        match words[0] {
            "attach" => say(attach(qp(1), group_of(2), MLID)),
            "detach" => say(detach(qp(1), group_of(2), MLID)),
            "destroy" => say(destroy(qp(1))),
            "qkey" => say(set_qkey(qp(1), number(2))),
            "recv" => {
                let qp = number(1) as usize;
                node.post_recv(qp, number(2) as usize, &[(ARRIVALS + qp * ROOM, ROOM as u32)]);
                say("posted");
            }
            "send" => say(send(&node, number(1) as usize, (ah(number(2) as u8), MULTICAST_QPN), number(3))),
            "send-to-lid" => {
                say(send(&node, number(1) as usize, (to_lid(number(2) as u16), MULTICAST_QPN), number(3)))
            }
            "send-to-qp" => say(send(&node, number(1) as usize, (ah(number(2) as u8), number(4)), number(3))),
            "all" => say(all(&node, index)),
            "numbers" => say(numbers(&node).map(|n| n.to_string()).join(" ")),
            "end" => return,
            other => panic!("no command {other:?}"),
        }
    }
}

fn numbers(node: &Node) -> [u32; QPS] {
    [0, 1, 2].map(|qp| node.endpoint(qp).qpn)
}

fn set_qkey(qp: *mut ibv_qp, qkey: u32) -> c_int {
    let mut attr = ibv_qp_attr { qkey, ..state(QpState::Rts) };
    call!(c"ibv_modify_qp"(
        qp => *mut ibv_qp, &raw mut attr => *mut ibv_qp_attr, IBV_QP_STATE | IBV_QP_QKEY => c_int
    ) -> c_int)
}

/// Sends a datagram of `bytes` bytes. Each byte, and the immediate, have the value `bytes`.
fn send(node: &Node, qp: usize, to: (*mut ibv_ah, u32), bytes: u32) -> &'static str {
    node.fill(0, bytes as usize, bytes as u8);
    let wr = Wr { op: SendOp::SendWithImm(bytes), buffers: &[(0, bytes)], flags: SIGNALED };
    node.post_to(qp, &[wr], Some(to));
    // Completions stay in the CQ for `all`.
    "sent"
}

/// Polls all completions. Returns the received messages and the completions of SENDs as sorted text.
fn all(node: &Node, index: u8) -> String {
    let mut said = Vec::new();
    while let Some(wc) = node.poll() {
        assert_eq!(wc.status, 0, "{wc:?}");
        let qp = numbers(node).iter().position(|num| *num == wc.qp_num).expect("one of its own");
        if wc.opcode & 128 == 0 {
            said.push(format!("{qp}:sent"));
            continue;
        }
        let (bytes, at) = (wc.byte_len - 40, ARRIVALS + qp * ROOM);
        assert_eq!(u32::from_be(wc.imm_data), bytes, "the immediate");
        assert!(node.is_all(at + 40, bytes as usize, bytes as u8), "the payload");
        said.push(format!("{qp}:{bytes}:{}", header(node, index, at, &wc)));
        node.fill(at, ROOM, 0);
    }
    said.sort();
    if said.is_empty() { "nothing".into() } else { said.join(" ") }
}

/// Checks a datagram's global route header. Returns the number of its group, or 0 if there is no header.
fn header(node: &Node, index: u8, at: usize, wc: &ibv_wc) -> u8 {
    let header = node.read(at, 40);
    if wc.wc_flags & IBV_WC_GRH == 0 {
        return 0;
    }
    let number = header[39];
    let (from, to) = (node.gid(index).raw, group(node, index, number).raw);
    match header[0] >> 4 {
        6 => assert_eq!((&header[8..24], &header[24..]), (&from[..], &to[..])),
        _ => assert_eq!((&header[32..36], &header[36..]), (&from[12..], &to[12..])),
    }
    number
}

/// A program that answers commands.
struct Member(Running);

impl Member {
    fn new(launch: &Launch, index: u8) -> Member {
        Member(Running::new(launch, HERE, &index.to_string()))
    }

    #[track_caller]
    fn does(&mut self, command: &str, answer: &str) {
        self.0.tell(command);
        assert_eq!(self.0.line(), answer, "{command}");
    }

    fn end(mut self) {
        self.0.tell("end");
        self.0.end("a member");
    }
}

/// Sends from a process with group members to itself and two other processes with members. One of the other
/// processes is killed.
fn between_processes(launch: Launch, index: u8) {
    let fabric = launch.fabric.clone().expect("one of its own");
    let (counted, report) = counting(&format!("multicast-{index}-{fabric}"), launch.clone());
    let mut sender = Member::new(&counted, index);
    let [mut one, mut other] = [0, 1].map(|_| Member::new(&launch, index));
    for member in [&mut sender, &mut one, &mut other] {
        for command in ["attach 0 1", "attach 1 1", "attach 1 2"] {
            member.does(command, "0");
        }
        (0..QPS).for_each(|qp| member.does(&format!("recv {qp} 5"), "posted"));
    }
    // Neither the sending QP nor the QP outside the group gets the datagram. Some payloads exceed the bytes
    // that a completion carries.
    for bytes in [8, 250, 900] {
        sender.does(&format!("send 0 1 {bytes}"), "sent");
        let had = format!("0:{bytes}:1 1:{bytes}:1");
        sender.does("all", &format!("0:sent 1:{bytes}:1"));
        one.does("all", &had);
        other.does("all", &had);
    }
    // Sends to a group with one QP of each process. Then one member has left the group, one has another
    // Q_Key, and one has no RECV.
    sender.does("send 0 2 16", "sent");
    one.does("all", "1:16:2");
    one.does("detach 1 2", "0");
    other.does("qkey 1 5", "0");
    sender.does("send 0 2 17", "sent");
    sender.does("all", "0:sent 0:sent 1:16:2 1:17:2");
    one.does("all", "nothing");
    other.does("all", "1:16:2");
    sender.does("send 1 1 18", "sent");
    sender.does("all", "0:18:1 1:sent");
    // QP 1 of `one` has now used all its RECVs.
    one.does("all", "0:18:1 1:18:1");
    other.does("all", "0:18:1");
    sender.does("send 0 1 19", "sent");
    sender.does("all", "0:sent");
    one.does("all", "0:19:1");
    // A killed process leaves no member.
    other.0.child.kill().expect("it runs");
    other.0.child.wait().expect("it ends");
    sender.does("send 2 1 20", "sent");
    sender.does("all", "0:20:1 2:sent");
    one.does("all", "nothing");
    // Sends to a group without members, and to a group's address with a QP number other than the multicast
    // QPN. An attached QP cannot be destroyed, as in the kernel.
    sender.does("send 2 3 21", "sent");
    sender.does("send-to-qp 2 1 22 7", "sent");
    sender.does("destroy 0", &EBUSY.to_string());
    sender.does("detach 0 1", "0");
    sender.does("destroy 0", "0");
    sender.does("all", "2:sent 2:sent");
    one.end();
    sender.end();
    let report = report();
    assert_eq!(of_qps(&report, "undelivered"), json!([0, 0, 2]));
    assert_eq!(of_qps(&report, "multicast"), json!([6, 1, 2]));
    assert_eq!(report["total"]["multicast"], 9);
    assert!(!leaves_something(&fabric), "something is left");
}

#[test]
fn a_datagram_to_a_group_reaches_all_its_members_but_who_sends() {
    between_processes(launch(Link::Ib), 0);
    between_processes(launch(Link::Roce), 0);
    between_processes(launch(Link::Roce), 3);
}

#[test]
fn members_whose_memory_is_their_own_get_it_too() {
    let private = Launch { private_buffers: true, ..launch(Link::Ib) };
    between_processes(private.clone(), 0);
    let fabric = launch(Link::Ib).fabric;
    between_processes(Launch { ptrace: Ptrace::No, fabric, ..private }, 0);
}

#[test]
fn on_infiniband_the_lid_counts() {
    let launch = launch(Link::Ib);
    let mut member = Member::new(&launch, 0);
    member.does("attach 0 1", "0");
    member.does("attach 0 2", "0");
    member.does("recv 0 5", "posted");
    member.does(&format!("send-to-lid 1 {MLID} 8"), "sent");
    // The QP gets the datagram once, although two of its groups have the LID.
    member.does("all", "0:8:0 1:sent");
    member.does(&format!("send-to-lid 1 {} 8", MLID + 1), "sent");
    member.does("all", "1:sent");
    member.end();
}

/// Makes calls that attach or detach a QP and are refused.
fn refused(lid: u16) {
    let mut node = Node::open_as(QpType::Ud, BYTES, 1);
    node.add_qp(QpType::Rc, node.cq, std::ptr::null_mut());
    let (ud, rc) = (node.qps[0], node.qps[1]);
    let [one, other] = [1, 2].map(|number| group(&node, 0, number));
    assert_eq!(attach(rc, one, lid), EINVAL, "not UD");
    assert_eq!(attach(ud, node.gid(0), lid), EINVAL, "no group");
    if lid != 0 {
        for lid in [0, 0xbfff, 0xffff] {
            assert_eq!(attach(ud, one, lid), EINVAL, "no LID of a group");
        }
    }
    assert_eq!(detach(ud, one, lid), EINVAL, "not attached");
    assert_eq!([attach(ud, one, lid), attach(ud, one, lid)], [0, 0], "twice is as once");
    assert_eq!(detach(ud, other, lid), EINVAL, "not attached to this one");
    assert_eq!(detach(ud, one, lid), 0);
    assert_eq!(detach(ud, one, lid), EINVAL, "not any more");
    assert_eq!([destroy(ud), destroy(rc)], [0, 0]);
}

#[test]
fn what_is_no_group_is_refused() {
    alone(Link::Ib, HERE, "refused ib");
    alone(Link::Roce, HERE, "refused roce");
}
