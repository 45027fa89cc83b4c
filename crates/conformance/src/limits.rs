//! Checks of limits: a request beyond a limit is refused at once and changes nothing.

use crate::bench::Bench;
use crate::step::{CheckStep, holds, needs, refused, same};
use doorbell_verbs::{
    Context, PostError, Provider, QpType, RecvWr, SendFlags, SendOp, SendWr, Sge, Span, SrqAttr, VerbsError,
    WcStatus,
};

fn is_full(error: &PostError) -> CheckStep {
    let no_room = matches!(error.cause, VerbsError::NoRoom(_));
    holds(&format!("the refusal of a full queue is ENOMEM: {error}"), no_room)
}

/// Opening a device that the machine does not have is refused.
pub(crate) fn no_such_device<P: Provider>(b: &Bench<P>) -> CheckStep {
    refused("opening a device beyond the last device", Context::open(&b.provider, b.provider.num_devices()))
        .map(drop)
}

/// Queues, SGEs, inline payloads and CQs beyond the device's limits are refused.
pub(crate) fn over_device_limits<P: Provider>(b: &Bench<P>) -> CheckStep {
    let usual = b.options(QpType::Rc);
    let parts = b.parts(&usual)?;
    let create = |what: &str, change: &dyn Fn(&mut doorbell_verbs::QpCap)| {
        let mut options = usual;
        change(&mut options.qp.cap);
        let made = b.pd.create_qp(&parts.send_cq, &parts.recv_cq, None, &options.qp);
        refused(what, made).map(drop)
    };
    create("max_send_wr over max_qp_wr", &|cap| cap.max_send_wr = b.device.max_qp_wr + 1)?;
    create("max_recv_wr over max_qp_wr", &|cap| cap.max_recv_wr = b.device.max_qp_wr + 1)?;
    create("max_send_sge over max_sge", &|cap| cap.max_send_sge = b.device.max_sge + 1)?;
    create("max_recv_sge over max_sge", &|cap| cap.max_recv_sge = b.device.max_sge + 1)?;
    create("max_inline_data of 1 MiB", &|cap| cap.max_inline_data = 1 << 20)?;
    if let Some(limit) = b.device.max_inline_data {
        create("max_inline_data over the device's limit", &|cap| cap.max_inline_data = limit + 1)?;
    }
    if b.device.max_cqe < u32::MAX {
        refused("a CQ over max_cqe", b.context.create_cq(b.device.max_cqe + 1))?;
    }
    Ok(())
}

/// A CQ without entries is refused (ibv_create_cq(3): at least 1).
pub(crate) fn empty_cq<P: Provider>(b: &Bench<P>) -> CheckStep {
    refused("a CQ of 0 entries", b.context.create_cq(0)).map(drop)
}

/// Posts a bad work request between two good ones. The error must state the index of the bad work request.
/// The work request before it is executed, and the work request after it is not.
fn bad_in_the_midst<P: Provider>(
    b: &Bench<P>,
    inline: u32,
    bad: &dyn Fn(Sge) -> (Vec<Sge>, SendFlags),
) -> CheckStep {
    let mut options = b.options(QpType::Rc);
    options.qp.cap.max_inline_data = inline;
    let p = b.loopback(&options)?;
    let good = [p.sge(0, 8)];
    let (sges, flags) = bad(p.sge(0, 16 << 10));
    p.fill(0, 8, 1);
    let error = refused(
        "a work request over a limit",
        p.qp.post_send(&[
            p.signaled(1, SendOp::Write(p.remote.at(20 << 10)), &good),
            p.signaled(2, SendOp::Write(p.remote.at(24 << 10)), &sges).flags(flags),
            p.signaled(3, SendOp::Write(p.remote.at(60 << 10)), &good),
        ]),
    )?;
    same("the index of the refused work request", error.index, 1)?;
    p.sent(1, WcStatus::Success)?;
    b.silence();
    p.has_no_completions()?;
    p.has(20 << 10, 8, 1)?;
    p.is_untouched(24 << 10, 40 << 10)?;
    // The refusal does not change the QP.
    p.post(4, SendOp::Write(p.remote.at(60 << 10)), 0, 8)?;
    p.sent(4, WcStatus::Success).map(drop)
}

/// A work request with more SGEs than the send queue supports is refused. Devices may grant more SGEs than
/// requested, so the check exceeds the device's limit.
pub(crate) fn too_many_sges<P: Provider>(b: &Bench<P>) -> CheckStep {
    let count = b.device.max_sge as usize + 1;
    bad_in_the_midst(b, 0, &|sge| (vec![Sge { length: 1, ..sge }; count], SendFlags::empty()))
}

