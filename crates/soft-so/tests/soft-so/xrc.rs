//! Tests XRC: domains that processes share by a file, and requests that name an SRQ of any process.

use crate::common::own_time::OwnTime;
use crate::common::running::{Running, alone, hear, role, say};
use crate::common::verbs::{
    INIT_ATTR_PD, INIT_ATTR_SEND_OPS_FLAGS, Node, PORT, SIGNALED, call, errno, ops, state, to_lid,
};
use crate::common::{counting, launch};
use doorbell_abi::ibv_qp_attr_mask::*;
use doorbell_abi::{
    IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, ibv_async_event, ibv_context, ibv_qp, ibv_qp_attr, ibv_qp_cap,
    ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_recv_wr, ibv_send_wr,
    ibv_send_wr_atomic, ibv_send_wr_bind_mw, ibv_send_wr_operands, ibv_send_wr_rdma, ibv_srq, ibv_srq_attr,
    ibv_srq_init_attr_ex, ibv_xrcd, ibv_xrcd_init_attr,
};
use doorbell_launch::{Launch, Link, Ptrace};
use doorbell_verbs::{AccessFlags, QpState};
use libc::{EAGAIN, EBADF, EBUSY, EINVAL, EOPNOTSUPP, O_CREAT, O_EXCL, c_int};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::null_mut;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    match &role()[..] {
        "serve" => serve(),
        "refused" => refused(),
        "handles" => handles(),
        "apart" => apart(),
        role => panic!("no role {role:?}"),
    }
}

const BYTES: usize = 16384;
/// Offset of the RECV buffers. Payload is at lower offsets.
const ARRIVAL: usize = 8192;
const ROOM: u32 = 1024;
/// Opcodes (`IBV_WR_*`) and statuses (`IBV_WC_*`) of verbs.h.
const WRITE: u32 = 0;
const WRITE_WITH_IMM: u32 = 1;
const SEND: u32 = 2;
const READ: u32 = 4;
const FETCH_ADD: u32 = 6;
const SUCCESS: u32 = 0;
const REM_INV_REQ_ERR: u32 = 9;
const REM_ACCESS_ERR: u32 = 10;
const RETRY_EXC_ERR: u32 = 12;
const RNR_RETRY_EXC_ERR: u32 = 13;
/// Asynchronous events of verbs.h: `IBV_EVENT_*`.
const EVENT_QP_REQ_ERR: u32 = 2;
const EVENT_QP_ACCESS_ERR: u32 = 3;
const EVENT_SRQ_LIMIT_REACHED: u32 = 15;

/// The XRC objects of a process: at most one of each kind.
struct Xrc {
    node: Node,
    xrcd: *mut ibv_xrcd,
    srq: *mut ibv_srq,
    target: *mut ibv_qp,
    initiator: *mut ibv_qp,
    opened: *mut ibv_qp,
}

impl Xrc {
    fn new() -> Xrc {
        let node = Node::open(BYTES, 0);
        let [target, initiator, opened] = [null_mut(); 3];
        Xrc { node, xrcd: null_mut(), srq: null_mut(), target, initiator, opened }
    }

    /// Opens an XRC domain. Returns 0 or an errno.
    fn open(&mut self, fd: c_int, oflags: c_int) -> c_int {
        let mut attr = ibv_xrcd_init_attr { comp_mask: 3, fd, oflags };
        // SAFETY: the context is live, and the struct belongs to this function.
        self.xrcd =
            unsafe { ops(self.node.context).open_xrcd.expect("it is served")(self.node.context, &mut attr) };
        if self.xrcd.is_null() { errno() } else { 0 }
    }

    fn close(&self) -> c_int {
        // SAFETY: the context and the domain are live.
        unsafe { ops(self.node.context).close_xrcd.expect("it is served")(self.xrcd) }
    }

    /// The attributes of an XRC SRQ.
    fn srq_attr(&self) -> ibv_srq_init_attr_ex {
        ibv_srq_init_attr_ex {
            srq_context: null_mut(),
            attr: ibv_srq_attr { max_wr: 16, max_sge: 1, srq_limit: 0 },
            comp_mask: 0b1111,
            srq_type: 1,
            pd: self.node.pd,
            xrcd: self.xrcd,
            cq: self.node.cq,
            tm_cap: [0; 2],
        }
    }

