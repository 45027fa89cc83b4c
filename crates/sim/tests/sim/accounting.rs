//! The simulator's PCIe traffic matches the accounting, and so do its counters.

use crate::common::{ALL, Node, Passive, profile};
use doorbell_nic::accounting::{self, PostShape, RecvShape, Transactions};
use doorbell_sim::{PcieUse, SimCluster, SimConfig};
use doorbell_verbs::{
    Ah, Cluster, Context, Endpoint, Opcode, PageSize, Program, Provider, QpCap, QpInitAttr, QpType, RecvWr,
    RemoteAddr, SendFlags, SendOp, SendWr, Span, Time, Wc,
};

const QKEY: u32 = 7;

/// Posts `rounds` batches of a shape. Each begins after the last has surely ended.
struct Posts {
    shape: PostShape,
    rounds: u64,
    requester: bool,
}

impl Posts {
    fn op(&self, remote: RemoteAddr) -> SendOp {
        match self.shape.opcode {
            Opcode::Send => SendOp::Send,
            Opcode::SendWithImm => SendOp::SendWithImm(1),
            Opcode::Write => SendOp::Write(remote),
            Opcode::WriteWithImm => SendOp::WriteWithImm(remote, 1),
            Opcode::Read => SendOp::Read(remote),
            Opcode::CompareSwap => SendOp::CompareSwap { remote, compare: 0, swap: 0 },
            Opcode::FetchAdd => SendOp::FetchAdd { remote, add: 1 },
        }
    }

    fn flags(&self) -> SendFlags {
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::INLINE, self.shape.inline);
        flags.set(SendFlags::SIGNALED, self.shape.signaled);
        flags
    }
}

/// Lets virtual time pass.
fn sleep<P: Provider>(p: &P, span: Span) {
    let until = p.now() + span;
    while p.now() < until {
        p.pause(until);
    }
}

impl Program for Posts {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let transport = self.shape.qp_type;
        let context = Context::open(&p, 0).expect("device 0");
        let pd = context.alloc_pd().expect("a PD");
        let cq = context.create_cq(1024).expect("a CQ");
        let mr = pd.reg_mr(p.alloc(1 << 16, PageSize::Huge).expect("memory"), ALL).expect("an MR");
        let cap = QpCap { max_send_wr: 256, max_recv_wr: 256, max_inline_data: 256, ..QpCap::default() };
        let qp = pd.create_qp(&cq, &cq, None, &QpInitAttr::new(transport, cap)).expect("a QP");
        let (me, peer) = if self.requester { ("a", "b") } else { ("b", "a") };
        p.publish(&format!("{me}/qp"), &qp.endpoint(1).expect("port 1").to_bytes());
        p.publish(&format!("{me}/mem"), &mr.remote(0).to_bytes());
        let remote = Endpoint::from_bytes(&p.lookup(&format!("{peer}/qp"))).expect("an endpoint");
        let memory = RemoteAddr::from_bytes(&p.lookup(&format!("{peer}/mem"))).expect("an address");
        match transport {
            QpType::Ud => qp.activate(1, QKEY).expect("ready"),
            _ => qp.connect(1, &remote, &Default::default()).expect("connected"),
        }
        let ah = Ah::to_endpoint(&pd, 1, &remote).expect("an address handle");
        let batch = self.shape.method.wqes();
        let takes = [mr.sge(0, self.shape.payload + 40)];
        let recvs = vec![RecvWr { wr_id: 0, sg_list: &takes }; batch as usize];
        let gives = [mr.sge(0, self.shape.payload)];
        let mut wr = SendWr::new(0, self.op(memory), if self.shape.sges == 0 { &[] } else { &gives });
        if transport == QpType::Ud {
            wr = wr.to(ah.dest(remote.qpn, QKEY));
        }
        let wrs = vec![wr.flags(self.flags()); batch as usize];
        sleep(&p, Span::from_us(100));
        for _ in 0..self.rounds {
            if self.requester {
                sleep(&p, Span::from_us(50));
                qp.post_send(&wrs).expect("room");
                sleep(&p, Span::from_us(50));
            } else {
                if self.shape.opcode.consumes_recv() {
                    qp.post_recv(&recvs).expect("room");
                }
                sleep(&p, Span::from_us(100));
            }
            while !cq.poll(&mut [Wc::default(); 16]).expect("a CQ").is_empty() {}
        }
        p.publish(&format!("{me}/over"), &[]);
        p.lookup(&format!("{peer}/over"));
    }
}

