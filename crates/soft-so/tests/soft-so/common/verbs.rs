//! A small program's use of libibverbs. The tests' own programs run in separate processes and call the C
//! functions of the libibverbs that the loader has loaded.

use super::own_time::HANGS;
use doorbell_abi::ibv_qp_attr_mask::*;
use doorbell_abi::{
    CEnum, ibv_ah, ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_gid, ibv_global_route,
    ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_qp_init_attr_ex,
    ibv_recv_wr, ibv_send_wr, ibv_send_wr_atomic, ibv_send_wr_bind_mw, ibv_send_wr_operands,
    ibv_send_wr_rdma, ibv_send_wr_ud, ibv_sge, ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_wc,
    verbs_context,
};
use doorbell_verbs::{AccessFlags, Mtu, QpState, QpType, RemoteAddr, SendOp, WcStatus};
use libc::{c_int, c_void};
use std::ffi::CStr;
use std::fmt;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::str::FromStr;
use std::time::Instant;

pub(crate) const PORT: u8 = 1;
/// The Q_Key of all UD QPs of [`Node`].
pub(crate) const QKEY: u32 = 0x1234_5678;
const DEPTH: u32 = 64;
const SGES: u32 = 4;
const INLINE: u32 = 64;

const USUAL: ibv_qp_cap = ibv_qp_cap {
    max_send_wr: DEPTH,
    max_recv_wr: DEPTH,
    max_send_sge: SGES,
    max_recv_sge: SGES,
    max_inline_data: INLINE,
};

/// `IBV_QP_INIT_ATTR_PD`, `_SEND_OPS_FLAGS`.
pub(crate) const INIT_ATTR_PD: u32 = 1;
pub(crate) const INIT_ATTR_SEND_OPS_FLAGS: u32 = 1 << 6;

/// The operations that verbs.h calls by the context's table.
pub(crate) fn ops<'a>(context: *mut ibv_context) -> &'a verbs_context {
    // SAFETY: each context is part of a `verbs_context`.
    unsafe { &*context.byte_sub(offset_of!(verbs_context, context)).cast() }
}

/// Finds a function by name in the loaded libraries.
pub(crate) fn function(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?} is in no library");
    found
}

/// Calls a C function by its name. The types are those in verbs.h.
macro_rules! call {
    ($name:literal($($argument:expr => $type:ty),*) -> $result:ty) => {{
        // SAFETY: the type is the one in verbs.h. Objects are live, and structs belong to the caller.
        unsafe {
            std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn($($type),*) -> $result>(
                $crate::common::verbs::function($name)
            )($($argument),*)
        }
    }};
}
pub(crate) use call;

/// The thread's errno.
pub(crate) fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Calls ibv_fork_init(3), which must succeed.
pub(crate) fn fork_init() {
    assert_eq!(call!(c"ibv_fork_init"() -> c_int), 0);
}

/// The data that a peer needs: a QP's port and number, and the memory that the peer may access through the
/// QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) lid: u16,
    pub(crate) qpn: u32,
    pub(crate) memory: RemoteAddr,
}

impl Endpoint {
    /// The remote address at this offset in the endpoint's memory.
    pub(crate) fn at(&self, offset: usize) -> RemoteAddr {
        RemoteAddr { addr: self.memory.addr + offset as u64, ..self.memory }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("endpoint {} {} {} {}", self.lid, self.qpn, self.memory.addr, self.memory.rkey))
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(line: &str) -> Result<Endpoint, String> {
        let words: Vec<u64> = line.split_whitespace().skip(1).flat_map(str::parse).collect();
        match (line.starts_with("endpoint "), &words[..]) {
            (true, &[lid, qpn, addr, rkey]) => Ok(Endpoint {
                lid: lid as u16,
                qpn: qpn as u32,
                memory: RemoteAddr { addr, rkey: rkey as u32 },
            }),
            _ => Err(format!("no endpoint: {line:?}")),
        }
    }
}

/// A send work request. Its buffers are offsets and lengths in the node's memory.
pub(crate) struct Wr<'a> {
    pub(crate) op: SendOp,
    pub(crate) buffers: &'a [(usize, u32)],
    /// Flags `IBV_SEND_*`.
    pub(crate) flags: u32,
}

