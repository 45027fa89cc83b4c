//! Tests receiving: the order of messages, the RECVs that take them, and recovery from senders that stop or
//! exit in the middle of a message.

use super::own_time::{HANGS, OwnTime};
use super::peer::{Buffer, Peer, buffer};
use super::{PD, Patience, Side};
use crate::fabric::peer::Owner;
use crate::fabric::pipe::EventPipe;
use crate::fabric::process::Process;
use crate::memory::records::{QPS, RQS};
use crate::queues::cq::Cq;
use crate::queues::recv_queue::{RecvQueue, Senders, Sizes};
use crate::rings::recvs::{Completer, Slots};
use doorbell_abi::CEnum;
use doorbell_verbs::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::{Duration, Instant};

const DEPTH: u32 = 4;
const CAP: QpCap =
    QpCap { max_send_wr: 64, max_recv_wr: DEPTH, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };

fn process() -> &'static Process {
    Process::current().expect("this process can use the device")
}

/// Creates an SRQ for four RECVs. Each call uses another SRQ index, because tests run concurrently.
fn srq() -> Arc<RecvQueue> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let index = (QPS as u32 + TAKEN.fetch_add(1, Relaxed)).min(RQS as u32 - 1);
    let sizes = Sizes { depth: DEPTH, max_sge: 1 };
    Arc::new(RecvQueue::new(process(), index, PD, sizes, Senders::Many, 0).expect("an SRQ"))
}

/// Checks that a queue with positions from before a reset does not look full.
#[test]
fn a_reset_queue_is_not_full() {
    let side = Side::new(process(), QpType::Rc, CAP, DEPTH);
    let record = process().segment.rq(process().segment.index_of(side.qp.num())).expect("its record");
    let slots = Slots::of(process().segment, record).expect("its slots");
    record.posted.0.polled.store(5, Relaxed);
    record.taken.0.polled_seen.store(5, Relaxed);
    for (position, is_full) in [(2, false), (5, false), (8, false), (9, true)] {
        assert_eq!(slots.is_full(position, DEPTH), is_full, "{position}");
    }
}

/// Creates an RC QP that uses this SRQ and a CQ of its own, and that is connected to itself.
fn with_srq(srq: &Arc<RecvQueue>, cqe: u32) -> Side {
    let pipe = Arc::new(EventPipe::new().expect("a pipe"));
    let cq = Arc::new(Cq::new(process(), cqe, 0, pipe.in_record()).expect("a CQ"));
    let side = Side::of(process(), QpType::Rc, CAP, cq, Some(srq.clone()), pipe);
    side.connect(side.qp.num(), Patience { timeout: 1, rnr_retry: 1 });
    side
}

fn recv_sge(buffer: &Buffer) -> [Sge; 1] {
    [Sge { addr: buffer.addr, length: 64, lkey: buffer.key }]
}

fn send(side: &Side) {
    side.qp.begin_post().post_wr(&SendWr::new(0, SendOp::Send, &[]), None).expect("there is room");
}

/// The expected completions of RECVs with these `wr_id`s.
fn ended(numbers: impl IntoIterator<Item = u64>, status: WcStatus) -> Vec<[u64; 3]> {
    let opcode = u64::from(WcOpcode::Recv.to_c());
    numbers.into_iter().map(|n| [n, u64::from(status.to_c()), opcode]).collect()
}

