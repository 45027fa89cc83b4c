//! Checks of compare-and-swap and fetch-and-add.

use crate::bench::{Bench, Pair};
use crate::step::{CheckStep, holds, needs, same};
use doorbell_verbs::{Provider, QpType, RemoteAddr, SendOp, VerbsError, WcOpcode, WcStatus};

/// Executes one atomic. Returns the value that it found.
fn atomic<P: Provider>(b: &Bench<P>, p: &Pair<P>, op: SendOp) -> CheckStep<u64> {
    b.provider.store_u64(p.parts.mr.mem(), 0, 0x5555_5555_5555_5555);
    p.post(1, op, 0, 8)?;
    let wc = p.sent(1, WcStatus::Success)?;
    same("the opcode", wc.opcode, WcOpcode::from(op.opcode()))?;
    Ok(b.provider.load_u64(p.parts.mr.mem(), 0))
}

/// Executes atomics on the responder's word at offset 64. Each must find the stated value. Afterwards the
/// responder's processor must load the value `end`.
fn sequence<P: Provider>(
    b: &Bench<P>,
    steps: &dyn Fn(RemoteAddr) -> Vec<(SendOp, u64)>,
    start: u64,
    end: u64,
) -> CheckStep {
    needs("atomics", b.device.atomics)?;
    let p = b.pair(&b.options(QpType::Rc))?;
    if b.is_requester() {
        b.meet()?;
        for (op, found) in steps(p.remote.at(64)) {
            same(&format!("the value that {op:x?} found"), atomic(b, &p, op)?, found)?;
        }
        return b.meet();
    }
    b.provider.store_u64(p.parts.mr.mem(), 64, start);
    b.meet()?;
    b.meet()?;
    same("the word", b.provider.load_u64(p.parts.mr.mem(), 64), end)?;
    p.is_untouched(0, 64)?;
    p.is_untouched(72, 64)
}

/// Compare-and-swap replaces an equal value and keeps any other. In both cases it returns the previous value.
pub(crate) fn compare_swap<P: Provider>(b: &Bench<P>) -> CheckStep {
    let old = 0x0102_0304_0506_0708;
    let new = 0x1112_1314_1516_1718;
    let cas = |remote, compare, swap| SendOp::CompareSwap { remote, compare, swap };
    let steps = move |r| {
        vec![(cas(r, 1, 2), old), (cas(r, old, new), old), (cas(r, old, 3), new), (cas(r, new, new), new)]
    };
    sequence(b, &steps, old, new)
}

/// Fetch-and-add adds, wraps around, and returns the previous value.
pub(crate) fn fetch_add<P: Provider>(b: &Bench<P>) -> CheckStep {
    let add = |remote, add| SendOp::FetchAdd { remote, add };
    let steps =
        move |r| vec![(add(r, 3), u64::MAX - 1), (add(r, 0), 1), (add(r, u64::MAX), 1), (add(r, 1 << 40), 0)];
    sequence(b, &steps, u64::MAX - 1, 1 << 40)
}

/// Fetch-and-adds from two QPs are not lost: each result occurs once, and the sum is right.
pub(crate) fn concurrent_sum<P: Provider>(b: &Bench<P>) -> CheckStep {
    needs("atomics", b.device.atomics)?;
    let options = b.options(QpType::Rc);
    let pairs = [b.pair(&options)?, b.pair(&options)?];
    if !b.is_requester() {
        b.until_peer_ends()?;
        return same("the sum", b.provider.load_u64(pairs[0].parts.mr.mem(), 0), 100);
    }
    // Both QPs access the memory of the first pair.
    let op = SendOp::FetchAdd { remote: pairs[0].remote, add: 1 };
    for n in 0..50 {
        for p in &pairs {
            p.post(n, op, n * 8, 8)?;
        }
    }
    for p in &pairs {
        (0..50).try_for_each(|n| p.sent(n, WcStatus::Success).map(drop))?;
    }
    let found =
        |p: &Pair<P>| (0..50).map(|n| b.provider.load_u64(p.parts.mr.mem(), n * 8)).collect::<Vec<_>>();
    let mut all = [found(&pairs[0]), found(&pairs[1])].concat();
    all.sort_unstable();
    same("the list of values that the atomics found", all, (0..100).collect())?;
    Ok(())
}

/// Both sides use compare-and-swap at once. Each side acquires a lock, increments a counter by a READ and a
/// WRITE, and releases the lock.
pub(crate) fn lock<P: Provider>(b: &Bench<P>) -> CheckStep {
    needs("atomics", b.device.atomics)?;
    let options = b.options(QpType::Rc);
    let parts = b.parts(&options)?;
    // The responder accesses its own memory through a QP, too, so that the NIC executes all atomics.
    let p = b.pair_on(&parts, &options)?;
    let own = b.loopback_on(&parts, &options)?;
    b.meet()?;
    let (p, remote) = if b.is_requester() { (&p, p.remote) } else { (&own, own.remote) };
    let (word, counter, mem) = (remote.at(1024), remote.at(2048), parts.mr.mem());
    for _ in 0..20 {
        let until = b.deadline();
        while atomic(b, p, SendOp::CompareSwap { remote: word, compare: 0, swap: 1 })? != 0 {
            holds("the lock becomes free in time", b.provider.now() < until)?;
        }
        p.post(2, SendOp::Read(counter), 64, 8)?;
        p.sent(2, WcStatus::Success)?;
        b.provider.store_u64(mem, 64, b.provider.load_u64(mem, 64) + 1);
        p.post(3, SendOp::Write(counter), 64, 8)?;
        p.sent(3, WcStatus::Success)?;
        same("the lock", atomic(b, p, SendOp::CompareSwap { remote: word, compare: 1, swap: 0 })?, 1)?;
    }
    b.meet()?;
    if b.is_requester() { Ok(()) } else { same("the counter", b.provider.load_u64(mem, 2048), 40) }
}

/// An atomic at an address that is not a multiple of 8 changes nothing: the responder reports an invalid
/// request (IB specification, 9.4.5). A driver may already refuse to post the atomic, as Soft-RoCE's driver
/// does.
pub(crate) fn misaligned<P: Provider>(b: &Bench<P>) -> CheckStep {
    needs("atomics", b.device.atomics)?;
    for at in [1, 4] {
        let p = b.pair(&b.options(QpType::Rc))?;
        if b.is_requester() {
            let op = SendOp::FetchAdd { remote: p.remote.at(at), add: 1 };
            match p.qp.post_send(&[p.signaled(1, op, &[p.sge(0, 8)])]) {
                Ok(()) => drop(p.sent(1, WcStatus::RemInvReqErr)?),
                Err(refusal) => {
                    let invalid = matches!(refusal.cause, VerbsError::Invalid(_));
                    holds(&format!("the refusal of a misaligned atomic is EINVAL: {refusal}"), invalid)?;
                }
            }
            b.meet()?;
        } else {
            b.meet()?;
            p.is_untouched(0, 64)?;
        }
    }
    Ok(())
}

/// A device without atomics refuses to post them.
pub(crate) fn refused_without<P: Provider>(b: &Bench<P>) -> CheckStep {
    if b.device.atomics {
        return Err(crate::step::CheckStop::Skipped("the device has atomics".into()));
    }
    let p = b.loopback(&b.options(QpType::Rc))?;
    let wr = p.post(1, SendOp::FetchAdd { remote: p.remote, add: 1 }, 64, 8);
    crate::step::refused("an atomic", wr).map(drop)
}
