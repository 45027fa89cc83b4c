//! Programs that the tests share.

pub(crate) mod profiles;
pub(crate) mod trace;

use doorbell_nic::Profile;
use doorbell_sim::{Metrics, SimCluster, SimConfig};
use doorbell_verbs::{
    AccessFlags, Cluster, ConnectAttr, Context, Cq, Endpoint, Mr, OperationKey, OperationStep, PageSize, Pd,
    Program, Provider, Qp, QpCap, QpInitAttr, QpType, RemoteAddr, SendFlags, SendOp, SendWr, Span, Task,
    Time, Wc,
};

pub(crate) fn profile(name: &str) -> Profile {
    Profile::named(name).expect("a built-in profile")
}

/// A device with memory, a CQ and an RC QP.
pub(crate) struct Node<P: Provider> {
    pub(crate) context: Context<P>,
    pub(crate) pd: Pd<P>,
    pub(crate) cq: Cq<P>,
    pub(crate) mr: Mr<P>,
    pub(crate) qp: Qp<P>,
}

pub(crate) const ALL: AccessFlags = AccessFlags::all();

impl<P: Provider> Node<P> {
    pub(crate) fn new(p: &P, bytes: u64, depth: u32) -> Node<P> {
        Node::on_device(p, 0, bytes, depth)
    }

    pub(crate) fn on_device(p: &P, index: u32, bytes: u64, depth: u32) -> Node<P> {
        let context = Context::open(p, index).expect("a device");
        let pd = context.alloc_pd().expect("a PD");
        let cq = context.create_cq(2 * depth).expect("a CQ");
        let mem = p.alloc(bytes, PageSize::Huge).expect("memory");
        let mr = pd.reg_mr(mem, ALL).expect("an MR");
        let cap = QpCap { max_send_wr: depth, max_recv_wr: depth, max_inline_data: 64, ..QpCap::default() };
        let qp = pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap)).expect("a QP");
        Node { context, pd, cq, mr, qp }
    }

    /// Connects to the node named `peer`. This node is named `me`.
    pub(crate) fn connect(&self, p: &P, me: &str, peer: &str) -> RemoteAddr {
        self.connect_by(p, me, peer, &ConnectAttr::default())
    }

    /// Connects to the node named `peer`, with time-outs that are short enough to occur.
    pub(crate) fn connect_hastily(&self, p: &P, me: &str, peer: &str) -> RemoteAddr {
        self.connect_by(p, me, peer, &ConnectAttr { access: ALL, timeout: 3, ..ConnectAttr::default() })
    }

    fn connect_by(&self, p: &P, me: &str, peer: &str, attr: &ConnectAttr) -> RemoteAddr {
        p.publish(&format!("{me}/qp"), &self.qp.endpoint(1).expect("port 1").to_bytes());
        p.publish(&format!("{me}/mem"), &self.mr.remote(0).to_bytes());
        let remote = Endpoint::from_bytes(&p.lookup(&format!("{peer}/qp"))).expect("an endpoint");
        self.qp.connect(1, &remote, attr).expect("a connection");
        p.publish(&format!("{me}/ready"), &[]);
        p.lookup(&format!("{peer}/ready"));
        RemoteAddr::from_bytes(&p.lookup(&format!("{peer}/mem"))).expect("an address")
    }
}

/// READs from its peer in rounds of `window` READs, `rounds` times. Returns when each round was done.
pub(crate) struct Reader {
    pub(crate) me: String,
    pub(crate) peer: String,
    pub(crate) window: u64,
    pub(crate) rounds: u64,
}

impl Program for Reader {
    type Output = Vec<Time>;

    fn run<P: Provider>(self, p: P) -> Vec<Time> {
        let node = Node::new(&p, 4096, 256);
        let remote = node.connect(&p, &self.me, &self.peer);
        let mut wc = [Wc::default(); 16];
        let mut done = Vec::new();
        for _ in 0..self.rounds {
            for n in 0..self.window {
                let sge = [node.mr.sge(8 * n, 8)];
                let wr = SendWr::new(n, SendOp::Read(remote.at(8 * n)), &sge).flags(SendFlags::SIGNALED);
                node.qp.post_send(&[wr]).expect("room");
            }
            let mut left = self.window;
            while left > 0 {
                let n = node.cq.poll(&mut wc).expect("a CQ").len() as u64;
                left -= n;
                if n == 0 {
                    p.pause(Time::NEVER);
                }
            }
            done.push(p.now());
        }
        p.publish(&format!("{}/over", self.me), &[]);
        done
    }
}

