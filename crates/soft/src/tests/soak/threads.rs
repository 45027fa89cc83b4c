//! Tests many threads that share a QP, a CQ and an SRQ.

use super::super::own_time::HANGS;
use super::super::{PD, Side};
use super::parts::{CAP, CQE, PATIENCE, queue};
use crate::fabric::pipe::EventPipe;
use crate::fabric::process::Process;
use crate::memory::records::QPS;
use crate::queues::recv_queue::{RecvQueue, Senders, Sizes};
use doorbell_abi::{CEnum, ibv_wc};
use doorbell_verbs::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::Instant;

/// The number of threads that post SENDs, and of threads that poll for received messages.
const POSTERS: u32 = 4;
const TAKERS: u32 = 3;
const EACH: u32 = 3000;
const ALL: u32 = POSTERS * EACH;
/// The index of the SRQ. No other test uses it.
const SRQ: u32 = QPS as u32 + 5000;

#[test]
fn many_threads_share_a_qp_a_cq_and_an_srq() {
    let process = Process::current().expect("this process can use the device");
    let own = queue(process, QpType::Rc, None, None);
    share(&own, &queue(process, QpType::Rc, None, None), &|side, id| side.qp.post_recv(id, &[]).is_ok());
    let sizes = Sizes { depth: CAP.max_recv_wr, max_sge: 1 };
    let srq = RecvQueue::new(process, SRQ, PD, sizes, Senders::Many, 0).expect("an SRQ");
    let srq = Arc::new(srq);
    let pipe = Arc::new(EventPipe::new().expect("a pipe"));
    let cq = super::parts::cq(process, &pipe);
    let to = Side::of(process, QpType::Rc, CAP, cq, Some(srq.clone()), pipe);
    share(&queue(process, QpType::Rc, None, None), &to, &|_, id| srq.enqueue(id, &[]).is_ok());
}

/// Posts from several threads on one QP, and polls the CQ of its peer in other threads. Asserts that each
/// message arrives once, and that each poster's messages arrive in order.
fn share(from: &Side, to: &Side, post_recv: &(dyn Fn(&Side, u64) -> bool + Sync)) {
    from.connect(to.qp.num(), PATIENCE);
    to.connect(from.qp.num(), PATIENCE);
    (0..u64::from(CAP.max_recv_wr)).for_each(|id| assert!(post_recv(to, id)));
    let (sent, came) = (AtomicU32::new(0), AtomicU32::new(0));
    let sum = AtomicU64::new(0);
    let begin = Instant::now();
    let patient = || assert!(begin.elapsed() < HANGS, "{sent:?} sent, {came:?} came");
    std::thread::scope(|scope| {
        for poster in 0..POSTERS {
            let patient = &patient;
            scope.spawn(move || {
                for n in 0..EACH {
                    let op = SendOp::SendWithImm(n * POSTERS + poster);
                    let wr = SendWr::new(n.into(), op, &[]).flags(SendFlags::SIGNALED);
                    while from.qp.begin_post().post_wr(&wr, None).is_err() {
                        patient();
                        std::thread::yield_now();
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| take(from, &sent, &patient, &|_| {}));
        }
        for _ in 0..TAKERS {
            scope.spawn(|| {
                let last = std::cell::RefCell::new([None; POSTERS as usize]);
                take(to, &came, &patient, &|wc| {
                    let number = u32::from_be(wc.imm_data);
                    let (poster, n) = (number % POSTERS, number / POSTERS);
                    let before = last.borrow_mut()[poster as usize].replace(n);
                    assert!(before.is_none_or(|before| before < n), "{n} of {poster} after {before:?}");
                    sum.fetch_add(number.into(), Relaxed);
                    while !post_recv(to, wc.wr_id) {
                        patient();
                    }
                });
            });
        }
    });
    assert_eq!(sum.into_inner(), (0..u64::from(ALL)).sum::<u64>());
}

/// Polls until all threads together have counted as many completions as there are messages.
fn take(side: &Side, count: &AtomicU32, patient: &dyn Fn(), with: &dyn Fn(&ibv_wc)) {
    let mut wcs = [ibv_wc::default(); 4];
    while count.load(Relaxed) < ALL {
        patient();
        let taken = side.cq.poll(&mut wcs).expect("the CQ holds all");
        for wc in &wcs[..taken] {
            assert_eq!(wc.status, WcStatus::Success.to_c());
            with(wc);
            count.fetch_add(1, Relaxed);
        }
        if taken == 0 {
            std::thread::yield_now();
        }
    }
}

const _: () = assert!(CQE > CAP.max_send_wr + CAP.max_recv_wr);
