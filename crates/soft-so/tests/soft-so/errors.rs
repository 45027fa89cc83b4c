//! Causes each error of the table in `docs/run-errors.md` between two processes. The table has the results
//! that both sides must see, and the cause that Doorbell must print.

use crate::common::launch;
use crate::common::own_time::HANGS;
use crate::common::running::{Running, hear, role, say};
use crate::common::verbs::{Endpoint, Node, Retries, SIGNALED, call, to_lid};
use doorbell_abi::ibv_qp_attr_mask::*;
use doorbell_abi::{
    CEnum, ibv_ah, ibv_async_event, ibv_context, ibv_cq, ibv_mr, ibv_mw, ibv_mw_bind_info, ibv_pd, ibv_qp,
    ibv_qp_attr, ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr, ibv_send_wr_bind_mw, ibv_send_wr_rdma,
    ibv_send_wr_ud, ibv_sge, ibv_srq, ibv_wc, status_name,
};
use doorbell_launch::{Launch, Link};
use doorbell_verbs::{AccessFlags, Opcode, QpState, QpType, WcStatus};
use libc::{c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::time::Instant;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    let role = role();
    let node = Node::open(BYTES, 0);
    // SAFETY: the context is live. The call sets a flag of its file.
    unsafe { libc::fcntl((*node.context).async_fd, libc::F_SETFL, libc::O_NONBLOCK) };
    let mut node = Some(node);
    loop {
        let error = hear();
        if error == "end" {
            return;
        }
        let mut side = Side::new(node.take().expect("it comes back"), &error, &role);
        match &role[..] {
            "requests" => side.request(&error),
            "responds" => side.respond(&error),
            role => panic!("no role {role:?}"),
        }
        node = Some(side.node);
    }
}

const BYTES: usize = 16384;
/// Offsets of the target of one-sided requests and of the RECVs' buffer. The payload is at offset 0.
const TARGET: usize = 4096;
const RECV: usize = 8192;
const RECV_BYTES: u32 = 2048;
/// Bytes of a RECV that is too small.
const SHORT: u32 = 16;
/// Bytes of a payload that is too long to travel with its completion.
const LONG: u32 = 1000;
const QKEY: u32 = crate::common::verbs::QKEY;
/// A key that no region has.
const NO_KEY: u32 = 0xdead_0001;
/// `IBV_WR_LOCAL_INV`, `IBV_WR_BIND_MW`, `IBV_ACCESS_MW_BIND`, `IBV_MW_TYPE_2`.
const WR_LOCAL_INV: u32 = 7;
const WR_BIND_MW: u32 = 8;
const MW_BIND: u32 = 1 << 4;
const TYPE_2: u32 = 2;

/// One side of one error: the QP of this process, created for the error.
struct Side {
    node: Node,
    qp: usize,
    qp_type: QpType,
    srq: *mut ibv_srq,
    ah: *mut ibv_ah,
    peer: Endpoint,
}

/// The completions that a side has polled.
struct Polled {
    statuses: Vec<WcStatus>,
    /// Whether the CQ has overrun and lost a completion.
    is_lost: bool,
}

/// Whether an error's name has this part between commas, for example `UD`.
fn has(error: &str, part: &str) -> bool {
    error.split(", ").any(|word| word == part)
}

