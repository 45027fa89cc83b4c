//! Tests destroyed QPs. Their completions stay in order in the CQ, and no other QP gets their numbers until
//! the completions are polled.

use super::own_time::OwnTime;
use super::peer::{Buffer, buffer};
use super::{PD, Patience, Side};
use crate::fabric::pipe::EventPipe;
use crate::fabric::process::Process;
use crate::memory::records::QPS;
use crate::queues::cq::Cq;
use crate::queues::qp::{Qp, QpKind, QpParts};
use crate::queues::recv_queue::{RecvQueue, Senders, Sizes};
use doorbell_abi::ibv_wc;
use doorbell_verbs::*;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

const DEPTH: u32 = 8;
const CAP: QpCap =
    QpCap { max_send_wr: 64, max_recv_wr: DEPTH, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };

fn process() -> &'static Process {
    Process::current().expect("this process can use the device")
}

fn pipe() -> Arc<EventPipe> {
    Arc::new(EventPipe::new().expect("a pipe"))
}

fn cq(cqe: u32) -> Arc<Cq> {
    Arc::new(Cq::new(process(), cqe, 0, 0).expect("a CQ"))
}

/// Creates a QP with this CQ, connected to itself. Unless the QP uses an SRQ, it posts `DEPTH` RECVs of 1024
/// bytes, whose `wr_id`s count from `first`.
fn side(
    qp_type: QpType,
    cq: &Arc<Cq>,
    srq: Option<&Arc<RecvQueue>>,
    (memory, first): (&Buffer, u64),
) -> Side {
    let side = Side::of(process(), qp_type, CAP, cq.clone(), srq.cloned(), pipe());
    match qp_type {
        QpType::Ud => side.connect_ud(),
        QpType::Rc | QpType::Uc => side.connect(side.qp.num(), Patience { timeout: 14, rnr_retry: 7 }),
    }
    if srq.is_none() {
        for n in 0..DEPTH.into() {
            side.qp.post_recv(first + n, &recv_sge(memory)).expect("there is room");
        }
    }
    side
}

fn recv_sge(memory: &Buffer) -> [Sge; 1] {
    [Sge { addr: memory.addr + 4096, length: 1024, lkey: memory.key }]
}

/// Posts a signalled SEND of `len` bytes from the QP to itself.
fn send(side: &Side, wr_id: u64, memory: &Buffer, len: u32) {
    let ah = side.own_path();
    let dest = UdDest { ah, qpn: side.qp.num(), qkey: 7 };
    let sges = [Sge { addr: memory.addr, length: len, lkey: memory.key }];
    let wr = SendWr::new(wr_id, SendOp::Send, &sges).flags(SendFlags::SIGNALED);
    let wr = SendWr { dest: (side.qp.qp_type() == QpType::Ud).then_some(dest), ..wr };
    side.qp.begin_post().post_wr(&wr, None).expect("there is room");
    process().paths.remove(ah);
}

/// Polls all completions, which must be successful. Returns the QP number and the `wr_id` of each.
fn taken(cq: &Cq) -> Vec<(u32, u64)> {
    let (mut all, mut wcs) = (Vec::new(), [ibv_wc::default(); 3]);
    while let Ok(n @ 1..) = cq.poll(&mut wcs) {
        all.extend(wcs[..n].iter().map(|wc| {
            assert_eq!(wc.status, 0, "{wc:?}");
            (wc.qp_num, wc.wr_id)
        }));
    }
    all
}

/// The generation of a QP number. The generation changes when another QP may get the number.
fn generation(qpn: u32) -> u32 {
    let segment = &process().segment;
    segment.qp(segment.index_of(qpn)).expect("its record").generation.load(Relaxed)
}

fn srq(index: u32) -> Arc<RecvQueue> {
    let sizes = Sizes { depth: 4 * DEPTH, max_sge: 1 };
    let index = QPS as u32 + index;
    Arc::new(RecvQueue::new(process(), index, PD, sizes, Senders::Many, 0).expect("an SRQ"))
}