    fn make_srq(&mut self) -> u32 {
        let (mut attr, mut number, of) = (self.srq_attr(), 0, ops(self.node.context));
        // SAFETY: the objects are live, and the structs belong to this function.
        unsafe {
            self.srq = of.create_srq_ex.expect("it is served")(self.node.context, &mut attr);
            assert!(!self.srq.is_null(), "an SRQ cannot be made: {}", errno());
            assert_eq!(of.get_srq_num.expect("it is served")(self.srq, &mut number), 0);
        }
        number
    }

    fn make_target(&mut self) -> u32 {
        // SAFETY: the struct has integers and pointers, which may be zero.
        let mut attr: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
        (attr.qp_type, attr.comp_mask, attr.xrcd) = (IBV_QPT_XRC_RECV, 2, self.xrcd);
        // SAFETY: the objects are live, and the struct belongs to this function.
        self.target = unsafe {
            ops(self.node.context).create_qp_ex.expect("it is served")(self.node.context, &mut attr)
        };
        init(self.target)
    }

    /// Opens a target QP. Returns 0 or an errno.
    fn open_qp(&mut self, qp_num: u32) -> c_int {
        let qp_type = IBV_QPT_XRC_RECV;
        let (comp_mask, xrcd) = (0b1011, self.xrcd);
        let mut attr = ibv_qp_open_attr { comp_mask, qp_num, xrcd, qp_context: null_mut(), qp_type };
        // SAFETY: the objects are live, and the struct belongs to this function.
        self.opened =
            unsafe { ops(self.node.context).open_qp.expect("it is served")(self.node.context, &mut attr) };
        if self.opened.is_null() { errno() } else { 0 }
    }

    /// Queries the opened QP. Returns its number, state and peer as text.
    fn query_opened(&self) -> String {
        let (attr, init) = query(self.opened);
        assert_eq!(init.qp_type, IBV_QPT_XRC_RECV);
        // SAFETY: the QP is live.
        format!("{} {} {}", unsafe { (*self.opened).qp_num }, attr.qp_state, attr.dest_qp_num)
    }

    fn make_initiator(&mut self) -> u32 {
        let cap = ibv_qp_cap { max_send_wr: 16, max_send_sge: 1, ..ibv_qp_cap::default() };
        // SAFETY: the struct has integers and pointers, which may be zero.
        let mut attr: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
        (attr.send_cq, attr.pd, attr.cap) = (self.node.cq, self.node.pd, cap);
        (attr.qp_type, attr.comp_mask) = (IBV_QPT_XRC_SEND, INIT_ATTR_PD | INIT_ATTR_SEND_OPS_FLAGS);
        // SAFETY: the objects are live, and the struct belongs to this function.
        self.initiator = unsafe {
            ops(self.node.context).create_qp_ex.expect("it is served")(self.node.context, &mut attr)
        };
        init(self.initiator)
    }

    /// Moves a QP from Init to Rts.
    fn connect(&self, qp: *mut ibv_qp, dest_qp_num: u32) {
        self.connect_with(qp, dest_qp_num, false);
    }

    /// Moves a QP from Init to Rts. If `has_all`, the call also sets the attributes of the other role.
    fn connect_with(&self, qp: *mut ibv_qp, dest_qp_num: u32, has_all: bool) {
        let attr = ibv_qp_attr {
            path_mtu: 5,
            dest_qp_num,
            max_dest_rd_atomic: 1,
            max_rd_atomic: 1,
            min_rnr_timer: 1,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 1,
            ah_attr: to_lid(self.node.lid),
            ..state(QpState::Rtr)
        };
        let of_path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        let of_responder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        let of_requester = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        // SAFETY: the QP is live.
        let (rtr, rts) = match unsafe { (*qp).qp_type } {
            _ if has_all => (of_responder, of_requester),
            IBV_QPT_XRC_SEND => (0, of_requester),
            _ => (of_responder, 0),
        };
        assert_eq!(modify(qp, attr, IBV_QP_STATE | of_path | rtr), 0, "to Rtr");
        let attr = ibv_qp_attr { qp_state: 3, ..attr };
        assert_eq!(modify(qp, attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | rts), 0, "to Rts");
    }

    fn recv(&self, count: u32) {
        let mut sges = self.node.sges(&[(ARRIVAL, ROOM)]);
        for wr_id in 0..count.into() {
            let mut wr = ibv_recv_wr { wr_id, next: null_mut(), sg_list: sges.as_mut_ptr(), num_sge: 1 };
            let mut bad = null_mut();
            // SAFETY: the SRQ is live, and the work request outlives the call.
            let posted = unsafe {
                (*self.node.context).ops.post_srq_recv.expect("it is served")(self.srq, &mut wr, &mut bad)
            };
            assert_eq!(posted, 0);
        }
    }

