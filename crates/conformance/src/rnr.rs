//! Checks of messages without a RECV, or with a RECV that is too small.

use crate::bench::{Bench, Pair};
use crate::step::{CheckStep, failed, holds, same};
use doorbell_verbs::{Provider, QpState, QpType, SendOp, Span, WcStatus};

/// Posts a work request to a peer without RECVs, with this number of RNR retries. The work request must fail.
fn gives_up<P: Provider>(b: &Bench<P>, rnr_retry: u8, op: impl Fn(&Pair<P>) -> SendOp) -> CheckStep {
    let mut options = b.options(QpType::Rc);
    options.connect.rnr_retry = rnr_retry;
    let p = b.pair(&options)?;
    if b.is_requester() {
        p.post(1, op(&p), 0, 8)?;
        p.sent(1, WcStatus::RnrRetryExcErr)?;
        return b.ends_in_error(&p.qp);
    }
    b.until_peer_ends()?;
    p.has_no_completions()?;
    // The NAK does not change the responder's state.
    same("the responder's state", p.qp.state()?, QpState::Rts)
}

/// With rnr_retry 0, the first RNR NAK fails the SEND.
pub(crate) fn no_retry<P: Provider>(b: &Bench<P>) -> CheckStep {
    gives_up(b, 0, |_| SendOp::Send)
}

/// With rnr_retry 3, the fourth RNR NAK fails the SEND.
pub(crate) fn few_retries<P: Provider>(b: &Bench<P>) -> CheckStep {
    gives_up(b, 3, |_| SendOp::Send)
}

/// A WRITE with immediate needs a RECV, too.
pub(crate) fn write_with_imm_needs_recv<P: Provider>(b: &Bench<P>) -> CheckStep {
    gives_up(b, 0, |p| SendOp::WriteWithImm(p.remote, 1))
}

/// With rnr_retry 7, which means no limit, SENDs wait for late RECVs and keep their order.
pub(crate) fn late_recv<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        for wr_id in 0..4 {
            p.fill(wr_id * 64, 64, wr_id as u8);
            p.post(wr_id, SendOp::Send, wr_id * 64, 64)?;
        }
        for wr_id in 0..4 {
            p.sent(wr_id, WcStatus::Success)?;
        }
        return Ok(());
    }
    for wr_id in 0..4 {
        b.sleep(Span::from_ms(10));
        p.recv(wr_id, wr_id * 64, 64)?;
        p.received(wr_id, WcStatus::Success)?;
        p.has(wr_id * 64, 64, wr_id as u8)?;
    }
    Ok(())
}

/// WRITE, READ and atomics need no RECV.
pub(crate) fn one_sided_needs_none<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mut options = b.options(QpType::Rc);
    options.connect.rnr_retry = 0;
    let p = b.pair(&options)?;
    if b.is_requester() {
        p.post(1, SendOp::Write(p.remote), 0, 8)?;
        p.post(2, SendOp::Read(p.remote), 64, 8)?;
        p.sent(1, WcStatus::Success)?;
        p.sent(2, WcStatus::Success)?;
        if b.device.atomics {
            p.post(3, SendOp::FetchAdd { remote: p.remote, add: 1 }, 128, 8)?;
            p.sent(3, WcStatus::Success)?;
        }
        return Ok(());
    }
    b.until_peer_ends()?;
    p.has_no_completions()
}

/// A message that fills its RECV to the last byte fits.
pub(crate) fn exact_fit<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    let len = b.mtu(QpType::Rc) + 100;
    if b.is_requester() {
        p.fill(0, len, 3);
        b.meet()?;
        p.post(1, SendOp::Send, 0, len)?;
        return p.sent(1, WcStatus::Success).map(drop);
    }
    p.recv(7, 0, len)?;
    b.meet()?;
    same("byte_len", p.received(7, WcStatus::Success)?.byte_len, len)?;
    p.has(0, len, 3)?;
    p.is_untouched(u64::from(len), 64)
}

/// Sends a message that is one byte longer than its RECV. `look` checks the status of this side's work
/// request.
fn too_long<P: Provider>(b: &Bench<P>, len: u32, look: impl Fn(WcStatus) -> CheckStep) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    let cq = if b.is_requester() {
        p.fill(0, len, 3);
        b.meet()?;
        p.post(7, SendOp::Send, 0, len)?;
        &p.parts.send_cq
    } else {
        p.recv(7, 0, len - 1)?;
        b.meet()?;
        &p.parts.recv_cq
    };
    let wc = cq.wait(b.deadline())?.ok_or_else(|| failed("no completion"))?;
    same("the wr_id of the completed work request", wc.wr_id, 7)?;
    look(wc.status)?;
    b.ends_in_error(&p.qp)?;
    if b.is_requester() { Ok(()) } else { p.is_untouched(u64::from(len) - 1, 1024) }
}

/// A message longer than its RECV fails on both sides, moves both QPs to Err, and writes nothing behind the
/// buffer.
pub(crate) fn recv_too_small<P: Provider>(b: &Bench<P>) -> CheckStep {
    let fails = |status| holds(&format!("the status is an error: {status:?}"), status != WcStatus::Success);
    too_long(b, 65, fails)?;
    too_long(b, 2 * b.mtu(QpType::Rc), fails)
}

/// If a message is longer than its RECV, the requester's status is a remote invalid request error. The RECV's
/// status is a local length error (IB specification, 11.6.2).
pub(crate) fn recv_too_small_statuses<P: Provider>(b: &Bench<P>) -> CheckStep {
    let wanted = if b.is_requester() { WcStatus::RemInvReqErr } else { WcStatus::LocLenErr };
    let look = |status| same("the status", status, wanted);
    too_long(b, 65, look)?;
    too_long(b, 2 * b.mtu(QpType::Rc), look)
}

/// Without a RECV, a message on UC or UD is dropped, and its requester gets no error. The next message, which
/// has a RECV, arrives.
fn dropped<P: Provider>(b: &Bench<P>, qp_type: QpType) -> CheckStep {
    let p = b.pair(&b.options(qp_type))?;
    if b.is_requester() {
        p.fill(0, 64, 1);
        p.fill(64, 64, 2);
        p.post(1, SendOp::Send, 0, 64)?;
        p.sent(1, WcStatus::Success)?;
        b.silence();
        b.meet()?;
        b.meet()?;
        p.post(2, SendOp::Send, 64, 64)?;
        return p.sent(2, WcStatus::Success).map(drop);
    }
    b.meet()?;
    p.recv(7, 0, 64)?;
    b.meet()?;
    p.received(7, WcStatus::Success)?;
    p.has(p.grh(), 64, 2)?;
    p.has_no_completions()
}

/// A SEND on UC without a RECV is dropped.
pub(crate) fn uc_drops<P: Provider>(b: &Bench<P>) -> CheckStep {
    dropped(b, QpType::Uc)
}

/// A datagram without a RECV is dropped.
pub(crate) fn ud_drops<P: Provider>(b: &Bench<P>) -> CheckStep {
    dropped(b, QpType::Ud)
}