/// Creates `count` QPs at one CQ that send by turns, and destroys the QPs `ends`. Then polls all completions.
/// Returns the index of the QP and the `wr_id` of each, in order.
fn by_turns(qp_type: QpType, srq: Option<&Arc<RecvQueue>>, count: u64, ends: &[usize]) -> Vec<(usize, u64)> {
    let (memory, cq) = (buffer(process()), cq(64));
    let made = (0..count).map(|n| side(qp_type, &cq, srq, (&memory, 100 * (n + 1))));
    let mut sides: Vec<Option<Side>> = made.map(Some).collect();
    if let Some(srq) = srq {
        (0..4 * DEPTH).for_each(|n| srq.enqueue(n.into(), &recv_sge(&memory)).expect("there is room"));
    }
    let numbers: Vec<u32> = sides.iter().flatten().map(|side| side.qp.num()).collect();
    for round in 0..4 {
        for side in sides.iter().flatten() {
            // Every second message is too long to travel with its completion.
            send(side, round, &memory, if round % 2 == 0 { 8 } else { 500 });
        }
    }
    ends.iter().for_each(|at| drop(sides[*at].take()));
    let place = |qpn| numbers.iter().position(|other| *other == qpn).expect("a QP of these");
    taken(&cq).into_iter().map(|(qpn, wr_id)| (place(qpn), wr_id)).collect()
}

#[test]
fn completions_stay_in_their_order() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        // If a CQ has only one QP, a poll reads that QP's receive queue directly.
        let lone = by_turns(qp_type, None, 1, &[]);
        assert_eq!(lone.len(), 8, "{qp_type}");
        assert_eq!(by_turns(qp_type, None, 1, &[0]), lone, "{qp_type}");
        let two = by_turns(qp_type, None, 2, &[]);
        assert_eq!(two.len(), 16, "{qp_type}");
        for ends in [&[0][..], &[1], &[0, 1], &[1, 0]] {
            assert_eq!(by_turns(qp_type, None, 2, ends), two, "{qp_type} {ends:?}");
        }
    }
    let shared = by_turns(QpType::Rc, Some(&srq(3990)), 2, &[]);
    assert_eq!(shared.len(), 16);
    for ends in [&[0][..], &[0, 1]] {
        assert_eq!(by_turns(QpType::Rc, Some(&srq(3991)), 2, ends), shared, "{ends:?}");
    }
}

/// Checks that destroying a QP copies payloads from its receive queue to the RECVs' buffers. So the program
/// may reuse a buffer before it polls the completion.
#[test]
fn a_buffer_may_go_after_its_qp() {
    for shared in [false, true] {
        let (memory, other, cq) = (buffer(process()), buffer(process()), cq(64));
        // SAFETY: the memory belongs to this test and is mapped.
        unsafe { (memory.addr as *mut u8).write_bytes(0x5a, 64) };
        let queue = shared.then(|| srq(3992));
        let side = side(QpType::Rc, &cq, queue.as_ref(), (&other, 0));
        if let Some(queue) = &queue {
            queue.enqueue(0, &recv_sge(&other)).expect("there is room");
        }
        send(&side, 9, &memory, 64);
        let number = side.qp.num();
        drop(side);
        let revoked = process().regions.deregister(process().segment, other.key).expect("a region");
        process().settle(revoked, "ibv_dereg_mr(3)");
        // SAFETY: the memory belongs to this test and is mapped.
        let came = unsafe { std::slice::from_raw_parts((other.addr + 4096) as *const u8, 64) };
        assert!(came.iter().all(|byte| *byte == 0x5a), "shared: {shared}");
        assert_eq!(taken(&cq), [(number, 9), (number, 0)], "shared: {shared}");
    }
}

#[test]
fn a_number_is_free_when_the_last_completion_is_taken() {
    let memory = buffer(process());
    for ends_cq in [false, true] {
        let cq = cq(64);
        let side = side(QpType::Rc, &cq, None, (&memory, 0));
        let (number, before) = (side.qp.num(), generation(side.qp.num()));
        send(&side, 9, &memory, 8);
        drop(side);
        let mut wcs = [ibv_wc::default(); 1];
        for _ in 0..2 {
            assert_eq!(generation(number), before, "a completion is left");
            assert_eq!(cq.poll(&mut wcs).expect("all is well"), 1);
        }
        match ends_cq {
            true => drop(cq),
            false => assert_eq!(cq.poll(&mut wcs).expect("all is well"), 0),
        }
        assert_ne!(generation(number), before);
    }
    // Without a completion, the number is free at once. The number is also free at once if the CQ has
    // overrun, because the program cannot poll that CQ any more.
    let small = cq(1);
    for sends in [0, 2] {
        let side = side(QpType::Rc, &small, None, (&memory, 0));
        let (number, before) = (side.qp.num(), generation(side.qp.num()));
        (0..sends).for_each(|n| send(&side, n, &memory, 8));
        drop(side);
        assert_ne!(generation(number), before, "{sends} sends");
    }
}