    /// Posts a work request that names an SRQ. The local buffer is the first `bytes` bytes of the node's
    /// memory. The last parameter is the remote address and the rkey.
    fn post(&self, opcode: u32, srqn: u32, bytes: u32, (remote_addr, rkey): (u64, u32)) {
        let mut sges = self.node.sges(&[(0, bytes)]);
        let wr = match opcode {
            FETCH_ADD => ibv_send_wr_operands {
                atomic: ibv_send_wr_atomic { remote_addr, compare_add: 5, swap: 0, rkey },
            },
            _ => ibv_send_wr_operands { rdma: ibv_send_wr_rdma { remote_addr, rkey } },
        };
        let mut wr = ibv_send_wr {
            wr_id: 7,
            next: null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: 1,
            opcode,
            send_flags: SIGNALED,
            imm_data: 0x1234u32.to_be(),
            wr,
            remote_srqn: srqn,
            bind_mw: ibv_send_wr_bind_mw::default(),
        };
        let mut bad = null_mut();
        // SAFETY: the QP is live, and the work request outlives the call.
        let posted = unsafe {
            (*self.node.context).ops.post_send.expect("it is served")(self.initiator, &mut wr, &mut bad)
        };
        assert_eq!(posted, 0);
    }

    /// Posts a SEND that names an SRQ by ibv_wr_send(3) and similar functions.
    fn post_by_functions(&self, srqn: u32, bytes: u32) {
        let sge = self.node.sges(&[(0, bytes)])[0];
        let qp = self.initiator.cast::<ibv_qp_ex>();
        // SAFETY: the QP is live.
        unsafe {
            let of = &mut *qp;
            of.wr_start.expect("it is served")(qp);
            (of.wr_id, of.wr_flags) = (8, SIGNALED);
            of.wr_send.expect("it is served")(qp);
            of.wr_set_xrc_srqn.expect("it is served")(qp, srqn);
            of.wr_set_sge.expect("it is served")(qp, sge.lkey, sge.addr, sge.length);
            assert_eq!(of.wr_complete.expect("it is served")(qp), 0);
        }
    }

    /// Waits for the posted request's completion. Returns its status.
    fn status(&self) -> u32 {
        let begin = OwnTime::start();
        loop {
            if let Some(wc) = self.node.poll() {
                return wc.status;
            }
            assert!(!begin.is_hang(), "no completion");
        }
    }

    /// Polls one completion of the SRQ and returns it as text: sending QP, receiving QP, opcode, bytes,
    /// immediate, first byte.
    fn received(&self) -> String {
        match self.node.poll() {
            None => "nothing".into(),
            Some(wc) => {
                assert_eq!(wc.status, SUCCESS, "{wc:?}");
                let imm = if wc.wc_flags & 2 != 0 { u32::from_be(wc.imm_data) } else { 0 };
                let first = self.node.read(ARRIVAL, wc.byte_len.max(1) as usize);
                let byte = first[0];
                assert!(wc.opcode != 128 || first.iter().all(|other| *other == byte), "the payload");
                format!("{} by {}: {} {} {imm:#x} {byte}", wc.src_qp, wc.qp_num, wc.opcode, wc.byte_len)
            }
        }
    }

    /// Waits for the next asynchronous event. Returns its type, and whether it concerns the target QP or the
    /// SRQ.
    fn event(&self) -> String {
        let mut event = ibv_async_event { element: null_mut(), event_type: 0 };
        let got = call!(c"ibv_get_async_event"(
            self.node.context => *mut ibv_context, &raw mut event => *mut ibv_async_event
        ) -> c_int);
        assert_eq!(got, 0);
        call!(c"ibv_ack_async_event"(&raw mut event => *mut ibv_async_event) -> ());
        let of = if event.element == self.target.cast() { "target" } else { "other" };
        let of = if event.element == self.srq.cast() { "SRQ" } else { of };
        format!("{} {of}", event.event_type)
    }
}

fn no_init_attr() -> ibv_qp_init_attr {
    // SAFETY: the struct has integers and pointers, which may be zero.
    unsafe { std::mem::zeroed() }
}

fn query(qp: *mut ibv_qp) -> (ibv_qp_attr, ibv_qp_init_attr) {
    let (mut attr, mut init) = (state(QpState::Reset), no_init_attr());
    let queried = call!(c"ibv_query_qp"(
        qp => *mut ibv_qp, &raw mut attr => *mut ibv_qp_attr, 0 => c_int,
        &raw mut init => *mut ibv_qp_init_attr
    ) -> c_int);
    assert_eq!(queried, 0);
    (attr, init)
}