/// Serves as the target of READs until its peer is done.
pub(crate) struct Passive {
    pub(crate) me: String,
    pub(crate) peer: String,
}

impl Program for Passive {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 4096, 16);
        node.connect(&p, &self.me, &self.peer);
        p.lookup(&format!("{}/over", self.peer));
    }
}

/// Writes a growing number to its peer's memory whenever its own memory was written, `rounds` times. Marks
/// each round as an operation.
pub(crate) struct PingPong {
    pub(crate) first: bool,
    pub(crate) rounds: u64,
    /// Work in each pass, to vary the pass's length.
    pub(crate) work: Span,
}

impl Program for PingPong {
    type Output = Vec<Time>;

    fn run<P: Provider>(self, p: P) -> Vec<Time> {
        let (me, peer) = if self.first { ("a", "b") } else { ("b", "a") };
        let node = Node::new(&p, 4096, 64);
        let remote = node.connect(&p, me, peer);
        let mem = node.mr.mem();
        let mut seen = Vec::new();
        let mut wc = [Wc::default(); 8];
        for n in 1..=self.rounds {
            let (round, since) = (OperationKey(n), p.now());
            if self.first {
                p.mark(round, OperationStep::Begins);
                self.send(&p, &node, remote, n);
            }
            while p.load_u64(mem, 0) != n {
                p.work(self.work);
                p.pause(Time::NEVER);
            }
            seen.push(p.now());
            p.mark(round, OperationStep::Finds);
            if self.first {
                p.mark(round, OperationStep::Ends { since });
            } else {
                self.send(&p, &node, remote, n);
            }
            node.cq.poll(&mut wc).expect("a CQ");
        }
        p.publish(&format!("{me}/over"), &[]);
        p.lookup(&format!("{peer}/over"));
        seen
    }
}

impl PingPong {
    fn send<P: Provider>(&self, p: &P, node: &Node<P>, remote: RemoteAddr, n: u64) {
        p.store_u64(node.mr.mem(), 64, n);
        p.mark(OperationKey(n), OperationStep::Posts);
        let sge = [node.mr.sge(64, 8)];
        let wr = SendWr::new(n, SendOp::Write(remote), &sge).flags(SendFlags::INLINE | SendFlags::SIGNALED);
        node.qp.post_send(&[wr]).expect("room");
    }
}

/// Runs readers on machine 0. Each has its own peer on machine 1.
pub(crate) fn read_run(
    config: SimConfig,
    name: &str,
    threads: u32,
    window: u64,
    rounds: u64,
) -> (Vec<Vec<Time>>, Metrics) {
    let mut cluster = SimCluster::new(&profile(name), config);
    let tasks: Vec<Task<Vec<Time>>> = (0..threads)
        .map(|t| {
            let (me, peer) = (format!("r{t}"), format!("p{t}"));
            cluster.spawn(1, t, Passive { me: peer.clone(), peer: me.clone() });
            cluster.spawn(0, t, Reader { me, peer, window, rounds })
        })
        .collect();
    cluster.run().expect("the run ends");
    (tasks.iter().map(|t| t.take().expect("a result")).collect(), cluster.metrics())
}

pub(crate) fn ping_pong_run(
    config: SimConfig,
    name: &str,
    rounds: u64,
    work: Span,
) -> (Vec<Vec<Time>>, Metrics) {
    let mut cluster = SimCluster::new(&profile(name), config);
    let tasks =
        [true, false].map(|first| cluster.spawn(u32::from(!first), 0, PingPong { first, rounds, work }));
    cluster.run().expect("the run ends");
    (tasks.iter().map(|t| t.take().expect("a result")).collect(), cluster.metrics())
}