#[test]
fn a_slot_of_an_srq_is_free_when_its_completion_is_taken() {
    let (srq, memory) = (srq(), buffer(process()));
    let sides = [with_srq(&srq, 64), with_srq(&srq, 64)];
    for n in 0..DEPTH.into() {
        srq.enqueue(n, &recv_sge(&memory)).expect("there is room");
    }
    for n in 0..DEPTH as usize {
        send(&sides[n % 2]);
    }
    assert!(srq.enqueue(9, &recv_sge(&memory)).is_err(), "none is free yet");
    assert_eq!(sides[1].completions(), ended([1, 3], WcStatus::Success));
    for n in [4, 5] {
        srq.enqueue(n, &recv_sge(&memory))
            .expect("those that were taken are free, whatever those before them do");
    }
    assert!(srq.enqueue(9, &recv_sge(&memory)).is_err(), "and no more");
    (0..2).for_each(|_| send(&sides[1]));
    assert_eq!(sides[1].completions(), ended([4, 5], WcStatus::Success));
    assert_eq!(sides[0].completions(), ended([0, 2], WcStatus::Success));
}

#[test]
fn slots_whose_completions_nobody_polls_are_free_again() {
    let (srq, memory) = (srq(), buffer(process()));
    let fill = || (0..DEPTH.into()).for_each(|n| srq.enqueue(n, &recv_sge(&memory)).expect("all are free"));
    // One QP is reset and then destroyed. Another QP overruns its CQ.
    fill();
    let side = with_srq(&srq, DEPTH);
    (0..DEPTH).for_each(|_| send(&side));
    side.qp.modify(&QpAttr::state(QpState::Reset)).expect("it can be reset");
    fill();
    side.connect(side.qp.num(), Patience { timeout: 1, rnr_retry: 1 });
    (0..DEPTH).for_each(|_| send(&side));
    assert_eq!(side.completions().len(), DEPTH as usize, "what was there before takes no room");
    fill();
    (0..DEPTH).for_each(|_| send(&side));
    drop(side);
    fill();
    let small = with_srq(&srq, 1);
    (0..2).for_each(|_| send(&small));
    let other = with_srq(&srq, 64);
    (0..2).for_each(|_| send(&other));
    assert_eq!(other.completions().len(), 2);
    (0..DEPTH.into()).for_each(|n| srq.enqueue(n, &recv_sge(&memory)).expect("all are free"));
}

/// Checks an XRC SRQ, which serves any QP. No QP belongs to the SRQ or to its CQ.
#[test]
fn an_srq_that_messages_name_serves_any_qp_whoever_ends() {
    let (process, memory) = (process(), buffer(process()));
    let pipe = Arc::new(EventPipe::new().expect("a pipe"));
    let cq = Arc::new(Cq::new(process, 64, 0, pipe.in_record()).expect("a CQ"));
    let (index, sizes) = (QPS as u32 + 3999, Sizes { depth: 2, max_sge: 1 });
    let srq = RecvQueue::new(process, index, PD, sizes, Senders::Named, 0).expect("an SRQ");
    let srq = Arc::new(srq);
    cq.add_srq(&srq);
    srq.set_domain(None, cq.index);
    let other = Side::new(process, QpType::Rc, CAP, 64);
    let fill = |from: u64| (from..from + 2).all(|n| srq.enqueue(n, &recv_sge(&memory)).is_ok());
    assert!(fill(0));
    let mut peer = Peer::start();
    let begin = |peer: &mut Peer| peer.ask(&format!("begin-of-srq {} {index}", other.qp.num()));
    begin(&mut peer);
    peer.ask("end");
    let mut wcs = [doorbell_abi::ibv_wc::default(); 4];
    assert_eq!(cq.poll(&mut wcs).expect("all is well"), 1);
    assert_eq!((wcs[0].wr_id, wcs[0].qp_num), (0, other.qp.num()));
    assert_eq!(other.cq.poll(&mut wcs).expect("all is well"), 0);
    // If a sender exits after it has claimed a RECV, a later poll makes the RECV available again.
    begin(&mut peer);
    assert_eq!(srq.posted(), 0);
    drop(peer);
    let begun = OwnTime::start();
    while srq.posted() == 0 {
        assert_eq!(cq.poll(&mut wcs).expect("all is well"), 0);
        assert!(!begun.is_hang(), "the RECV is not given back");
    }
    // A completion that was not polled before the SRQ is destroyed stays in the CQ.
    let mut peer = Peer::start();
    begin(&mut peer);
    peer.ask("end");
    srq.close();
    cq.end_srq(&srq);
    assert_eq!(cq.poll(&mut wcs).expect("all is well"), 1);
    assert_eq!(cq.poll(&mut wcs).expect("all is well"), 0);
    assert_eq!(Arc::strong_count(&srq), 1, "the CQ does not keep the SRQ any longer");
}