impl Side {
    /// Creates the QP for an error, and connects it to the peer's QP.
    fn new(mut node: Node, error: &str, role: &str) -> Side {
        let qp_type = match error {
            _ if has(error, "UC") => QpType::Uc,
            _ if has(error, "UD") => QpType::Ud,
            _ => QpType::Rc,
        };
        let is_at = |side: &str| side == role;
        let of_sends = error.starts_with("the CQ of the sends") || error.contains("overrun");
        let of_recvs = error.starts_with("the CQ of the RECVs");
        let cqe = if of_sends && is_at("requests") || of_recvs && is_at("responds") { 1 } else { 64 };
        node.cq = call!(c"ibv_create_cq"(
            node.context => *mut ibv_context, cqe => c_int, null_mut() => *mut c_void,
            null_mut() => *mut c_void, 0 => c_int
        ) -> *mut ibv_cq);
        if error.contains("not mapped") && is_at("responds") {
            // Private memory. Peers access it by system calls, so the kernel detects the missing page.
            let memory = map(BYTES);
            node.register(memory, BYTES);
        }
        let has_srq = has(error, "SRQ") && is_at(if of_sends { "requests" } else { "responds" });
        let srq = if has_srq { node.srq() } else { null_mut() };
        let qp = node.add_qp(qp_type, node.cq, srq);
        say(node.endpoint(qp));
        let peer: Endpoint = hear().parse().expect("an endpoint");
        let ah = if qp_type == QpType::Ud { node.ah(to_lid(peer.lid)) } else { null_mut() };
        let side = Side { node, qp, qp_type, srq, ah, peer };
        if error.starts_with("no answer") && is_at("responds") {
            return side;
        }
        let impatient = Retries { timeout: 1, retry_cnt: 1, rnr_retry: 1 };
        let patient = Retries { timeout: 16, retry_cnt: 7, rnr_retry: 7 };
        let retries = if error.starts_with("no ") { impatient } else { patient };
        side.node.connect_altered(qp, to_lid(peer.lid), peer.qpn, retries, |attr| {
            if error.ends_with("max_rd_atomic 0") && is_at("requests") {
                attr.max_rd_atomic = 0;
            }
            match error.contains("qp_access_flags") && is_at("responds") {
                true => {
                    attr.qp_access_flags = AccessFlags::REMOTE_READ.bits();
                    IBV_QP_ACCESS_FLAGS
                }
                false => 0,
            }
        });
        side
    }

    /// Causes the error, and reports this side's view to the test.
    fn request(&mut self, error: &str) {
        say("ready");
        assert_eq!(hear(), "go");
        self.make(error);
        let begin = Instant::now();
        let mut polled = self.poll();
        while polled.statuses.is_empty() && !polled.is_lost {
            assert!(begin.elapsed() < HANGS, "{error}: no completion");
            polled = self.poll();
        }
        self.tell(&polled);
        assert_eq!(hear(), "later");
        self.act_later(error, polled.is_lost);
        say("done");
    }

    /// Posts RECVs, and reports this side's view of the error to the test.
    fn respond(&mut self, error: &str) {
        let (len, lkey) = match error {
            _ if error.starts_with("a RECV that is too small") => (SHORT, None),
            _ if error.starts_with("an lkey of a RECV") => (RECV_BYTES, Some(NO_KEY)),
            _ => (RECV_BYTES, None),
        };
        if !error.starts_with("no ") {
            let mut sge = self.node.sges(&[(RECV, len)])[0];
            // The buffer of a datagram has 40 more bytes for the global route header.
            sge.length += if self.qp_type == QpType::Ud { 40 } else { 0 };
            sge.lkey = lkey.unwrap_or(sge.lkey);
            if error.starts_with("a RECV into memory") {
                sge = unmapped(&self.node);
            }
            (0..2).for_each(|wr_id| assert_eq!(self.post_recv(wr_id, sge), 0));
        }
        say("ready");
        assert_eq!(hear(), "look");
        let polled = self.poll();
        self.tell(&polled);
        assert_eq!(hear(), "later");
        let state = self.state();
        if state == QpState::Err && !polled.is_lost {
            if self.srq.is_null() {
                assert_eq!(self.post_recv(7, self.node.sges(&[(RECV, 8)])[0]), 0);
                assert_eq!(self.poll().statuses, [WcStatus::WrFlushErr], "{error}");
            }
            assert_eq!(self.post(self.write(8)), 0);
            assert_eq!(self.poll().statuses, [WcStatus::WrFlushErr]);
        }
        if state == QpState::Rts && error.contains("too small") {
            // A message that fits takes the next RECV.
            assert_eq!(self.poll().statuses, [WcStatus::Success]);
        }
        say("done");
    }

