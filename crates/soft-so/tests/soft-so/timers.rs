//! Tests the waits of a requester and their counts, and `--timers fast`, which removes the wait after an RNR
//! NAK.

use crate::common::running::role;
use crate::common::verbs::{Node, Retries, SIGNALED, Wr, to_lid};
use crate::common::{counting, finish, launch, of_qps, own_program, text};
use doorbell_launch::{Launch, Link, Timers};
use doorbell_verbs::{SendOp, WcStatus};
use serde_json::json;
use std::time::{Duration, Instant};

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The wait for the value 0 of `min_rnr_timer`. rdma_cm(7) sets this value.
const WAIT: Duration = Duration::from_micros(655_360);

/// The program that the tests start: this executable again.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    match &role()[..] {
        "gives up" => give_up(),
        messages => receive_late(messages.parse().expect("a number of messages")),
    }
}

/// Sends from QP 0 to a QP that does not answer, from QP 1 to a QP without a RECV, and from QP 2 to a QP that
/// is ready later. QP `n` sends to QP `n + 3`. QP 6 sends to QP 7, which is ready later without a RECV.
fn give_up() {
    let node = Node::open(4096, 8);
    let retries = Retries { timeout: 1, retry_cnt: 3, rnr_retry: 2 };
    let connect = |from: usize, to: usize, retries| node.connect_with(from, &node.endpoint(to), retries);
    let send = |qp| node.post(qp, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }]);
    connect(0, 3, retries);
    send(0);
    node.completion(WcStatus::RetryExcErr);
    connect(1, 4, retries);
    connect(4, 1, retries);
    send(1);
    node.completion(WcStatus::RnrRetryExcErr);
    // The time-out is long, so that the QP is ready before the last retry.
    connect(2, 5, Retries { timeout: 16, retry_cnt: 7, ..retries });
    node.post_recv(5, 1, &[(1024, 64)]);
    send(2);
    connect(5, 2, retries);
    node.completions(2);
    connect(6, 7, Retries { timeout: 16, retry_cnt: 7, rnr_retry: 0 });
    send(6);
    connect(7, 6, retries);
    node.completion(WcStatus::RnrRetryExcErr);
}

/// Posts the RECV of each message after the message.
fn receive_late(messages: u32) {
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
fn time_outs_and_retries_are_counted() {
    let (launch, report) = counting("retries", launch(Link::Ib));
    let output = finish(own_program(&launch, HERE, "gives up").spawn().expect("it starts"), "gives up");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let report = report();
    let count = |key: &str| of_qps(&report, key).as_array().expect("an array")[..3].to_vec();
    // The first transmission and three retries have no answer.
    assert_eq!(count("timeouts")[..2], [json!(4), json!(0)], "{report}");
    assert_eq!(count("retries")[..2], [json!(3), json!(0)], "{report}");
    // The first transmission and two retries get an RNR NAK. The wait after each of the first two is 10 us.
    assert_eq!(count("rnr_naks"), [json!(0), json!(3), json!(0)], "{report}");
    assert_eq!(count("rnr_wait_ns"), [json!(0), json!(20_000), json!(0)], "{report}");
    // Each time-out of the last QP is followed by a retry, because the message arrives.
    assert_eq!(count("timeouts")[2], count("retries")[2], "{report}");
    assert!(count("timeouts")[2].as_u64() >= Some(1), "{report}");
    // The RNR NAK answers a retry, which follows a time-out.
    let late = &report["qps"][6];
    assert!(late["timeouts"].as_u64() >= Some(1) && late["timeouts"] == late["retries"], "{report}");
    assert_eq!(late["rnr_naks"], 1, "{report}");
    assert!(said.contains(" without an answer"), "{said}");
}

#[test]
fn fast_timers_let_a_late_recv_cost_nothing() {
    let launch = Launch { timers: Timers::Fast, ..launch(Link::Ib) };
    let messages = 32;
    assert!(run(&launch, messages) < messages * WAIT, "no message waits for the timer");
}