/// Halts a sender that has claimed a RECV of an SRQ. Other senders take the next RECVs.
#[test]
fn a_sender_that_stops_keeps_no_other_from_an_srq() {
    let (srq, memory) = (srq(), buffer(process()));
    let side = with_srq(&srq, 64);
    for n in 0..DEPTH.into() {
        srq.enqueue(n, &recv_sge(&memory)).expect("there is room");
    }
    let mut peer = Peer::start();
    peer.ask(&format!("begin {}", side.qp.num()));
    // The halted sender goes on only when the test asks it to, so these SENDs do not wait for it.
    (0..2).for_each(|_| send(&side));
    assert_eq!(side.completions(), ended([1, 2], WcStatus::Success));
    peer.ask("end");
    assert_eq!(side.completions(), ended([0], WcStatus::Success));
    // If a sender exits after its claim, the RECV becomes available again.
    peer.ask(&format!("begin {}", side.qp.num()));
    assert!(srq.enqueue(9, &recv_sge(&memory)).is_ok());
    peer.kill();
    srq.recover();
    (0..2).for_each(|_| send(&side));
    assert_eq!(side.completions(), ended([9, 3], WcStatus::Success));
}

#[test]
fn datagrams_are_received_in_order_unless_a_sender_stops() {
    let memory = buffer(process());
    let side = Side::new(process(), QpType::Ud, CAP, 64);
    side.connect_ud();
    for n in 0..DEPTH.into() {
        side.qp.post_recv(n, &recv_sge(&memory)).expect("there is room");
    }
    let mut peer = Peer::start();
    peer.ask(&format!("begin {}", side.qp.num()));
    (0..2).for_each(|_| side.send_ud());
    assert_eq!(side.completions(), [[0; 3]; 0], "the first is to come first");
    let begin = OwnTime::start();
    assert_eq!(side.wait_for(2), ended([1, 2], WcStatus::Success));
    assert!(begin.elapsed() < Duration::from_secs(1));
    peer.ask("end");
    assert_eq!(side.completions(), ended([0], WcStatus::Success), "what is late is not lost");
    // The owner posts a RECV again if its sender exits after the claim.
    peer.ask(&format!("begin {}", side.qp.num()));
    side.qp.post_recv(4, &recv_sge(&memory)).expect("there is room");
    side.send_ud();
    peer.kill();
    assert_eq!(side.wait_for(1), ended([4], WcStatus::Success));
    // The RECV is posted again only when the CQ checks its senders. Earlier datagrams find no RECV.
    let (begin, mut sent) = (OwnTime::start(), Instant::now());
    while side.completions().is_empty() {
        assert!(!begin.is_hang(), "the RECV of the dead is lost");
        if sent.elapsed() > Duration::from_millis(500) {
            side.send_ud();
            sent = Instant::now();
        }
    }
}

/// Claims the next RECV of a QP and returns it unused, as a sender does that cannot read its own memory.
fn claim_in_vain(side: &Side) {
    let (segment, qpn) = (process().segment, side.qp.num());
    let qp = segment.qp(segment.index_of(qpn)).expect("its record");
    let rq = segment.rq(qp.rq.load(Relaxed) as usize).expect("its queue");
    let slots = Slots::of(segment, rq).expect("its slots");
    let Ok(front) = slots.front(rq.generation.load(Relaxed)) else { panic!("a RECV") };
    let claimer = process().claimer;
    let completer = Completer { owner: Owner::This, segment, qp, qpn, srq: None, claimer };
    completer.give_back(front.claim(&completer).expect("nobody else takes it"));
}

