//! Checks of connections: missing peers, parallel connections, and limits on outstanding operations.

use crate::bench::{Bench, Options, PORT, Pair};
use crate::step::{CheckStep, needs, same};
use doorbell_verbs::{
    AccessFlags, Endpoint, Provider, QpAttr, QpState, QpType, RemoteAddr, SendOp, SendWr, WcStatus,
};

/// Options of a requester that gives up soon, after 3 tries at intervals of 17 ms. A device may take up to
/// four times as long (IB specification, 9.7.6.1.3).
pub(crate) fn impatient<P: Provider>(b: &Bench<P>) -> Options {
    let mut options = b.options(QpType::Rc);
    options.connect.timeout = 12;
    options.connect.retry_cnt = 2;
    options
}

/// The requester connects to a QP of the responder in `state`, or to a QP number that does not exist if
/// `state` is `None`. It posts two WRITEs. The first must fail after the retries, and the second must be
/// flushed.
fn nobody_there<P: Provider>(b: &Bench<P>, state: Option<QpState>) -> CheckStep {
    let options = impatient(b);
    let parts = b.parts(&options)?;
    let qp = b.qp(&parts, &options)?;
    let (mut peer, remote) = b.exchange(&qp, &parts.mr)?;
    if !b.is_requester() {
        match state {
            Some(QpState::Init) => qp.init(PORT, AccessFlags::all(), 0)?,
            Some(QpState::Err) => {
                qp.connect(PORT, &peer, &options.connect)?;
                qp.modify(&QpAttr::state(QpState::Err))?;
            }
            _ => {}
        }
        b.meet()?;
        b.until_peer_ends()?;
        return same("the memory", b.provider.load_u64(parts.mr.mem(), 0), 0);
    }
    if state.is_none() {
        peer = Endpoint { qpn: peer.qpn ^ 0x7f_0000, ..peer };
    }
    qp.connect(PORT, &peer, &options.connect)?;
    b.meet()?;
    b.provider.write(parts.mr.mem(), 0, &[1; 8]);
    let sges = [parts.mr.sge(0, 8)];
    let write = |n| SendWr::new(n, SendOp::Write(remote), &sges);
    qp.post_send(&[write(1), write(2)])?;
    for expected in [(1, WcStatus::RetryExcErr), (2, WcStatus::WrFlushErr)] {
        let wc = parts.send_cq.wait(b.deadline())?;
        same("the completion", wc.map(|wc| (wc.wr_id, wc.status)), Some(expected))?;
    }
    b.ends_in_error(&qp)
}

/// Retries run out if the peer QP does not exist.
pub(crate) fn no_peer<P: Provider>(b: &Bench<P>) -> CheckStep {
    nobody_there(b, None)
}

/// Retries run out if the peer QP is in Reset.
pub(crate) fn peer_in_reset<P: Provider>(b: &Bench<P>) -> CheckStep {
    nobody_there(b, Some(QpState::Reset))
}

/// Retries run out if the peer QP is in Init.
pub(crate) fn peer_in_init<P: Provider>(b: &Bench<P>) -> CheckStep {
    nobody_there(b, Some(QpState::Init))
}

/// Retries run out if the peer QP is in Err.
pub(crate) fn peer_in_error<P: Provider>(b: &Bench<P>) -> CheckStep {
    nobody_there(b, Some(QpState::Err))
}

/// A retry reaches a peer that connects late.
pub(crate) fn late_peer<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mut options = b.options(QpType::Rc);
    // The time-out is 0.54 s, with 7 retries. On a busy machine, the responder may connect seconds late.
    options.connect.timeout = 17;
    let parts = b.parts(&options)?;
    let qp = b.qp(&parts, &options)?;
    let (peer, remote) = b.exchange(&qp, &parts.mr)?;
    if !b.is_requester() {
        b.meet()?;
        b.sleep(doorbell_verbs::Span::from_ms(30));
        qp.connect(PORT, &peer, &options.connect)?;
        b.meet()?;
        return same("the memory", b.provider.load_u8(parts.mr.mem(), 7), 1);
    }
    qp.connect(PORT, &peer, &options.connect)?;
    b.provider.write(parts.mr.mem(), 0, &[1; 8]);
    let sges = [parts.mr.sge(0, 8)];
    b.meet()?;
    qp.post_send(&[SendWr::new(1, SendOp::Write(remote), &sges).flags(doorbell_verbs::SendFlags::SIGNALED)])?;
    let wc = parts.send_cq.wait(b.deadline())?;
    same("the completion", wc.map(|wc| (wc.wr_id, wc.status)), Some((1, WcStatus::Success)))?;
    b.meet()
}

