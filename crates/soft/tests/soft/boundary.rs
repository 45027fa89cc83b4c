//! Posts random work requests through the C functions, with every argument except bad pointers. Each call is
//! refused with an errno or carried out. Unregistered memory stays unchanged, and completions belong to
//! posted work requests.

use doorbell_abi::{
    CEnum, ibv_ah, ibv_ah_attr, ibv_context, ibv_cq, ibv_gid, ibv_global_route, ibv_mr, ibv_pd,
    ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr,
    ibv_send_wr_atomic, ibv_send_wr_bind_mw, ibv_send_wr_operands, ibv_send_wr_rdma, ibv_send_wr_ud, ibv_sge,
    ibv_wc,
};
use doorbell_soft::capi::{ah, cq, device, mr, qp, query};
use doorbell_verbs::{AccessFlags, QpState, QpType};
use libc::c_int;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::collections::HashMap;
use std::ptr::null_mut;

/// A buffer: a registered piece between two unregistered ones.
const GUARD: usize = 256;
const REGISTERED: usize = 1024;
const BUFFER: usize = REGISTERED + 2 * GUARD;
/// Content of unregistered bytes. Registered bytes begin as its complement.
const UNTOUCHED: u8 = 0x5a;
const SEND_INLINE: u32 = 8;
const INLINE: u32 = 64;

/// The used bits of `enum ibv_qp_attr_mask`.
const MASK_BITS: c_int = 0x1f_ffff;

#[derive(Clone, Debug)]
enum Step {
    /// Takes both QPs to Rts, from any state.
    Connect,
    Modify {
        qp: usize,
        attr: Attr,
        mask: c_int,
    },
    Send {
        qp: usize,
        list: Vec<Send>,
    },
    Recv {
        qp: usize,
        list: Vec<Recv>,
    },
    Poll(usize),
}

/// Fields of `ibv_qp_attr` that the device reads.
#[derive(Clone, Debug)]
struct Attr {
    numbers: [u32; 6],
    bytes: [u8; 8],
    path: Path,
}

#[derive(Clone, Debug)]
struct Path {
    /// 1 stands for the port's own LID.
    dlid: u16,
    port: u8,
    global: bool,
    sgid_index: u8,
    gid_byte: u8,
}

#[derive(Clone, Debug)]
struct Send {
    opcode: u32,
    flags: u32,
    sges: Vec<Piece>,
    num_sge: Option<c_int>,
    remote: Piece,
    operands: (u64, u64),
    to: Option<u32>,
    imm: u32,
}

#[derive(Clone, Debug)]
struct Recv {
    sges: Vec<Piece>,
    num_sge: Option<c_int>,
}

/// A piece of memory: its distance from the first registered byte, its length, and the bits in which its key
/// differs from the right one.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: i64,
    len: u32,
    key: u32,
}

fn piece() -> impl Strategy<Value = Piece> {
    let end = REGISTERED as i64;
    let at = prop_oneof![
        6 => 0..end,
        2 => -16..16_i64,
        2 => end - 16..end + 16,
        1 => any::<i64>(),
    ];
    let len = prop_oneof![4 => 0..64_u32, 2 => Just(8), 2 => 0..2048_u32, 1 => any::<u32>()];
    let key = prop_oneof![9 => Just(0), 1 => any::<u32>(), 1 => (0..32_u32).prop_map(|bit| 1 << bit)];
    (at, len, key).prop_map(|(at, len, key)| Piece { at, len, key })
}

fn num_sge() -> impl Strategy<Value = Option<c_int>> {
    // More SGEs than the QP allows, so that a read beyond the list would be found; and negative numbers.
    option::weighted(0.1, prop_oneof![Just(-1), Just(c_int::MIN), Just(5), Just(c_int::MAX)])
}