/// An inline payload of 16 KiB is refused, because it exceeds any device's limit.
pub(crate) fn too_much_inline<P: Provider>(b: &Bench<P>) -> CheckStep {
    bad_in_the_midst(b, 16, &|sge| (vec![sge], SendFlags::INLINE))
}

/// A RECV with more SGEs than the device supports is refused.
pub(crate) fn too_many_recv_sges<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.loopback(&b.options(QpType::Rc))?;
    let good = [p.sge(0, 8)];
    let bad = vec![p.sge(0, 1); b.device.max_sge as usize + 1];
    let list = [RecvWr { wr_id: 1, sg_list: &good }, RecvWr { wr_id: 2, sg_list: &bad }];
    let error = refused("a RECV with too many SGEs", p.qp.post_recv(&list))?;
    same("the index of the refused work request", error.index, 1)?;
    p.post(3, SendOp::Send, 64, 8)?;
    p.received(1, WcStatus::Success).map(drop)
}

/// A send queue accepts at least as many work requests as it was created with, and then refuses with ENOMEM.
/// The accepted work requests are executed, and then the queue accepts more.
///
/// At first the peer has no RECV, so that nothing completes before the queue is full.
pub(crate) fn send_queue_full<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mut options = b.options(QpType::Rc);
    options.qp.cap.max_send_wr = 16;
    options.cqe = 1024.min(b.device.max_cqe);
    options.qp.cap.max_recv_wr = 1024.min(b.device.max_qp_wr);
    let p = b.pair(&options)?;
    if b.is_requester() {
        let sges = [p.sge(0, 8)];
        let list: Vec<SendWr<'_>> = (0..1000).map(|n| p.signaled(n, SendOp::Send, &sges)).collect();
        let error = refused("a list longer than the queue", p.qp.post_send(&list))?;
        is_full(&error)?;
        holds(
            &format!("a queue of 16 slots takes 16 work requests (it took {})", error.index),
            error.index >= 16,
        )?;
        let again = refused("one more work request", p.qp.post_send(&list[..1]))?;
        is_full(&again)?;
        same("the index of the refused work request", again.index, 0)?;
        b.say(&(error.index as u64).to_be_bytes());
        for wr_id in 0..error.index as u64 {
            p.sent(wr_id, WcStatus::Success)?;
        }
        p.post(5000, SendOp::Send, 0, 8)?;
        return p.sent(5000, WcStatus::Success).map(drop);
    }
    let count = u64::from_be_bytes(b.hear()?.try_into().unwrap_or_default());
    for wr_id in 0..=count {
        p.recv(wr_id, 0, 8)?;
    }
    for wr_id in 0..=count {
        p.received(wr_id, WcStatus::Success)?;
    }
    Ok(())
}

/// A receive queue accepts at least as many RECVs as it was created with, and then refuses with ENOMEM.
pub(crate) fn recv_queue_full<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mut options = b.options(QpType::Rc);
    options.qp.cap.max_recv_wr = 16;
    let p = b.loopback(&options)?;
    let sges = [p.sge(0, 8)];
    let list: Vec<RecvWr<'_>> = (0..1000).map(|wr_id| RecvWr { wr_id, sg_list: &sges }).collect();
    let error = refused("a list longer than the queue", p.qp.post_recv(&list))?;
    is_full(&error)?;
    holds(
        &format!("a queue of 16 slots takes 16 work requests (it took {})", error.index),
        error.index >= 16,
    )?;
    p.post(1, SendOp::Send, 64, 8)?;
    p.received(0, WcStatus::Success)?;
    p.qp.post_recv(&list[..1])?;
    Ok(())
}

/// A shared receive queue accepts at least as many RECVs as it was created with, and then refuses with
/// ENOMEM.
pub(crate) fn srq_full<P: Provider>(b: &Bench<P>) -> CheckStep {
    needs("shared receive queues", b.device.max_srq_wr > 0)?;
    let mr = b.region(4096, crate::bench::ALL_RIGHTS)?;
    let srq = b.pd.create_srq(&SrqAttr { max_wr: 16, max_sge: 1 })?;
    let sges = [mr.sge(0, 8)];
    let list: Vec<RecvWr<'_>> = (0..1000).map(|wr_id| RecvWr { wr_id, sg_list: &sges }).collect();
    let error = refused("a list longer than the queue", srq.post_recv(&list))?;
    is_full(&error)?;
    holds(&format!("a queue of 16 slots takes 16 work requests (it took {})", error.index), error.index >= 16)
}

/// An empty list is posted without effect.
pub(crate) fn empty_list<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.loopback(&b.options(QpType::Rc))?;
    p.qp.post_send(&[])?;
    p.qp.post_recv(&[])?;
    b.sleep(Span::from_ms(5));
    p.has_no_completions()
}
