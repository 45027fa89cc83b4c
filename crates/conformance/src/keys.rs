//! Checks of the keys, bounds and rights that protect memory.

use crate::bench::{ALL_RIGHTS, Bench, Options};
use crate::step::{CheckStep, failed, holds, needs, refused, same};
use doorbell_verbs::{
    AccessFlags, PageSize, Provider, QpState, QpType, RecvWr, RemoteAddr, SendOp, Sge, WcStatus,
};

/// One-sided operations at this address: WRITEs, a READ and, if the device has them, atomics.
fn one_sided(remote: RemoteAddr, atomics: bool) -> Vec<SendOp> {
    let mut ops = vec![SendOp::Write(remote), SendOp::Read(remote), SendOp::WriteWithImm(remote, 1)];
    if atomics {
        ops.push(SendOp::CompareSwap { remote, compare: 0, swap: 1 });
        ops.push(SendOp::FetchAdd { remote, add: 1 });
    }
    ops
}

/// Posts operations of 8 bytes, each on a fresh pair. Each must fail at the requester with `status`, because
/// the responder refuses it. The requester's QP must end in Err, and nothing may be written.
///
/// The responder calls `target` to get the address that the requester uses. `keep` selects the operations.
fn responder_refuses<P: Provider>(
    b: &Bench<P>,
    options: &Options,
    status: WcStatus,
    target: impl Fn(&Bench<P>, RemoteAddr) -> CheckStep<RemoteAddr>,
    keep: impl Fn(&SendOp) -> bool,
) -> CheckStep {
    let count = one_sided(RemoteAddr::default(), b.device.atomics).len();
    for index in 0..count {
        if !keep(&one_sided(RemoteAddr::default(), b.device.atomics)[index]) {
            continue;
        }
        let p = b.pair(options)?;
        if b.is_requester() {
            let op = one_sided(b.hear_remote()?, b.device.atomics)[index];
            p.fill(0, 8, 1);
            p.post(1, op, 0, 8)?;
            p.sent(1, status).map_err(|stop| about(&op, stop))?;
            b.ends_in_error(&p.qp)?;
            b.meet()?;
        } else {
            // A WRITE with immediate would otherwise wait for its RECV.
            p.recv(9, 1024, 8)?;
            b.say(&target(b, p.parts.mr.remote(0))?.to_bytes());
            b.meet()?;
            p.is_untouched(0, 1024)?;
        }
    }
    Ok(())
}

/// Adds the operation to the reason of a failure.
fn about(op: &SendOp, stop: crate::step::CheckStop) -> crate::step::CheckStop {
    match stop {
        crate::step::CheckStop::Failed(why) => {
            crate::step::CheckStop::Failed(format!("{:?}: {why}", op.opcode()))
        }
        other => other,
    }
}

/// An rkey that does not exist is refused.
pub(crate) fn wrong_rkey<P: Provider>(b: &Bench<P>) -> CheckStep {
    let wrong = |_: &Bench<P>, r: RemoteAddr| Ok(RemoteAddr { rkey: !r.rkey, ..r });
    responder_refuses(b, &b.options(QpType::Rc), WcStatus::RemAccessErr, wrong, |_| true)
}

/// The rkey of a region that has been deregistered is refused.
pub(crate) fn stale_rkey<P: Provider>(b: &Bench<P>) -> CheckStep {
    let stale = |b: &Bench<P>, _| {
        let mr = b.pd.reg_mr(b.provider.alloc(4096, PageSize::Small)?, ALL_RIGHTS)?;
        Ok(mr.remote(0))
    };
    responder_refuses(b, &b.options(QpType::Rc), WcStatus::RemAccessErr, stale, |_| true)
}

