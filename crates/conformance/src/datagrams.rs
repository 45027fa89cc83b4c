//! Checks of properties that only UD has.

use crate::bench::{Bench, PORT, QKEY};
use crate::step::{CheckStep, holds, refused, same};
use doorbell_verbs::{
    Ah, AhAttr, GRH_BYTES, GlobalRoute, LinkLayer, Provider, QpType, SendOp, UdDest, VerbsError, WcStatus,
};

/// The payload begins 40 bytes into the RECV buffer, and `byte_len` includes these bytes (ibv_post_recv(3)).
pub(crate) fn grh_offset<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Ud))?;
    if b.is_requester() {
        p.fill(0, 100, 1);
        b.meet()?;
        p.post(1, SendOp::Send, 0, 100)?;
        return p.sent(1, WcStatus::Success).map(drop);
    }
    p.recv(7, 0, 200)?;
    b.meet()?;
    same("byte_len", p.received(7, WcStatus::Success)?.byte_len, 100 + GRH_BYTES)?;
    p.has(u64::from(GRH_BYTES), 100, 1)?;
    p.is_untouched(u64::from(GRH_BYTES) + 100, 100)
}

/// Sends a datagram that must not arrive, and then one that must.
fn dropped<P: Provider>(b: &Bench<P>, wrong: impl Fn(UdDest) -> UdDest) -> CheckStep {
    let p = b.pair(&b.options(QpType::Ud))?;
    if b.is_requester() {
        p.fill(0, 64, 1);
        p.fill(64, 64, 2);
        b.meet()?;
        let sges = [p.sge(0, 64)];
        let wr = p.signaled(1, SendOp::Send, &sges);
        let dest = p.dest().map(wrong);
        p.qp.post_send(&[doorbell_verbs::SendWr { dest, ..wr }])?;
        p.sent(1, WcStatus::Success)?;
        p.post(2, SendOp::Send, 64, 64)?;
        return p.sent(2, WcStatus::Success).map(drop);
    }
    p.recv(7, 0, 64)?;
    p.recv(8, 1024, 64)?;
    b.meet()?;
    p.received(7, WcStatus::Success)?;
    p.has(p.grh(), 64, 2)?;
    b.silence();
    p.has_no_completions()
}

/// A datagram whose Q_Key differs from the receiver's Q_Key is dropped, and its sender gets no error.
pub(crate) fn wrong_qkey<P: Provider>(b: &Bench<P>) -> CheckStep {
    dropped(b, |dest| UdDest { qkey: QKEY + 1, ..dest })
}

/// A datagram to a QP that does not exist is dropped.
pub(crate) fn wrong_qpn<P: Provider>(b: &Bench<P>) -> CheckStep {
    dropped(b, |dest| UdDest { qpn: dest.qpn ^ 0x7f_0000, ..dest })
}

/// A datagram longer than the MTU is not sent at all. The IB specification forbids an error for it
/// (C10-93.1.1), and Soft-RoCE reports success. Other devices complete it with a local length error, or
/// refuse to post it. The check accepts all three.
pub(crate) fn over_mtu<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Ud))?;
    let len = b.mtu(QpType::Ud) + 1;
    if b.is_requester() {
        b.meet()?;
        match p.post(1, SendOp::Send, 0, len) {
            Err(_) => p.has_no_completions()?,
            Ok(()) => {
                let wc = p.parts.send_cq.wait(b.deadline())?.map(|wc| (wc.wr_id, wc.status));
                let taken = [Some((1, WcStatus::Success)), Some((1, WcStatus::LocLenErr))];
                holds(
                    &format!("the SEND ends with success or a local length error: {wc:?}"),
                    taken.contains(&wc),
                )?;
            }
        }
        return b.meet();
    }
    p.recv(7, 0, len)?;
    b.meet()?;
    b.meet()?;
    b.silence();
    p.has_no_completions()
}