fn modify(qp: *mut ibv_qp, mut attr: ibv_qp_attr, mask: c_int) -> c_int {
    call!(c"ibv_modify_qp"(qp => *mut ibv_qp, &raw mut attr => *mut ibv_qp_attr, mask => c_int) -> c_int)
}

fn init(qp: *mut ibv_qp) -> u32 {
    assert!(!qp.is_null(), "a QP cannot be made: {}", errno());
    let attr =
        ibv_qp_attr { port_num: PORT, qp_access_flags: AccessFlags::all().bits(), ..state(QpState::Init) };
    let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    assert_eq!(modify(qp, attr, mask), 0, "to Init");
    // SAFETY: the QP is live.
    unsafe { (*qp).qp_num }
}

fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    call!(c"ibv_destroy_qp"(qp => *mut ibv_qp) -> c_int)
}

fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    call!(c"ibv_destroy_srq"(srq => *mut ibv_srq) -> c_int)
}

/// Carries out the test's commands and prints an answer to each.
fn serve() {
    let mut xrc = Xrc::new();
    loop {
        let line = hear();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "open" => {
                let file = std::fs::File::open(words[1]).expect("it is there");
                say(xrc.open(file.as_raw_fd(), number(2) as c_int));
            }
            "close" => say(xrc.close()),
            "target" => say(xrc.make_target()),
            "initiator" => say(xrc.make_initiator()),
            "srq" => say(xrc.make_srq()),
            "join-target" => {
                xrc.connect(xrc.target, number(1) as u32);
                say("joined");
            }
            "join-initiator" => {
                xrc.connect(xrc.initiator, number(1) as u32);
                say("joined");
            }
            "reset" => {
                for qp in [xrc.target, xrc.initiator].into_iter().filter(|qp| !qp.is_null()) {
                    assert_eq!(modify(qp, state(QpState::Reset), IBV_QP_STATE), 0);
                    init(qp);
                }
                say("reset");
            }
            "recv" => {
                xrc.recv(number(1) as u32);
                say("posted");
            }
            "limit" => {
                let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: number(1) as u32 };
                say(call!(c"ibv_modify_srq"(
                    xrc.srq => *mut ibv_srq, &raw mut attr => *mut ibv_srq_attr, 2 => c_int
                ) -> c_int));
            }
            // The arguments are opcode, SRQ, bytes, address and rkey.
            "post" => {
                let bytes = number(3) as u32;
                if number(1) as u32 != READ {
                    xrc.node.fill(0, bytes as usize, bytes as u8);
                }
                xrc.post(number(1) as u32, number(2) as u32, bytes, (number(4), number(5) as u32));
                say(xrc.status());
            }
            "call" => {
                xrc.node.fill(0, number(2) as usize, number(2) as u8);
                xrc.post_by_functions(number(1) as u32, number(2) as u32);
                say(xrc.status());
            }
            "received" => say(xrc.received()),
            "event" => say(xrc.event()),
            "has-event" => say(xrc.node.has_async_event()),
            // SAFETY: the region is live.
            "memory" => say(format!("{} {}", xrc.node.address(0) as u64, unsafe { (*xrc.node.mr).rkey })),
            "byte" => say(xrc.node.read(number(1) as usize, 1)[0]),
            "open-qp" => say(xrc.open_qp(number(1) as u32)),
            "query-opened" => say(xrc.query_opened()),
            "modify-opened" => say(modify(xrc.opened, state(QpState::Err), IBV_QP_STATE)),
            "destroy-opened" => say(destroy_qp(xrc.opened)),
            "destroy-srq" => say(destroy_srq(xrc.srq)),
            "end" => return,
            other => panic!("no command {other:?}"),
        }
    }
}

/// A program that answers commands.
struct Member(Running);

impl Member {
    fn new(launch: &Launch) -> Member {
        Member(Running::new(launch, HERE, "serve"))
    }

    fn tells(&mut self, command: &str) -> String {
        self.0.tell(command);
        self.0.line()
    }

    #[track_caller]
    fn does(&mut self, command: &str, answer: impl std::fmt::Display) {
        assert_eq!(self.tells(command), answer.to_string(), "{command}");
    }

    fn end(mut self) {
        self.0.tell("end");
        self.0.end("a member");
    }

    fn kill(mut self) {
        self.0.child.kill().expect("it runs");
        self.0.child.wait().expect("it ends");
    }
}

/// A new file, by which processes share a domain.
fn domain() -> tempfile::NamedTempFile {
    tempfile::NamedTempFile::new().expect("a file")
}

