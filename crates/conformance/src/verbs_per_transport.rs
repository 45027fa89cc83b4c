//! Checks each verb on each transport that offers it, at many sizes. The other transports must refuse the
//! verb.

use crate::bench::{Bench, Pair};
use crate::step::{CheckStep, holds, needs, refused, same};
use doorbell_verbs::{
    Mtu, Opcode, Provider, QpType, RecvWr, RemoteAddr, SendFlags, SendOp, Sge, VerbsError, WcOpcode, WcStatus,
};

/// Offset at which the responder's part of a transfer begins in its memory.
const TARGET: u64 = 32 << 10;
const IMM: u32 = 0xfeed_0042;

/// The operation with the usual operands, at offset [`TARGET`] of the peer's memory.
fn op(opcode: Opcode, remote: RemoteAddr) -> SendOp {
    let remote = remote.at(TARGET);
    match opcode {
        Opcode::Send => SendOp::Send,
        Opcode::SendWithImm => SendOp::SendWithImm(IMM),
        Opcode::Write => SendOp::Write(remote),
        Opcode::WriteWithImm => SendOp::WriteWithImm(remote, IMM),
        Opcode::Read => SendOp::Read(remote),
        Opcode::CompareSwap => SendOp::CompareSwap { remote, compare: 5, swap: 9 },
        Opcode::FetchAdd => SendOp::FetchAdd { remote, add: 3 },
    }
}

/// Moves one message of each size. Requester and responder proceed in step, so each message is checked before
/// the next message arrives.
fn transfer<P: Provider>(b: &Bench<P>, p: &Pair<P>, opcode: Opcode, sizes: &[u32]) -> CheckStep {
    for (wr_id, &size) in (100u64..).zip(sizes) {
        if b.is_requester() {
            request(b, p, opcode, wr_id, size)?;
        } else {
            respond(b, p, opcode, wr_id, size)?;
        }
    }
    Ok(())
}

/// The requester's part of a transfer. It uses its memory from offset 0.
fn request<P: Provider>(b: &Bench<P>, p: &Pair<P>, opcode: Opcode, wr_id: u64, size: u32) -> CheckStep {
    p.fill(0, size, if opcode.returns_data() { 0 } else { wr_id as u8 });
    b.meet()?;
    p.post(wr_id, op(opcode, p.remote), 0, size)?;
    let wc = p.sent(wr_id, WcStatus::Success)?;
    same("the opcode of the completion", wc.opcode, WcOpcode::from(opcode))?;
    if opcode.returns_data() {
        p.has(0, size, wr_id as u8)?;
    }
    b.meet()
}

/// The responder's part of a transfer. It uses its memory from offset [`TARGET`].
fn respond<P: Provider>(b: &Bench<P>, p: &Pair<P>, opcode: Opcode, wr_id: u64, size: u32) -> CheckStep {
    let at = TARGET + p.grh();
    p.fill(at, size, if opcode.returns_data() { wr_id as u8 } else { 0 });
    match opcode {
        Opcode::WriteWithImm => p.recv(wr_id, 0, 0)?,
        Opcode::Send | Opcode::SendWithImm => p.recv(wr_id, TARGET, size)?,
        _ => {}
    }
    b.meet()?;
    if opcode.consumes_recv() {
        let wc = p.received(wr_id, WcStatus::Success)?;
        let write = opcode == Opcode::WriteWithImm;
        let kind = if write { WcOpcode::RecvWriteWithImm } else { WcOpcode::Recv };
        same("the opcode of the completion", wc.opcode, kind)?;
        same("byte_len", u64::from(wc.byte_len), u64::from(size) + p.grh())?;
        same("the immediate", wc.imm, op(opcode, p.remote).imm())?;
    }
    b.meet()?;
    if opcode == Opcode::Write && p.qp.qp_type() == QpType::Uc {
        // Nothing signals that a WRITE on UC has arrived.
        b.silence();
    }
    p.has(at, size, wr_id as u8)
}