fn send() -> impl Strategy<Value = Send> {
    let flags = prop_oneof![3 => Just(2), 1 => Just(2 | SEND_INLINE), 1 => any::<u32>()];
    let opcode = prop_oneof![9 => 0..7_u32, 1 => any::<u32>()];
    let to = option::of(prop_oneof![3 => 0..2_u32, 1 => any::<u32>()]);
    let operands = (any::<u64>(), any::<u64>());
    (opcode, flags, vec(piece(), 0..4), num_sge(), piece(), operands, to, any::<u32>()).prop_map(
        |(opcode, flags, sges, num_sge, remote, operands, to, imm)| Send {
            opcode,
            flags,
            sges,
            num_sge,
            remote,
            operands,
            to,
            imm,
        },
    )
}

fn recv() -> impl Strategy<Value = Recv> {
    (vec(piece(), 0..4), num_sge()).prop_map(|(sges, num_sge)| Recv { sges, num_sge })
}

/// Mostly numbers near the valid ones.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..8_u32, 1 => Just(1 << 24), 1 => any::<u32>()]
}

fn attr() -> impl Strategy<Value = Attr> {
    let byte = prop_oneof![3 => 0..3_u8, 1 => any::<u8>()];
    let path = (0..3_u16, 0..3_u8, any::<bool>(), 0..6_u8, 0..4_u8).prop_map(
        |(dlid, port, global, sgid_index, gid_byte)| Path { dlid, port, global, sgid_index, gid_byte },
    );
    (proptest::array::uniform6(number()), proptest::array::uniform8(byte), path)
        .prop_map(|(numbers, bytes, path)| Attr { numbers, bytes, path })
}

fn step() -> impl Strategy<Value = Step> {
    let qp = || 0..2_usize;
    // Masks that a transition requires, with or without one bit changed, and arbitrary masks.
    let usual = [0x39_i32, 0x12_9181, 0x1_2e01, 0x1, 0x71, 0x1_0001, 0x0];
    let mask = prop_oneof![
        4 => (0..usual.len()).prop_map(move |n| usual[n]),
        2 => (0..usual.len(), 0..21_u32).prop_map(move |(n, bit)| usual[n] ^ 1 << bit),
        1 => any::<c_int>().prop_map(|bits| bits & MASK_BITS),
        1 => any::<c_int>(),
    ];
    prop_oneof![
        3 => Just(Step::Connect),
        2 => (qp(), attr(), mask).prop_map(|(qp, attr, mask)| Step::Modify { qp, attr, mask }),
        8 => (qp(), vec(send(), 1..6)).prop_map(|(qp, list)| Step::Send { qp, list }),
        4 => (qp(), vec(recv(), 1..4)).prop_map(|(qp, list)| Step::Recv { qp, list }),
        3 => (1..20_usize).prop_map(Step::Poll),
    ]
}

/// Two QPs that are connected to each other, and their memory.
struct World {
    qp_type: QpType,
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    mr: *mut ibv_mr,
    ah: *mut ibv_ah,
    qps: [*mut ibv_qp; 2],
    buffer: Box<[u8; BUFFER]>,
    /// Work requests without a completion so far, by number.
    posted: HashMap<u64, &'static str>,
    next: u64,
}

/// The path to the device's own port.
fn own_path() -> ibv_ah_attr {
    let mut port = ibv_port_attr::default();
    // SAFETY: every device has this port; the struct is this function's.
    assert_eq!(unsafe { query::ibv_query_port(null_mut(), 1, &mut port) }, 0);
    ibv_ah_attr { dlid: port.lid, port_num: 1, ..ibv_ah_attr::default() }
}

