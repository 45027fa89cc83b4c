//! Tests the wait after an RNR NAK, and `--timers fast`, which removes the wait.

use crate::common::running::role;
use crate::common::verbs::{Node, Retries, SIGNALED, Wr, to_lid};
use crate::common::{counting, finish, launch, own_program, text};
use doorbell_launch::{Launch, Link};
use doorbell_verbs::SendOp;
use std::time::{Duration, Instant};

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The wait for the value 0 of `min_rnr_timer`. rdma_cm(7) sets this value.
const WAIT: Duration = Duration::from_micros(655_360);

/// The program that the tests start: this executable again. It posts the RECV of each message after the
/// message.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    let messages: u32 = role().parse().expect("a number of messages");
    let node = Node::open(4096, 2);
    let ends = [node.endpoint(0), node.endpoint(1)];
    let retries = Retries { timeout: 14, retry_cnt: 7, rnr_retry: 7 };
    node.connect_with(0, &ends[1], retries);
    node.connect_altered(1, to_lid(ends[0].lid), ends[0].qpn, retries, |attr| {
        attr.min_rnr_timer = 0;
        0
    });
    for _ in 0..messages {
        node.post(0, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }]);
        node.post_recv(1, 1, &[(1024, 64)]);
        node.completions(2);
    }
}

/// Runs the program with this number of late RECVs. Returns the time that the program took.
fn run(launch: &Launch, messages: u32) -> Duration {
    let role = messages.to_string();
    let begin = Instant::now();
    let output = finish(own_program(launch, HERE, &role).spawn().expect("it starts"), &role);
    assert!(output.status.success(), "{}", text(&output));
    begin.elapsed()
}

#[test]
fn a_late_recv_costs_as_much_time_as_on_a_nic() {
    let (launch, report) = counting("rnr", launch(Link::Ib));
    assert!(run(&launch, 1) >= WAIT);
    let report = report();
    assert_eq!(report["total"]["rnr_naks"], 1, "{report}");
    assert_eq!(report["total"]["rnr_wait_ns"], WAIT.as_nanos() as u64);
}

#[test]
fn fast_timers_let_a_late_recv_cost_nothing() {
    let launch = Launch { fast_timers: true, ..launch(Link::Ib) };
    let messages = 32;
    assert!(run(&launch, messages) < messages * WAIT, "no message waits for the timer");
}
