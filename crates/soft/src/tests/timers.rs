//! Tests the times after which a requester sends again. Like a NIC, the requester waits for the whole time
//! even if the responder could receive the message earlier.

use super::peer::buffer;
use super::{Patience, Side};
use crate::fabric::process::Process;
use doorbell_transport::{ack_timeout, rnr_wait};
use doorbell_verbs::*;
use std::time::{Duration, Instant};

const CAP: QpCap =
    QpCap { max_send_wr: 8, max_recv_wr: 8, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };

fn side() -> Side {
    Side::new(Process::current().expect("this process can use the device"), QpType::Rc, CAP, 64)
}

fn post(side: &Side, op: SendOp) {
    let wr = SendWr::new(0, op, &[]).flags(SendFlags::SIGNALED);
    side.qp.begin_post().post_wr(&wr, None).expect("there is room");
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_ps() / 1000)
}

#[test]
fn a_message_without_a_recv_waits_for_the_responders_timer() {
    let memory = buffer(Process::current().expect("this process can use the device"));
    for timer in [18, 20, 22] {
        let side = side();
        side.connect(side.qp.num(), Patience { timeout: 14, rnr_retry: 7 });
        let attr = QpAttr { min_rnr_timer: Some(timer), ..QpAttr::state(QpState::Rts) };
        side.qp.modify(&attr).expect("the timer may change");
        let begin = Instant::now();
        post(&side, SendOp::Send);
        // The WRITE behind the SEND keeps its order.
        post(&side, SendOp::Write(RemoteAddr::default()));
        let sge = [Sge { addr: memory.addr, length: 64, lkey: memory.key }];
        side.qp.post_recv(7, &sge).expect("there is room");
        let all = side.wait_for(3);
        assert!(begin.elapsed() >= duration(rnr_wait(timer)), "timer {timer}");
        // The SEND completes before the RECV that it took, and the WRITE completes last.
        assert_eq!(all.iter().map(|wc| wc[0]).collect::<Vec<_>>(), [0, 7, 0], "{all:?}");
        // If the RECV is posted before the message, nothing waits.
        side.qp.post_recv(8, &sge).expect("there is room");
        post(&side, SendOp::Send);
        assert_eq!(side.completions().len(), 2, "both are there at once");
    }
}

#[test]
fn a_message_to_a_qp_that_is_not_ready_waits_for_the_time_out() {
    // With one retry, the other QP may be ready half a second late on a busy machine.
    const TIMEOUT: u8 = 16;
    let [one, other] = [side(), side()];
    one.connect(other.qp.num(), Patience { timeout: TIMEOUT, rnr_retry: 7 });
    let begin = Instant::now();
    post(&one, SendOp::Write(RemoteAddr::default()));
    other.connect(one.qp.num(), Patience { timeout: TIMEOUT, rnr_retry: 7 });
    assert_eq!(one.wait_for(1)[0][1], 0, "it succeeds");
    assert!(begin.elapsed() >= duration(ack_timeout(TIMEOUT)));
}