impl World {
    fn new(qp_type: QpType) -> World {
        let mut buffer = Box::new([UNTOUCHED; BUFFER]);
        buffer[GUARD..GUARD + REGISTERED].fill(!UNTOUCHED);
        // SAFETY: the objects come from the device; the memory lives as long as its region.
        unsafe {
            let list = device::ibv_get_device_list(null_mut());
            let context = device::ibv_open_device(*list);
            device::ibv_free_device_list(list);
            let pd = mr::ibv_alloc_pd(context);
            let cq = cq::ibv_create_cq(context, 512, null_mut(), null_mut(), 0);
            let access = AccessFlags::all().bits() as c_int;
            let mr = mr::ibv_reg_mr(pd, buffer.as_mut_ptr().add(GUARD).cast(), REGISTERED, access);
            let mut path = own_path();
            let ah = ah::ibv_create_ah(pd, &mut path);
            assert!(!context.is_null() && !pd.is_null() && !cq.is_null() && !mr.is_null() && !ah.is_null());
            let cap = ibv_qp_cap {
                max_send_wr: 32,
                max_recv_wr: 32,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline_data: INLINE,
            };
            let mut init = ibv_qp_init_attr {
                qp_context: null_mut(),
                send_cq: cq,
                recv_cq: cq,
                srq: null_mut(),
                cap,
                qp_type: qp_type.to_c(),
                sq_sig_all: 0,
            };
            let qps = [qp::ibv_create_qp(pd, &mut init), qp::ibv_create_qp(pd, &mut init)];
            assert!(!qps[0].is_null() && !qps[1].is_null());
            World { qp_type, context, pd, cq, mr, ah, qps, buffer, posted: HashMap::new(), next: 0 }
        }
    }

    fn number(&self, qp: usize) -> u32 {
        // SAFETY: a live QP.
        unsafe { (*self.qps[qp]).qp_num }
    }

    fn modify(&self, qp: usize, mut attr: ibv_qp_attr, mask: c_int) -> c_int {
        // SAFETY: a live QP, and a struct of this function.
        unsafe { qp::ibv_modify_qp(self.qps[qp], &mut attr, mask) }
    }

    fn connect(&mut self) {
        let state = |state: QpState| ibv_qp_attr { qp_state: state.to_c(), ..ibv_qp_attr::default() };
        // Both first: outstanding sends of one QP may put the other into an error half-way.
        for qp in 0..2 {
            assert_eq!(self.modify(qp, state(QpState::Reset), 1), 0);
        }
        for qp in 0..2 {
            let (init, rtr, rts) = match self.qp_type {
                QpType::Rc => (0x39, 0x12_9181, 0x1_2e01),
                QpType::Uc => (0x39, 0x10_1181, 0x1_0001),
                QpType::Ud => (0x71, 0x1, 0x1_0001),
            };
            let access = AccessFlags::all().bits();
            let mut attr =
                ibv_qp_attr { port_num: 1, qp_access_flags: access, qkey: 7, ..state(QpState::Init) };
            assert_eq!(self.modify(qp, attr, init), 0);
            attr = ibv_qp_attr {
                path_mtu: 3,
                dest_qp_num: self.number(1 - qp),
                max_dest_rd_atomic: 1,
                min_rnr_timer: 1,
                ah_attr: own_path(),
                ..state(QpState::Rtr)
            };
            assert_eq!(self.modify(qp, attr, rtr), 0);
            attr = ibv_qp_attr {
                timeout: 1,
                retry_cnt: 1,
                rnr_retry: 1,
                max_rd_atomic: 1,
                ..state(QpState::Rts)
            };
            assert_eq!(self.modify(qp, attr, rts), 0);
        }
    }

    fn sge(&self, piece: &Piece) -> ibv_sge {
        // SAFETY: a live region.
        let lkey = unsafe { (*self.mr).lkey } ^ piece.key;
        ibv_sge { addr: self.address(piece), length: piece.len, lkey }
    }

    fn address(&self, piece: &Piece) -> u64 {
        (self.buffer.as_ptr() as u64 + GUARD as u64).wrapping_add_signed(piece.at)
    }

    /// SGEs within the buffer, because inline bytes are read without a check of the key.
    fn inline_sges(&self, pieces: &[Piece]) -> Vec<ibv_sge> {
        let within = pieces.iter().map(|piece| Piece {
            at: piece.at.rem_euclid(GUARD as i64),
            // Long ones are refused before they are read.
            len: if piece.len > INLINE { piece.len } else { piece.len % INLINE },
            ..*piece
        });
        within.map(|piece| self.sge(&piece)).collect()
    }

