//! One test per rule of the transports.

use crate::net::{BASE, Host, KEY, Net, PD, QKEY, Setup, attributes};
use doorbell_transport::{
    Action, AtomicOp, Body, Deth, NakCode, Packet, PacketPart, Queue, Region, Reth, Source, Syndrome,
    check_modify, rnr_wait,
};
use doorbell_verbs::{
    AccessFlags, AhHandle, QpAttr, QpState, QpType, RecvWr, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Span,
    Time, UdDest, Wc, WcStatus,
};

const SIGNALED: SendFlags = SendFlags::SIGNALED;

fn sge(net: &Net, host: usize, offset: u64, length: u32) -> [Sge; 1] {
    [Sge { addr: BASE + offset, length, lkey: net.hosts[host].key }]
}

/// Memory of the other host.
fn remote(offset: u64) -> RemoteAddr {
    RemoteAddr { addr: BASE + offset, rkey: KEY }
}

/// Posts on host 0, signalled, with `len` bytes of local data at offset 0.
fn post(net: &mut Net, wr_id: u64, op: SendOp, len: u32) {
    let list = sge(net, 0, 0, len);
    net.post_send(0, &SendWr::new(wr_id, op, &list).flags(SIGNALED)).expect("room");
}

/// Posts a RECV of `len` bytes on host 1.
fn post_recv(net: &mut Net, wr_id: u64, len: u32) {
    let list = sge(net, 1, 8192, len);
    net.post_recv(1, &RecvWr { wr_id, sg_list: &list }).expect("room");
}

fn statuses(host: &Host, queue: Queue) -> Vec<(u64, WcStatus)> {
    host.completed.iter().filter(|(q, _)| *q == queue).map(|(_, wc)| (wc.wr_id, wc.status)).collect()
}

fn sends(net: &Net) -> Vec<(u64, WcStatus)> {
    statuses(&net.hosts[0], Queue::Send)
}

fn recvs(net: &Net) -> Vec<(u64, WcStatus)> {
    statuses(&net.hosts[1], Queue::Recv)
}

fn rc() -> Net {
    Net::new(Setup::new(QpType::Rc))
}

/// Number of packets like this that host `from` transmitted.
fn count(net: &Net, from: usize, like: impl Fn(&Packet) -> bool) -> usize {
    net.log.iter().filter(|(f, p)| *f == from && like(p)).count()
}

fn syndromes(net: &Net) -> Vec<Syndrome> {
    let syndrome = |p: &Packet| if let Body::Ack(s) = p.body { Some(s) } else { None };
    net.log.iter().filter(|(from, _)| *from == 1).filter_map(|(_, p)| syndrome(p)).collect()
}

/// Checks that the work request fails with `status`, later ones are flushed, and both QPs are in Err.
fn fails(net: &mut Net, op: SendOp, len: u32, status: WcStatus) {
    post(net, 1, op, len);
    post(net, 2, SendOp::Write(remote(0)), 8);
    net.run();
    assert_eq!(sends(net), [(1, status), (2, WcStatus::WrFlushErr)]);
    assert_eq!(net.hosts[0].qp.state(), QpState::Err);
    assert_eq!(net.hosts[0].failures, 1);
}

#[test]
fn messages_are_cut_at_the_mtu() {
    let mut net = rc();
    post(&mut net, 1, SendOp::Write(remote(0)), 700);
    net.run();
    let parts: Vec<_> = net
        .log
        .iter()
        .filter(|(from, _)| *from == 0)
        .map(|(_, p)| (p.body, p.payload_len, p.psn, p.ack_req))
        .collect();
    let reth = Some(Reth { va: BASE, rkey: net.hosts[1].key, dma_len: 700 });
    assert_eq!(
        parts,
        [
            (Body::Write { part: PacketPart::First, reth, imm: None }, 256, 0xff_fff0, false),
            (Body::Write { part: PacketPart::Middle, reth: None, imm: None }, 256, 0xff_fff1, false),
            (Body::Write { part: PacketPart::Last, reth: None, imm: None }, 188, 0xff_fff2, true),
        ]
    );
    assert_eq!(syndromes(&net), [Syndrome::Ack]);
}