fn traffic(shape: PostShape, rounds: u64) -> Vec<PcieUse> {
    let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(2));
    cluster.spawn(0, 0, Posts { shape, rounds, requester: true });
    cluster.spawn(1, 0, Posts { shape, rounds, requester: false });
    cluster.run().expect("the run ends");
    cluster.metrics().pcie
}

/// Checks that `n` further rounds cost `n` times the accounting's amount.
fn same(what: &str, few: &PcieUse, many: &PcieUse, n: u64, expected: Transactions) {
    let got = [
        many.mmio_bytes - few.mmio_bytes,
        many.dma_read_bytes - few.dma_read_bytes,
        many.dma_write_bytes - few.dma_write_bytes,
    ];
    let expected = expected.times(n);
    assert_eq!(
        got,
        [expected.mmio_bytes, expected.dma_read_bytes, expected.dma_write_bytes],
        "{what}: MMIO, DMA read and DMA write bytes"
    );
}

#[test]
fn the_simulator_spends_what_the_accounting_says() {
    let profile = profile("cib");
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        for opcode in Opcode::ALL.into_iter().filter(|o| o.is_offered_by(qp_type)) {
            for payload in [0, 1, 28, 64, 200, 5000] {
                let payload = if opcode.is_atomic() { 8 } else { payload };
                for (inline, signaled, batch) in
                    [(false, true, 1), (true, true, 1), (true, false, 4), (false, true, 7)]
                {
                    let fits = payload <= 256 || !inline;
                    if !fits || (inline && opcode.returns_data()) || (qp_type == QpType::Ud && payload > 4096)
                    {
                        continue;
                    }
                    let sges = u32::from(payload > 0);
                    let method = profile.device.generation.posting().method(batch);
                    let shape = PostShape { opcode, qp_type, payload, sges, inline, signaled, method };
                    let (few, many) = (traffic(shape, 1), traffic(shape, 3));
                    same(
                        &format!("requester of {shape:?}"),
                        &few[0],
                        &many[0],
                        2,
                        accounting::requester(&profile, &shape),
                    );
                    let recvs = if opcode.consumes_recv() { batch } else { 0 };
                    let answers = accounting::responder(
                        &profile,
                        opcode,
                        qp_type,
                        payload,
                        RecvShape { inline: false },
                    )
                    .times(u64::from(batch));
                    let expected = answers + accounting::post_recv(&profile, recvs, 1);
                    same(&format!("responder of {shape:?}"), &few[1], &many[1], 2, expected);
                }
            }
        }
    }
}

/// READs 4 bytes at `offset`, `rounds` times.
struct ReadsFour {
    offset: u64,
    rounds: u64,
}

impl Program for ReadsFour {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 4096, 64);
        let remote = node.connect(&p, "a", "b");
        for n in 0..self.rounds {
            let sge = [node.mr.sge(0, 4)];
            let wr = SendWr::new(n, SendOp::Read(remote.at(self.offset)), &sge).flags(SendFlags::SIGNALED);
            node.qp.post_send(&[wr]).expect("room");
            node.cq.wait(Time::NEVER).expect("a CQ");
        }
        p.publish("a/over", &[]);
    }
}

/// The counter of DMA reads counts cache lines: 4 bytes that straddle two lines count twice (ATC'16, 2.1,
/// footnote 2; claim atc16-s21-counter-straddle).
#[test]
fn a_read_across_two_lines_counts_twice() {
    let rdcur = |offset, rounds| {
        let mut cluster = SimCluster::new(&profile("cib"), SimConfig::new(2));
        cluster.spawn(0, 0, ReadsFour { offset, rounds });
        cluster.spawn(1, 0, Passive { me: "b".into(), peer: "a".into() });
        cluster.run().expect("the run ends");
        cluster.metrics().pcie[1].rdcur
    };
    assert_eq!(rdcur(128, 11) - rdcur(128, 1), 10);
    assert_eq!(rdcur(126, 11) - rdcur(126, 1), 20);
}