/// Three processes: the first has the target QP, the second has the SRQ, and the third sends.
struct Three {
    has_qp: Member,
    has_srq: Member,
    sends: Member,
    target: String,
    initiator: String,
    srqn: String,
}

impl Three {
    fn new(launch: &Launch, file: &Path) -> Three {
        Three::of([launch; 3].map(Member::new), file)
    }

    fn of([mut has_qp, mut has_srq, mut sends]: [Member; 3], file: &Path) -> Three {
        has_qp.does(&format!("open {} {O_CREAT}", file.display()), 0);
        has_srq.does(&format!("open {} 0", file.display()), 0);
        let (target, srqn, initiator) =
            (has_qp.tells("target"), has_srq.tells("srq"), sends.tells("initiator"));
        let mut three = Three { has_qp, has_srq, sends, target, initiator, srqn };
        three.connect();
        three
    }

    fn connect(&mut self) {
        self.has_qp.does(&format!("join-target {}", self.initiator), "joined");
        self.sends.does(&format!("join-initiator {}", self.target), "joined");
    }

    /// Resets the QPs after an error, and connects them again.
    fn connect_again(&mut self) {
        self.has_qp.does("reset", "reset");
        self.sends.does("reset", "reset");
        self.connect();
    }

    /// Posts a work request of `bytes` bytes, and asserts that it completes with `status`.
    #[track_caller]
    fn post(&mut self, opcode: u32, srqn: &str, bytes: u32, remote: &str, status: u32) {
        self.sends.does(&format!("post {opcode} {srqn} {bytes} {remote}"), status);
    }

    #[track_caller]
    fn receives(&mut self, what: &str) {
        let from = format!("{} by {}: {what}", self.initiator, self.target);
        self.has_srq.does("received", from);
        self.has_srq.does("received", "nothing");
    }

    fn carries_all(&mut self) {
        let (srqn, memory) = (self.srqn.clone(), self.has_srq.tells("memory"));
        self.has_srq.does("recv 6", "posted");
        for bytes in [8, 250, 1000] {
            self.post(SEND, &srqn, bytes, "0 0", SUCCESS);
            self.receives(&format!("128 {bytes} 0x0 {}", bytes as u8));
        }
        self.sends.does(&format!("call {srqn} 24"), SUCCESS);
        self.receives("128 24 0x0 24");
        // A remote address belongs to the process that has the SRQ.
        self.post(WRITE, &srqn, 2000, &memory, SUCCESS);
        self.has_srq.does("byte 1999", 2000u32 as u8);
        self.post(WRITE_WITH_IMM, &srqn, 33, &memory, SUCCESS);
        self.receives("129 33 0x1234 24");
        self.has_srq.does("byte 32", 33);
        self.post(READ, &srqn, 64, &memory, SUCCESS);
        self.sends.does("byte 33", 2000u32 as u8);
        self.post(FETCH_ADD, &srqn, 8, &memory, SUCCESS);
        self.has_srq.does("byte 0", 33 + 5);
        self.sends.does("byte 0", 33);
    }

    fn end(self) {
        for member in [self.has_qp, self.has_srq, self.sends] {
            member.end();
        }
    }
}

#[test]
fn a_request_goes_to_the_srq_of_another_process_than_the_qps() {
    let private = Launch { private_buffers: true, ..launch(Link::Ib) };
    let closed = Launch { ptrace: Ptrace::No, ..launch(Link::Ib) };
    for launch in [launch(Link::Ib), private, closed] {
        let file = domain();
        let mut three = Three::new(&launch, file.path());
        three.carries_all();
        three.end();
    }
}

#[test]
fn a_target_may_be_opened_by_other_processes() {
    let launch = launch(Link::Ib);
    let (file, other) = (domain(), domain());
    let mut three = Three::new(&launch, file.path());
    let (target, initiator) = (three.target.clone(), three.initiator.clone());
    three.sends.does(&format!("open {} {O_CREAT}", other.path().display()), 0);
    three.sends.does(&format!("open-qp {target}"), EINVAL);
    three.has_srq.does(&format!("open-qp {initiator}"), EINVAL);
    three.has_srq.does(&format!("open-qp {target}"), 0);
    three.has_srq.does("query-opened", format!("{target} 3 {initiator}"));
    three.has_srq.does("modify-opened", EOPNOTSUPP);
    three.has_srq.does("close", EBUSY);
    three.has_qp.does("reset", "reset");
    three.has_srq.does("query-opened", format!("{target} 1 0"));
    three.has_qp.kill();
    three.has_srq.does("query-opened", format!("{target} 6 0"));
    three.has_srq.does("destroy-opened", 0);
    three.has_srq.does(&format!("open-qp {target}"), EINVAL);
    three.has_srq.does("destroy-srq", 0);
    three.has_srq.does("close", 0);
    three.has_srq.end();
    three.sends.end();
}

