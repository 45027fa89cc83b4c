//! Prints the costs of kernel TCP for requests of 64 bytes and answers from 64 bytes to 16 MiB.

use doorbell_nic::Profile;
use doorbell_sim::{Meter, Metrics, SimCluster, SimConfig};
use doorbell_verbs::{Cluster, PageSize, Program, Provider, Span, TcpListener, TcpStream, Time};

const ROUNDS: u64 = 40;
/// Rounds that are not counted.
const WARM_UP: u64 = 10;

/// Answers each request of 64 bytes with `answer` bytes.
struct Server {
    answer: u64,
}

/// Sends requests. Returns the mean time of an answer.
struct Client {
    answer: u64,
}

impl Program for Server {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let mem = p.alloc(self.answer.max(64), PageSize::Huge).expect("memory");
        let listener = TcpListener::bind(&p).expect("a port");
        p.publish("address", listener.address().to_string().as_bytes());
        let peer = listener.accept().expect("a connection");
        for _ in 0..ROUNDS {
            peer.recv_exact(mem, 0, 64).expect("a request");
            peer.send(mem, 0, self.answer).expect("a connection");
        }
    }
}

impl Program for Client {
    type Output = Span;

    fn run<P: Provider>(self, p: P) -> Span {
        let mem = p.alloc(self.answer.max(64), PageSize::Huge).expect("memory");
        let address = String::from_utf8(p.lookup("address")).expect("text").parse().expect("an address");
        let peer = TcpStream::connect(&p, address).expect("a server");
        let mut begun = p.now();
        for round in 0..ROUNDS {
            if round == WARM_UP {
                begun = p.now();
            }
            peer.send(mem, 0, 64).expect("a connection");
            peer.recv_exact(mem, 0, self.answer).expect("an answer");
        }
        Span::from_ps((p.now() - begun).as_ps() / (ROUNDS - WARM_UP))
    }
}

fn run(profile: &Profile, answer: u64) -> (Span, Metrics) {
    let config = SimConfig { window: (Time::START, Span::from_ms(1000)), ..SimConfig::new(2) };
    let mut cluster = SimCluster::new(profile, config);
    cluster.spawn(0, 0, Server { answer });
    let client = cluster.spawn(1, 0, Client { answer });
    cluster.run().expect("both come to their end");
    (client.take().expect("a result"), cluster.metrics())
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_else(|| "e7520-t4".into());
    let profile = Profile::named_or_file(&name).unwrap_or_else(|why| {
        eprintln!("{why}");
        std::process::exit(2);
    });
    println!("{name}, 64 B asked; of each round:");
    for answer in [64, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20] {
        let (span, metrics) = run(&profile, answer);
        let per_round = |n: u64| n as f64 / ROUNDS as f64;
        let busy = |machine: u32| {
            let core = metrics.resources.iter().find(|r| r.machine == machine && r.meter == Meter::core(0));
            core.map_or(0.0, |core| core.utilization * metrics.window_ps as f64 / 1e6 / ROUNDS as f64)
        };
        println!(
            "{answer:>8} B answered in {:8.2} us; server's core busy {:7.2} us, client's {:8.2} us; \
             interrupts {:5.1} and {:5.1}",
            span.as_ps() as f64 / 1e6,
            busy(0),
            busy(1),
            per_round(metrics.tcp[0].interrupts),
            per_round(metrics.tcp[1].interrupts),
        );
    }
}
