//! Links that lose, duplicate and delay packets. RC repairs the faults; other transports show them.

use crate::common::{Node, profile};
use doorbell_sim::{Layers, Metrics, SimCluster, SimConfig};
use doorbell_verbs::{Cluster, Program, Provider, SendFlags, SendOp, SendWr, Span, Time, Wc, WcStatus};

const ROUNDS: u64 = 300;

/// In each round, WRITEs two packets of one number, adds one to a counter, and READs both back.
struct Works;

impl Program for Works {
    type Output = Vec<WcStatus>;

    fn run<P: Provider>(self, p: P) -> Vec<WcStatus> {
        let node = Node::new(&p, 1 << 16, 64);
        let remote = node.connect_hastily(&p, "a", "b");
        let mem = node.mr.mem();
        let mut failed = Vec::new();
        for n in 1..=ROUNDS {
            p.write(mem, 0, &vec![n as u8; 8000]);
            let [from, counter, back] =
                [(0, 8000), (16_384, 8), (32_768, 8000)].map(|(at, len)| [node.mr.sge(at, len)]);
            let list = [
                SendWr::new(0, SendOp::Write(remote.at(64)), &from),
                SendWr::new(1, SendOp::FetchAdd { remote, add: 1 }, &counter),
                SendWr::new(2, SendOp::Read(remote.at(64)), &back).flags(SendFlags::SIGNALED),
            ];
            node.qp.post_send(&list).expect("room");
            let Wc { status, .. } = node.cq.wait(Time::NEVER).expect("a CQ").expect("a completion");
            if status != WcStatus::Success {
                failed.push(status);
                break;
            }
            assert_eq!(p.load_u64(mem, 16_384), n - 1, "each addition is carried out once");
            let mut read = vec![0; 8000];
            p.read(mem, 32_768, &mut read);
            assert!(read.iter().all(|b| *b == n as u8), "round {n}: what was written is read");
        }
        p.publish("over", &[]);
        failed
    }
}

struct Holds;

impl Program for Holds {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let node = Node::new(&p, 1 << 16, 64);
        node.connect_hastily(&p, "b", "a");
        p.lookup("over");
    }
}

fn run(layers: Layers, seed: u64) -> (Vec<WcStatus>, Metrics) {
    let config = SimConfig { layers, seed, ..SimConfig::new(2) };
    let mut cluster = SimCluster::new(&profile("cx3"), config);
    let task = cluster.spawn(0, 0, Works);
    cluster.spawn(1, 0, Holds);
    cluster.run().expect("the run ends");
    (task.take().expect("a result"), cluster.metrics())
}

#[test]
fn rc_mends_what_its_links_break() {
    let delay = Span::from_us(20);
    let loss = Layers { loss_ppm: 20_000, ..Layers::NONE };
    let twice = Layers { duplicate_ppm: 50_000, ..Layers::NONE };
    let late = Layers { delay_ppm: 50_000, delay, ..Layers::NONE };
    let all = Layers { loss_ppm: 10_000, duplicate_ppm: 20_000, ..late };
    let (_, good) = run(Layers::NONE, 1);
    for layers in [loss, twice, late, all] {
        for seed in 1..4 {
            let (failed, metrics) = run(Layers { reliable: true, ..layers }, seed);
            assert_eq!(failed, [], "{layers:?}, seed {seed}");
            assert_ne!(metrics.event_hash, good.event_hash, "{layers:?}, seed {seed}: something happened");
            assert_eq!(metrics.lost > 0, layers.loss_ppm > 0, "{layers:?}, seed {seed}");
        }
    }
}

#[test]
fn packets_of_rc_are_spared_unless_asked_for() {
    let layers = Layers { loss_ppm: 500_000, duplicate_ppm: 500_000, ..Layers::NONE };
    let ((failed, bad), (_, good)) = (run(layers, 1), run(Layers::NONE, 1));
    assert_eq!((failed, bad.lost), (vec![], 0));
    assert_eq!(bad.event_hash, good.event_hash);
}
