//! Two threads SEND each other datagrams, which contain the number of the round.

use super::ending::{SampleEnded, finish, patience};
use doorbell_verbs::{
    AccessFlags, Ah, Cluster, Context, Cq, Endpoint, GRH_BYTES, Mr, PageSize, Program, Provider, Qp, QpCap,
    QpInitAttr, QpType, RecvWr, SendFlags, SendOp, SendWr, Sge, Wc, WcOpcode, WcStatus,
};

const ROUNDS: u64 = 1_000;
const QKEY: u32 = 0x1234;
/// One SEND in this many is signalled.
const SIGNAL_EVERY: u64 = 16;
/// RECVs that stay posted, each with its own slot.
const RECVS: u64 = 4;
/// Bytes of a slot: the GRH and the number, aligned.
const SLOT: u64 = 64;

struct DatagramSide {
    me: u32,
}

pub(super) fn run<C: Cluster>(cluster: &mut C) -> Result<(), String> {
    let tasks = [cluster.spawn(0, 0, DatagramSide { me: 0 }), cluster.spawn(1, 0, DatagramSide { me: 1 })];
    finish(cluster, &tasks)
}

impl Program for DatagramSide {
    type Output = SampleEnded;

    fn run<P: Provider>(self, p: P) -> SampleEnded {
        let peer = 1 - self.me;
        let device = Context::open(&p, 0)?;
        let pd = device.alloc_pd()?;
        let (sent, received) = (device.create_cq(4)?, device.create_cq(RECVS as u32)?);
        let cap = QpCap { max_send_wr: 2 * SIGNAL_EVERY as u32, max_inline_data: 8, ..QpCap::default() };
        let qp = pd.create_qp(&sent, &received, None, &QpInitAttr::new(QpType::Ud, cap))?;
        qp.activate(1, QKEY)?;

        // Post the RECVs before the peer can know this QP, because datagrams without a RECV are lost.
        let slots = pd.reg_mr(p.alloc(RECVS * SLOT, PageSize::Small)?, AccessFlags::LOCAL_WRITE)?;
        for slot in 0..RECVS {
            post_slot(&qp, &slots, slot)?;
        }
        let outbox = p.alloc(8, PageSize::Small)?;
        let payload = [Sge { addr: outbox.addr(0), length: 8, lkey: 0 }];

        p.publish(&format!("qp/{}", self.me), &qp.endpoint(1)?.to_bytes());
        let remote = Endpoint::from_bytes(&p.lookup(&format!("qp/{peer}")))?;
        let ah = Ah::to_endpoint(&pd, 1, &remote)?;
        let dest = ah.dest(remote.qpn, QKEY);

        for round in 1..=ROUNDS {
            if self.me == 1 {
                receive(&p, &qp, &received, &slots, &remote, round)?;
            }
            p.store_u64(outbox, 0, round);
            let signalled = round.is_multiple_of(SIGNAL_EVERY) || round == ROUNDS;
            let flags = if signalled { SendFlags::INLINE | SendFlags::SIGNALED } else { SendFlags::INLINE };
            qp.post_send(&[SendWr::new(round, SendOp::Send, &payload).flags(flags).to(dest)])?;
            if signalled {
                let wc = sent.wait(patience(&p))?.ok_or("no completion arrived")?;
                if (wc.wr_id, wc.status, wc.opcode) != (round, WcStatus::Success, WcOpcode::Send) {
                    return Err(format!("round {round}: {wc:?}").into());
                }
            }
            if self.me == 0 {
                receive(&p, &qp, &received, &slots, &remote, round)?;
            }
        }
        Ok(())
    }
}

/// Posts the RECV of a slot. Its `wr_id` is the number of the slot.
fn post_slot<P: Provider>(qp: &Qp<P>, slots: &Mr<P>, slot: u64) -> SampleEnded {
    qp.post_recv(&[RecvWr { wr_id: slot, sg_list: &[slots.sge(slot * SLOT, SLOT as u32)] }])?;
    Ok(())
}

/// Waits for the datagram of `round`, checks it and posts its RECV again.
fn receive<P: Provider>(
    p: &P,
    qp: &Qp<P>,
    cq: &Cq<P>,
    slots: &Mr<P>,
    from: &Endpoint,
    round: u64,
) -> SampleEnded {
    let wc = cq.wait(patience(p))?.ok_or_else(|| format!("datagram {round} did not arrive"))?;
    let expected = Wc {
        wr_id: (round - 1) % RECVS,
        opcode: WcOpcode::Recv,
        byte_len: GRH_BYTES + 8,
        qp_num: qp.qp_num(),
        src_qp: from.qpn,
        slid: from.lid,
        ..Wc::default()
    };
    if wc != expected {
        return Err(format!("round {round}: {wc:?} instead of {expected:?}").into());
    }
    let number = p.load_u64(slots.mem(), wc.wr_id * SLOT + u64::from(GRH_BYTES));
    if number != round {
        return Err(format!("the datagram of round {round} holds {number}").into());
    }
    post_slot(qp, slots, wc.wr_id)
}
