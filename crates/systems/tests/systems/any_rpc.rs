//! The system `rpc` in virtual time. Its latencies are the latencies of a queue.

use crate::common::cluster;
use doorbell_schema::Duration;
use doorbell_systems::config::Timing;
use doorbell_systems::herd::{Replies, Requests, ways};
use doorbell_systems::rpc::{Arrivals, Rpc, Sizes, Times};
use doorbell_systems::site::Course;
use doorbell_systems::{Interval, Measured, System};
use doorbell_verbs::{Span, Time};

/// One client that waits for each reply, and one worker that replies to one request at a time.
fn alone() -> Rpc {
    let mut rpc = Rpc::usual();
    (rpc.clients.clients, rpc.clients.clients_per_machine, rpc.clients.outstanding) = (1, 1, 1);
    (rpc.workers.cores, rpc.workers.gather, rpc.workers.batching) = (1, 1, false);
    rpc.timing = longer(Span::from_ms(1));
    rpc
}

fn time(span: Span) -> Duration {
    Duration::new(span)
}

/// A measurement of this duration.
fn longer(duration: Span) -> Timing {
    Timing::of(Span::from_us(100), duration)
}

/// The times of the run.
fn course(rpc: &Rpc) -> Course {
    let span = |time: Option<Duration>| time.expect("tests say their times").span();
    Course::Fixed(Interval::after(rpc.shape().begin(), span(rpc.timing.warmup), span(rpc.timing.duration)))
}

/// Measurements of all clients, added up.
fn run(profile: &str, rpc: &Rpc) -> Measured {
    let span = rpc.timing.duration.expect("tests say their times").span();
    let end = Time::START + span + Span::from_ms(20);
    let mut cluster = cluster(profile, rpc.clients.machines(), |config| config.end = end);
    let ended = rpc.run(&mut cluster, course(rpc)).unwrap().expect("all machines are in this process");
    let mut all = Measured::default();
    ended.clients.iter().for_each(|client| all.add(client));
    all
}

fn mean_ns(measured: &Measured) -> f64 {
    measured.latency.histogram().mean()
}

#[test]
fn time_of_the_handler_adds_to_the_latency() {
    for (request, reply) in ways() {
        let of = |ns| {
            let rpc = Rpc { request, reply, handler: time(Span::from_ns(ns)), ..alone() };
            run("cib", &rpc)
        };
        let (none, some) = (of(0), of(3000));
        let more = mean_ns(&some) - mean_ns(&none);
        // A READ that comes too early only delays the next READ.
        let slack = if reply == Replies::ReadRc { mean_ns(&none) } else { 5.0 };
        assert!((more - 3000.0).abs() <= slack, "{request:?} {reply:?}: {more}");
        assert_eq!(some.again > 0, reply == Replies::ReadRc);
    }
}

#[test]
fn an_open_loop_of_low_load_has_the_latency_of_one_request_at_a_time() {
    let alone = Rpc { timing: longer(Span::from_ms(20)), ..alone() };
    // With random arrivals, two operations may be due at once.
    let median = |measured: &Measured| measured.latency.histogram().value_at_quantile(0.5);
    let closed = median(&run("cib", &alone));
    for arrivals in [Arrivals::Fixed, Arrivals::Poisson] {
        let open = run("cib", &Rpc { arrivals, rate: 5_000, ..alone.clone() });
        assert!((50..150).contains(&open.done), "{arrivals:?}: {}", open.done);
        let open = median(&open);
        assert!(open.abs_diff(closed) <= closed / 50, "{arrivals:?}: {open} and {closed}");
    }
}

#[test]
fn clients_that_think_ask_less_often() {
    let think = Span::from_us(10);
    let measured = run("cib", &Rpc { think: time(think), ..alone() });
    let cycle = mean_ns(&measured) + think.as_ns() as f64;
    let cycles = 1e6 / cycle;
    assert!((measured.done as f64 - cycles).abs() <= 2.0, "{} and {cycles}", measured.done);
}

