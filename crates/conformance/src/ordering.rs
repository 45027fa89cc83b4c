//! Checks of the order of completions, and of the order of a QP's operations in memory.

use crate::bench::Bench;
use crate::step::{CheckStep, needs, same};
use doorbell_verbs::{Provider, QpType, SendFlags, SendOp, SendWr, Span, WcOpcode, WcStatus};

/// Completions come in the order of posting, for all verbs (IB specification, 10.8.3).
pub(crate) fn completions_in_post_order<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if !b.is_requester() {
        for wr_id in 0..16 {
            p.recv(wr_id, 0, 64)?;
        }
        b.meet()?;
        for wr_id in 0..16 {
            p.received(wr_id, WcStatus::Success)?;
        }
        return Ok(());
    }
    b.meet()?;
    let (small, large) = ([p.sge(0, 8)], [p.sge(1024, 5000)]);
    let remote = p.remote.at(8 << 10);
    let list: Vec<SendWr<'_>> = (0..48)
        .map(|n| match n % 3 {
            0 => p.signaled(n, SendOp::Read(remote), &large),
            1 => p.signaled(n, SendOp::Write(remote), if n % 2 == 0 { &small } else { &large }),
            _ => p.signaled(n, SendOp::Send, &small),
        })
        .collect();
    p.qp.post_send(&list)?;
    for n in 0..48 {
        let wc = p.sent(n, WcStatus::Success)?;
        same("the opcode", wc.opcode, WcOpcode::from(list[n as usize].op.opcode()))?;
    }
    Ok(())
}

/// When the RECV of a SEND completes, the WRITEs before it are in memory.
pub(crate) fn write_then_send<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    let len = 4000;
    for round in 0..8u64 {
        if b.is_requester() {
            p.fill(0, len, round as u8);
            b.meet()?;
            let sges = [p.sge(0, len)];
            p.qp.post_send(&[
                p.wr(1, SendOp::Write(p.remote), &sges),
                p.wr(2, SendOp::Write(p.remote.at(8192)), &sges),
                p.signaled(3, SendOp::Send, &[]),
            ])?;
            p.sent(3, WcStatus::Success)?;
        } else {
            p.recv(round, 0, 0)?;
            b.meet()?;
            p.received(round, WcStatus::Success)?;
            p.has(0, len, round as u8)?;
            p.has(8192, len, round as u8)?;
        }
    }
    Ok(())
}

/// When the RECV of a WRITE with immediate completes, the bytes of the WRITE are in memory.
pub(crate) fn write_with_imm_has_landed<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let p = b.pair(&b.options(qp_type))?;
        for round in 0..8u64 {
            if b.is_requester() {
                p.fill(0, 4000, round as u8);
                b.meet()?;
                p.post(round, SendOp::WriteWithImm(p.remote, 1), 0, 4000)?;
                p.sent(round, WcStatus::Success)?;
            } else {
                p.recv(round, 0, 0)?;
                b.meet()?;
                p.received(round, WcStatus::Success)?;
                p.has(0, 4000, round as u8)?;
            }
        }
    }
    Ok(())
}

/// A READ sees the WRITE before it (IB specification, 10.8.3, the table of ordering).
pub(crate) fn read_after_write<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        for round in 0..16u64 {
            p.fill(0, 3000, round as u8);
            let (from, to) = ([p.sge(0, 3000)], [p.sge(4096, 3000)]);
            p.qp.post_send(&[
                p.wr(1, SendOp::Write(p.remote), &from),
                p.signaled(round, SendOp::Read(p.remote), &to),
            ])?;
            p.sent(round, WcStatus::Success)?;
            p.has(4096, 3000, round as u8)?;
        }
    }
    Ok(())
}

/// If two WRITEs go to one address, the bytes of the later one stay.
pub(crate) fn later_write_stays<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        p.fill(0, 2500, 1);
        p.fill(4096, 2500, 2);
        for round in 0..8 {
            p.post(round, SendOp::Write(p.remote), if round % 2 == 0 { 0 } else { 4096 }, 2500)?;
        }
        for round in 0..8 {
            p.sent(round, WcStatus::Success)?;
        }
        return b.meet();
    }
    b.meet()?;
    p.has(0, 2500, 2)
}

/// The last byte of a WRITE is written last, so a program that sees this byte sees the whole message. The IB
/// specification does not promise this, and section 9.5 forbids relying on it. All NICs of the papers and
/// Soft-RoCE on x86 guarantee it, and systems such as HERD and FaRM depend on it. So a device must guarantee
/// it here.
pub(crate) fn last_byte_last<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    for (round, len) in (1u64..).zip([64, 200, 1000, 1024, 1025, 5000, 16 << 10]) {
        if b.is_requester() {
            p.fill(0, len - 1, round as u8);
            b.provider.store_u8(p.parts.mr.mem(), u64::from(len) - 1, 0xa5);
            b.meet()?;
            p.post(round, SendOp::Write(p.remote), 0, len)?;
            p.sent(round, WcStatus::Success)?;
        } else {
            let mem = p.parts.mr.mem();
            b.provider.write(mem, 0, &vec![0; len as usize]);
            b.meet()?;
            let deadline = b.deadline();
            while b.provider.load_u8(mem, u64::from(len) - 1) == 0 && b.provider.now() < deadline {
                b.provider.pause(deadline);
            }
            same("the last byte", b.provider.load_u8(mem, u64::from(len) - 1), 0xa5)?;
            p.has(0, len - 1, round as u8)?;
        }
        b.meet()?;
    }
    Ok(())
}

