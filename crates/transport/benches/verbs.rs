//! The cost of a verb in the state machines, without a network: post, request, answer, completion.

use criterion::{Criterion, criterion_group, criterion_main};
use doorbell_transport::{Action, Keys, Qp, RecvQueue, Region};
use doorbell_verbs::{
    AccessFlags, AhAttr, AhHandle, Mtu, QpAttr, QpCap, QpInitAttr, QpState, QpType, RecvWr, RemoteAddr,
    SendFlags, SendOp, SendWr, Sge, Time, UdDest,
};
use std::hint::black_box;

struct Host {
    qp: Qp,
    rq: RecvQueue,
    keys: Keys,
    key: u32,
}

const BASE: u64 = 4096;

fn host(num: u32, qp_type: QpType) -> Host {
    let mut out = Vec::new();
    let mut keys = Keys::default();
    let key = keys.register(Region { pd: 1, addr: BASE, len: 4096, access: AccessFlags::all() });
    let mut rq = RecvQueue::new(1, 128, 1);
    let mut qp = Qp::new(num, 1, &QpInitAttr::new(qp_type, QpCap::default()), false);
    let (rc, ud) = (qp_type == QpType::Rc, qp_type == QpType::Ud);
    let path = AhAttr { port_num: 1, dlid: 1, sl: 0, grh: None };
    let init = QpAttr {
        qp_state: Some(QpState::Init),
        pkey_index: Some(0),
        port_num: Some(1),
        qp_access_flags: (!ud).then_some(AccessFlags::all() - AccessFlags::LOCAL_WRITE),
        qkey: ud.then_some(1),
        ..QpAttr::default()
    };
    let rtr = QpAttr {
        qp_state: Some(QpState::Rtr),
        ah_attr: (!ud).then_some(path),
        path_mtu: (!ud).then_some(Mtu::Mtu4096),
        dest_qp_num: (!ud).then_some(3 - num),
        rq_psn: (!ud).then_some(0),
        max_dest_rd_atomic: rc.then_some(16),
        min_rnr_timer: rc.then_some(12),
        ..QpAttr::default()
    };
    let rts = QpAttr {
        qp_state: Some(QpState::Rts),
        sq_psn: Some(0),
        timeout: rc.then_some(14),
        retry_cnt: rc.then_some(7),
        rnr_retry: rc.then_some(7),
        max_rd_atomic: rc.then_some(16),
        ..QpAttr::default()
    };
    for attr in [init, rtr, rts] {
        qp.modify(&attr, &mut rq, &mut out).expect("the way to Rts");
    }
    Host { qp, rq, keys, key }
}

/// One verb from post to completion on both sides.
fn verb(a: &mut Host, b: &mut Host, op: SendOp, dest: Option<UdDest>, out: &mut Vec<Action>) {
    let now = Time::START;
    let sge = |key| [Sge { addr: BASE, length: 64, lkey: key }];
    if op.opcode().consumes_recv() {
        let list = [Sge { addr: BASE, length: 128, lkey: b.key }];
        b.rq.post(&RecvWr { wr_id: 1, sg_list: &list }).expect("room");
        b.rq.ring(1);
    }
    let wr = SendWr { wr_id: 1, op, sg_list: &sge(a.key), flags: SendFlags::SIGNALED, dest };
    let slot = a.qp.post_send(&wr).expect("room");
    a.qp.ring(1, out);
    let tx = a.qp.next_request(now, &a.keys, out).expect("a request");
    b.qp.receive(now, &tx.packet, &b.keys, &mut b.rq, out);
    if let Some(action) = out.pop() {
        match action {
            Action::Respond(tx) => a.qp.receive(now, &tx.packet, &a.keys, &mut a.rq, out),
            Action::RespondRead(stream) => {
                for tx in stream {
                    a.qp.receive(now, &tx.packet, &a.keys, &mut a.rq, out);
                }
            }
            _ => {}
        }
    }
    a.qp.release(slot);
    black_box(&out);
    out.clear();
}

fn verbs(c: &mut Criterion) {
    let mut out = Vec::with_capacity(16);
    let remote = RemoteAddr { addr: BASE, rkey: 1 << 8 };
    let dest = UdDest { ah: AhHandle(0), qpn: 2, qkey: 1 };
    let cases = [
        ("rc_write", QpType::Rc, SendOp::Write(remote), None),
        ("rc_read", QpType::Rc, SendOp::Read(remote), None),
        ("rc_send", QpType::Rc, SendOp::Send, None),
        ("uc_write", QpType::Uc, SendOp::Write(remote), None),
        ("ud_send", QpType::Ud, SendOp::Send, Some(dest)),
    ];
    for (name, qp_type, op, dest) in cases {
        let (mut a, mut b) = (host(1, qp_type), host(2, qp_type));
        assert_eq!(a.key, remote.rkey);
        c.bench_function(name, |bench| bench.iter(|| verb(&mut a, &mut b, op, dest, &mut out)));
    }
}

criterion_group!(benches, verbs);
criterion_main!(benches);