#[test]
fn what_comes_to_an_srq_its_process_counts() {
    let launch = launch(Link::Ib);
    let file = domain();
    let [(of_qp, qp_report), (of_srq, srq_report), (of_sender, sender_report)] =
        ["qp", "srq", "sender"].map(|who| counting(&format!("xrc-{who}"), launch.clone()));
    let mut three = Three::of([&of_qp, &of_srq, &of_sender].map(Member::new), file.path());
    three.carries_all();
    three.end();
    let reports = [qp_report(), srq_report(), sender_report()];
    let counts = |key: &str| reports.each_ref().map(|report| report["total"][key].as_u64().expect("a count"));
    assert_eq!(counts("work_requests"), [0, 0, 8]);
    assert_eq!(counts("messages_received"), [0, 5, 0]);
    assert_eq!(counts("recvs"), [0, 6, 0]);
}

#[test]
fn what_is_not_of_the_domain_is_refused_by_the_qp() {
    let launch = launch(Link::Ib);
    let (file, other) = (domain(), domain());
    let mut three = Three::new(&launch, file.path());
    let mut stranger = Member::new(&launch);
    stranger.does(&format!("open {} {O_CREAT}", other.path().display()), 0);
    let strange = stranger.tells("srq");
    stranger.does("recv 1", "posted");
    let srqn = three.srqn.clone();
    // Requests name an SRQ of another domain, a number that no process has, and a number that no SRQ of the
    // process has.
    let none = (srqn.parse::<u32>().expect("a number") ^ 1).to_string();
    for srqn in [&strange, "16776000", &none] {
        three.post(SEND, srqn, 8, "0 0", REM_INV_REQ_ERR);
        three.has_qp.does("event", format!("{EVENT_QP_REQ_ERR} target"));
        // A target has no SRQ of its own, so no event reports its last WQE.
        three.has_qp.does("has-event", false);
        three.connect_again();
    }
    stranger.does("received", "nothing");
    // A request cannot access the memory of the process that has the QP.
    let (own, theirs) = (three.has_qp.tells("memory"), three.has_srq.tells("memory"));
    let (addr, rkey) = (own.split_once(' ').expect("two").0, theirs.split_once(' ').expect("two").1);
    three.post(WRITE, &srqn, 8, &format!("{addr} 99"), REM_ACCESS_ERR);
    three.has_qp.does("event", format!("{EVENT_QP_ACCESS_ERR} target"));
    three.connect_again();
    assert_ne!(rkey, "99");
    // The SRQ has no RECV.
    three.post(SEND, &srqn, 8, "0 0", RNR_RETRY_EXC_ERR);
    three.connect_again();
    // The process with the SRQ gets an event when the number of RECVs falls below the limit.
    three.has_srq.does("recv 2", "posted");
    three.has_srq.does("limit 2", 0);
    three.post(SEND, &srqn, 8, "0 0", SUCCESS);
    three.has_srq.does("event", format!("{EVENT_SRQ_LIMIT_REACHED} SRQ"));
    // The SRQ has been destroyed.
    three.has_srq.does("destroy-srq", 0);
    three.post(SEND, &srqn, 8, "0 0", REM_INV_REQ_ERR);
    stranger.end();
    three.end();
}

#[test]
fn of_a_process_that_is_killed_nothing_is_left() {
    // The buffers are private, because a peer may keep the shared memory of a killed process for a while.
    let launch = Launch { private_buffers: true, ..launch(Link::Ib) };
    let file = domain();
    let mut three = Three::new(&launch, file.path());
    let (srqn, memory) = (three.srqn.clone(), three.has_srq.tells("memory"));
    three.post(WRITE, &srqn, 8, &memory, SUCCESS);
    let Three { mut has_qp, has_srq, mut sends, target, initiator, .. } = three;
    has_srq.kill();
    sends.does(&format!("post {WRITE} {srqn} 8 {memory}"), REM_INV_REQ_ERR);
    has_qp.does("reset", "reset");
    sends.does("reset", "reset");
    has_qp.does(&format!("join-target {initiator}"), "joined");
    sends.does(&format!("join-initiator {target}"), "joined");
    has_qp.kill();
    sends.does(&format!("post {SEND} {srqn} 8 0 0"), RETRY_EXC_ERR);
    // No process has the domain open any more, so the domain does not exist.
    sends.does(&format!("open {} 0", file.path().display()), EAGAIN);
    sends.does(&format!("open {} {}", file.path().display(), O_CREAT | O_EXCL), 0);
    sends.end();
}