#[test]
fn long_messages_ask_for_acks_on_the_way() {
    let mut net = rc();
    post(&mut net, 1, SendOp::Write(remote(0)), 40 * 256);
    net.run();
    assert_eq!(count(&net, 0, |p| p.ack_req), 2);
    assert_eq!(sends(&net), [(1, WcStatus::Success)]);
}

#[test]
fn empty_messages_need_no_rkey() {
    let mut net = rc();
    let nowhere = RemoteAddr { addr: 1, rkey: 0 };
    for (wr_id, op) in [SendOp::Send, SendOp::Write(nowhere), SendOp::Read(nowhere)].into_iter().enumerate() {
        post_recv(&mut net, 9, 0);
        net.post_send(0, &SendWr::new(wr_id as u64, op, &[])).unwrap();
    }
    net.run();
    assert_eq!(sends(&net), [(0, WcStatus::Success), (1, WcStatus::Success), (2, WcStatus::Success)]);
}

#[test]
fn unsignalled_work_requests_complete_without_a_cqe() {
    let mut net = rc();
    let list = sge(&net, 0, 0, 8);
    let op = SendOp::Write(remote(0));
    for i in 0..16 {
        net.post_send(
            0,
            &SendWr::new(i, op, &list).flags(if i == 15 { SIGNALED } else { SendFlags::empty() }),
        )
        .unwrap();
    }
    assert!(net.post_send(0, &SendWr::new(16, op, &list)).is_err(), "the queue is full");
    net.run();
    assert_eq!(net.hosts[0].cqes.len(), 1);
    assert!(net.post_send(0, &SendWr::new(16, op, &list)).is_err(), "still, nothing was polled");
    let slot = net.hosts[0].cqes[0].2;
    net.hosts[0].qp.release(slot);
    assert_eq!(net.hosts[0].qp.send_queue_len(), 0);
}

#[test]
fn a_gap_is_reported_once_and_sent_again() {
    let mut net = rc();
    let mut lost = false;
    net.lose = Box::new(move |p| p.psn == 0xff_fff1 && !std::mem::replace(&mut lost, true));
    for i in 0..5 {
        post(&mut net, i, SendOp::Write(remote(0)), 8);
    }
    net.run();
    let naks = syndromes(&net).into_iter().filter(|s| *s == Syndrome::Nak(NakCode::PsnSequence)).count();
    assert_eq!(naks, 1);
    assert_eq!(count(&net, 0, |p| p.psn == 0xff_fff0), 1, "what arrived is not sent again");
    assert_eq!(count(&net, 0, |p| p.psn == 0xff_fff1), 2);
    assert_eq!(sends(&net).len(), 5);
}

#[test]
fn a_read_is_sent_again_from_where_its_answer_broke_off() {
    let mut net = rc();
    let mut lost = false;
    net.lose = Box::new(move |p| {
        matches!(p.body, Body::ReadResponse { part: PacketPart::Middle })
            && !std::mem::replace(&mut lost, true)
    });
    net.hosts[1].memory[..1000].fill(5);
    post(&mut net, 1, SendOp::Read(remote(0)), 1000);
    net.run();
    let again = Reth { va: BASE + 256, rkey: net.hosts[1].key, dma_len: 744 };
    assert_eq!(count(&net, 0, |p| p.body == Body::ReadRequest(again)), 1);
    assert_eq!(sends(&net), [(1, WcStatus::Success)]);
    assert_eq!(net.hosts[0].memory[..1000], net.hosts[1].memory[..1000]);
}

#[test]
fn an_atomic_whose_answer_is_lost_is_not_executed_again() {
    let mut net = rc();
    let mut lost = 0;
    net.lose = Box::new(move |p| {
        lost += 1;
        matches!(p.body, Body::AtomicAck { .. }) && lost < 8
    });
    post(&mut net, 1, SendOp::FetchAdd { remote: remote(8), add: 5 }, 8);
    net.run();
    assert!(count(&net, 0, |_| true) > 1);
    assert_eq!((net.hosts[1].atomics, net.hosts[1].word(BASE + 8)), (1, 5));
    assert_eq!(sends(&net), [(1, WcStatus::Success)]);
}

#[test]
fn a_skipped_answer_is_an_implicit_nak() {
    let mut net = Net::new(Setup { timeout: 0, ..Setup::new(QpType::Rc) });
    let mut lost = false;
    net.lose =
        Box::new(move |p| matches!(p.body, Body::ReadResponse { .. }) && !std::mem::replace(&mut lost, true));
    post(&mut net, 1, SendOp::Read(remote(0)), 8);
    post(&mut net, 2, SendOp::Write(remote(64)), 8);
    net.run();
    assert_eq!(sends(&net), [(1, WcStatus::Success), (2, WcStatus::Success)], "and without a time-out");
}