/// A worker that computes for a microsecond per request, and so many clients that no request waits for its
/// own client.
fn queue() -> Rpc {
    let mut rpc = Rpc { handler: time(Span::from_us(1)), timing: longer(Span::from_ms(20)), ..alone() };
    (rpc.clients.clients, rpc.clients.clients_per_machine, rpc.clients.outstanding) = (8, 4, 64);
    rpc
}

/// With Poisson arrivals, the worker is a queue with one server. If service times have mean S and variation
/// c, a request waits S (1 + c^2) r / 2(1 - r) at load r (Pollaczek and Khinchin). Only the variation of
/// handler times is known. The verbs' part of a service varies little.
#[test]
fn near_its_capacity_a_worker_is_a_queue() {
    let at = |arrivals, handler_times, rate| run("cib", &Rpc { arrivals, handler_times, rate, ..queue() });
    let service = 20e6 / run("cib", &queue()).done as f64;
    let handler = 1000.0 / service;
    assert!((0.8..1.0).contains(&handler), "a service takes {service} ns");
    let rate = |load: f64| (load * 1e9 / service) as u64;
    let idle = mean_ns(&at(Arrivals::Fixed, Times::Fixed, rate(0.2)));
    for (times, variation) in [(Times::Fixed, 0.0), (Times::Exponential, handler * handler)] {
        for load in [0.5, 0.8, 0.9] {
            let measured = at(Arrivals::Poisson, times, rate(load));
            let waits = (mean_ns(&measured) - idle) / service;
            let formula = (1.0 + variation) * load / (2.0 * (1.0 - load));
            assert!((waits / formula - 1.0).abs() < 0.1, "{times:?} at {load}: {waits} and {formula}");
        }
    }
    // Requests that are due at equal distances do not wait for each other.
    let measured = at(Arrivals::Fixed, Times::Fixed, rate(0.9));
    assert!((mean_ns(&measured) / idle - 1.0).abs() < 0.02, "{} and {idle}", mean_ns(&measured));
}

/// Latency counts from when a request was due, even if the client could not send it yet.
#[test]
fn beyond_its_capacity_latency_grows_with_time() {
    let over = |ms| {
        let timing = longer(Span::from_ms(ms));
        mean_ns(&run("cib", &Rpc { arrivals: Arrivals::Poisson, rate: 2_000_000, timing, ..queue() }))
    };
    let (short, long) = (over(4), over(8));
    // Half of the requests are served, so a request that ends at time t was due at about t/2.
    assert!(short > 1e6 && (1.7..2.3).contains(&(long / short)), "{short} {long}");
}

#[test]
fn replies_are_posted_together_where_that_is_asked_for() {
    let mut rpc = queue();
    rpc.handler = time(Span::ZERO);
    let posts = |rpc: &Rpc| {
        let mut cluster =
            cluster("cib", rpc.clients.machines(), |config| config.end = Time::START + Span::from_ms(40));
        let served = rpc.run(&mut cluster, course(rpc)).unwrap().unwrap().server;
        assert!(served.replies > 1000);
        served.replies as f64 / served.posts as f64
    };
    assert_eq!(posts(&rpc), 1.0);
    (rpc.workers.gather, rpc.workers.batching) = (32, true);
    assert!(posts(&rpc) > 2.0);
    // On connections, a list has replies to one client only.
    (rpc.request, rpc.reply) = (Requests::SendRc, Replies::SendRc);
    assert!(posts(&rpc) > 1.2);
}

/// A worker may store a reply while the client READs it. On this NIC, the READ may return a part of the
/// reply.
#[test]
fn a_reply_that_is_read_while_it_is_stored_is_read_again() {
    for bytes in [20_000, 60_000] {
        let mut rpc = Rpc { request: Requests::WriteRc, reply: Replies::ReadRc, ..Rpc::usual() };
        (rpc.clients.clients, rpc.clients.clients_per_machine, rpc.clients.outstanding) = (6, 2, 2);
        (rpc.workers.cores, rpc.reply_size) = (2, Sizes::fixed(bytes));
        rpc.timing = longer(Span::from_ms(2));
        // A client that accepted such a reply would return an error.
        assert!(run("cx", &rpc).done > 20);
    }
}