/// Sizes in bytes: 0, 1, about a cache line, about the MTU, and several packets.
fn sizes<P: Provider>(b: &Bench<P>, qp_type: QpType) -> Vec<u32> {
    let mtu = b.mtu(qp_type);
    let mut sizes = vec![0, 1, 3, 63, 64, 65, mtu - 1, mtu];
    if qp_type != QpType::Ud {
        sizes.extend([mtu + 1, 2 * mtu, 3 * mtu + 17, 16 * mtu]);
    }
    sizes
}

fn check<P: Provider>(b: &Bench<P>, qp_type: QpType, opcode: Opcode) -> CheckStep {
    let p = b.pair(&b.options(qp_type))?;
    transfer(b, &p, opcode, &sizes(b, qp_type))
}

/// SEND on RC.
pub(crate) fn rc_send<P: Provider>(b: &Bench<P>) -> CheckStep {
    check(b, QpType::Rc, Opcode::Send)
}

/// SEND with immediate on RC.
pub(crate) fn rc_send_with_imm<P: Provider>(b: &Bench<P>) -> CheckStep {
    check(b, QpType::Rc, Opcode::SendWithImm)
}

/// WRITE on RC.
pub(crate) fn rc_write<P: Provider>(b: &Bench<P>) -> CheckStep {
    check(b, QpType::Rc, Opcode::Write)
}

/// WRITE with immediate on RC. The RECV that it consumes may be empty.
pub(crate) fn rc_write_with_imm<P: Provider>(b: &Bench<P>) -> CheckStep {
    check(b, QpType::Rc, Opcode::WriteWithImm)
}

/// READ on RC.
pub(crate) fn rc_read<P: Provider>(b: &Bench<P>) -> CheckStep {
    check(b, QpType::Rc, Opcode::Read)
}

/// SEND on UC.
pub(crate) fn uc_send<P: Provider>(b: &Bench<P>) -> CheckStep {
    check(b, QpType::Uc, Opcode::Send)
}

/// SEND with immediate on UC.
pub(crate) fn uc_send_with_imm<P: Provider>(b: &Bench<P>) -> CheckStep {
    check(b, QpType::Uc, Opcode::SendWithImm)
}

/// WRITE on UC.
pub(crate) fn uc_write<P: Provider>(b: &Bench<P>) -> CheckStep {
    check(b, QpType::Uc, Opcode::Write)
}

/// WRITE with immediate on UC.
pub(crate) fn uc_write_with_imm<P: Provider>(b: &Bench<P>) -> CheckStep {
    check(b, QpType::Uc, Opcode::WriteWithImm)
}

/// SEND on UD.
pub(crate) fn ud_send<P: Provider>(b: &Bench<P>) -> CheckStep {
    check(b, QpType::Ud, Opcode::Send)
}

/// SEND with immediate on UD.
pub(crate) fn ud_send_with_imm<P: Provider>(b: &Bench<P>) -> CheckStep {
    check(b, QpType::Ud, Opcode::SendWithImm)
}

/// Transfers with every path MTU up to the port's active MTU, and with messages of about one MTU.
pub(crate) fn every_mtu<P: Provider>(b: &Bench<P>) -> CheckStep {
    for mtu in Mtu::ALL.into_iter().filter(|&mtu| mtu <= b.port.active_mtu) {
        let mut options = b.options(QpType::Rc);
        options.connect.mtu = Some(mtu);
        let p = b.pair(&options)?;
        let bytes = mtu.bytes();
        for opcode in [Opcode::Send, Opcode::Write, Opcode::Read] {
            transfer(b, &p, opcode, &[bytes - 1, bytes, bytes + 1, 3 * bytes + 5])?;
        }
    }
    Ok(())
}

/// A verb that a transport does not offer is refused when it is posted, with EINVAL or EOPNOTSUPP. The QP
/// stays usable.
fn refuses<P: Provider>(b: &Bench<P>, qp_type: QpType) -> CheckStep {
    let p = b.loopback(&b.options(qp_type))?;
    for opcode in Opcode::ALL.into_iter().filter(|o| !o.is_offered_by(qp_type)) {
        let error = refused(
            &format!("{opcode:?} on {qp_type}"),
            p.qp.post_send(&[p.signaled(1, op(opcode, p.remote), &[p.sge(0, 8)])]),
        )?;
        same("the index of the refused work request", error.index, 0)?;
        holds(
            &format!("the refusal of {opcode:?} on {qp_type} is EINVAL or EOPNOTSUPP"),
            matches!(error.cause, VerbsError::Invalid(_) | VerbsError::Unsupported(_)),
        )?;
    }
    p.recv(2, TARGET, 8)?;
    p.post(3, SendOp::Send, 0, 8)?;
    p.sent(3, WcStatus::Success)?;
    p.received(2, WcStatus::Success).map(drop)
}