#[test]
fn reads_under_way_are_limited_and_fences_wait() {
    let mut net = Net::new(Setup { max_rd_atomic: 2, ..Setup::new(QpType::Rc) });
    let list = sge(&net, 0, 0, 8);
    for i in 0..3 {
        net.post_send(0, &SendWr::new(i, SendOp::Read(remote(0)), &list)).unwrap();
    }
    let fenced = SendWr::new(3, SendOp::Write(remote(64)), &list).flags(SendFlags::FENCE);
    net.post_send(0, &fenced).unwrap();
    net.run_until(Time::from_ps(500_000)); // Before any packet arrives.
    assert_eq!(net.hosts[0].qp.outstanding(), 2);
    net.run();
    let write = net.log.iter().position(|(_, p)| matches!(p.body, Body::Write { .. })).unwrap();
    let answers = net.log[..write].iter().filter(|(_, p)| matches!(p.body, Body::ReadResponse { .. }));
    assert_eq!(answers.count(), 3, "the fenced WRITE waited for every READ");
}

#[test]
fn a_read_without_initiator_resources_is_a_local_error() {
    let mut net = Net::new(Setup { max_rd_atomic: 0, ..Setup::new(QpType::Rc) });
    let op = SendOp::Read(remote(0));
    fails(&mut net, op, 8, WcStatus::LocQpOpErr);
}

#[test]
fn a_read_without_responder_resources_is_an_invalid_request() {
    let mut net = Net::new(Setup { max_dest_rd_atomic: 0, ..Setup::new(QpType::Rc) });
    let op = SendOp::Read(remote(0));
    fails(&mut net, op, 8, WcStatus::RemInvReqErr);
    assert_eq!(net.hosts[1].qp.state(), QpState::Err);
}

fn atomic_packet(net: &Net, psn: u32) -> Packet {
    Packet {
        transport: QpType::Rc,
        dest_qp: 2,
        psn,
        ack_req: true,
        solicited: false,
        msn: 0,
        deth: None,
        body: Body::Atomic { va: BASE, rkey: net.hosts[1].key, op: AtomicOp::FetchAdd { add: 1 } },
        payload_len: 0,
    }
}

#[test]
fn a_pending_atomic_is_neither_repeated_nor_overtaken_beyond_the_resources() {
    let mut net = Net::new(Setup { max_dest_rd_atomic: 1, ..Setup::new(QpType::Rc) });
    let first = atomic_packet(&net, 0xff_fff0);
    let mut out = Vec::new();
    let h = &mut net.hosts[1];
    let now = Time::START;
    h.qp.receive(now, &first, &h.keys, &mut h.rq, &mut out);
    let [Action::Respond(tx)] = out[..] else { panic!("{out:?}") };
    let Source::Atomic { resource, .. } = tx.source else { panic!("{tx:?}") };
    out.clear();
    h.qp.receive(now, &first, &h.keys, &mut h.rq, &mut out);
    assert_eq!(out, [], "a duplicate of a pending atomic is ignored");
    h.qp.atomic_done(resource, 41);
    h.qp.receive(now, &first, &h.keys, &mut h.rq, &mut out);
    let [Action::Respond(tx)] = out[..] else { panic!("{out:?}") };
    assert_eq!((tx.packet.body, tx.source), (Body::AtomicAck { original: 41 }, Source::None));
    out.clear();
    let mut second = first;
    for (psn, refused) in [(0xff_fff1, false), (0xff_fff2, true)] {
        second.psn = psn;
        out.clear();
        h.qp.receive(now, &second, &h.keys, &mut h.rq, &mut out);
        assert_eq!(h.qp.state() == QpState::Err, refused);
    }
    assert!(out.iter().any(|a| matches!(a, Action::Respond(tx)
        if tx.packet.body == Body::Ack(Syndrome::Nak(NakCode::InvalidRequest)))));
}