/// A word of 8 equal bytes. A torn access mixes two such words, so its bytes are unequal.
fn word(number: u64) -> u64 {
    number % 251 * 0x0101_0101_0101_0101
}

#[track_caller]
fn is_whole(what: &str, found: u64) -> CheckStep {
    same(what, found, (found & 0xff) * 0x0101_0101_0101_0101)
}

/// The word that ends [`whole_words`].
const LAST: u64 = u64::MAX;

/// An aligned word of 8 bytes is READ and WRITTEN whole, even while processors access it. The IB
/// specification does not promise this. All NICs of the papers do it, and systems such as the log depend on
/// it. So a device must guarantee it here.
pub(crate) fn whole_words<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    let mem = p.parts.mr.mem();
    if b.is_requester() {
        for round in 1..=5000 {
            b.provider.store_u64(mem, 0, word(round));
            p.post(round, SendOp::Write(p.remote), 0, 8)?;
            p.post(round, SendOp::Read(p.remote.at(64)), 64, 8)?;
            p.sent(round, WcStatus::Success)?;
            p.sent(round, WcStatus::Success)?;
            is_whole("a word that was READ", b.provider.load_u64(mem, 64))?;
        }
        b.provider.store_u64(mem, 0, LAST);
        p.post(0, SendOp::Write(p.remote), 0, 8)?;
        p.sent(0, WcStatus::Success)?;
        return b.meet();
    }
    let deadline = b.deadline();
    for number in 0.. {
        b.provider.store_u64(mem, 64, word(number));
        b.provider.work(Span::from_ns(50));
        let found = b.provider.load_u64(mem, 0);
        is_whole("a word that was WRITTEN", found)?;
        // Reading the clock may take much longer than an access to memory.
        if found == LAST || number % 64 == 0 && b.provider.now() >= deadline {
            break;
        }
    }
    same("the last word", b.provider.load_u64(mem, 0), LAST)?;
    b.meet()
}

/// A fenced SEND waits for the READ before it, so it can send the bytes that the READ returned
/// (ibv_post_send(3), IBV_SEND_FENCE).
pub(crate) fn fence_after_read<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    for round in 0..8u64 {
        if b.is_requester() {
            p.fill(0, 3000, 0xff);
            b.meet()?;
            let buffer = [p.sge(0, 3000)];
            p.qp.post_send(&[
                p.wr(1, SendOp::Read(p.remote), &buffer),
                p.signaled(round, SendOp::Send, &buffer).flags(SendFlags::FENCE),
            ])?;
            p.sent(round, WcStatus::Success)?;
        } else {
            p.fill(0, 3000, round as u8);
            p.recv(round, 4096, 3000)?;
            b.meet()?;
            p.received(round, WcStatus::Success)?;
            p.has(4096, 3000, round as u8)?;
        }
    }
    Ok(())
}

/// A fenced WRITE does not change the bytes that the READ before it returns.
pub(crate) fn fenced_write_after_read<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        p.fill(0, 3000, 7);
        for round in 0..8 {
            let (from, to) = ([p.sge(0, 3000)], [p.sge(4096, 3000)]);
            let remote = p.remote.at(round * 4096);
            p.qp.post_send(&[
                p.wr(1, SendOp::Read(remote), &to),
                p.signaled(round, SendOp::Write(remote), &from).flags(SendFlags::FENCE),
            ])?;
            p.sent(round, WcStatus::Success)?;
            p.is_untouched(4096, 3000)?;
        }
    }
    Ok(())
}

/// Atomics of a QP on one word take effect in order.
pub(crate) fn atomics_in_order<P: Provider>(b: &Bench<P>) -> CheckStep {
    needs("atomics", b.device.atomics)?;
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        for n in 0..32 {
            p.post(n, SendOp::FetchAdd { remote: p.remote, add: 1 }, n * 8, 8)?;
        }
        for n in 0..32 {
            p.sent(n, WcStatus::Success)?;
            same("the value that fetch-and-add found", b.provider.load_u64(p.parts.mr.mem(), n * 8), n)?;
        }
    }
    Ok(())
}

/// Messages of a QP consume its RECVs in order, on RC, UC and UD.
pub(crate) fn recvs_in_order<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let p = b.pair(&b.options(qp_type))?;
        if b.is_requester() {
            b.meet()?;
            for n in 0..16 {
                p.fill(n * 64, 64, n as u8);
                p.post(n, SendOp::SendWithImm(n as u32), n * 64, 64)?;
            }
            for n in 0..16 {
                p.sent(n, WcStatus::Success)?;
            }
        } else {
            for n in 0..16 {
                p.recv(n, n * 128, 64)?;
            }
            b.meet()?;
            for n in 0..16 {
                same("the immediate", p.received(n, WcStatus::Success)?.imm, Some(n as u32))?;
                p.has(n * 128 + p.grh(), 64, n as u8)?;
            }
        }
    }
    Ok(())
}