    /// Posts after the error, and asserts that the completions match the state of the QP.
    fn act_later(&self, error: &str, is_lost: bool) {
        if is_lost {
            assert_eq!(self.post(self.message(8)), 0, "the post itself is accepted");
            assert!(self.poll().is_lost);
            return;
        }
        assert_eq!(self.post(self.message(8)), 0);
        let expected = match self.state() {
            QpState::Err | QpState::Sqe => WcStatus::WrFlushErr,
            _ => WcStatus::Success,
        };
        assert_eq!(self.poll().statuses, [expected], "{error}");
        if self.state() == QpState::Err && self.srq.is_null() {
            assert_eq!(self.post_recv(7, self.node.sges(&[(RECV, 8)])[0]), 0);
            assert_eq!(self.poll().statuses, [WcStatus::WrFlushErr]);
        }
    }

    /// Posts the work request that causes the error.
    fn make(&mut self, error: &str) {
        let own = self.node.sges(&[(0, 64)])[0];
        let mut wr = match error {
            _ if error.starts_with("an lkey of no region") => {
                self.message_of(ibv_sge { lkey: NO_KEY, ..own })
            }
            "an lkey of another protection domain" => {
                let pd = call!(c"ibv_alloc_pd"(self.node.context => *mut ibv_context) -> *mut ibv_pd);
                let lkey = register(pd, self.node.address(0), 64, AccessFlags::all().bits());
                self.message_of(ibv_sge { lkey, ..own })
            }
            "bytes outside the region of the lkey" => {
                self.message_of(ibv_sge { addr: own.addr + BYTES as u64 - 8, ..own })
            }
            "a READ into a region without the right to write" => {
                let lkey = register(self.node.pd, self.node.address(0), 64, AccessFlags::REMOTE_READ.bits());
                self.one_sided(Opcode::Read, ibv_sge { lkey, ..own })
            }
            "a payload that is not mapped" => self.message_of(unmapped(&self.node)),
            "a WRITE of a payload that is not mapped" => self.one_sided(Opcode::Write, unmapped(&self.node)),
            "a READ into memory that is not mapped" => self.one_sided(Opcode::Read, unmapped(&self.node)),
            "a READ with max_rd_atomic 0" => self.one_sided(Opcode::Read, own),
            "a bind beyond its region" => self.bind(alloc_mw(&self.node), BYTES as u64),
            "an invalidation of another QP's window" => {
                let mw = alloc_mw(&self.node);
                let other = self.lone_qp();
                let bind = self.bind(mw, 0);
                assert_eq!(self.post_on(other, bind), 0);
                assert_eq!(self.poll().statuses, [WcStatus::Success]);
                ibv_send_wr { opcode: WR_LOCAL_INV, imm_data: bind.0.bind_mw.rkey, ..empty() }.into()
            }
            _ if error.starts_with("the CQ of the sends") => {
                assert_eq!(self.post(self.message(8)), 0);
                self.message(8)
            }
            "another QP has overrun the CQ of the sends" => {
                let other = self.lone_qp();
                for _ in 0..2 {
                    assert_eq!(self.post_on(other, self.to_itself(other)), 0);
                }
                assert_eq!(self.events(), ["CQ_ERR", "QP_FATAL"]);
                self.message(8)
            }
            _ if error.starts_with("the CQ of the RECVs") => {
                assert_eq!(self.post(self.message(8)), 0);
                assert_eq!(self.poll().statuses, [WcStatus::Success]);
                self.message(8)
            }
            "an rkey of no region" => self.with_rkey(Opcode::Write),
            "an rkey of no region, with immediate" => self.with_rkey(Opcode::WriteWithImm),
            "a WRITE that qp_access_flags forbid" => self.one_sided(Opcode::Write, own),
            "a RECV into memory that is not mapped" => self.message(LONG),
            _ => self.message(64),
        };
        wr.0.wr_id = 5;
        assert_eq!(self.post(wr), 0, "{error}");
    }

    /// Adds a QP at the side's CQ that is connected to itself, and returns its index.
    fn lone_qp(&mut self) -> usize {
        let qp = self.node.add_qp(QpType::Rc, self.node.cq, null_mut());
        self.node.connect(qp, &self.node.endpoint(qp));
        qp
    }

    /// A SEND of `len` bytes.
    fn message(&self, len: u32) -> OneSge {
        self.message_of(self.node.sges(&[(0, len)])[0])
    }