#[test]
fn rnr_nak_waits_for_the_time_of_its_code() {
    let mut net = rc();
    post(&mut net, 1, SendOp::Send, 8);
    net.run_until(Time::START + Span::from_us(5));
    assert_eq!(syndromes(&net), [Syndrome::RnrNak(1)]);
    let sent = count(&net, 0, |_| true);
    net.run_until(net.hosts[0].qp.deadline().unwrap() + Span::from_us(5));
    assert_eq!(count(&net, 0, |_| true), sent + 1, "once more after the wait");
    post_recv(&mut net, 7, 8);
    net.run();
    assert_eq!((sends(&net), recvs(&net)), (vec![(1, WcStatus::Success)], vec![(7, WcStatus::Success)]));
    assert_eq!(rnr_wait(0), Span::from_us(655_360));
    assert_eq!(rnr_wait(1), Span::from_us(10));
    assert_eq!(rnr_wait(12), Span::from_us(640));
    assert_eq!(rnr_wait(31), Span::from_us(491_520));
}

#[test]
fn an_ack_ends_the_wait_after_an_rnr_nak() {
    let mut net = rc();
    post(&mut net, 1, SendOp::Send, 8);
    post(&mut net, 2, SendOp::Send, 8);
    net.run_until(Time::START + Span::from_us(5));
    let ack = Packet { psn: 0xff_fff0, body: Body::Ack(Syndrome::Ack), ..atomic_packet(&net, 0) };
    let mut out = Vec::new();
    let h = &mut net.hosts[0];
    assert!(h.qp.next_request(net.now, &h.keys, &mut out).is_none(), "it waits");
    h.qp.receive(net.now, &ack, &h.keys, &mut h.rq, &mut out);
    assert_eq!(out.last(), Some(&Action::Transmit));
    assert!(h.qp.next_request(net.now, &h.keys, &mut out).is_some());
}

#[test]
fn rnr_retries_run_out() {
    let mut net = Net::new(Setup { rnr_retry: 2, ..Setup::new(QpType::Rc) });
    fails(&mut net, SendOp::Send, 8, WcStatus::RnrRetryExcErr);
    assert_eq!(syndromes(&net).len(), 3);
}

#[test]
fn retries_run_out() {
    let mut net = Net::new(Setup { retry_cnt: 3, ..Setup::new(QpType::Rc) });
    net.lose = Box::new(|_| true);
    post(&mut net, 1, SendOp::Write(remote(0)), 8);
    net.run();
    assert_eq!(sends(&net), [(1, WcStatus::RetryExcErr)]);
    assert_eq!(count(&net, 0, |_| true), 4);
    // 4.096 us * 2^1, four times.
    assert!(net.now >= Time::START + Span::from_ns(4 * 8192));
}

#[test]
fn what_an_ack_covers_is_not_sent_again() {
    let mut net = rc();
    net.lose = Box::new(|_| true);
    for i in 0..3 {
        post(&mut net, i, SendOp::Write(remote(0)), 8);
    }
    net.run_until(Time::START + Span::from_us(5));
    let late = net.hosts[0].qp.deadline().unwrap();
    let h = &mut net.hosts[0];
    h.qp.timeout(late, &h.keys, &mut Vec::new());
    let ack = Packet { psn: 0xff_fff1, body: Body::Ack(Syndrome::Ack), ..atomic_packet(&net, 0) };
    net.deliver(0, &ack, &[]);
    let h = &mut net.hosts[0];
    let again = h.qp.next_request(late, &h.keys, &mut Vec::new()).unwrap();
    assert_eq!(again.packet.psn, 0xff_fff2);
    assert!(h.qp.next_request(late, &h.keys, &mut Vec::new()).is_none());
    assert_eq!(h.qp.outstanding(), 1);
}

#[test]
fn only_completed_slots_are_freed() {
    let mut net = rc();
    net.lose = Box::new(|_| true);
    post(&mut net, 1, SendOp::Write(remote(0)), 8);
    for slot in [0, 1, 99] {
        net.hosts[0].qp.release(slot);
    }
    assert_eq!(net.hosts[0].qp.send_queue_len(), 1);
}

#[test]
fn code_0_is_no_time_out() {
    let mut net = Net::new(Setup { timeout: 0, ..Setup::new(QpType::Rc) });
    net.lose = Box::new(|_| true);
    post(&mut net, 1, SendOp::Write(remote(0)), 8);
    net.run();
    assert_eq!((sends(&net), net.hosts[0].qp.deadline()), (vec![], None));
}

