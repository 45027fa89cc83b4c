//! Checks of completions: their number and their fields.

use crate::bench::{Bench, Options};
use crate::step::{CheckStep, same};
use doorbell_verbs::{Provider, QpType, SendOp, SendWr, Wc, WcOpcode, WcStatus};

/// Fields of the requester's and the responder's completions on each transport. A device may repeat the
/// immediate in the requester's completion or not.
pub(crate) fn fields<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let p = b.pair(&b.options(qp_type))?;
        if b.is_requester() {
            b.meet()?;
            p.post(u64::MAX, SendOp::SendWithImm(0x0102_0304), 0, 48)?;
            same("the opcode", p.sent(u64::MAX, WcStatus::Success)?.opcode, WcOpcode::Send)?;
            p.post(1 << 40, SendOp::Send, 0, 48)?;
            p.sent(1 << 40, WcStatus::Success)?;
            continue;
        }
        p.recv(u64::MAX - 1, 0, 64)?;
        p.recv(0, 0, 64)?;
        b.meet()?;
        let ud = qp_type == QpType::Ud;
        for (wr_id, imm) in [(u64::MAX - 1, Some(0x0102_0304)), (0, None)] {
            let wc = p.received(wr_id, WcStatus::Success)?;
            same("the opcode", wc.opcode, WcOpcode::Recv)?;
            same("byte_len", wc.byte_len, if ud { 88 } else { 48 })?;
            same("the immediate", wc.imm, imm)?;
            if ud {
                same("src_qp", wc.src_qp, p.peer.qpn)?;
                same("slid", wc.slid, p.peer.lid)?;
            }
        }
    }
    Ok(())
}

/// The completion of a READ states how many bytes were read (ibv_poll_cq(3)).
pub(crate) fn byte_len_of_read<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.loopback(&b.options(QpType::Rc))?;
    p.post(1, SendOp::Read(p.remote), 4096, 1500)?;
    same("byte_len", p.sent(1, WcStatus::Success)?.byte_len, 1500)
}

/// A successful work request without `SIGNALED` gives no completion.
pub(crate) fn unsignaled<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let p = b.pair(&b.options(qp_type))?;
        if b.is_requester() {
            let sges = [p.sge(0, 8)];
            let list: Vec<SendWr<'_>> = (0..8).map(|n| p.wr(n, SendOp::Write(p.remote), &sges)).collect();
            p.qp.post_send(&list)?;
            p.post(8, SendOp::Write(p.remote), 0, 8)?;
            p.sent(8, WcStatus::Success)?;
            b.silence();
            p.has_no_completions()?;
        }
    }
    Ok(())
}

/// The next signalled completion frees the slots of unsignalled work requests. The queue wraps many times,
/// with one work request in sixteen signalled.
pub(crate) fn slots_are_reclaimed<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mut options = b.options(QpType::Rc);
    options.qp.cap.max_send_wr = 32;
    let p = b.pair(&options)?;
    if b.is_requester() {
        let sges = [p.sge(0, 8)];
        for batch in 0..20 {
            for n in 0..15 {
                p.qp.post_send(&[p.wr(n, SendOp::Write(p.remote), &sges)])?;
            }
            p.post(batch, SendOp::Write(p.remote), 0, 8)?;
            p.sent(batch, WcStatus::Success)?;
        }
    }
    Ok(())
}

/// With `sq_sig_all` every work request gives a completion.
pub(crate) fn sq_sig_all<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mut options = b.options(QpType::Rc);
    options.qp.sq_sig_all = true;
    let p = b.pair(&options)?;
    if b.is_requester() {
        let sges = [p.sge(0, 8)];
        for n in 0..8 {
            p.qp.post_send(&[p.wr(n, SendOp::Write(p.remote), &sges)])?;
        }
        for n in 0..8 {
            p.sent(n, WcStatus::Success)?;
        }
        b.silence();
        p.has_no_completions()?;
    }
    Ok(())
}

/// A failed work request gives a completion even if it is not signalled.
pub(crate) fn failures_are_signaled<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        let mut wrong = p.remote;
        wrong.rkey = !wrong.rkey;
        p.qp.post_send(&[p.wr(3, SendOp::Write(wrong), &[p.sge(0, 8)])])?;
        p.sent(3, WcStatus::RemAccessErr)?;
    }
    Ok(())
}

/// One poll returns as many completions as there is room for, oldest first, and leaves the rest.
pub(crate) fn polls_many<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.loopback(&b.options(QpType::Rc))?;
    let sges = [p.sge(0, 8)];
    let list: Vec<SendWr<'_>> =
        (0..10).map(|n| p.signaled(n, SendOp::Write(p.remote.at(64)), &sges)).collect();
    p.qp.post_send(&list)?;
    b.silence();
    let mut wc = [Wc::default(); 7];
    let ids = |wc: &[Wc]| wc.iter().map(|wc| wc.wr_id).collect::<Vec<_>>();
    same("the first poll", ids(p.parts.send_cq.poll(&mut wc)?), (0..7).collect())?;
    same("the second poll", ids(p.parts.send_cq.poll(&mut wc)?), (7..10).collect())?;
    same("the third poll", ids(p.parts.send_cq.poll(&mut wc)?), vec![])
}

/// Posting a list of work requests is equivalent to posting each one.
pub(crate) fn lists<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let p = b.pair(&b.options(qp_type))?;
        if b.is_requester() {
            let sges: Vec<_> = (0..32).map(|n| [p.sge(n * 32, 32)]).collect();
            (0..32).for_each(|n| p.fill(n * 32, 32, n as u8));
            b.meet()?;
            let list = (0..).zip(&sges).map(|(n, sges)| p.signaled(n, SendOp::Send, sges));
            p.qp.post_send(&list.collect::<Vec<_>>())?;
            for n in 0..32 {
                p.sent(n, WcStatus::Success)?;
            }
        } else {
            for n in 0..32 {
                p.recv(n, n * 128, 32)?;
            }
            b.meet()?;
            for n in 0..32 {
                p.received(n, WcStatus::Success)?;
                p.has(n * 128 + p.grh(), 32, n as u8)?;
            }
        }
    }
    Ok(())
}

/// One CQ may serve both queues of several QPs. `qp_num` identifies the QP.
pub(crate) fn one_cq_for_all<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options: Options = b.options(QpType::Rc);
    let mut parts = b.parts(&options)?;
    parts.recv_cq = parts.send_cq.clone();
    let (first, second) = (b.pair_on(&parts, &options)?, b.pair_on(&parts, &options)?);
    if b.is_requester() {
        b.meet()?;
        first.post(1, SendOp::Send, 0, 8)?;
        first.sent(1, WcStatus::Success)?;
        second.post(2, SendOp::Send, 0, 8)?;
        second.sent(2, WcStatus::Success)?;
        return Ok(());
    }
    first.recv(1, 0, 8)?;
    second.recv(2, 0, 8)?;
    b.meet()?;
    first.received(1, WcStatus::Success)?;
    second.received(2, WcStatus::Success).map(drop)
}