    fn send(&mut self, qp: usize, list: &[Send]) {
        let mut sges: Vec<Vec<ibv_sge>> = list
            .iter()
            .map(|send| match send.flags & SEND_INLINE {
                0 => send.sges.iter().map(|piece| self.sge(piece)).collect(),
                _ => self.inline_sges(&send.sges),
            })
            .collect();
        let mut wrs: Vec<ibv_send_wr> =
            list.iter().zip(&mut sges).map(|(send, sges)| self.c_send(send, sges)).collect();
        for n in 0..wrs.len() {
            wrs[n].wr_id = self.next + n as u64;
            wrs[n].next = wrs.get_mut(n + 1).map_or(null_mut(), |next| next);
        }
        let mut bad = null_mut();
        // SAFETY: a live QP, and a list that lives as long as the call.
        let errno = unsafe {
            let post = (*self.context).ops.post_send.expect("it is served");
            post(self.qps[qp], wrs.as_mut_ptr(), &mut bad)
        };
        let bad = wrs.iter().position(|wr| std::ptr::eq(wr, bad));
        self.posted("send", errno, bad, wrs.len());
    }

    fn c_send(&self, send: &Send, sges: &mut [ibv_sge]) -> ibv_send_wr {
        let remote = self.sge(&send.remote);
        let (remote_addr, rkey) = (remote.addr, remote.lkey);
        let (compare_add, swap) = send.operands;
        let wr = match (self.qp_type, send.opcode) {
            (QpType::Ud, _) => ibv_send_wr_operands {
                ud: ibv_send_wr_ud {
                    ah: if send.to.is_some() { self.ah } else { null_mut() },
                    remote_qpn: match send.to {
                        Some(qp @ 0..2) => self.number(qp as usize),
                        other => other.unwrap_or_default(),
                    },
                    remote_qkey: if send.remote.key == 0 { 7 } else { send.remote.key },
                },
            },
            (_, 5 | 6) => {
                ibv_send_wr_operands { atomic: ibv_send_wr_atomic { remote_addr, compare_add, swap, rkey } }
            }
            _ => ibv_send_wr_operands { rdma: ibv_send_wr_rdma { remote_addr, rkey } },
        };
        ibv_send_wr {
            wr_id: 0,
            next: null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: send.num_sge.unwrap_or(sges.len() as c_int),
            opcode: send.opcode,
            send_flags: send.flags,
            imm_data: send.imm,
            wr,
            remote_srqn: send.imm,
            bind_mw: ibv_send_wr_bind_mw::default(),
        }
    }

    fn recv(&mut self, qp: usize, list: &[Recv]) {
        let mut sges: Vec<Vec<ibv_sge>> =
            list.iter().map(|recv| recv.sges.iter().map(|piece| self.sge(piece)).collect()).collect();
        let mut wrs: Vec<ibv_recv_wr> = list
            .iter()
            .zip(&mut sges)
            .map(|(recv, sges)| ibv_recv_wr {
                wr_id: 0,
                next: null_mut(),
                sg_list: sges.as_mut_ptr(),
                num_sge: recv.num_sge.unwrap_or(sges.len() as c_int),
            })
            .collect();
        for n in 0..wrs.len() {
            wrs[n].wr_id = self.next + n as u64;
            wrs[n].next = wrs.get_mut(n + 1).map_or(null_mut(), |next| next);
        }
        let mut bad = null_mut();
        // SAFETY: a live QP, and a list that lives as long as the call.
        let errno = unsafe {
            let post = (*self.context).ops.post_recv.expect("it is served");
            post(self.qps[qp], wrs.as_mut_ptr(), &mut bad)
        };
        let bad = wrs.iter().position(|wr| std::ptr::eq(wr, bad));
        self.posted("recv", errno, bad, wrs.len());
    }