#[test]
fn local_protection_errors_wait_for_their_turn() {
    let mut net = rc();
    post(&mut net, 1, SendOp::Write(remote(0)), 8);
    let bad = [Sge { addr: BASE, length: 8, lkey: 0x77 }];
    net.post_send(0, &SendWr::new(2, SendOp::Write(remote(0)), &bad)).unwrap();
    net.run();
    assert_eq!(sends(&net), [(1, WcStatus::Success), (2, WcStatus::LocProtErr)]);
    assert_eq!(net.hosts[0].qp.state(), QpState::Err);
    assert_eq!(count(&net, 0, |_| true), 1);
}

#[test]
fn inline_data_needs_no_lkey() {
    let mut net = rc();
    let bad = [Sge { addr: BASE, length: 8, lkey: 0x77 }];
    net.post_send(0, &SendWr::new(2, SendOp::Write(remote(0)), &bad).flags(SendFlags::INLINE)).unwrap();
    net.run();
    assert_eq!(sends(&net), [(2, WcStatus::Success)]);
}

#[test]
fn remote_access_errors() {
    for (offset, rkey) in [(0, 0x1234), ((1 << 16) - 4, 0)] {
        let mut net = rc();
        let rkey = if rkey == 0 { net.hosts[1].key } else { rkey };
        let op = SendOp::Write(RemoteAddr { addr: BASE + offset, rkey });
        fails(&mut net, op, 8, WcStatus::RemAccessErr);
        assert_eq!(net.hosts[1].qp.state(), QpState::Err);
    }
    let mut net = rc();
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ;
    let rkey = net.hosts[1].keys.register(Region { pd: PD, addr: BASE, len: 64, access });
    fails(
        &mut net,
        SendOp::FetchAdd { remote: RemoteAddr { addr: BASE, rkey }, add: 1 },
        8,
        WcStatus::RemAccessErr,
    );
    assert_eq!(net.hosts[1].atomics, 0);
}

#[test]
fn a_write_with_immediate_outside_its_region_is_a_local_access_error_of_the_recv() {
    let outside = SendOp::WriteWithImm(remote(1 << 16), 7);
    for len in [8, 600] {
        let mut net = rc();
        post_recv(&mut net, 5, 8);
        post_recv(&mut net, 6, 8);
        fails(&mut net, outside, len, WcStatus::RemAccessErr);
        // Only the packet with the immediate completes the RECV, so longer messages only flush it.
        let first = if len == 8 { WcStatus::LocAccessErr } else { WcStatus::WrFlushErr };
        assert_eq!(recvs(&net), [(5, first), (6, WcStatus::WrFlushErr)], "{len} bytes");
    }
    let mut net = rc();
    fails(&mut net, outside, 8, WcStatus::RemAccessErr);
    assert_eq!(recvs(&net), [], "there was none");
    assert_eq!(net.hosts[1].qp.state(), QpState::Err);
}

#[test]
fn what_the_qp_does_not_enable_or_align_is_an_invalid_request() {
    let access = AccessFlags::REMOTE_READ;
    let mut net = Net::new(Setup { access, ..Setup::new(QpType::Rc) });
    let op = SendOp::Write(remote(0));
    fails(&mut net, op, 8, WcStatus::RemInvReqErr);
    let mut net = rc();
    let op = SendOp::FetchAdd { remote: remote(4), add: 1 };
    fails(&mut net, op, 8, WcStatus::RemInvReqErr);
}

#[test]
fn a_recv_too_small_is_an_error_on_both_sides() {
    for len in [8, 600] {
        let mut net = rc();
        post_recv(&mut net, 5, len - 1);
        post_recv(&mut net, 6, 1000);
        fails(&mut net, SendOp::Send, len, WcStatus::RemInvReqErr);
        assert_eq!(recvs(&net), [(5, WcStatus::LocLenErr), (6, WcStatus::WrFlushErr)]);
        assert_eq!(net.hosts[1].failures, 1);
    }
}

#[test]
fn a_recv_with_a_bad_lkey_is_an_operational_error() {
    let mut net = rc();
    let bad = [Sge { addr: BASE, length: 64, lkey: 1 }];
    net.post_recv(1, &RecvWr { wr_id: 5, sg_list: &bad }).unwrap();
    fails(&mut net, SendOp::Send, 8, WcStatus::RemOpErr);
    assert_eq!(recvs(&net), [(5, WcStatus::LocProtErr)]);
}