/// Two connections between two machines are separate. Each connection delivers its own messages, and an error
/// of one connection does not affect the other.
pub(crate) fn two_side_by_side<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options = b.options(QpType::Rc);
    let pairs = [b.pair(&options)?, b.pair(&options)?];
    if !b.is_requester() {
        for (n, p) in (0u64..).zip(&pairs) {
            p.recv(n, 0, 64)?;
            p.recv(n + 10, 128, 64)?;
        }
        b.meet()?;
        for (n, p) in (0u64..).zip(&pairs) {
            p.received(n, WcStatus::Success)?;
            p.has(0, 64, n as u8)?;
        }
        pairs[1].received(11, WcStatus::Success)?;
        return same("the state", pairs[1].qp.state()?, QpState::Rts);
    }
    b.meet()?;
    for (n, p) in (0u64..).zip(&pairs) {
        p.fill(0, 64, n as u8);
        p.post(n, SendOp::Send, 0, 64)?;
    }
    pairs[0].sent(0, WcStatus::Success)?;
    pairs[1].sent(1, WcStatus::Success)?;
    let wrong = RemoteAddr { rkey: !pairs[0].remote.rkey, ..pairs[0].remote };
    pairs[0].post(5, SendOp::Write(wrong), 0, 8)?;
    pairs[0].sent(5, WcStatus::RemAccessErr)?;
    pairs[1].post(6, SendOp::Send, 0, 64)?;
    pairs[1].sent(6, WcStatus::Success).map(drop)
}

/// Both sides post at once, in both directions.
pub(crate) fn both_ways<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    let seed = |mine: bool, n: u64| n as u8 + if mine == b.is_requester() { 0 } else { 100 };
    for n in 0..16 {
        p.recv(n, n * 1024, 1024)?;
        p.fill((16 + n) * 1024, 1024, seed(true, n));
    }
    b.meet()?;
    for n in 0..16 {
        p.post(n, SendOp::Send, (16 + n) * 1024, 1024)?;
    }
    for n in 0..16 {
        p.sent(n, WcStatus::Success)?;
        p.received(n, WcStatus::Success)?;
        p.has(n * 1024, 1024, seed(false, n))?;
    }
    Ok(())
}

/// An RC or UC QP may be connected to itself.
pub(crate) fn to_itself<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let p = b.loopback(&b.options(qp_type))?;
        p.fill(0, 3000, 1);
        p.recv(7, 8192, 3000)?;
        p.post(1, SendOp::Send, 0, 3000)?;
        p.sent(1, WcStatus::Success)?;
        p.received(7, WcStatus::Success)?;
        p.has(8192, 3000, 1)?;
    }
    Ok(())
}

/// Posts many READs in one list. All must succeed and return their bytes.
fn many_reads<P: Provider>(b: &Bench<P>, p: &Pair<P>) -> CheckStep {
    if !b.is_requester() {
        p.fill(0, 30_000, 3);
        b.meet()?;
        return b.meet();
    }
    b.meet()?;
    let sges: Vec<_> = (0..20).map(|n| [p.sge(n * 1500, 1500)]).collect();
    let reads = (0u64..).zip(&sges).map(|(n, s)| p.signaled(n, SendOp::Read(p.remote.at(n * 1500)), s));
    p.qp.post_send(&reads.collect::<Vec<_>>())?;
    for n in 0..20 {
        p.sent(n, WcStatus::Success)?;
    }
    p.has(0, 30_000, 3)?;
    b.meet()
}

/// With max_rd_atomic 1, many READs wait for each other, and all succeed.
pub(crate) fn one_read_at_a_time<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mut options = b.options(QpType::Rc);
    options.connect.max_rd_atomic = 1;
    let p = b.pair(&options)?;
    many_reads(b, &p)
}

/// Many READs succeed with the usual limit of outstanding READs: the device's limit, but at most 16.
pub(crate) fn many_reads_at_a_time<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.pair(&b.options(QpType::Rc))?;
    many_reads(b, &p)
}

/// A connection with more outstanding READs than the device supports is refused.
pub(crate) fn too_many_rd_atomic<P: Provider>(b: &Bench<P>) -> CheckStep {
    needs("limit on outstanding READs", b.device.max_qp_rd_atom < u8::MAX)?;
    let options = b.options(QpType::Rc);
    let parts = b.parts(&options)?;
    let qp = b.qp(&parts, &options)?;
    let mut connect = options.connect;
    connect.max_rd_atomic = b.device.max_qp_rd_atom.max(b.device.max_qp_init_rd_atom) + 1;
    let own = qp.endpoint(PORT)?;
    crate::step::refused("max_dest_rd_atomic over the device's limit", qp.connect(PORT, &own, &connect))
        .map(drop)
}

/// PSNs have 24 bits and wrap around.
pub(crate) fn psn_wraps<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mut options = b.options(QpType::Rc);
    options.connect.psn = 0xff_fff5;
    let p = b.pair(&options)?;
    many_reads(b, &p)?;
    let p = b.pair(&options)?;
    if !b.is_requester() {
        (0..8).try_for_each(|n| p.recv(n, n * 4096, 4000))?;
        b.meet()?;
        return (0..8).try_for_each(|n| {
            p.received(n, WcStatus::Success)?;
            p.has(n * 4096, 4000, n as u8)
        });
    }
    (0..8).for_each(|n| p.fill(n * 4096, 4000, n as u8));
    b.meet()?;
    (0..8).try_for_each(|n| p.post(n, SendOp::Send, n * 4096, 4000))?;
    (0..8).try_for_each(|n| p.sent(n, WcStatus::Success).map(drop))
}
