//! Two threads WRITE the number of the round into each other's memory. Each thread waits for the peer's
//! number by polling its own memory. It polls the CQ only to free slots of the send queue.

use super::ending::{SampleEnded, finish, patience};
use doorbell_verbs::{
    AccessFlags, Cluster, ConnectAttr, Context, Cpu, Endpoint, Mem, PageSize, Program, Provider, QpCap,
    QpInitAttr, QpType, RemoteAddr, SendFlags, SendOp, SendWr, WcStatus,
};

const ROUNDS: u64 = 1_000;
/// One WRITE in this many is signalled. The send queue has room for twice as many.
const SIGNAL_EVERY: u64 = 16;

struct WriteSide {
    me: u32,
}

pub(super) fn run<C: Cluster>(cluster: &mut C) -> Result<(), String> {
    let tasks = [cluster.spawn(0, 0, WriteSide { me: 0 }), cluster.spawn(1, 0, WriteSide { me: 1 })];
    finish(cluster, &tasks)
}

impl Program for WriteSide {
    type Output = SampleEnded;

    fn run<P: Provider>(self, p: P) -> SampleEnded {
        let peer = 1 - self.me;
        let device = Context::open(&p, 0)?;
        let pd = device.alloc_pd()?;
        let cq = device.create_cq(8)?;
        let cap = QpCap { max_send_wr: 2 * SIGNAL_EVERY as u32, max_inline_data: 8, ..QpCap::default() };
        let qp = pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap))?;

        // The peer writes to the inbox. The outbox is sent inline, so it needs no memory region.
        let inbox = p.alloc(8, PageSize::Small)?;
        let outbox = p.alloc(8, PageSize::Small)?;
        let region = pd.reg_mr(inbox, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)?;
        let payload = [doorbell_verbs::Sge { addr: outbox.addr(0), length: 8, lkey: 0 }];

        p.publish(&format!("inbox/{}", self.me), &region.remote(0).to_bytes());
        p.publish(&format!("qp/{}", self.me), &qp.endpoint(1)?.to_bytes());
        let target = RemoteAddr::from_bytes(&p.lookup(&format!("inbox/{peer}")))?;
        let remote = Endpoint::from_bytes(&p.lookup(&format!("qp/{peer}")))?;
        qp.connect(1, &remote, &ConnectAttr::default())?;
        // The peer must be able to receive before the first WRITE.
        p.publish(&format!("connected/{}", self.me), &[]);
        p.lookup(&format!("connected/{peer}"));

        for round in 1..=ROUNDS {
            if self.me == 1 {
                wait_for(&p, inbox, round)?;
            }
            p.store_u64(outbox, 0, round);
            let signalled = round.is_multiple_of(SIGNAL_EVERY) || round == ROUNDS;
            let flags = if signalled { SendFlags::INLINE | SendFlags::SIGNALED } else { SendFlags::INLINE };
            qp.post_send(&[SendWr::new(round, SendOp::Write(target), &payload).flags(flags)])?;
            if signalled {
                let wc = cq.wait(patience(&p))?.ok_or("no completion arrived")?;
                if (wc.wr_id, wc.status) != (round, WcStatus::Success) {
                    return Err(format!("round {round}: {wc:?}").into());
                }
            }
            if self.me == 0 {
                wait_for(&p, inbox, round)?;
            }
        }

        // A destroyed QP sends no ACKs, so wait until the peer has its last completion.
        p.publish(&format!("done/{}", self.me), &[]);
        p.lookup(&format!("done/{peer}"));
        Ok(())
    }
}

/// Polls the inbox until it holds `value`, the only value that may come next.
fn wait_for<C: Cpu + Provider>(p: &C, inbox: Mem, value: u64) -> SampleEnded {
    let deadline = patience(p);
    loop {
        let seen = p.load_u64(inbox, 0);
        if seen == value {
            return Ok(());
        }
        if seen != value - 1 {
            return Err(format!("the inbox holds {seen}, but {value} is expected").into());
        }
        if p.now() >= deadline {
            return Err(format!("round {value} did not arrive").into());
        }
        p.pause(deadline);
    }
}
