//! Tests of the software NIC that use its internals: between two processes, with corrupted records, and with
//! threads or processes halted in the middle of an operation.

mod aliases;
mod between;
mod destroyed;
mod direct;
mod files;
mod hostile;
mod many;
mod order;
#[path = "../../../soft-so/tests/soft-so/common/own_time.rs"]
mod own_time;
mod peer;
mod placing;
mod receiving;
mod revoking;
mod rounds;
mod soak;
mod timers;

use crate::fabric::pipe::EventPipe;
use crate::fabric::process::Process;
use crate::queues::cq::Cq;
use crate::queues::qp::{Qp, QpKind, QpParts};
use crate::queues::recv_queue::RecvQueue;
use doorbell_verbs::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The protection domain of the tests' objects.
const PD: u32 = 1;

/// A QP and its CQ.
struct Side {
    cq: Arc<Cq>,
    qp: Arc<Qp>,
    /// The pipe for the QP's asynchronous events. If the CQ was created with the QP, its events use this pipe
    /// too.
    pipe: Arc<EventPipe>,
}

/// The time-out of a connected QP, and its number of RNR retries. The retry count is 1.
#[derive(Clone, Copy)]
struct Patience {
    timeout: u8,
    rnr_retry: u8,
}

impl Side {
    /// Creates a QP in state Reset, and its CQ of `cqe` entries.
    fn new(process: &'static Process, qp_type: QpType, cap: QpCap, cqe: u32) -> Side {
        let pipe = Arc::new(EventPipe::new().expect("a pipe"));
        let cq = Arc::new(Cq::new(process, cqe, pipe.in_record(), pipe.in_record()).expect("a CQ"));
        Side::of(process, qp_type, cap, cq, None, pipe)
    }

    /// Creates a QP of the same type that shares this CQ.
    fn beside(&self) -> Side {
        let process = Process::current().expect("this process can use the device");
        let pipe = Arc::new(EventPipe::new().expect("a pipe"));
        Side::of(process, self.qp.qp_type(), self.qp.cap, self.cq.clone(), None, pipe)
    }

    fn of(
        process: &'static Process,
        qp_type: QpType,
        cap: QpCap,
        cq: Arc<Cq>,
        srq: Option<Arc<RecvQueue>>,
        pipe: Arc<EventPipe>,
    ) -> Side {
        let parts = QpParts {
            pd: PD,
            kind: QpKind::Plain { qp_type, srq },
            cap,
            sq_sig_all: false,
            send_cq: cq.clone(),
            recv_cq: cq.clone(),
            async_pipe: pipe.clone(),
        };
        Side { cq, qp: Qp::new(process, parts).expect("a QP"), pipe }
    }

    /// Moves the QP from Reset to Rts, connected to QP `dest` of the device's own port.
    fn connect(&self, dest: u32, patience: Patience) {
        let rc = self.qp.qp_type() == QpType::Rc;
        let when_rc = |n: u8| rc.then_some(n);
        let path = AhAttr { port_num: 1, dlid: crate::device::lid(), sl: 0, grh: None };
        let steps = [
            QpAttr {
                pkey_index: Some(0),
                port_num: Some(1),
                qp_access_flags: Some(AccessFlags::all()),
                ..QpAttr::state(QpState::Init)
            },
            QpAttr {
                ah_attr: Some(path),
                path_mtu: Some(Mtu::Mtu1024),
                dest_qp_num: Some(dest),
                rq_psn: Some(0),
                max_dest_rd_atomic: when_rc(1),
                min_rnr_timer: when_rc(1),
                ..QpAttr::state(QpState::Rtr)
            },
            QpAttr {
                sq_psn: Some(0),
                timeout: when_rc(patience.timeout),
                retry_cnt: when_rc(1),
                rnr_retry: when_rc(patience.rnr_retry),
                max_rd_atomic: when_rc(1),
                ..QpAttr::state(QpState::Rts)
            },
        ];
        for step in steps {
            self.qp.modify(&step).expect("the way to Rts");
        }
    }

    /// Moves a UD QP from Reset to Rts.
    fn connect_ud(&self) {
        let init =
            QpAttr { pkey_index: Some(0), port_num: Some(1), qkey: Some(7), ..QpAttr::state(QpState::Init) };
        for step in
            [init, QpAttr::state(QpState::Rtr), QpAttr { sq_psn: Some(0), ..QpAttr::state(QpState::Rts) }]
        {
            self.qp.modify(&step).expect("the way to Rts");
        }
    }

    /// Creates an address handle for the device's own port.
    fn own_path(&self) -> AhHandle {
        let process = Process::current().expect("this process can use the device");
        let attr = AhAttr { port_num: 1, dlid: crate::device::lid(), sl: 0, grh: None };
        let path = crate::path::Path::new(&attr).expect("a path");
        process.paths.add(path).expect("an address handle")
    }

    /// Moves the QP to Reset, and from there to Rts.
    fn reconnect(&self, dest: u32, patience: Patience) {
        self.qp.modify(&QpAttr::state(QpState::Reset)).expect("it can be reset");
        self.connect(dest, patience);
    }

    /// Sends an empty datagram from the UD QP to itself.
    fn send_ud(&self) {
        let process = Process::current().expect("this process can use the device");
        let ah = self.own_path();
        let dest = UdDest { ah, qpn: self.qp.num(), qkey: 7 };
        let wr = SendWr { dest: Some(dest), ..SendWr::new(0, SendOp::Send, &[]) };
        self.qp.begin_post().post_wr(&wr, None).expect("there is room");
        process.paths.remove(ah);
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.qp.destroy();
    }
}

/// Draws a random number. Values at the limits of ranges are frequent.
fn word(random: &mut Xoshiro256PlusPlus) -> u32 {
    match random.next_u32() % 6 {
        0 => 0,
        1 => u32::MAX,
        2 => 1 << (random.next_u32() % 32),
        3 => random.next_u32() % 64,
        _ => random.next_u32(),
    }
}

/// Overwrites one to four random 32-bit words of a record, except words at the byte offsets in `spare`.
fn scribble<T>(record: &T, random: &mut Xoshiro256PlusPlus, spare: &[usize]) {
    let words = size_of::<T>() / 4;
    for _ in 0..1 + random.next_u32() % 4 {
        let at = random.next_u32() as usize % words;
        if !spare.contains(&(at * 4)) {
            // SAFETY: the word is within the record, which consists of atomics.
            let to = unsafe { &*std::ptr::from_ref(record).cast::<AtomicU32>().add(at) };
            to.store(word(random), Relaxed);
        }
    }
}