    fn message_of(&self, sge: ibv_sge) -> OneSge {
        let mut wr = OneSge(ibv_send_wr { opcode: Opcode::Send.to_c(), ..empty() }, Some(sge));
        if self.qp_type == QpType::Ud {
            wr.0.wr.ud = ibv_send_wr_ud { ah: self.ah, remote_qpn: self.peer.qpn, remote_qkey: QKEY };
        }
        wr
    }

    /// A one-sided request to the peer's memory.
    fn one_sided(&self, opcode: Opcode, sge: ibv_sge) -> OneSge {
        let remote = self.peer.at(TARGET);
        let mut wr = OneSge(ibv_send_wr { opcode: opcode.to_c(), ..empty() }, Some(sge));
        wr.0.wr.rdma = ibv_send_wr_rdma { remote_addr: remote.addr, rkey: remote.rkey };
        wr
    }

    /// A request for a post after the error: a datagram on a UD QP, otherwise a WRITE.
    fn write(&self, len: u32) -> OneSge {
        match self.qp_type {
            QpType::Ud => self.message(len),
            QpType::Rc | QpType::Uc => self.one_sided(Opcode::Write, self.node.sges(&[(0, len)])[0]),
        }
    }

    fn with_rkey(&self, opcode: Opcode) -> OneSge {
        let mut wr = self.one_sided(opcode, self.node.sges(&[(0, 64)])[0]);
        wr.0.wr.rdma = ibv_send_wr_rdma { remote_addr: self.peer.at(TARGET).addr, rkey: NO_KEY };
        wr
    }

    /// A WRITE for a QP that is connected to itself.
    fn to_itself(&self, qp: usize) -> OneSge {
        let own = self.node.endpoint(qp).at(TARGET);
        let mut wr = self.write(8);
        wr.0.opcode = Opcode::Write.to_c();
        wr.0.wr.rdma = ibv_send_wr_rdma { remote_addr: own.addr, rkey: own.rkey };
        wr
    }

    /// A bind of a window to 64 bytes from offset `at` on.
    fn bind(&self, mw: *mut ibv_mw, at: u64) -> OneSge {
        let begin = self.node.address(0);
        let access = AccessFlags::all().bits() | MW_BIND;
        let mr = register_mr(self.node.pd, begin, BYTES, access);
        let bind_info = ibv_mw_bind_info {
            mr,
            addr: begin as u64 + at,
            length: 64,
            mw_access_flags: AccessFlags::REMOTE_READ.bits(),
        };
        // SAFETY: the window is live.
        let rkey = unsafe { (*mw).rkey } ^ 1;
        let bind_mw = ibv_send_wr_bind_mw { mw, rkey, bind_info };
        ibv_send_wr { opcode: WR_BIND_MW, bind_mw, ..empty() }.into()
    }

    fn post(&self, wr: OneSge) -> c_int {
        self.post_on(self.qp, wr)
    }

    fn post_on(&self, qp: usize, wr: OneSge) -> c_int {
        let OneSge(mut wr, mut sge) = wr;
        if let Some(sge) = &mut sge {
            (wr.sg_list, wr.num_sge) = (sge, 1);
        }
        let mut bad = null_mut();
        // SAFETY: the QP is live, and the work request outlives the call.
        unsafe { (*self.node.context).ops.post_send.expect("served")(self.node.qps[qp], &mut wr, &mut bad) }
    }

    fn post_recv(&self, wr_id: u64, mut sge: ibv_sge) -> c_int {
        let mut wr = ibv_recv_wr { wr_id, next: null_mut(), sg_list: &mut sge, num_sge: 1 };
        let mut bad = null_mut();
        // SAFETY: the queue is live, and the RECV outlives the call.
        unsafe {
            let ops = &(*self.node.context).ops;
            match self.srq.is_null() {
                true => ops.post_recv.expect("served")(self.node.qps[self.qp], &mut wr, &mut bad),
                false => ops.post_srq_recv.expect("served")(self.srq, &mut wr, &mut bad),
            }
        }
    }

    /// Polls all completions that the CQ has now.
    fn poll(&self) -> Polled {
        let mut statuses = Vec::new();
        loop {
            let mut wc = ibv_wc::default();
            // SAFETY: the CQ is live, and the buffer has room for one completion.
            let found =
                unsafe { (*self.node.context).ops.poll_cq.expect("served")(self.node.cq, 1, &mut wc) };
            match found {
                1 => statuses.push(WcStatus::from_c(wc.status).expect("a status")),
                0 => return Polled { statuses, is_lost: false },
                error => {
                    assert_eq!(error, -libc::EIO);
                    return Polled { statuses, is_lost: true };
                }
            }
        }
    }