/// UC offers no READ and no atomics.
pub(crate) fn uc_refuses<P: Provider>(b: &Bench<P>) -> CheckStep {
    refuses(b, QpType::Uc)
}

/// UD offers only SEND and SEND with immediate.
pub(crate) fn ud_refuses<P: Provider>(b: &Bench<P>) -> CheckStep {
    refuses(b, QpType::Ud)
}

/// SGEs from (offset, length).
fn parts<P: Provider>(p: &Pair<P>, parts: &[(u64, u32)]) -> Vec<Sge> {
    parts.iter().map(|&(offset, length)| p.sge(offset, length)).collect()
}

/// Pieces are gathered into one message, and the message is scattered into other pieces, across packet
/// boundaries.
pub(crate) fn gather_and_scatter<P: Provider>(b: &Bench<P>) -> CheckStep {
    needs("work requests of four SGEs", b.device.max_sge >= 4)?;
    let p = b.pair(&b.options(QpType::Rc))?;
    let mtu = b.mtu(QpType::Rc);
    let len = 2 * mtu + 77;
    p.fill(0, len, 9);
    // Gathered in order, the pieces form the pattern. One of them is empty.
    let gather = parts(&p, &[(0, 13), (13, mtu), (40, 0), (13 + u64::from(mtu), len - 13 - mtu)]);
    if b.is_requester() {
        b.meet()?;
        p.qp.post_send(&[p.signaled(1, SendOp::Send, &gather)])?;
        p.sent(1, WcStatus::Success)?;
        p.qp.post_send(&[p.signaled(2, SendOp::Write(p.remote.at(TARGET)), &gather)])?;
        p.sent(2, WcStatus::Success)?;
        // READ the written bytes, scattered so that they are contiguous again.
        let at = 16 << 10;
        let scatter = parts(&p, &[(at, 1), (at + 1, mtu - 2), (at - 1 + u64::from(mtu), len - mtu + 1)]);
        p.qp.post_send(&[p.signaled(3, SendOp::Read(p.remote.at(TARGET)), &scatter)])?;
        p.sent(3, WcStatus::Success)?;
        return p.has(at, len, 9);
    }
    let at = 8 << 10;
    let scatter = parts(&p, &[(at, 100), (at + 100, mtu + 3), (at + 103 + u64::from(mtu), len)]);
    p.qp.post_recv(&[RecvWr { wr_id: 7, sg_list: &scatter }])?;
    b.meet()?;
    let wc = p.received(7, WcStatus::Success)?;
    same("byte_len", wc.byte_len, len)?;
    p.has(at, len, 9)
}

/// Each scattered piece lands at the address in its SGE, not next to the previous piece.
pub(crate) fn scatter_apart<P: Provider>(b: &Bench<P>) -> CheckStep {
    needs("work requests of two SGEs", b.device.max_sge >= 2)?;
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        p.fill(0, 64, 1);
        p.fill(4096, 64, 2);
        b.meet()?;
        p.qp.post_send(&[p.signaled(1, SendOp::Send, &parts(&p, &[(4096, 64), (0, 64)]))])?;
        return p.sent(1, WcStatus::Success).map(drop);
    }
    p.qp.post_recv(&[RecvWr { wr_id: 7, sg_list: &parts(&p, &[(8192, 64), (TARGET, 100)]) }])?;
    b.meet()?;
    p.received(7, WcStatus::Success)?;
    p.has(8192, 64, 2)?;
    p.is_untouched(8192 + 64, 64)?;
    p.has(TARGET, 64, 1)?;
    p.is_untouched(TARGET + 64, 36)
}