/// The rkey of a region is refused if the responder's QP is in another protection domain.
pub(crate) fn rkey_of_other_pd<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mem = b.provider.alloc(4096, PageSize::Small)?;
    let mr = b.context.alloc_pd()?.reg_mr(mem, ALL_RIGHTS)?;
    let other = |_: &Bench<P>, _| Ok(mr.remote(0));
    responder_refuses(b, &b.options(QpType::Rc), WcStatus::RemAccessErr, other, |_| true)?;
    same("the memory", b.provider.load_u64(mem, 0), 0)
}

/// An access of 8 bytes that begins before the region or ends behind it is refused.
pub(crate) fn rkey_out_of_bounds<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options = b.options(QpType::Rc);
    let mem = b.provider.alloc(12 << 10, PageSize::Small)?;
    let mr = b.pd.reg_mr(mem.slice(4096, 4096), ALL_RIGHTS)?;
    for at in [0u64.wrapping_sub(8), 4096 - 4, 4096, 1 << 40] {
        let place = |_: &Bench<P>, _| Ok(mr.remote(0).at(at));
        // Atomics need an aligned address. Otherwise the refusal could be due to the alignment.
        let keep = |op: &SendOp| at.is_multiple_of(8) || !op.opcode().is_atomic();
        responder_refuses(b, &options, WcStatus::RemAccessErr, place, keep)?;
    }
    for offset in (0..12 << 10).step_by(8) {
        same("the memory around the region", b.provider.load_u64(mem, offset), 0)?;
    }
    Ok(())
}

/// A region is accessible up to its very last byte, and it may begin and end at any address.
pub(crate) fn bounds_are_exact<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        let remote = b.hear_remote()?;
        p.fill(0, 1001, 4);
        p.post(1, SendOp::Write(remote), 0, 1001)?;
        p.post(2, SendOp::Read(remote), 2048, 1001)?;
        p.sent(1, WcStatus::Success)?;
        p.sent(2, WcStatus::Success)?;
        p.has(2048, 1001, 4)?;
        p.post(3, SendOp::Read(remote.at(1)), 4096, 1001)?;
        p.sent(3, WcStatus::RemAccessErr)?;
        return Ok(());
    }
    let mem = b.provider.alloc(4096, PageSize::Small)?;
    let mr = b.pd.reg_mr(mem.slice(13, 1001), ALL_RIGHTS)?;
    b.say(&mr.remote(0).to_bytes());
    b.until_peer_ends()
}

/// An operation is refused if the region lacks the right for it.
pub(crate) fn rights_of_region<P: Provider>(b: &Bench<P>) -> CheckStep {
    let others = |missing| ALL_RIGHTS.difference(missing);
    type Keep = fn(&SendOp) -> bool;
    let cases: [(AccessFlags, Keep); 3] = [
        (AccessFlags::REMOTE_WRITE, |op| matches!(op, SendOp::Write(_) | SendOp::WriteWithImm(..))),
        (AccessFlags::REMOTE_READ, |op| matches!(op, SendOp::Read(_))),
        (AccessFlags::REMOTE_ATOMIC, |op| op.opcode().is_atomic()),
    ];
    for (missing, keep) in cases {
        let options = Options { rights: others(missing), ..b.options(QpType::Rc) };
        responder_refuses(b, &options, WcStatus::RemAccessErr, |_, r| Ok(r), keep)?;
    }
    Ok(())
}

/// A QP can deny its peer an operation that the region allows. The receive queue does not support the
/// request, so the status is Remote Invalid Request Error (IB specification, 11.6.2).
pub(crate) fn rights_of_qp<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mut options = b.options(QpType::Rc);
    if !b.is_requester() {
        options.connect.access = AccessFlags::empty();
    }
    responder_refuses(b, &options, WcStatus::RemInvReqErr, |_, r| Ok(r), |_| true)
}

/// A refused access also moves the responder's QP to Err (IB specification, 9.9.3, class C).
pub(crate) fn refusal_ends_responder<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        p.post(1, SendOp::Write(RemoteAddr { rkey: !p.remote.rkey, ..p.remote }), 0, 8)?;
        p.sent(1, WcStatus::RemAccessErr)?;
        return b.meet();
    }
    b.meet()?;
    b.ends_in_error(&p.qp)
}

