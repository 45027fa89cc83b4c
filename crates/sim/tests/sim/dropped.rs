//! Messages that are counted as dropped because no RECV was posted.

use crate::common::profile;
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_verbs::{
    AccessFlags, Cluster, ConnectAttr, Context, Endpoint, PageSize, Program, Provider, QpCap, QpInitAttr,
    QpType, RecvWr, SendFlags, SendOp, SendWr, Span,
};

/// Bytes of a message: three packets.
const MESSAGE: u32 = 10_000;

/// Connects to its peer over UC, posts `recvs` RECVs and then `sends` SENDs, and gives them time to arrive.
struct End {
    names: [&'static str; 2],
    recvs: u64,
    sends: u64,
}

impl Program for End {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let context = Context::open(&p, 0).expect("device 0");
        let pd = context.alloc_pd().expect("a PD");
        let cq = context.create_cq(16).expect("a CQ");
        let memory = p.alloc(1 << 16, PageSize::Huge).expect("memory");
        let mr = pd.reg_mr(memory, AccessFlags::all()).expect("an MR");
        let attr = QpInitAttr::new(QpType::Uc, QpCap::default());
        let qp = pd.create_qp(&cq, &cq, None, &attr).expect("a QP");
        p.publish(self.names[0], &qp.endpoint(1).expect("port 1").to_bytes());
        let remote = Endpoint::from_bytes(&p.lookup(self.names[1])).expect("an endpoint");
        qp.connect(1, &remote, &ConnectAttr::default()).expect("a connection");
        let sge = [mr.sge(0, MESSAGE)];
        for wr_id in 0..self.recvs {
            qp.post_recv(&[RecvWr { wr_id, sg_list: &sge }]).expect("room");
        }
        match self.sends {
            0 => p.publish("ready", &[]),
            _ => drop(p.lookup("ready")),
        }
        for wr_id in 0..self.sends {
            let wr = SendWr::new(wr_id, SendOp::Send, &sge).flags(SendFlags::SIGNALED);
            qp.post_send(&[wr]).expect("room");
        }
        let end = p.now() + Span::from_us(100);
        while p.now() < end {
            p.pause(end);
        }
    }
}

#[test]
fn a_message_of_several_packets_is_dropped_once_or_not_at_all() {
    let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(2));
    cluster.spawn(0, 0, End { names: ["a", "b"], recvs: 0, sends: 3 });
    cluster.spawn(1, 0, End { names: ["b", "a"], recvs: 2, sends: 0 });
    cluster.run().expect("the run ends");
    let metrics = cluster.metrics();
    assert_eq!((metrics.accounts.received, metrics.dropped), (2, 1));
}
