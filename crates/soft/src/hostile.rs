//! Whatever another process writes into a segment, its owner neither crashes nor sees completions
//! that it has no work requests for.

use crate::channel::EventPipe;
use crate::cq::Cq;
use crate::process::Process;
use crate::qp::{Qp, QpParts};
use crate::records::*;
use doorbell_abi::ibv_wc;
use doorbell_transport::Region;
use doorbell_verbs::*;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// A generator of numbers (xorshift).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number that is often one of those that are just in or out of range.
    fn word(&mut self) -> u32 {
        match self.roll() % 6 {
            0 => 0,
            1 => u32::MAX,
            2 => 1 << (self.roll() % 32),
            3 => (self.roll() % 64) as u32,
            _ => self.roll() as u32,
        }
    }
}

/// Overwrites some of the 32-bit words of a record, but not its lock: that has tests of its own,
/// and a lock held by a thread that lives is waited for.
pub(crate) fn scribble<T>(record: &T, dice: &mut Dice, spare: &[usize]) {
    let words = size_of::<T>() / 4;
    for _ in 0..1 + dice.roll() % 4 {
        let at = dice.roll() as usize % words;
        if !spare.contains(&(at * 4)) {
            // SAFETY: within the record, which consists of atomics.
            let word = unsafe { &*std::ptr::from_ref(record).cast::<AtomicU32>().add(at) };
            word.store(dice.word(), Relaxed);
        }
    }
}

fn pair_of(process: &'static Process, pd: u32, pipe: &Arc<EventPipe>) -> (Arc<Cq>, Arc<Qp>) {
    let cq = Arc::new(Cq::new(process, 64, pipe.in_record(), pipe.in_record()).expect("a CQ"));
    let parts = QpParts {
        pd,
        qp_type: QpType::Rc,
        cap: QpCap {
            max_send_wr: 16,
            max_recv_wr: 16,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline_data: 64,
        },
        sq_sig_all: true,
        send_cq: cq.clone(),
        recv_cq: cq.clone(),
        srq: None,
        async_pipe: pipe.clone(),
    };
    (cq, Qp::new(process, parts).expect("a QP"))
}

fn connect(qp: &Qp) {
    let path = AhAttr { port_num: 1, dlid: 1, dgid: None, sgid_index: 0 };
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
            dest_qp_num: Some(qp.num()),
            rq_psn: Some(0),
            max_dest_rd_atomic: Some(1),
            min_rnr_timer: Some(1),
            ..QpAttr::state(QpState::Rtr)
        },
        QpAttr {
            sq_psn: Some(0),
            timeout: Some(1),
            retry_cnt: Some(1),
            rnr_retry: Some(1),
            max_rd_atomic: Some(1),
            ..QpAttr::state(QpState::Rts)
        },
    ];
    qp.modify(&QpAttr::state(QpState::Reset)).expect("any state leads to Reset");
    for step in steps {
        qp.modify(&step).expect("the way to Rts");
    }
}

#[test]
fn scribbled_records_neither_crash_nor_mislead() {
    let process = Process::current().expect("this process can use the device");
    let seed = 0x5eed_0001;
    let mut dice = Dice(seed);
    let pipe = Arc::new(EventPipe::new().expect("a pipe"));
    let buffer = vec![0u8; 4096];
    let region = Region { pd: 1, addr: buffer.as_ptr() as u64, len: 4096, access: AccessFlags::all() };
    let key = process.regions.register(process.segment, region, region.addr).expect("a region");
    for round in 0..300 {
        let (cq, qp) = pair_of(process, 1, &pipe);
        connect(&qp);
        let mut expected = HashSet::new();
        let sge = [Sge { addr: region.addr, length: 64, lkey: key }];
        for step in 0..40u64 {
            let wr_id = dice.roll() | 1;
            let remote = RemoteAddr { addr: region.addr + 512, rkey: key };
            let posted = match dice.roll() % 4 {
                0 | 1 => qp.post_recv(wr_id, &sge),
                2 => qp.begin_post().post(&SendWr::new(wr_id, SendOp::Send, &sge), None),
                _ => qp.begin_post().post(&SendWr::new(wr_id, SendOp::Write(remote), &sge), None),
            };
            if posted.is_ok() {
                expected.insert(wr_id);
            }
            let segment = process.segment;
            let index = (qp.num() & 0x3fff) as usize;
            match dice.roll() % 5 {
                0 => scribble(segment.qp(index).expect("its record"), &mut dice, &[]),
                1 => scribble(segment.rq(index).expect("its record"), &mut dice, &[128]),
                2 => scribble(segment.cq(cq.index as usize).expect("its record"), &mut dice, &[128]),
                3 => scribble(segment.mr(0).expect("a record"), &mut dice, &[0]),
                _ => {
                    let record = segment.cq(cq.index as usize).expect("its record");
                    let at = record
                        .entries
                        .load(Relaxed)
                        .wrapping_add((dice.roll() % 64) * size_of::<CqEntry>() as u64);
                    if let Some(entry) = segment.in_heap::<CqEntry>(at) {
                        scribble(entry, &mut dice, &[]);
                        entry.sequence.store(record.head.0.load(Relaxed).wrapping_add(1), Relaxed);
                    }
                }
            }
            let mut wcs = [ibv_wc::default(); 4];
            if let Ok(n) = cq.poll(&mut wcs) {
                for wc in &wcs[..n] {
                    let known = expected.remove(&wc.wr_id);
                    assert!(
                        known,
                        "seed {seed:#x} round {round} step {step}: nothing was posted as {:#x}",
                        wc.wr_id
                    );
                }
            }
        }
        qp.destroy();
    }
}