/// A message of several packets that overruns the region is refused completely.
pub(crate) fn nothing_of_a_long_write<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options = b.options(QpType::Rc);
    let p = b.pair(&options)?;
    let len = 3 * b.mtu(QpType::Rc);
    if b.is_requester() {
        p.fill(0, len, 1);
        p.post(1, SendOp::Write(p.remote.at(options.len - u64::from(len) + 1)), 0, len)?;
        p.sent(1, WcStatus::RemAccessErr)?;
        return b.meet();
    }
    b.meet()?;
    p.is_untouched(0, options.len as u32)
}

/// The address and the rkey of an empty WRITE or READ are ignored (IB specification, C9-88).
pub(crate) fn zero_length_needs_no_rkey<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        let nowhere = RemoteAddr { addr: 8, rkey: !p.remote.rkey };
        p.qp.post_send(&[p.signaled(1, SendOp::Write(nowhere), &[])])?;
        p.sent(1, WcStatus::Success)?;
        p.qp.post_send(&[p.signaled(2, SendOp::Read(nowhere), &[])])?;
        p.sent(2, WcStatus::Success)?;
    }
    Ok(())
}

/// On UC, the requester gets no error. The WRITEs to `places` are dropped, and the next message arrives.
fn uc_drops<P: Provider>(
    b: &Bench<P>,
    options: &Options,
    places: &dyn Fn(RemoteAddr) -> Vec<RemoteAddr>,
) -> CheckStep {
    let p = b.pair(options)?;
    if b.is_requester() {
        p.fill(0, 64, 1);
        b.meet()?;
        let places = places(p.remote);
        for (wr_id, place) in (1..).zip(places) {
            p.post(wr_id, SendOp::Write(place), 0, 64)?;
            p.sent(wr_id, WcStatus::Success)?;
        }
        p.post(9, SendOp::SendWithImm(5), 0, 64)?;
        p.sent(9, WcStatus::Success)?;
        return same("the state", p.qp.state()?, QpState::Rts);
    }
    p.recv(7, 1024, 64)?;
    b.meet()?;
    same("the immediate", p.received(7, WcStatus::Success)?.imm, Some(5))?;
    p.has(1024, 64, 1)?;
    p.is_untouched(0, 1024)
}

/// On UC, WRITEs with a bad rkey or beyond the bounds are dropped.
pub(crate) fn uc_drops_bad_writes<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options = b.options(QpType::Uc);
    let len = options.len;
    uc_drops(b, &options, &|r| vec![RemoteAddr { rkey: !r.rkey, ..r }, r.at(len - 63), r.at(len)])
}

/// A UC QP that denies its peer WRITEs drops them.
pub(crate) fn uc_rights_of_qp<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mut options = b.options(QpType::Uc);
    options.connect.access = AccessFlags::empty();
    uc_drops(b, &options, &|r| vec![r, r.at(64)])
}

/// On UC, WRITEs to a region without the right to remote writes are dropped.
pub(crate) fn uc_rights_of_region<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options = Options { rights: AccessFlags::LOCAL_WRITE, ..b.options(QpType::Uc) };
    uc_drops(b, &options, &|r| vec![r, r.at(64)])
}

/// Posts a work request with a local buffer that the device may not use for the operation. The work request
/// must fail with a status that `right` accepts, the QP must go to Err, and nothing may arrive.
fn bad_local<P: Provider>(
    b: &Bench<P>,
    op: impl Fn(RemoteAddr) -> SendOp,
    sge: impl Fn(&Bench<P>, Sge) -> CheckStep<Sge>,
    right: impl Fn(WcStatus) -> bool,
) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        let sges = [sge(b, p.sge(0, 8))?];
        p.qp.post_send(&[p.signaled(1, op(p.remote), &sges)])?;
        let wc = p.parts.send_cq.wait(b.deadline())?.ok_or_else(|| failed("no completion"))?;
        holds(&format!("the status is a local protection error: {:?}", wc.status), right(wc.status))?;
        b.ends_in_error(&p.qp)?;
        return b.meet();
    }
    p.recv(7, 0, 8)?;
    b.meet()?;
    p.has_no_completions()?;
    p.is_untouched(0, 8)
}