/// Checks a destroyed QP with different CQs for SENDs and RECVs. Each CQ keeps its completions.
#[test]
fn each_cq_keeps_the_completions_of_its_own() {
    let (memory, cqs) = (buffer(process()), [cq(64), cq(64)]);
    let parts = QpParts {
        pd: PD,
        kind: QpKind::Plain { qp_type: QpType::Rc, srq: None },
        cap: CAP,
        sq_sig_all: false,
        send_cq: cqs[0].clone(),
        recv_cq: cqs[1].clone(),
        async_pipe: pipe(),
    };
    let (cq, pipe) = (cqs[0].clone(), pipe());
    let side = Side { cq, qp: Qp::new(process(), parts).expect("a QP"), pipe };
    let (number, before) = (side.qp.num(), generation(side.qp.num()));
    side.connect(number, Patience { timeout: 14, rnr_retry: 7 });
    side.qp.post_recv(1, &recv_sge(&memory)).expect("there is room");
    send(&side, 9, &memory, 8);
    drop(side);
    assert_eq!(taken(&cqs[1]), [(number, 1)]);
    assert_eq!(generation(number), before);
    assert_eq!(taken(&cqs[0]), [(number, 9)]);
    assert_ne!(generation(number), before);
}

/// Creates a QP while completions of a destroyed QP are in the CQ. The new QP's completions come later.
#[test]
fn a_new_qp_completes_behind_a_destroyed_one() {
    for qp_type in [QpType::Rc, QpType::Ud] {
        for crowd in [false, true] {
            let (memory, cq) = (buffer(process()), cq(64));
            let old = side(qp_type, &cq, None, (&memory, 0));
            // With a second QP, polls of the CQ do not read the first QP's receive queue directly any more.
            let other = crowd.then(|| side(qp_type, &cq, None, (&memory, 50)));
            (0..2).for_each(|n| send(&old, n, &memory, 8));
            let of_old = old.qp.num();
            drop((old, other));
            let new = side(qp_type, &cq, None, (&memory, 100));
            assert_ne!(new.qp.num(), of_old);
            (0..2).for_each(|n| send(&new, n, &memory, 8));
            let all = taken(&cq);
            let (first, rest) = all.split_at(4);
            assert!(first.iter().all(|(qpn, _)| *qpn == of_old), "{all:?}");
            assert_eq!(rest.len(), 4);
            assert!(rest.iter().all(|(qpn, _)| *qpn == new.qp.num()), "{all:?}");
        }
    }
}

/// Checks that RECVs and SENDs that have not completed when the QP is destroyed get no completion.
#[test]
fn only_completions_stay() {
    let (memory, cq) = (buffer(process()), cq(64));
    let side = side(QpType::Rc, &cq, None, (&memory, 0));
    for n in 0..u64::from(DEPTH) + 2 {
        send(&side, n, &memory, 8);
    }
    drop(side);
    assert_eq!(taken(&cq).len(), 2 * DEPTH as usize, "two sends wait for RECVs");
}

/// Checks that a request that is not done when the QP is destroyed gets no completion. A CQ reserves a
/// request's entry before the request is done.
#[test]
fn a_request_that_is_not_done_leaves_nothing() {
    let (memory, cq) = (buffer(process()), cq(64));
    let side = side(QpType::Rc, &cq, None, (&memory, 0));
    let (number, before) = (side.qp.num(), generation(side.qp.num()));
    // The test holds the lock, like another process that carries out an atomic. So the FETCH_ADD waits.
    let lock = process().segment.atomic_lock(memory.addr).lock().expect("nobody has it");
    let sges = [Sge { addr: memory.addr + 8, length: 8, lkey: memory.key }];
    let remote = RemoteAddr { addr: memory.addr, rkey: memory.key };
    let wr = SendWr::new(1, SendOp::FetchAdd { remote, add: 1 }, &sges).flags(SendFlags::SIGNALED);
    side.qp.begin_post().post_wr(&wr, None).expect("there is room");
    assert_eq!(taken(&cq), []);
    drop(side);
    assert_eq!(taken(&cq), []);
    // The helper thread may be trying the request again, and uses the QP until the try ends.
    let begin = OwnTime::start();
    while generation(number) == before {
        assert!(!begin.is_hang(), "its number is free");
        std::thread::yield_now();
        assert_eq!(taken(&cq), []);
    }
    drop(lock);
}