    /// The names of all pending asynchronous events, without `IBV_EVENT_`.
    fn events(&self) -> Vec<&'static str> {
        let next = || {
            let mut event = ibv_async_event { element: null_mut(), event_type: 0 };
            let got = call!(c"ibv_get_async_event"(
                self.node.context => *mut ibv_context, &raw mut event => *mut ibv_async_event
            ) -> c_int);
            (got == 0).then(|| {
                call!(c"ibv_ack_async_event"(&raw mut event => *mut ibv_async_event) -> ());
                match event.event_type {
                    0 => "CQ_ERR",
                    1 => "QP_FATAL",
                    2 => "QP_REQ_ERR",
                    3 => "QP_ACCESS_ERR",
                    16 => "QP_LAST_WQE_REACHED",
                    other => panic!("event {other}"),
                }
            })
        };
        std::iter::from_fn(next).collect()
    }

    fn state(&self) -> QpState {
        // SAFETY: the struct has integers and pointers, which may be zero.
        let (mut attr, mut init): (ibv_qp_attr, ibv_qp_init_attr) = unsafe { std::mem::zeroed() };
        let asked = call!(c"ibv_query_qp"(
            self.node.qps[self.qp] => *mut ibv_qp, &raw mut attr => *mut ibv_qp_attr, IBV_QP_STATE => c_int,
            &raw mut init => *mut ibv_qp_init_attr
        ) -> c_int);
        assert_eq!(asked, 0);
        QpState::from_c(attr.qp_state).expect("a state")
    }

    /// Reports to the test the text for this side's cell of the table, and the events.
    fn tell(&self, polled: &Polled) {
        let first = polled.statuses.iter().find(|status| **status != WcStatus::WrFlushErr);
        let completion = match (polled.is_lost, first) {
            (true, _) => "lost".to_owned(),
            (false, Some(status)) => format!("`{}`", status_name(*status).trim_start_matches("IBV_WC_")),
            (false, None) => "-".to_owned(),
        };
        let events: Vec<String> = self.events().iter().map(|event| format!("`{event}`")).collect();
        let state = format!("{:?}", self.state()).to_uppercase();
        say(format!("{completion}, {state}|{}", events.join(", ")));
    }
}

/// A work request with at most one SGE.
#[derive(Clone, Copy)]
struct OneSge(ibv_send_wr, Option<ibv_sge>);

impl From<ibv_send_wr> for OneSge {
    fn from(wr: ibv_send_wr) -> OneSge {
        OneSge(wr, None)
    }
}

/// A signalled work request whose other fields are zero.
fn empty() -> ibv_send_wr {
    // SAFETY: the struct has integers, pointers and a union of these, which may be zero.
    ibv_send_wr { send_flags: SIGNALED, ..unsafe { std::mem::zeroed() } }
}

fn map(bytes: usize) -> *mut c_void {
    let (rw, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses the address.
    let mapped = unsafe { libc::mmap(null_mut(), bytes, rw, private, -1, 0) };
    assert_ne!(mapped, libc::MAP_FAILED);
    mapped
}

fn register_mr(pd: *mut ibv_pd, addr: *mut u8, len: usize, access: u32) -> *mut ibv_mr {
    let mr = call!(c"ibv_reg_mr"(
        pd => *mut ibv_pd, addr.cast() => *mut c_void, len => usize, access as c_int => c_int
    ) -> *mut ibv_mr);
    assert!(!mr.is_null());
    mr
}

/// Registers memory, and returns its lkey.
fn register(pd: *mut ibv_pd, addr: *mut u8, len: usize, access: u32) -> u32 {
    // SAFETY: the region was just created.
    unsafe { (*register_mr(pd, addr, len, access)).lkey }
}

/// Memory that was registered and is not accessible any more.
fn unmapped(node: &Node) -> ibv_sge {
    let mapped = map(4096);
    let lkey = register(node.pd, mapped.cast(), 4096, AccessFlags::all().bits());
    // mprotect(2) keeps the address occupied, so that no other mapping takes it.
    // SAFETY: the page belongs to this function.
    assert_eq!(unsafe { libc::mprotect(mapped, 4096, libc::PROT_NONE) }, 0);
    ibv_sge { addr: mapped as u64, length: LONG, lkey }
}

fn alloc_mw(node: &Node) -> *mut ibv_mw {
    // SAFETY: the context and the PD are live.
    let mw = unsafe { (*node.context).ops.alloc_mw.expect("served")(node.pd, TYPE_2) };
    assert!(!mw.is_null());
    mw
}

/// A row of the page's table: error, name in the IB specification, requester, responder, event, cause.
type Row = [String; 6];

/// The rows of the page's table of errors.
fn rows() -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run-errors.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let table = page.lines().skip_while(|line| !line.starts_with("| error |"));
    let rows = table.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| -> Vec<String> { line.split('|').map(|cell| cell.trim().to_owned()).collect() };
    rows.map(|line| cells(line)[1..7].to_vec().try_into().expect("six cells")).collect()
}