#[test]
fn solicited_sends_say_so() {
    let mut net = rc();
    post_recv(&mut net, 5, 64);
    let list = sge(&net, 0, 0, 8);
    net.post_send(0, &SendWr::new(1, SendOp::Send, &list).flags(SendFlags::SOLICITED)).unwrap();
    net.run();
    assert_eq!(net.hosts[1].solicited, [true]);
}

#[test]
fn entering_err_flushes_and_reset_empties() {
    let mut net = rc();
    net.lose = Box::new(|_| true);
    post_recv(&mut net, 5, 64);
    let list = sge(&net, 1, 0, 8);
    let op = SendOp::Write(remote(0));
    net.post_send(1, &SendWr::new(1, op, &list)).unwrap();
    net.modify(1, &QpAttr::state(QpState::Err)).unwrap();
    net.post_send(1, &SendWr::new(2, op, &list)).unwrap();
    post_recv(&mut net, 6, 64);
    let order: Vec<_> = net.hosts[1].completed.iter().map(|(q, wc)| (*q, wc.wr_id, wc.status)).collect();
    let flushed = WcStatus::WrFlushErr;
    let expected = [
        (Queue::Send, 1, flushed),
        (Queue::Recv, 5, flushed),
        (Queue::Send, 2, flushed),
        (Queue::Recv, 6, flushed),
    ];
    assert_eq!(order, expected);
    net.modify(1, &QpAttr::state(QpState::Reset)).unwrap();
    assert!(net.post_send(1, &SendWr::new(3, op, &list)).is_err());
    assert!(net.hosts[1].qp.check_post_recv().is_err());
    net.lose = Box::new(|_| false);
    net.modify(0, &QpAttr::state(QpState::Reset)).unwrap();
    net.bring_up(0);
    net.bring_up(1);
    post(&mut net, 9, SendOp::Write(remote(0)), 8);
    net.run();
    assert_eq!(sends(&net), [(9, WcStatus::Success)]);
}

#[test]
fn sqd_starts_nothing_new() {
    let mut net = rc();
    net.modify(0, &QpAttr::state(QpState::Sqd)).unwrap();
    post(&mut net, 1, SendOp::Write(remote(0)), 8);
    net.run();
    assert_eq!(sends(&net), []);
    net.modify(0, &QpAttr::state(QpState::Rts)).unwrap();
    net.run();
    assert_eq!(sends(&net), [(1, WcStatus::Success)]);
}

