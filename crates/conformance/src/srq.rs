//! Checks of shared receive queues.

use crate::bench::{Bench, Options, Pair, Parts};
use crate::step::{CheckStep, needs, refused, same};
use doorbell_verbs::{Provider, QpType, RecvWr, SendOp, Span, SrqAttr, WcStatus};

/// Creates CQs, memory and, at the responder, a shared receive queue.
fn parts<P: Provider>(b: &Bench<P>, options: &Options) -> CheckStep<Parts<P>> {
    needs("shared receive queues", b.device.max_srq_wr > 0)?;
    let mut parts = b.parts(options)?;
    if !b.is_requester() {
        parts.srq = Some(b.pd.create_srq(&SrqAttr { max_wr: 64, max_sge: 1 })?);
    }
    Ok(parts)
}

/// Posts a RECV of 128 bytes at offset 128 * `wr_id` to the shared receive queue.
fn recv<P: Provider>(parts: &Parts<P>, wr_id: u64) -> CheckStep {
    let sge = parts.mr.sge(wr_id * 128, 128);
    match &parts.srq {
        Some(srq) => Ok(srq.post_recv(&[RecvWr { wr_id, sg_list: &[sge] }])?),
        None => Ok(()),
    }
}

/// Two QPs consume the RECVs of one shared receive queue in order, regardless of the QP that receives.
fn shared<P: Provider>(b: &Bench<P>, qp_type: QpType) -> CheckStep {
    let options = b.options(qp_type);
    let parts = parts(b, &options)?;
    let pairs: [Pair<P>; 2] = [b.pair_on(&parts, &options)?, b.pair_on(&parts, &options)?];
    let turns = [0, 1, 1, 0, 0, 0, 1, 0];
    (0..8).try_for_each(|n| recv(&parts, n))?;
    b.meet()?;
    for (n, &turn) in (0u64..).zip(&turns) {
        let p = &pairs[turn];
        if b.is_requester() {
            p.fill(0, 64, n as u8);
            p.post(n, SendOp::Send, 0, 64)?;
            p.sent(n, WcStatus::Success)?;
        } else {
            p.received(n, WcStatus::Success)?;
            p.has(n * 128 + p.grh(), 64, n as u8)?;
        }
        b.meet()?;
    }
    Ok(())
}

/// Two RC QPs share a receive queue.
pub(crate) fn rc_shared<P: Provider>(b: &Bench<P>) -> CheckStep {
    shared(b, QpType::Rc)
}

/// Two UD QPs share a receive queue.
pub(crate) fn ud_shared<P: Provider>(b: &Bench<P>) -> CheckStep {
    shared(b, QpType::Ud)
}

/// With an empty shared receive queue, the responder sends RNR NAKs. A RECV that is posted later receives the
/// message.
pub(crate) fn empty_then_filled<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options = b.options(QpType::Rc);
    let parts = parts(b, &options)?;
    let p = b.pair_on(&parts, &options)?;
    if b.is_requester() {
        p.fill(0, 64, 3);
        p.post(1, SendOp::Send, 0, 64)?;
        return p.sent(1, WcStatus::Success).map(drop);
    }
    b.sleep(Span::from_ms(20));
    recv(&parts, 2)?;
    p.received(2, WcStatus::Success)?;
    p.has(256, 64, 3)
}

/// A QP with a shared receive queue refuses RECVs of its own (ibv_post_recv(3)).
pub(crate) fn no_own_recvs<P: Provider>(b: &Bench<P>) -> CheckStep {
    needs("shared receive queues", b.device.max_srq_wr > 0)?;
    let options = b.options(QpType::Rc);
    let mut parts = b.parts(&options)?;
    parts.srq = Some(b.pd.create_srq(&SrqAttr { max_wr: 16, max_sge: 1 })?);
    let qp = b.qp(&parts, &options)?;
    qp.connect(crate::bench::PORT, &qp.endpoint(crate::bench::PORT)?, &options.connect)?;
    let list = [RecvWr { wr_id: 1, sg_list: &[parts.mr.sge(0, 8)] }];
    let error = refused("a RECV on a QP with a shared receive queue", qp.post_recv(&list))?;
    same("the index of the refused work request", error.index, 0)
}

/// A QP that goes to Err leaves the RECVs of a shared receive queue to the remaining QPs.
pub(crate) fn survives_a_qp<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options = b.options(QpType::Rc);
    let parts = parts(b, &options)?;
    let (first, second) = (b.pair_on(&parts, &options)?, b.pair_on(&parts, &options)?);
    recv(&parts, 5)?;
    b.meet()?;
    if b.is_requester() {
        let mut wrong = first.remote;
        wrong.rkey = !wrong.rkey;
        first.post(1, SendOp::Write(wrong), 0, 8)?;
        first.sent(1, WcStatus::RemAccessErr)?;
        second.fill(0, 64, 4);
        second.post(2, SendOp::Send, 0, 64)?;
        return second.sent(2, WcStatus::Success).map(drop);
    }
    second.received(5, WcStatus::Success)?;
    second.has(5 * 128, 64, 4)
}