/// The CQ is polled while no RECV is posted, and the next RECV takes any of the free slots.
#[test]
fn a_message_is_found_in_whichever_slot_it_is() {
    let memory = buffer(process());
    let side = Side::new(process(), QpType::Ud, CAP, 64);
    side.connect_ud();
    for round in 0..4 * u64::from(DEPTH) {
        let recvs = 1 + round % 3;
        (0..recvs).for_each(|n| side.qp.post_recv(n, &recv_sge(&memory)).expect("there is room"));
        (0..recvs).for_each(|_| side.send_ud());
        assert_eq!(side.completions(), ended(0..recvs, WcStatus::Success), "round {round}");
        assert!(side.completions().is_empty());
    }
}

/// Posted RECVs are no completions.
#[test]
fn an_empty_cq_shrinks_below_its_posted_recvs() {
    let memory = buffer(process());
    let side = Side::new(process(), QpType::Rc, CAP, 64);
    side.connect(side.qp.num(), Patience { timeout: 1, rnr_retry: 1 });
    (0..DEPTH.into()).for_each(|n| side.qp.post_recv(n, &recv_sge(&memory)).expect("there is room"));
    side.cq.resize(DEPTH / 2).expect("the CQ is empty");
}

#[test]
fn a_recv_that_its_sender_gives_back_is_not_lost() {
    let memory = buffer(process());
    // The only sender of a QP returns its turn, so the next message takes the RECV.
    let side = Side::new(process(), QpType::Rc, CAP, 64);
    side.connect(side.qp.num(), Patience { timeout: 14, rnr_retry: 7 });
    (0..2).for_each(|n| side.qp.post_recv(n, &recv_sge(&memory)).expect("there is room"));
    claim_in_vain(&side);
    send(&side);
    assert_eq!(side.completions(), ended([0], WcStatus::Success));
    // If a queue has several senders, the owner posts the RECV again behind the other RECVs.
    let datagrams = Side::new(process(), QpType::Ud, CAP, 64);
    datagrams.connect_ud();
    (0..2).for_each(|n| datagrams.qp.post_recv(n, &recv_sge(&memory)).expect("there is room"));
    claim_in_vain(&datagrams);
    datagrams.send_ud();
    assert_eq!(datagrams.wait_for(1), ended([1], WcStatus::Success));
    datagrams.send_ud();
    assert_eq!(datagrams.completions(), ended([0], WcStatus::Success));
    // An SRQ without other free RECVs uses the returned RECV at once.
    let srq = srq();
    let shared = with_srq(&srq, 64);
    (0..DEPTH.into()).for_each(|n| srq.enqueue(n, &recv_sge(&memory)).expect("there is room"));
    claim_in_vain(&shared);
    assert!(srq.enqueue(9, &recv_sge(&memory)).is_err(), "all are posted");
    (0..DEPTH).for_each(|_| send(&shared));
    assert_eq!(shared.completions(), ended([1, 2, 3, 0], WcStatus::Success));
}

#[test]
fn what_a_peer_that_ended_has_begun_is_flushed_too() {
    for (flushed_first, recvs) in [(true, DEPTH), (false, DEPTH), (true, 1), (false, 1)] {
        let memory = buffer(process());
        let mut peer = Peer::start();
        let side = peer.connect(QpType::Rc);
        for n in 0..recvs.into() {
            side.qp.post_recv(n, &recv_sge(&memory)).expect("there is room");
        }
        peer.ask(&format!("begin {}", side.qp.num()));
        let to_err = || side.qp.modify(&QpAttr::state(QpState::Err)).expect("it can be moved to Err");
        if flushed_first {
            to_err();
        }
        peer.kill();
        if !flushed_first {
            to_err();
        }
        let all = side.wait_for(recvs as usize);
        assert_eq!(all, ended(0..recvs.into(), WcStatus::WrFlushErr), "{flushed_first}");
    }
}