/// Whether the status is a local protection error, as for a refused local buffer (IB specification, 11.6.2).
fn protection(status: WcStatus) -> bool {
    status == WcStatus::LocProtErr
}

/// A SEND or WRITE with an lkey that does not exist fails and sends nothing.
pub(crate) fn wrong_lkey<P: Provider>(b: &Bench<P>) -> CheckStep {
    let wrong = |_: &Bench<P>, sge: Sge| Ok(Sge { lkey: !sge.lkey, ..sge });
    bad_local(b, SendOp::Write, wrong, |status| status != WcStatus::Success)?;
    bad_local(b, |_| SendOp::Send, wrong, |status| status != WcStatus::Success)
}

/// A SEND or WRITE with an lkey that does not exist fails with a local protection error.
pub(crate) fn wrong_lkey_status<P: Provider>(b: &Bench<P>) -> CheckStep {
    let wrong = |_: &Bench<P>, sge: Sge| Ok(Sge { lkey: !sge.lkey, ..sge });
    bad_local(b, SendOp::Write, wrong, protection)?;
    bad_local(b, |_| SendOp::Send, wrong, protection)
}

/// A READ with an lkey that does not exist fails with a local protection error.
pub(crate) fn wrong_lkey_of_read<P: Provider>(b: &Bench<P>) -> CheckStep {
    bad_local(b, SendOp::Read, |_, sge| Ok(Sge { lkey: !sge.lkey, ..sge }), protection)
}

/// A WRITE with the lkey of a region in another protection domain than the QP's fails and sends nothing.
pub(crate) fn lkey_of_other_pd<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mr = b.context.alloc_pd()?.reg_mr(b.provider.alloc(4096, PageSize::Small)?, ALL_RIGHTS)?;
    bad_local(b, SendOp::Write, |_, _| Ok(mr.sge(0, 8)), |status| status != WcStatus::Success)
}

/// A WRITE with the lkey of a region in another protection domain fails with a local protection error.
pub(crate) fn lkey_of_other_pd_status<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mr = b.context.alloc_pd()?.reg_mr(b.provider.alloc(4096, PageSize::Small)?, ALL_RIGHTS)?;
    bad_local(b, SendOp::Write, |_, _| Ok(mr.sge(0, 8)), protection)
}

/// A WRITE from a buffer that ends behind its region fails with a local protection error.
pub(crate) fn lkey_out_of_bounds<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mem = b.provider.alloc(8192, PageSize::Small)?;
    let mr = b.pd.reg_mr(mem.slice(0, 4096), ALL_RIGHTS)?;
    let over = |_: &Bench<P>, _| Ok(Sge { addr: mem.addr(4092), length: 8, lkey: mr.lkey() });
    bad_local(b, SendOp::Write, over, protection)
}

/// A READ into memory without LOCAL_WRITE fails with a local protection error.
pub(crate) fn read_needs_local_write<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mem = b.provider.alloc(4096, PageSize::Small)?;
    let mr = b.pd.reg_mr(mem, AccessFlags::REMOTE_READ)?;
    bad_local(b, SendOp::Read, |_, _| Ok(mr.sge(0, 8)), protection)
}