/// The number of errors that one pair of processes causes. A process explains only a limited number of QPs in
/// error, and this many errors stay below that limit.
const AT_ONCE: usize = 9;

/// Causes the errors of some rows one after the other, and compares the views of both sides with the page.
fn make_all(launch: &Launch, rows: &[Row]) {
    let mut ends = ["requests", "responds"].map(|role| Running::new(launch, HERE, role));
    // The lines that each side must print: the QP and the cause.
    let mut lines: [Vec<(String, String)>; 2] = Default::default();
    for [error, _, requester, responder, event, cause] in rows {
        ends.iter_mut().for_each(|end| end.tell(error));
        let told = [ends[0].line(), ends[1].line()];
        (0..2).for_each(|n| ends[n].tell(&told[1 - n]));
        ends.iter_mut().for_each(|end| assert_eq!(end.line(), "ready", "{error}"));
        let mut seen = Vec::new();
        for (end, (ask, name)) in ends.iter_mut().zip([("go", "requester"), ("look", "responder")]) {
            end.tell(ask);
            let line = end.line();
            let (cell, events) = line.split_once('|').expect("a cell and events");
            let events = if events.is_empty() { String::new() } else { format!("{name}: {events}") };
            seen.push((cell.to_owned(), events));
        }
        let events: Vec<&str> =
            seen.iter().map(|(_, events)| &events[..]).filter(|e| !e.is_empty()).collect();
        let events = if events.is_empty() { "-".to_owned() } else { events.join("; ") };
        assert_eq!((&seen[0].0, &seen[1].0, &events), (requester, responder, event), "{error}");
        for n in 0..2 {
            let qpn = told[n].parse::<Endpoint>().expect("an endpoint").qpn;
            if ["ERR", "SQE"].iter().any(|state| seen[n].0.ends_with(state)) {
                lines[n].push((format!("QP {qpn:#x} ("), cause.clone()));
            }
        }
        for end in &mut ends {
            end.tell("later");
            assert_eq!(end.line(), "done", "{error}");
        }
    }
    ends.iter_mut().for_each(|end| end.tell("end"));
    for (end, lines) in ends.into_iter().zip(lines) {
        let errors = end.end("a side");
        let printed: Vec<&str> = errors.lines().filter(|line| line.starts_with("doorbell: QP ")).collect();
        for (qp, cause) in &lines {
            let line = printed.iter().find(|line| line.contains(qp) && line.contains("is in error"));
            let line = line.unwrap_or_else(|| panic!("no line about {qp}: {errors}"));
            assert!(cause.split("...").all(|part| line.contains(part.trim())), "{cause:?} is not in {line}");
        }
    }
}

/// Both sides see the results of the page with shared buffers, which the peer maps, and with private buffers.
#[test]
fn both_sides_see_each_error_as_the_page_says() {
    let rows = rows();
    assert!(rows.len() > 30, "the page's table is found");
    for private_buffers in [false, true] {
        let launch = Launch { private_buffers, ..launch(Link::Ib) };
        rows.chunks(AT_ONCE).for_each(|some| make_all(&launch, some));
    }
}