    /// The work requests before the bad one were posted. There is a bad one exactly if there is an errno.
    fn posted(&mut self, what: &'static str, errno: c_int, bad: Option<usize>, all: usize) {
        assert_eq!(errno != 0, bad.is_some(), "errno {errno}, bad work request {bad:?}");
        assert!(errno >= 0);
        for n in 0..bad.unwrap_or(all) as u64 {
            self.posted.insert(self.next + n, what);
        }
        self.next += all as u64;
    }

    fn poll(&mut self, count: usize) {
        let mut wcs = vec![ibv_wc::default(); count];
        // SAFETY: a live CQ, and room for `count` completions.
        let n = unsafe {
            let poll = (*self.context).ops.poll_cq.expect("it is served");
            poll(self.cq, count as c_int, wcs.as_mut_ptr())
        };
        for wc in &wcs[..usize::try_from(n).expect("the CQ is whole")] {
            let what = self.posted.remove(&wc.wr_id);
            assert!(what.is_some(), "a completion of what was not posted, or a second one: {wc:?}");
            assert!((0..2).any(|qp| self.number(qp) == wc.qp_num), "{wc:?}");
        }
    }

    fn carry_out(&mut self, step: &Step) {
        match step {
            Step::Connect => self.connect(),
            Step::Modify { qp, attr, mask } => {
                let errno = self.modify(*qp, attr.to_c(), *mask);
                assert!(errno >= 0);
            }
            Step::Send { qp, list } => self.send(*qp, list),
            Step::Recv { qp, list } => self.recv(*qp, list),
            Step::Poll(count) => self.poll(*count),
        }
        let untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == UNTOUCHED);
        let end = GUARD + REGISTERED;
        assert!(untouched(&self.buffer[..GUARD]) && untouched(&self.buffer[end..]), "unregistered memory");
    }
}

impl Attr {
    fn to_c(&self) -> ibv_qp_attr {
        let path = &self.path;
        let mut raw = [0; 16];
        raw[0] = path.gid_byte;
        let grh = ibv_global_route {
            dgid: ibv_gid { raw },
            sgid_index: path.sgid_index,
            ..ibv_global_route::default()
        };
        let [qp_state, path_mtu, dest_qp_num, psn, qkey, access] = self.numbers;
        let [port_num, timeout, retry_cnt, rnr_retry, rd, dest_rd, min_rnr_timer, pkey_index] = self.bytes;
        ibv_qp_attr {
            qp_state,
            cur_qp_state: qp_state,
            path_mtu,
            dest_qp_num,
            rq_psn: psn,
            sq_psn: psn,
            qkey,
            qp_access_flags: access,
            ah_attr: ibv_ah_attr {
                grh,
                dlid: own_path().dlid + path.dlid - 1,
                is_global: path.global.into(),
                port_num: path.port,
                ..ibv_ah_attr::default()
            },
            port_num,
            timeout,
            retry_cnt,
            rnr_retry,
            max_rd_atomic: rd,
            max_dest_rd_atomic: dest_rd,
            min_rnr_timer,
            pkey_index: pkey_index.into(),
            ..ibv_qp_attr::default()
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: objects of this test, children first.
        let errnos = unsafe {
            [
                qp::ibv_destroy_qp(self.qps[0]),
                qp::ibv_destroy_qp(self.qps[1]),
                ah::ibv_destroy_ah(self.ah),
                mr::ibv_dereg_mr(self.mr),
                cq::ibv_destroy_cq(self.cq),
                mr::ibv_dealloc_pd(self.pd),
                device::ibv_close_device(self.context),
            ]
        };
        if !std::thread::panicking() {
            assert_eq!(errnos, [0; 7]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_posted(
        qp_type in prop_oneof![2 => Just(QpType::Rc), 1 => Just(QpType::Uc), 1 => Just(QpType::Ud)],
        steps in vec(step(), 1..40),
    ) {
        let mut world = World::new(qp_type);
        world.connect();
        for step in &steps {
            world.carry_out(step);
        }
    }
}