/// Makes calls that the kernel or a driver refuses, and checks their errnos.
fn refused() {
    let mut xrc = Xrc::new();
    let file = std::fs::File::open(std::env::current_exe().expect("a file")).expect("it is there");
    let fd = file.as_raw_fd();
    assert_eq!(xrc.open(9999, O_CREAT), EBADF);
    assert_eq!(xrc.open(fd, 0), EAGAIN, "there is none yet");
    assert_eq!(xrc.open(fd, O_CREAT | O_EXCL), 0);
    let first = xrc.xrcd;
    assert_eq!(xrc.open(fd, O_CREAT | O_EXCL), EINVAL, "there is one");
    assert_eq!(xrc.open(fd, 0), 0, "the same again");
    assert_eq!(xrc.close(), 0);
    assert_eq!(xrc.open(-1, O_CREAT), 0, "one of no file");
    assert_eq!(xrc.close(), 0);
    xrc.xrcd = first;
    for without in [0b0111, 0b1011, 0b1101] {
        let mut attr = ibv_srq_init_attr_ex { comp_mask: without, ..xrc.srq_attr() };
        let make = ops(xrc.node.context).create_srq_ex.expect("it is served");
        // SAFETY: the objects are live, and the struct belongs to this function.
        let made = unsafe { make(xrc.node.context, &mut attr) };
        assert_eq!((made.is_null(), errno()), (true, EINVAL), "without one of PD, CQ, domain");
    }
    xrc.make_target();
    assert_eq!(xrc.close(), EBUSY, "a QP is in it");
    xrc.make_srq();
    let attr = ibv_qp_attr { max_rd_atomic: 1, ..state(QpState::Init) };
    let more = IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC;
    assert_eq!(modify(xrc.target, attr, more), 0, "it has no meaning for a target");
    assert_eq!(query(xrc.target).0.max_rd_atomic, 0, "it was not kept");
    xrc.connect(xrc.target, 77);
    let (mut wr, mut bad) = (send_wr(), null_mut());
    // SAFETY: the QP is live, and the work request outlives the call.
    let post = |qp, wr: &mut ibv_send_wr, bad: &mut *mut ibv_send_wr| unsafe {
        (*xrc.node.context).ops.post_send.expect("it is served")(qp, wr, bad)
    };
    assert_eq!(post(xrc.target, &mut wr, &mut bad), EINVAL, "a target sends nothing");
    assert_eq!(destroy_qp(xrc.target), 0);
    assert_eq!(xrc.close(), EBUSY, "an SRQ is in it");
    let cq = xrc.node.cq;
    let destroyed = call!(c"ibv_destroy_cq"(cq => *mut doorbell_abi::ibv_cq) -> c_int);
    assert_eq!(destroyed, EBUSY, "an SRQ completes there");
    assert_eq!(destroy_srq(xrc.srq), 0);
    assert_eq!(xrc.close(), 0);
    xrc.make_initiator();
    let attr = ibv_qp_attr { min_rnr_timer: 1, ..state(QpState::Init) };
    let more = IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER;
    assert_eq!(modify(xrc.initiator, attr, more), 0, "it has no meaning for an initiator");
    assert_eq!(query(xrc.initiator).0.min_rnr_timer, 0, "it was not kept");
    let attr = ibv_qp_attr { rnr_retry: 1, ..state(QpState::Init) };
    assert_eq!(modify(xrc.initiator, attr, IBV_QP_STATE | IBV_QP_RNR_RETRY), EINVAL, "it is of another step");
    let mut sges = xrc.node.sges(&[(0, 8)]);
    let mut recv = ibv_recv_wr { wr_id: 0, next: null_mut(), sg_list: sges.as_mut_ptr(), num_sge: 1 };
    let mut bad = null_mut();
    // SAFETY: the QP is live, and the RECV outlives the call.
    let posted = unsafe {
        (*xrc.node.context).ops.post_recv.expect("it is served")(xrc.initiator, &mut recv, &mut bad)
    };
    assert_eq!(posted, EINVAL, "an initiator receives nothing");
    assert_eq!(destroy_qp(xrc.initiator), 0);
}