#[test]
fn uc_send_queue_errors_lead_to_sqe() {
    let mut net = Net::new(Setup::new(QpType::Uc));
    let bad = [Sge { addr: BASE, length: 8, lkey: 0x77 }];
    let op = SendOp::Write(remote(0));
    net.post_send(0, &SendWr::new(1, op, &bad)).unwrap();
    post(&mut net, 2, op, 8);
    net.run();
    assert_eq!(sends(&net), [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(net.hosts[0].qp.state(), QpState::Sqe);
    net.modify(0, &QpAttr::state(QpState::Rts)).unwrap();
    post(&mut net, 3, op, 8);
    net.run();
    assert_eq!(sends(&net)[2], (3, WcStatus::Success));
}

#[test]
fn uc_drops_what_it_may_not_do() {
    let mut net = Net::new(Setup::new(QpType::Uc));
    post(&mut net, 1, SendOp::Write(RemoteAddr { addr: BASE, rkey: 1 }), 700);
    post(&mut net, 2, SendOp::Send, 700); // There is no RECV.
    net.run();
    post_recv(&mut net, 5, 100);
    post(&mut net, 3, SendOp::Send, 700); // Too long.
    post(&mut net, 4, SendOp::Send, 100);
    net.run();
    assert!(sends(&net).iter().all(|(_, s)| *s == WcStatus::Success));
    assert_eq!(recvs(&net), [(5, WcStatus::Success)], "the RECV served the message that fits");
    assert_eq!(net.hosts[1].qp.state(), QpState::Rts);
    assert_eq!(count(&net, 1, |_| true), 0, "UC does not answer");
}

#[test]
fn a_message_too_long_for_the_recv_of_an_srq_fails_that_recv() {
    let mut net = Net::new(Setup { srq: true, ..Setup::new(QpType::Uc) });
    post_recv(&mut net, 5, 100);
    post_recv(&mut net, 6, 100);
    post(&mut net, 3, SendOp::Send, 700);
    post(&mut net, 4, SendOp::Send, 100);
    net.run();
    assert_eq!(recvs(&net), [(5, WcStatus::LocLenErr), (6, WcStatus::Success)]);
}

fn datagram(net: &mut Net, qkey: u32, len: u32) -> Result<u32, doorbell_verbs::VerbsError> {
    let list = sge(net, 0, 0, len);
    let dest = UdDest { ah: AhHandle(3), qpn: 2, qkey };
    net.post_send(0, &SendWr::new(1, SendOp::SendWithImm(77), &list).flags(SIGNALED).to(dest))
}

#[test]
fn datagrams_leave_room_for_the_grh() {
    let mut net = Net::new(Setup::new(QpType::Ud));
    net.hosts[0].memory[..24].fill(9);
    post_recv(&mut net, 5, 64);
    datagram(&mut net, QKEY, 25).unwrap();
    net.run();
    assert_eq!(recvs(&net), [], "64 bytes are too few for 40 + 25");
    datagram(&mut net, 1 << 31, 24).unwrap(); // The QP's own Q_Key.
    net.run();
    let (_, wc) = net.hosts[1].completed[0];
    let expected = Wc {
        wr_id: 5,
        opcode: doorbell_verbs::WcOpcode::Recv,
        byte_len: 64,
        imm: Some(77),
        qp_num: 2,
        src_qp: 1,
        ..Wc::default()
    };
    assert_eq!(wc, expected);
    assert_eq!(net.hosts[1].memory[8192..8192 + 40], [0; 40]);
    assert_eq!(net.hosts[1].memory[8192 + 40..8192 + 64], [9; 24]);
    let source = net.log.last().unwrap().1.deth;
    assert_eq!(source, Some(Deth { qkey: QKEY, src_qp: 1 }));
}

#[test]
fn datagrams_with_another_q_key_are_dropped() {
    let mut net = Net::new(Setup::new(QpType::Ud));
    post_recv(&mut net, 5, 64);
    datagram(&mut net, QKEY + 1, 8).unwrap();
    net.run();
    assert_eq!((sends(&net), recvs(&net)), (vec![(1, WcStatus::Success)], vec![]));
}

#[test]
fn posting_refuses_what_the_transport_and_the_queue_forbid() {
    let mut net = Net::new(Setup::new(QpType::Ud));
    assert!(datagram(&mut net, QKEY, 257).is_err(), "over the MTU");
    let list = sge(&net, 0, 0, 8);
    assert!(net.post_send(0, &SendWr::new(1, SendOp::Send, &list)).is_err(), "no destination");
    let to = UdDest { ah: AhHandle(0), qpn: 2, qkey: 0 };
    let op = SendOp::Write(remote(0));
    assert!(net.post_send(0, &SendWr::new(1, op, &list).to(to)).is_err(), "no WRITE on UD");

    let mut net = rc();
    let read = SendOp::Read(remote(0));
    let add = SendOp::FetchAdd { remote: remote(0), add: 1 };
    let [one] = sge(&net, 0, 0, 8);
    let [long] = sge(&net, 0, 0, 65);
    let [half] = sge(&net, 0, 0, 4);
    let [huge] = sge(&net, 0, 0, 1 << 31);
    let refused: [(&str, SendOp, &[Sge], SendFlags); 7] = [
        ("four SGEs", SendOp::Send, &[one; 4], SendFlags::empty()),
        ("65 bytes inline", SendOp::Send, &[long], SendFlags::INLINE),
        ("READ inline", read, &[one], SendFlags::INLINE),
        ("atomic inline", add, &[one], SendFlags::INLINE),
        ("atomic of 4 bytes", add, &[half], SendFlags::empty()),
        ("atomic in two pieces", add, &[half, half], SendFlags::empty()),
        ("over 2^31 bytes", SendOp::Send, &[huge, one], SendFlags::empty()),
    ];
    for (what, op, list, flags) in refused {
        assert!(net.post_send(0, &SendWr::new(1, op, list).flags(flags)).is_err(), "{what}");
    }
    assert!(net.post_send(0, &SendWr::new(1, SendOp::Send, &[one]).to(to)).is_err(), "destination on RC");
    assert_eq!(net.hosts[0].qp.send_queue_len(), 0);

    let mut net = Net::new(Setup::new(QpType::Uc));
    assert!(net.post_send(0, &SendWr::new(1, read, &[one])).is_err(), "no READ on UC");
    let mut net = Net::down(Setup::new(QpType::Rc));
    assert!(net.post_send(0, &SendWr::new(1, SendOp::Send, &[one])).is_err(), "Reset");
}

#[test]
fn transitions_need_their_attributes_and_no_others() {
    let mut needed = [0; 3];
    for (kind, qp_type) in [QpType::Rc, QpType::Uc, QpType::Ud].into_iter().enumerate() {
        let states = [QpState::Reset, QpState::Init, QpState::Rtr];
        for (from, attr) in states.into_iter().zip(attributes(&Setup::new(qp_type), 2)) {
            assert_eq!(check_modify(from, qp_type, &attr), Ok(attr.qp_state.unwrap()));
            let without: [fn(&mut QpAttr); 15] = [
                |a| a.pkey_index = None,
                |a| a.port_num = None,
                |a| a.qp_access_flags = None,
                |a| a.qkey = None,
                |a| a.path_mtu = None,
                |a| a.dest_qp_num = None,
                |a| a.rq_psn = None,
                |a| a.ah_attr = None,
                |a| a.max_dest_rd_atomic = None,
                |a| a.min_rnr_timer = None,
                |a| a.sq_psn = None,
                |a| a.timeout = None,
                |a| a.retry_cnt = None,
                |a| a.rnr_retry = None,
                |a| a.max_rd_atomic = None,
            ];
            for remove in without {
                let mut less = attr;
                remove(&mut less);
                if less != attr {
                    assert!(check_modify(from, qp_type, &less).is_err(), "{less:?}");
                    needed[kind] += 1;
                }
            }
        }
    }
    assert_eq!(needed, [14, 8, 4]);
    let rts = QpAttr::state(QpState::Rts);
    for from in [QpState::Reset, QpState::Init, QpState::Err] {
        assert!(check_modify(from, QpType::Rc, &rts).is_err());
    }
    assert!(check_modify(QpState::Sqe, QpType::Rc, &rts).is_err());
    assert!(check_modify(QpState::Sqe, QpType::Uc, &rts).is_ok());
    let extra = QpAttr { path_mtu: Some(doorbell_verbs::Mtu::Mtu256), ..rts };
    assert!(check_modify(QpState::Sqd, QpType::Rc, &extra).is_err());
    for from in
        [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Err]
    {
        assert_eq!(check_modify(from, QpType::Ud, &QpAttr::state(QpState::Err)), Ok(QpState::Err));
        assert_eq!(check_modify(from, QpType::Ud, &QpAttr::state(QpState::Reset)), Ok(QpState::Reset));
    }
    let [_, _, last] = attributes(&Setup::new(QpType::Rc), 2);
    for bad in [
        QpAttr { sq_psn: Some(1 << 24), ..last },
        QpAttr { timeout: Some(32), ..last },
        QpAttr { retry_cnt: Some(8), ..last },
        QpAttr { rnr_retry: Some(8), ..last },
    ] {
        assert!(check_modify(QpState::Rtr, QpType::Rc, &bad).is_err(), "{bad:?}");
    }
    for (from, attr, taken) in [
        (QpState::Init, QpAttr { qp_state: None, ..last }, "takes only IBV_QP_PKEY_INDEX, IBV_QP_PORT, "),
        (QpState::Rtr, QpAttr::default(), "IBV_QPS_RTR, where a QP of type RC takes no attributes"),
        (QpState::Rts, QpAttr { sq_psn: Some(0), ..QpAttr::default() }, "takes only IBV_QP_ACCESS_FLAGS, "),
    ] {
        let refused = check_modify(from, QpType::Rc, &attr).expect_err("it is refused");
        assert!(refused.to_string().starts_with("attr_mask lacks IBV_QP_STATE, so the QP stays in "));
        assert!(refused.to_string().contains(taken), "{refused}");
    }
    let any_timer = QpAttr { min_rnr_timer: Some(255), ..last };
    assert_eq!(check_modify(QpState::Rtr, QpType::Rc, &any_timer), Ok(QpState::Rts));
}