#[test]
fn a_reset_waits_for_no_sender() {
    let memory = buffer(process());
    let mut peer = Peer::start();
    let side = peer.connect(QpType::Rc);
    // Fills all slots, so that the RECVs after the reset use the same slots again.
    let depth = u64::from(side.qp.cap.max_recv_wr);
    (0..depth).for_each(|n| side.qp.post_recv(n, &recv_sge(&memory)).expect("there is room"));
    peer.ask(&format!("begin {}", side.qp.num()));
    // The sender goes on only when the test asks it to, so the reset does not wait for it.
    side.qp.modify(&QpAttr::state(QpState::Reset)).expect("it can be reset");
    side.connect(side.qp.num(), Patience { timeout: 1, rnr_retry: 1 });
    (0..depth).for_each(|n| side.qp.post_recv(100 + n, &recv_sge(&memory)).expect("there is room"));
    // The sender's RECV belongs to the time before the reset, so it does not complete.
    peer.ask("end");
    assert_eq!(side.completions(), [[0; 3]; 0]);
    (0..depth).for_each(|_| send(&side));
    assert_eq!(side.completions(), ended(100..100 + depth, WcStatus::Success));
}

#[test]
fn a_second_qp_at_a_cq_ends_its_lane_and_loses_nothing() {
    let memory = buffer(process());
    let first = Side::new(process(), QpType::Rc, CAP, 64);
    first.connect(first.qp.num(), Patience { timeout: 1, rnr_retry: 1 });
    let post = |side: &Side, n| side.qp.post_recv(n, &recv_sge(&memory)).expect("there is room");
    (0..DEPTH.into()).for_each(|n| post(&first, n));
    (0..2).for_each(|_| send(&first));
    let second = first.beside();
    second.connect(second.qp.num(), Patience { timeout: 1, rnr_retry: 1 });
    post(&second, 10);
    send(&second);
    (0..2).for_each(|_| send(&first));
    assert_eq!(first.completions(), ended([0, 1, 10, 2, 3], WcStatus::Success));
}

const SENDERS: usize = 3;
const EACH: u32 = 20_000;
/// The most messages of one sender that the receiver has not polled yet.
const WINDOW: u32 = 8;

/// Sends `EACH` numbered messages by `post`, at most [`WINDOW`] ahead of the receiver.
fn send_all(received: &AtomicU32, post: impl Fn(u32)) {
    for n in 0..EACH {
        let begin = Instant::now();
        while n - received.load(Acquire) >= WINDOW {
            assert!(begin.elapsed() < HANGS, "{n} of {EACH}");
            std::thread::yield_now();
        }
        post(n);
    }
}

/// Receives the messages of all senders, and asserts that each sender's messages arrive in order. `depth`
/// RECVs are already posted, and `post` posts one more.
fn receive_all(cq: &Cq, received: &[AtomicU32], depth: u32, post: impl Fn(u64)) {
    let all = SENDERS as u32 * EACH;
    let mut posted: std::collections::HashSet<u64> = (0..depth.into()).collect();
    let mut wcs = [doorbell_abi::ibv_wc::default(); 16];
    for next in (0..).map(|n| u64::from(depth) + n) {
        if next == u64::from(depth + all) {
            return;
        }
        let (begin, mut taken) = (Instant::now(), 0);
        while taken == 0 {
            assert!(begin.elapsed() < HANGS, "{}", next - u64::from(depth));
            taken = cq.poll(&mut wcs[..1]).expect("the CQ takes all");
        }
        let wc = &wcs[0];
        assert_eq!(wc.status, WcStatus::Success.to_c());
        assert!(posted.remove(&wc.wr_id), "RECV {} completes twice", wc.wr_id);
        let (sender, n) =
            (u32::from_be(wc.imm_data) as usize % SENDERS, u32::from_be(wc.imm_data) / SENDERS as u32);
        assert_eq!(n, received[sender].load(Relaxed), "sender {sender}");
        posted.insert(next);
        post(next);
        // The sender may send its next message only after its RECV was posted.
        received[sender].fetch_add(1, Release);
    }
}

