//! Checks of flushing: in Err, all posted work requests complete in order with `WrFlushErr`.

use crate::bench::{Bench, PORT, Pair};
use crate::connections::impatient;
use crate::step::{CheckStep, same};
use doorbell_verbs::{
    Endpoint, Provider, QpAttr, QpState, QpType, RecvWr, RemoteAddr, SendOp, SendWr, WcStatus,
};

fn to_error<P: Provider>(p: &Pair<P>) -> CheckStep {
    Ok(p.qp.modify(&QpAttr::state(QpState::Err))?)
}

/// Work requests behind a failed one are flushed in order, signalled or not, and are not executed.
pub(crate) fn sends_after_a_failure<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        p.fill(0, 8, 1);
        let sges = [p.sge(0, 8)];
        let wrong = RemoteAddr { rkey: !p.remote.rkey, ..p.remote };
        let failing = p.signaled(0, SendOp::Write(wrong), &sges);
        let mut list = vec![failing];
        list.extend((1..9).map(|n| p.wr(n, SendOp::Write(p.remote.at(1024)), &sges)));
        p.qp.post_send(&list)?;
        p.sent(0, WcStatus::RemAccessErr)?;
        for wr_id in 1..9 {
            p.sent(wr_id, WcStatus::WrFlushErr)?;
        }
        b.ends_in_error(&p.qp)?;
        return b.meet();
    }
    b.meet()?;
    p.is_untouched(0, 4096)
}

/// RECVs are flushed in order when the QP goes to Err.
pub(crate) fn recvs<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let p = b.loopback(&b.options(qp_type))?;
        for wr_id in 0..8 {
            p.recv(wr_id, 0, 8)?;
        }
        to_error(&p)?;
        for wr_id in 0..8 {
            p.received(wr_id, WcStatus::WrFlushErr)?;
        }
        b.silence();
        p.has_no_completions()?;
    }
    Ok(())
}

/// SENDs that wait for a RECV are flushed in order when the QP goes to Err, signalled or not.
pub(crate) fn waiting_sends<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        let sges = [p.sge(0, 8)];
        let list: Vec<SendWr<'_>> = (0..8).map(|n| p.wr(n, SendOp::Send, &sges)).collect();
        p.qp.post_send(&list)?;
        b.silence();
        p.has_no_completions()?;
        to_error(&p)?;
        for wr_id in 0..8 {
            p.sent(wr_id, WcStatus::WrFlushErr)?;
        }
    }
    Ok(())
}

/// In Err, send work requests are accepted and flushed (IB specification, 10.3.1.7).
pub(crate) fn sends_posted_in_error<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let p = b.loopback(&b.options(qp_type))?;
        to_error(&p)?;
        (0..3).try_for_each(|n| p.post(n, SendOp::Send, 0, 8))?;
        (0..3).try_for_each(|n| p.sent(n, WcStatus::WrFlushErr).map(drop))?;
    }
    Ok(())
}

/// In Err, RECVs are accepted and flushed.
pub(crate) fn recvs_posted_in_error<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let p = b.loopback(&b.options(qp_type))?;
        to_error(&p)?;
        (0..3).try_for_each(|n| p.recv(n, 64, 8))?;
        (0..3).try_for_each(|n| p.received(n, WcStatus::WrFlushErr).map(drop))?;
    }
    Ok(())
}

/// When the responder refuses an access, its own RECVs are flushed.
pub(crate) fn recvs_of_a_refusing_responder<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        b.meet()?;
        p.post(1, SendOp::Read(RemoteAddr { rkey: !p.remote.rkey, ..p.remote }), 0, 8)?;
        p.sent(1, WcStatus::RemAccessErr)?;
        return b.meet();
    }
    for wr_id in 0..4 {
        p.recv(wr_id, 0, 8)?;
    }
    b.meet()?;
    b.meet()?;
    for wr_id in 0..4 {
        p.received(wr_id, WcStatus::WrFlushErr)?;
    }
    Ok(())
}

/// When the requester's retries run out, its QP goes to Err without a call of ibv_modify_qp(3). Its own RECVs
/// are flushed, too (IB specification, 10.3.1.7).
pub(crate) fn recvs_when_retries_run_out<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options = impatient(b);
    let parts = b.parts(&options)?;
    let qp = b.qp(&parts, &options)?;
    let (peer, remote) = b.exchange(&qp, &parts.mr)?;
    b.meet()?;
    if !b.is_requester() {
        return b.until_peer_ends();
    }
    let nobody = Endpoint { qpn: peer.qpn ^ 0x7f_0000, ..peer };
    qp.connect(PORT, &nobody, &options.connect)?;
    let sges = [parts.mr.sge(0, 8)];
    for wr_id in 0..4 {
        qp.post_recv(&[RecvWr { wr_id, sg_list: &sges }])?;
    }
    qp.post_send(&[SendWr::new(7, SendOp::Write(remote), &sges)])?;
    let wc = parts.send_cq.wait(b.deadline())?;
    same("the completion", wc.map(|wc| (wc.wr_id, wc.status)), Some((7, WcStatus::RetryExcErr)))?;
    b.ends_in_error(&qp)?;
    for wr_id in 0..4 {
        let wc = parts.recv_cq.wait(b.deadline())?;
        same("the RECV", wc.map(|wc| (wc.wr_id, wc.status)), Some((wr_id, WcStatus::WrFlushErr)))?;
    }
    Ok(())
}

/// Completions from before the error stay unchanged. Only the remaining work requests are flushed.
pub(crate) fn only_the_rest<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.loopback(&b.options(QpType::Rc))?;
    for wr_id in 0..4 {
        p.recv(wr_id, 1024, 8)?;
    }
    p.post(10, SendOp::Send, 0, 8)?;
    p.post(11, SendOp::Send, 0, 8)?;
    p.sent(10, WcStatus::Success)?;
    p.sent(11, WcStatus::Success)?;
    p.received(0, WcStatus::Success)?;
    b.silence();
    to_error(&p)?;
    p.received(1, WcStatus::Success)?;
    p.received(2, WcStatus::WrFlushErr)?;
    p.received(3, WcStatus::WrFlushErr).map(drop)
}

/// After Err, Reset and a new connection the QP works again.
pub(crate) fn recovery<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options = b.options(QpType::Rc);
    let p = b.pair(&options)?;
    if b.is_requester() {
        p.post(1, SendOp::Write(RemoteAddr { rkey: !p.remote.rkey, ..p.remote }), 0, 8)?;
        p.sent(1, WcStatus::RemAccessErr)?;
    }
    b.meet()?;
    p.qp.modify(&QpAttr::state(QpState::Reset))?;
    p.qp.connect(PORT, &p.peer, &options.connect)?;
    if !b.is_requester() {
        p.qp.post_recv(&[RecvWr { wr_id: 7, sg_list: &[p.sge(0, 64)] }])?;
        b.meet()?;
        p.received(7, WcStatus::Success)?;
        return p.has(0, 64, 9);
    }
    p.fill(0, 64, 9);
    b.meet()?;
    p.post(2, SendOp::Send, 0, 64)?;
    p.sent(2, WcStatus::Success).map(drop)
}