/// `IBV_SEND_SIGNALED` and `IBV_SEND_INLINE` of verbs.h.
pub(crate) const SIGNALED: u32 = 2;
pub(crate) const INLINED: u32 = 8;

/// Time-out and retry counts, encoded as in ibv_modify_qp(3).
#[derive(Clone, Copy)]
pub(crate) struct Retries {
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
}

/// An open device with page-aligned registered memory, and with QPs that share a CQ.
pub(crate) struct Node {
    pub(crate) context: *mut ibv_context,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) lid: u16,
    pub(crate) cq: *mut ibv_cq,
    pub(crate) mr: *mut ibv_mr,
    pub(crate) qps: Vec<*mut ibv_qp>,
    /// The node's memory. Peers write it too.
    memory: *mut u8,
    bytes: usize,
}

impl Node {
    /// Whether an asynchronous event can be read.
    pub(crate) fn has_async_event(&self) -> bool {
        // SAFETY: the context is live.
        let fd = unsafe { (*self.context).async_fd };
        let mut one = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: the array has one entry.
        unsafe { libc::poll(&raw mut one, 1, 0) == 1 }
    }

    /// Opens the device, registers `bytes` zero bytes, and creates `qps` RC QPs in state Init.
    pub(crate) fn open(bytes: usize, qps: usize) -> Node {
        Node::open_as(QpType::Rc, bytes, qps)
    }

    /// Opens the device like [`Node::open`], and creates QPs of this type.
    pub(crate) fn open_as(qp_type: QpType, bytes: usize, qps: usize) -> Node {
        let context = open_device();
        assert!(!context.is_null(), "the device cannot be opened");
        let pd = call!(c"ibv_alloc_pd"(context => *mut ibv_context) -> *mut ibv_pd);
        let cq = call!(c"ibv_create_cq"(
            context => *mut ibv_context, 256 => c_int, null_mut() => *mut c_void, null_mut() => *mut c_void,
            0 => c_int
        ) -> *mut ibv_cq);
        let mut memory = null_mut();
        // SAFETY: the variable belongs to this function.
        assert_eq!(unsafe { libc::posix_memalign(&mut memory, 4096, bytes) }, 0);
        // SAFETY: the memory was just allocated with this length.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
        let mr = call!(c"ibv_reg_mr"(
            pd => *mut ibv_pd, memory => *mut c_void, bytes => usize,
            AccessFlags::all().bits() as c_int => c_int
        ) -> *mut ibv_mr);
        assert!(!pd.is_null() && !cq.is_null() && !mr.is_null(), "objects cannot be made");
        let lid = port_lid(context);
        let mut node = Node { context, pd, lid, cq, mr, qps: Vec::new(), memory: memory.cast(), bytes };
        for _ in 0..qps {
            node.add_qp(qp_type, cq, null_mut());
        }
        node
    }

    /// Creates one more QP in state Init, and returns its index.
    pub(crate) fn add_qp(&mut self, qp_type: QpType, cq: *mut ibv_cq, srq: *mut ibv_srq) -> usize {
        self.qps.push(create_qp(self.pd, cq, qp_type, srq));
        self.init(self.qps.len() - 1);
        self.qps.len() - 1
    }

    /// Creates one more RC QP in state Init, for ibv_wr_post(3). Returns its index.
    pub(crate) fn add_extended_qp(&mut self) -> usize {
        // SAFETY: the struct has integers and pointers, which may be zero.
        let mut attr: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
        (attr.send_cq, attr.recv_cq, attr.pd) = (self.cq, self.cq, self.pd);
        (attr.cap, attr.qp_type) = (USUAL, QpType::Rc.to_c());
        attr.comp_mask = INIT_ATTR_PD | INIT_ATTR_SEND_OPS_FLAGS;
        // SAFETY: the objects are live, and the struct belongs to this function.
        let qp = unsafe { ops(self.context).create_qp_ex.expect("it is served")(self.context, &mut attr) };
        assert!(!qp.is_null(), "a QP cannot be made");
        self.qps.push(qp);
        self.init(self.qps.len() - 1);
        self.qps.len() - 1
    }