fn numbered(sender: usize, n: u32) -> SendOp {
    SendOp::SendWithImm(n * SENDERS as u32 + sender as u32)
}

#[test]
fn datagrams_of_many_senders_arrive_each_once() {
    // The CQ has room for the completions of all RECVs, and for no more.
    let cap = QpCap { max_recv_wr: RECVS, ..CAP };
    let alone = Side::new(process(), QpType::Ud, cap, RECVS);
    receive_datagrams(&alone);
    drop(alone);
    let (with_another, another) = {
        let side = Side::new(process(), QpType::Ud, cap, RECVS);
        let another = side.beside();
        (side, another)
    };
    receive_datagrams(&with_another);
    drop(another);
}

const RECVS: u32 = SENDERS as u32 * WINDOW;

fn receive_datagrams(side: &Side) {
    let memory = buffer(process());
    side.connect_ud();
    let received: [AtomicU32; SENDERS] = Default::default();
    let post = |n| side.qp.post_recv(n, &recv_sge(&memory)).expect("there is room");
    // A datagram that finds no RECV is lost.
    (0..RECVS.into()).for_each(post);
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let received = &received[sender];
            scope.spawn(move || {
                let own = Side::new(process(), QpType::Ud, CAP, 64);
                own.connect_ud();
                let ah = own.own_path();
                let dest = UdDest { ah, qpn: side.qp.num(), qkey: 7 };
                send_all(received, |n| {
                    let wr = SendWr { dest: Some(dest), ..SendWr::new(0, numbered(sender, n), &[]) };
                    // The SENDs are unsignalled, so the send queue fills up. A reset empties it.
                    while own.qp.begin_post().post_wr(&wr, None).is_err() {
                        own.qp.modify(&QpAttr::state(QpState::Reset)).expect("it can be reset");
                        own.connect_ud();
                    }
                });
                process().paths.remove(ah);
            });
        }
        receive_all(&side.cq, &received, RECVS, post);
    });
}

#[test]
fn an_srq_serves_many_senders_each_in_order() {
    let memory = buffer(process());
    let index = QPS as u32 + 4000;
    let sizes = Sizes { depth: SENDERS as u32 * WINDOW, max_sge: 1 };
    let srq = Arc::new(RecvQueue::new(process(), index, PD, sizes, Senders::Many, 0).expect("an SRQ"));
    let first = with_srq(&srq, 256);
    let beside = || {
        let pipe = Arc::new(EventPipe::new().expect("a pipe"));
        Side::of(process(), QpType::Rc, CAP, first.cq.clone(), Some(srq.clone()), pipe)
    };
    let sides = [&first, &beside(), &beside()];
    let received: [AtomicU32; SENDERS] = Default::default();
    let post = |n| srq.enqueue(n, &recv_sge(&memory)).expect("there is room");
    (0..sizes.depth.into()).for_each(post);
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (side, received) = (sides[sender], &received[sender]);
            scope.spawn(move || {
                let own = Side::new(process(), QpType::Rc, CAP, 64);
                let patience = Patience { timeout: 14, rnr_retry: 7 };
                side.reconnect(own.qp.num(), patience);
                own.connect(side.qp.num(), patience);
                send_all(received, |n| {
                    let wr = SendWr::new(0, numbered(sender, n), &[]).flags(SendFlags::SIGNALED);
                    own.qp.begin_post().post_wr(&wr, None).expect("there is room");
                    own.wait_for(1);
                });
            });
        }
        receive_all(&first.cq, &received, SENDERS as u32 * WINDOW, post);
    });
}