/// One UD QP can send to several QPs and receive from several. `src_qp` identifies the sender.
pub(crate) fn many_to_many<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options = b.options(QpType::Ud);
    let (first, second) = (b.pair(&options)?, b.pair(&options)?);
    let dests = [first.dest(), second.dest()];
    if b.is_requester() {
        b.meet()?;
        for (n, (from, dest)) in (0u64..).zip([(&first, dests[0]), (&first, dests[1]), (&second, dests[0])]) {
            from.fill(0, 32, n as u8);
            let sges = [from.sge(0, 32)];
            let wr = from.signaled(n, SendOp::Send, &sges);
            from.qp.post_send(&[doorbell_verbs::SendWr { dest, ..wr }])?;
            from.sent(n, WcStatus::Success)?;
        }
        return Ok(());
    }
    first.recv(10, 0, 32)?;
    first.recv(11, 128, 32)?;
    second.recv(12, 0, 32)?;
    b.meet()?;
    same("src_qp", first.received(10, WcStatus::Success)?.src_qp, first.peer.qpn)?;
    first.has(40, 32, 0)?;
    same("src_qp", first.received(11, WcStatus::Success)?.src_qp, second.peer.qpn)?;
    first.has(168, 32, 2)?;
    same("src_qp", second.received(12, WcStatus::Success)?.src_qp, first.peer.qpn)?;
    second.has(40, 32, 1)
}

/// A datagram that a QP sends to itself arrives.
pub(crate) fn to_itself<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.loopback(&b.options(QpType::Ud))?;
    p.fill(1024, 64, 5);
    p.recv(7, 0, 64)?;
    p.post(1, SendOp::Send, 1024, 64)?;
    p.sent(1, WcStatus::Success)?;
    same("src_qp", p.received(7, WcStatus::Success)?.src_qp, p.qp.qp_num())?;
    p.has(p.grh(), 64, 5)
}

/// A receiver can answer: the address of the sender's port and `src_qp` are sufficient.
pub(crate) fn answer<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Ud))?;
    p.recv(7, 0, 64)?;
    b.meet()?;
    if b.is_requester() {
        p.post(1, SendOp::Send, 1024, 16)?;
        p.sent(1, WcStatus::Success)?;
        p.received(7, WcStatus::Success)?;
        return p.has(p.grh(), 64, 6);
    }
    let from = p.received(7, WcStatus::Success)?.src_qp;
    p.fill(1024, 64, 6);
    let ah = Ah::to_endpoint(&b.pd, PORT, &p.peer)?;
    let sges = [p.sge(1024, 64)];
    let wr = p.signaled(1, SendOp::Send, &sges).to(ah.dest(from, QKEY));
    p.qp.post_send(&[wr])?;
    p.sent(1, WcStatus::Success).map(drop)
}

/// A datagram needs a destination.
pub(crate) fn no_destination<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.loopback(&b.options(QpType::Ud))?;
    let sges = [p.sge(0, 8)];
    let wr = doorbell_verbs::SendWr::new(1, SendOp::Send, &sges);
    let error = refused("a datagram without destination", p.qp.post_send(&[wr]))?;
    holds("the refusal is EINVAL", matches!(error.cause, VerbsError::Invalid(_)))
}

/// An address handle needs an existing port and, on Ethernet, a GID.
pub(crate) fn bad_address_handles<P: Provider>(b: &Bench<P>) -> CheckStep {
    let own = AhAttr {
        port_num: PORT,
        dlid: b.port.lid,
        sl: 0,
        grh: Some(GlobalRoute::new(b.port.gid, b.port.gid_index)),
    };
    b.pd.create_ah(&own)?;
    refused("an address handle on port 0", b.pd.create_ah(&AhAttr { port_num: 0, ..own }))?;
    let beyond = b.device.ports + 1;
    refused(
        "an address handle on a port beyond the last port",
        b.pd.create_ah(&AhAttr { port_num: beyond, ..own }),
    )?;
    if b.port.link_layer == LinkLayer::Ethernet {
        refused("an address handle without GID", b.pd.create_ah(&AhAttr { grh: None, ..own }))?;
    }
    Ok(())
}