    /// Creates one more RC QP in state Init. Each of its queues has one entry.
    pub(crate) fn add_small_qp(&mut self) {
        let cap = ibv_qp_cap {
            max_send_wr: 1,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        self.qps.push(create_qp_of(self.pd, self.cq, QpType::Rc, null_mut(), cap));
        self.init(self.qps.len() - 1);
    }

    /// An SRQ with room for 8 RECVs of one SGE.
    pub(crate) fn srq(&self) -> *mut ibv_srq {
        let attr = ibv_srq_attr { max_wr: 8, max_sge: 1, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: null_mut(), attr };
        let srq = call!(c"ibv_create_srq"(
            self.pd => *mut ibv_pd, &raw mut init => *mut ibv_srq_init_attr
        ) -> *mut ibv_srq);
        assert!(!srq.is_null());
        srq
    }

    /// Creates a completion channel and a CQ of `cqe` entries that uses the channel.
    pub(crate) fn sleeping_cq(&self, cqe: c_int) -> (*mut ibv_comp_channel, *mut ibv_cq) {
        let channel = call!(c"ibv_create_comp_channel"(
            self.context => *mut ibv_context
        ) -> *mut ibv_comp_channel);
        let cq = call!(c"ibv_create_cq"(
            self.context => *mut ibv_context, cqe => c_int, null_mut() => *mut c_void,
            channel => *mut ibv_comp_channel, 0 => c_int
        ) -> *mut ibv_cq);
        (channel, cq)
    }

    fn qp_type(&self, qp: usize) -> QpType {
        // SAFETY: the QP is live.
        QpType::from_c(unsafe { (*self.qps[qp]).qp_type }).expect("it was made of one")
    }

    /// Returns an entry of the port's GID table.
    pub(crate) fn gid(&self, index: u8) -> ibv_gid {
        let mut gid = ibv_gid::default();
        let errno = call!(c"ibv_query_gid"(
            self.context => *mut ibv_context, PORT => u8, index.into() => c_int, &raw mut gid => *mut ibv_gid
        ) -> c_int);
        assert_eq!(errno, 0, "GID {index}");
        gid
    }

    /// Creates an address handle.
    pub(crate) fn ah(&self, mut path: ibv_ah_attr) -> *mut ibv_ah {
        let ah = call!(c"ibv_create_ah"(
            self.pd => *mut ibv_pd, &raw mut path => *mut ibv_ah_attr
        ) -> *mut ibv_ah);
        assert!(!ah.is_null(), "an address handle cannot be made of {path:?}");
        ah
    }

    /// Registers other memory, which the node uses from now on. The memory must stay mapped until the process
    /// exits.
    pub(crate) fn register(&mut self, memory: *mut c_void, bytes: usize) {
        self.mr = call!(c"ibv_reg_mr"(
            self.pd => *mut ibv_pd, memory => *mut c_void, bytes => usize,
            AccessFlags::all().bits() as c_int => c_int
        ) -> *mut ibv_mr);
        assert!(!self.mr.is_null(), "{bytes} bytes cannot be registered: {}", errno());
        (self.memory, self.bytes) = (memory.cast(), bytes);
    }

    /// A pointer into the node's memory.
    pub(crate) fn address(&self, at: usize) -> *mut u8 {
        assert!(at < self.bytes);
        self.memory.wrapping_add(at)
    }

    /// A copy of `bytes` bytes of the node's memory from offset `at` on.
    pub(crate) fn read(&self, at: usize, bytes: usize) -> Vec<u8> {
        assert!(at + bytes <= self.bytes);
        // SAFETY: the address is within the memory, which is never freed.
        (at..at + bytes).map(|at| unsafe { self.memory.add(at).read_volatile() }).collect()
    }

    /// The first 8 bytes of the node's memory as a number.
    pub(crate) fn first_word(&self) -> u64 {
        u64::from_ne_bytes(*self.read(0, 8).first_chunk().expect("it has 8 bytes"))
    }

    /// Whether `bytes` bytes of the node's memory from offset `at` on all equal `byte`.
    pub(crate) fn is_all(&self, at: usize, bytes: usize, byte: u8) -> bool {
        self.read(at, bytes).iter().all(|b| *b == byte)
    }

    /// Sets `bytes` bytes of the node's memory from offset `at` on to `byte`.
    pub(crate) fn fill(&self, at: usize, bytes: usize, byte: u8) {
        assert!(at + bytes <= self.bytes);
        for at in at..at + bytes {
            // SAFETY: the address is within the memory, which is never freed.
            unsafe { self.memory.add(at).write_volatile(byte) };
        }
    }

    pub(crate) fn endpoint(&self, qp: usize) -> Endpoint {
        // SAFETY: the objects are live.
        let (qpn, rkey) = unsafe { ((*self.qps[qp]).qp_num, (*self.mr).rkey) };
        Endpoint { lid: self.lid, qpn, memory: RemoteAddr { addr: self.memory as u64, rkey } }
    }

    /// Moves a QP from any state back to Init.
    pub(crate) fn reset(&self, qp: usize) {
        self.modify(qp, state(QpState::Reset), IBV_QP_STATE);
        self.init(qp);
    }

    /// Moves a QP to a state whose transition needs no other attribute.
    pub(crate) fn set_state(&self, qp: usize, next: QpState) {
        self.modify(qp, state(next), IBV_QP_STATE);
    }

    fn init(&self, qp: usize) {
        let access = AccessFlags::all().bits();
        let init =
            ibv_qp_attr { port_num: PORT, qkey: QKEY, qp_access_flags: access, ..state(QpState::Init) };
        let of_type = if self.qp_type(qp) == QpType::Ud { IBV_QP_QKEY } else { IBV_QP_ACCESS_FLAGS };
        self.modify(qp, init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | of_type);
    }

    /// Moves a QP from Init through Rtr to Rts, connected to `peer`.
    pub(crate) fn connect(&self, qp: usize, peer: &Endpoint) {
        self.connect_with(qp, peer, Retries { timeout: 14, retry_cnt: 7, rnr_retry: 7 });
    }

    /// Connects a QP like [`Node::connect`], with this time-out and these retry counts.
    pub(crate) fn connect_with(&self, qp: usize, peer: &Endpoint, retries: Retries) {
        self.connect_by(qp, to_lid(peer.lid), peer.qpn, retries);
    }

    /// Connects a QP like [`Node::connect_with`], to a path and a QP number. A UD QP ignores both.
    pub(crate) fn connect_by(&self, qp: usize, path: ibv_ah_attr, qpn: u32, retries: Retries) {
        self.connect_altered(qp, path, qpn, retries, |_| 0);
    }

    /// Connects a QP like [`Node::connect_by`], with other attributes. `alter` changes the attributes of the
    /// transition to Rtr, then those of the transition to Rts. It returns the bits to add to the mask.
    pub(crate) fn connect_altered(
        &self,
        qp: usize,
        path: ibv_ah_attr,
        qpn: u32,
        retries: Retries,
        alter: impl Fn(&mut ibv_qp_attr) -> c_int,
    ) {
        let mut rtr = ibv_qp_attr {
            path_mtu: Mtu::Mtu4096.to_c(),
            dest_qp_num: qpn,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 1,
            ah_attr: path,
            ..state(QpState::Rtr)
        };
        let Retries { timeout, retry_cnt, rnr_retry } = retries;
        let mut rts = ibv_qp_attr { timeout, retry_cnt, rnr_retry, max_rd_atomic: 1, ..state(QpState::Rts) };
        let of_path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        let (to_rtr, to_rts) = match self.qp_type(qp) {
            QpType::Rc => (
                of_path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
            ),
            QpType::Uc => (of_path, 0),
            QpType::Ud => (0, 0),
        };
        let more = [alter(&mut rtr), alter(&mut rts)];
        self.modify(qp, rtr, IBV_QP_STATE | to_rtr | more[0]);
        self.modify(qp, rts, IBV_QP_STATE | IBV_QP_SQ_PSN | to_rts | more[1]);
    }

    fn modify(&self, qp: usize, mut attr: ibv_qp_attr, mask: c_int) {
        let errno = call!(c"ibv_modify_qp"(
            self.qps[qp] => *mut ibv_qp, &raw mut attr => *mut ibv_qp_attr, mask => c_int
        ) -> c_int);
        assert_eq!(errno, 0, "QP {qp} to state {}", attr.qp_state);
    }

    pub(crate) fn sges(&self, buffers: &[(usize, u32)]) -> Vec<ibv_sge> {
        // SAFETY: the region is live.
        let lkey = unsafe { (*self.mr).lkey };
        let begin = self.memory as u64;
        buffers.iter().map(|&(at, length)| ibv_sge { addr: begin + at as u64, length, lkey }).collect()
    }

    /// Posts a list of work requests in one call. Their `wr_id`s count from 0.
    pub(crate) fn post(&self, qp: usize, list: &[Wr<'_>]) {
        self.post_to(qp, list, None);
    }

    /// Posts a list like [`Node::post`]. If `to` has an address handle and a QP number, all messages are
    /// datagrams to that QP.
    pub(crate) fn post_to(&self, qp: usize, list: &[Wr<'_>], to: Option<(*mut ibv_ah, u32)>) {
        let mut sges: Vec<Vec<ibv_sge>> = list.iter().map(|wr| self.sges(wr.buffers)).collect();
        let mut wrs: Vec<ibv_send_wr> = list.iter().zip(&mut sges).map(|(wr, sges)| c_wr(wr, sges)).collect();
        for n in 0..wrs.len() {
            wrs[n].wr_id = n as u64;
            if let Some((ah, remote_qpn)) = to {
                wrs[n].wr.ud = ibv_send_wr_ud { ah, remote_qpn, remote_qkey: QKEY };
            }
            wrs[n].next = wrs.get_mut(n + 1).map_or(null_mut(), |next| next);
        }
        let mut bad = null_mut();
        // SAFETY: the QP is live, and the list of work requests outlives the call.
        let errno = unsafe {
            let post = (*self.context).ops.post_send.expect("it is served");
            post(self.qps[qp], wrs.as_mut_ptr(), &mut bad)
        };
        assert_eq!(errno, 0, "a list of {} on QP {qp}", list.len());
    }

    /// Posts `count` RECVs with equal buffers in one call. Their `wr_id`s count from 0.
    pub(crate) fn post_recv(&self, qp: usize, count: usize, buffers: &[(usize, u32)]) {
        let mut sges = self.sges(buffers);
        let one = ibv_recv_wr {
            wr_id: 0,
            next: null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: sges.len() as c_int,
        };
        let mut wrs = vec![one; count];
        for n in 0..count {
            wrs[n].wr_id = n as u64;
            wrs[n].next = wrs.get_mut(n + 1).map_or(null_mut(), |next| next);
        }
        let mut bad = null_mut();
        // SAFETY: the QP is live, and the list of work requests outlives the call.
        let errno = unsafe {
            let post = (*self.context).ops.post_recv.expect("it is served");
            post(self.qps[qp], wrs.as_mut_ptr(), &mut bad)
        };
        assert_eq!(errno, 0, "{count} RECVs on QP {qp}");
    }

    /// Polls the CQ for one completion.
    pub(crate) fn poll(&self) -> Option<ibv_wc> {
        let mut wc = ibv_wc::default();
        // SAFETY: the CQ is live, and the buffer has room for one completion.
        let polled = unsafe {
            let poll = (*self.context).ops.poll_cq.expect("it is served");
            poll(self.cq, 1, &mut wc)
        };
        assert!(polled >= 0, "the CQ cannot be polled");
        (polled > 0).then_some(wc)
    }

    /// Waits for the next `count` completions, which must all be successful.
    pub(crate) fn completions(&self, count: usize) -> Vec<ibv_wc> {
        (0..count).map(|_| self.completion(WcStatus::Success)).collect()
    }

    /// Waits for the next completion, which must have this status.
    pub(crate) fn completion(&self, status: WcStatus) -> ibv_wc {
        let begin = Instant::now();
        loop {
            if let Some(wc) = self.poll() {
                assert_eq!(WcStatus::from_c(wc.status), Some(status), "{wc:?}");
                return wc;
            }
            assert!(begin.elapsed() < HANGS, "no completion came");
        }
    }

    /// Posts a work request and waits until it completes successfully.
    pub(crate) fn carry_out(&self, qp: usize, op: SendOp, buffers: &[(usize, u32)]) {
        self.post(qp, &[Wr { op, buffers, flags: SIGNALED }]);
        self.completions(1);
    }
}

/// Opens the only device. Returns null if the device cannot be opened.
pub(crate) fn open_device() -> *mut ibv_context {
    let mut count = 0;
    let list = call!(c"ibv_get_device_list"(&raw mut count => *mut c_int) -> *mut *mut ibv_device);
    assert!(!list.is_null() && count == 1, "{count} devices");
    // SAFETY: the list has an entry.
    let device = unsafe { *list };
    call!(c"ibv_open_device"(device => *mut ibv_device) -> *mut ibv_context)
}

/// The path to the port with this LID.
pub(crate) fn to_lid(dlid: u16) -> ibv_ah_attr {
    ibv_ah_attr { dlid, port_num: PORT, ..ibv_ah_attr::default() }
}

/// The path to the port with this GID. `sgid_index` is the entry of this node's GID table for the source.
pub(crate) fn to_gid(sgid_index: u8, dgid: ibv_gid) -> ibv_ah_attr {
    let grh = ibv_global_route { dgid, sgid_index, hop_limit: 1, ..ibv_global_route::default() };
    ibv_ah_attr { grh, is_global: 1, port_num: PORT, ..ibv_ah_attr::default() }
}

fn port_lid(context: *mut ibv_context) -> u16 {
    let mut port = ibv_port_attr::default();
    let errno = call!(c"ibv_query_port"(
        context => *mut ibv_context, PORT => u8, &raw mut port => *mut ibv_port_attr
    ) -> c_int);
    assert_eq!(errno, 0, "the port can be asked");
    port.lid
}

pub(crate) fn state(state: QpState) -> ibv_qp_attr {
    ibv_qp_attr { qp_state: state.to_c(), ..ibv_qp_attr::default() }
}

fn create_qp(pd: *mut ibv_pd, cq: *mut ibv_cq, qp_type: QpType, srq: *mut ibv_srq) -> *mut ibv_qp {
    create_qp_of(pd, cq, qp_type, srq, USUAL)
}

fn create_qp_of(
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    qp_type: QpType,
    srq: *mut ibv_srq,
    cap: ibv_qp_cap,
) -> *mut ibv_qp {
    let mut attr = ibv_qp_init_attr {
        qp_context: null_mut(),
        send_cq: cq,
        recv_cq: cq,
        srq,
        cap,
        qp_type: qp_type.to_c(),
        sq_sig_all: 0,
    };
    let qp =
        call!(c"ibv_create_qp"(pd => *mut ibv_pd, &raw mut attr => *mut ibv_qp_init_attr) -> *mut ibv_qp);
    assert!(!qp.is_null(), "a QP cannot be made");
    qp
}

pub(crate) fn c_wr(wr: &Wr<'_>, sges: &mut [ibv_sge]) -> ibv_send_wr {
    let rdma = |remote: RemoteAddr| ibv_send_wr_rdma { remote_addr: remote.addr, rkey: remote.rkey };
    let atomic = |remote: RemoteAddr, compare_add, swap| ibv_send_wr_operands {
        atomic: ibv_send_wr_atomic { remote_addr: remote.addr, compare_add, swap, rkey: remote.rkey },
    };
    ibv_send_wr {
        wr_id: 0,
        next: null_mut(),
        sg_list: sges.as_mut_ptr(),
        num_sge: sges.len() as c_int,
        opcode: wr.op.opcode().to_c(),
        send_flags: wr.flags,
        imm_data: wr.op.imm().unwrap_or(0).to_be(),
        wr: match wr.op {
            SendOp::Send | SendOp::SendWithImm(_) => atomic(RemoteAddr::default(), 0, 0),
            SendOp::Write(remote) | SendOp::WriteWithImm(remote, _) | SendOp::Read(remote) => {
                ibv_send_wr_operands { rdma: rdma(remote) }
            }
            SendOp::CompareSwap { remote, compare, swap } => atomic(remote, compare, swap),
            SendOp::FetchAdd { remote, add } => atomic(remote, add, 0),
        },
        remote_srqn: 0,
        bind_mw: ibv_send_wr_bind_mw::default(),
    }
}