/// An atomic with a result buffer in memory without LOCAL_WRITE fails with a local protection error. The
/// responder may execute the atomic before the requester detects the error, so the check adds 0.
pub(crate) fn atomic_needs_local_write<P: Provider>(b: &Bench<P>) -> CheckStep {
    needs("atomics", b.device.atomics)?;
    let mem = b.provider.alloc(4096, PageSize::Small)?;
    let mr = b.pd.reg_mr(mem, AccessFlags::REMOTE_READ)?;
    bad_local(b, |remote| SendOp::FetchAdd { remote, add: 0 }, |_, _| Ok(mr.sge(0, 8)), protection)
}

/// SENDs and WRITEs only read their buffer, so its region needs no rights.
pub(crate) fn sending_needs_no_rights<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        let mem = b.provider.alloc(4096, PageSize::Small)?;
        b.provider.write(mem, 0, &[8; 8]);
        let mr = b.pd.reg_mr(mem, AccessFlags::empty())?;
        p.qp.post_send(&[p.signaled(1, SendOp::Write(p.remote), &[mr.sge(0, 8)])])?;
        p.sent(1, WcStatus::Success)?;
        return b.meet();
    }
    b.meet()?;
    same("the memory", b.provider.load_u8(p.parts.mr.mem(), 7), 8)
}

/// Sends to a RECV whose buffer the device may not write. Each side checks its own status, if one is given.
fn bad_recv<P: Provider>(
    b: &Bench<P>,
    requester: Option<WcStatus>,
    responder: Option<WcStatus>,
) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        b.meet()?;
        p.post(1, SendOp::Send, 0, 8)?;
        if let Some(status) = requester {
            p.sent(1, status)?;
        }
        return Ok(());
    }
    let mem = b.provider.alloc(4096, PageSize::Small)?;
    let mr = b.pd.reg_mr(mem, AccessFlags::empty())?;
    p.qp.post_recv(&[RecvWr { wr_id: 7, sg_list: &[mr.sge(0, 8)] }])?;
    b.meet()?;
    if let Some(status) = responder {
        p.received(7, status)?;
        return same("the memory", b.provider.load_u64(mem, 0), 0);
    }
    b.until_peer_ends()
}

/// A SEND to a RECV into memory without LOCAL_WRITE fails with a remote operation error.
pub(crate) fn recv_needs_local_write<P: Provider>(b: &Bench<P>) -> CheckStep {
    bad_recv(b, Some(WcStatus::RemOpErr), None)
}

/// A RECV into memory without LOCAL_WRITE completes with a local protection error.
pub(crate) fn recv_protection_error<P: Provider>(b: &Bench<P>) -> CheckStep {
    bad_recv(b, None, Some(WcStatus::LocProtErr))
}

/// The rights to remote WRITEs and remote atomics require LOCAL_WRITE (ibv_reg_mr(3)).
pub(crate) fn remote_write_needs_local<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mem = b.provider.alloc(4096, PageSize::Small)?;
    for right in [AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_ATOMIC] {
        refused(&format!("{right:?} without LOCAL_WRITE"), b.pd.reg_mr(mem, right))?;
    }
    Ok(())
}

/// Two regions may cover one memory range with separate rights.
pub(crate) fn regions_may_overlap<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        let (writable, readable) = (b.hear_remote()?, b.hear_remote()?);
        p.fill(0, 64, 2);
        p.post(1, SendOp::Write(writable), 0, 64)?;
        p.post(2, SendOp::Read(readable), 1024, 64)?;
        p.sent(1, WcStatus::Success)?;
        p.sent(2, WcStatus::Success)?;
        p.has(1024, 64, 2)?;
        p.post(3, SendOp::Write(readable), 0, 64)?;
        p.sent(3, WcStatus::RemAccessErr)?;
        return Ok(());
    }
    let mem = b.provider.alloc(4096, PageSize::Small)?;
    let writable = b.pd.reg_mr(mem, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)?;
    let readable = b.pd.reg_mr(mem, AccessFlags::REMOTE_READ)?;
    b.say(&writable.remote(0).to_bytes());
    b.say(&readable.remote(0).to_bytes());
    b.until_peer_ends()
}