fn send_wr() -> ibv_send_wr {
    ibv_send_wr {
        wr_id: 0,
        next: null_mut(),
        sg_list: null_mut(),
        num_sge: 0,
        opcode: SEND,
        send_flags: SIGNALED,
        imm_data: 0,
        wr: ibv_send_wr_operands { rdma: ibv_send_wr_rdma { remote_addr: 0, rkey: 0 } },
        remote_srqn: 0,
        bind_mw: ibv_send_wr_bind_mw::default(),
    }
}

/// Sends to an SRQ of another domain. Domains that were opened without a file are all different.
fn apart() {
    let mut xrc = Xrc::new();
    assert_eq!(xrc.open(-1, O_CREAT), 0);
    let (target, initiator) = (xrc.make_target(), xrc.make_initiator());
    assert_eq!(xrc.open(-1, O_CREAT), 0);
    let srqn = xrc.make_srq();
    xrc.recv(1);
    xrc.connect(xrc.target, initiator);
    xrc.connect(xrc.initiator, target);
    xrc.post(SEND, srqn, 8, (0, 0));
    assert_eq!(xrc.status(), REM_INV_REQ_ERR);
}

#[test]
fn domains_of_no_file_never_meet() {
    alone(Link::Ib, HERE, "apart");
}

#[test]
fn a_domain_is_there_while_a_process_has_it_open() {
    let launch = launch(Link::Ib);
    let (file, other_file) = (domain(), domain());
    let open = |file: &tempfile::NamedTempFile, flags| format!("open {} {flags}", file.path().display());
    let [mut one, mut other] = [(); 2].map(|()| Member::new(&launch));
    one.does(&open(&file, O_CREAT), 0);
    other.does(&open(&file, O_CREAT | O_EXCL), EINVAL);
    // A domain must be closed as often as it was opened.
    one.does(&open(&file, 0), 0);
    one.does("close", 0);
    other.does(&open(&file, 0), 0);
    other.does("close", 0);
    other.does(&open(&other_file, O_CREAT), 0);
    other.does("close", 0);
    one.does(&open(&other_file, 0), EAGAIN);
    one.end();
    other.end();
}

/// Checks that a target QP exists until its last handle is destroyed.
fn handles() {
    let mut xrc = Xrc::new();
    assert_eq!(xrc.open(-1, O_CREAT), 0);
    let (target, srqn, initiator) = (xrc.make_target(), xrc.make_srq(), xrc.make_initiator());
    let open = |qp_num: u32, comp_mask: u32, xrcd: *mut ibv_xrcd| {
        let qp_type = IBV_QPT_XRC_RECV;
        let mut attr = ibv_qp_open_attr { comp_mask, qp_num, xrcd, qp_context: null_mut(), qp_type };
        // SAFETY: the objects are live, and the struct belongs to this function.
        unsafe { ops(xrc.node.context).open_qp.expect("it is served")(xrc.node.context, &mut attr) }
    };
    assert!(open(target, 0b1001, xrc.xrcd).is_null() && errno() == EINVAL, "of which domain?");
    assert!(open(initiator, 0b1011, xrc.xrcd).is_null() && errno() == EINVAL, "not a target");
    let opened = open(target, 0b1011, xrc.xrcd);
    assert!(!opened.is_null());
    // SAFETY: the QP is live.
    unsafe { assert_eq!(((*opened).qp_num, (*opened).qp_type), (target, IBV_QPT_XRC_RECV)) };
    assert_eq!(destroy_qp(xrc.target), 0);
    // As in the kernel, each role ignores the attributes of the other one.
    xrc.connect_with(opened, initiator, true);
    xrc.connect_with(xrc.initiator, target, true);
    let [of_target, of_initiator] = [opened, xrc.initiator].map(|qp| query(qp).0);
    assert_eq!((of_target.retry_cnt, of_target.rnr_retry, of_target.max_rd_atomic), (0, 0, 0));
    assert_eq!((of_initiator.min_rnr_timer, of_initiator.max_dest_rd_atomic), (0, 0));
    xrc.recv(1);
    xrc.node.fill(0, 8, 9);
    xrc.post(SEND, srqn, 8, (0, 0));
    // Both complete in one CQ, where the SEND has its place first.
    assert_eq!(xrc.status(), SUCCESS);
    assert_eq!(xrc.received(), format!("{initiator} by {target}: 128 8 0x0 9"));
    assert_eq!([destroy_qp(opened), destroy_qp(xrc.initiator), destroy_srq(xrc.srq), xrc.close()], [0; 4]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    alone(Link::Ib, HERE, "refused");
}

#[test]
fn a_target_may_have_several_handles() {
    alone(Link::Ib, HERE, "handles");
}