/// A message without SGEs is empty.
pub(crate) fn no_sges<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        b.meet()?;
        let ops = [SendOp::Send, SendOp::Write(p.remote), SendOp::Read(p.remote), SendOp::SendWithImm(IMM)];
        for (wr_id, op) in (1..).zip(ops) {
            p.qp.post_send(&[p.signaled(wr_id, op, &[])])?;
            p.sent(wr_id, WcStatus::Success)?;
        }
        return Ok(());
    }
    p.qp.post_recv(&[RecvWr { wr_id: 7, sg_list: &[] }, RecvWr { wr_id: 8, sg_list: &[] }])?;
    b.meet()?;
    same("byte_len", p.received(7, WcStatus::Success)?.byte_len, 0)?;
    let wc = p.received(8, WcStatus::Success)?;
    same("byte_len and immediate", (wc.byte_len, wc.imm), (0, Some(IMM)))
}

/// An inline payload is copied when the work request is posted. The buffer may be overwritten at once, and
/// its lkey is ignored (ibv_post_send(3)).
fn inline<P: Provider>(b: &Bench<P>, qp_type: QpType) -> CheckStep {
    let limit = b.device.max_inline_data.unwrap_or(64).min(64);
    needs("inline payloads", limit > 0)?;
    let mut options = b.options(qp_type);
    options.qp.cap.max_inline_data = limit;
    let p = b.pair(&options)?;
    let sizes = [0, 1, limit / 2, limit];
    if b.is_requester() {
        b.meet()?;
        for (wr_id, size) in (1u64..).zip(sizes) {
            p.fill(0, size, wr_id as u8);
            let sge = Sge { lkey: !p.parts.mr.lkey(), ..p.sge(0, size) };
            let wr = p.signaled(wr_id, SendOp::Send, std::slice::from_ref(&sge)).flags(SendFlags::INLINE);
            p.qp.post_send(&[wr])?;
            p.fill(0, size, 0x80);
        }
        for wr_id in 1..=sizes.len() as u64 {
            p.sent(wr_id, WcStatus::Success)?;
        }
        return Ok(());
    }
    for wr_id in 1..=sizes.len() as u64 {
        p.recv(wr_id, wr_id * 256, limit)?;
    }
    b.meet()?;
    for (wr_id, size) in (1u64..).zip(sizes) {
        let wc = p.received(wr_id, WcStatus::Success)?;
        same("byte_len", u64::from(wc.byte_len), u64::from(size) + p.grh())?;
        p.has(wr_id * 256 + p.grh(), size, wr_id as u8)?;
    }
    Ok(())
}

/// Inline SENDs on RC.
pub(crate) fn rc_inline<P: Provider>(b: &Bench<P>) -> CheckStep {
    inline(b, QpType::Rc)
}

/// Inline SENDs on UC.
pub(crate) fn uc_inline<P: Provider>(b: &Bench<P>) -> CheckStep {
    inline(b, QpType::Uc)
}

/// Inline SENDs on UD.
pub(crate) fn ud_inline<P: Provider>(b: &Bench<P>) -> CheckStep {
    inline(b, QpType::Ud)
}

/// An inline WRITE, gathered from two SGEs.
pub(crate) fn inline_write<P: Provider>(b: &Bench<P>) -> CheckStep {
    let limit = b.device.max_inline_data.unwrap_or(32);
    needs("inline payloads of 32 bytes", limit >= 32)?;
    needs("work requests of two SGEs", b.device.max_sge >= 2)?;
    let mut options = b.options(QpType::Rc);
    options.qp.cap.max_inline_data = 32;
    let p = b.pair(&options)?;
    if b.is_requester() {
        p.fill(0, 32, 6);
        let sges = parts(&p, &[(0, 20), (20, 12)]);
        let wr = p.signaled(1, SendOp::Write(p.remote.at(TARGET)), &sges).flags(SendFlags::INLINE);
        p.qp.post_send(&[wr])?;
        p.fill(0, 32, 0x80);
        p.sent(1, WcStatus::Success)?;
        return b.meet();
    }
    b.meet()?;
    p.has(TARGET, 32, 6)
}
