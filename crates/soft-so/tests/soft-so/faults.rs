//! Faults that a launcher injects into a program: which work requests they hit, and how the program sees
//! them.

use crate::common::running::{role, say};
use crate::common::verbs::{INLINED, Node, PORT, Retries, SIGNALED, Wr, call, to_lid};
use crate::common::{finish, launch, own_program, pair, text};
use doorbell_abi::{ibv_async_event, ibv_context, ibv_port_attr};
use doorbell_launch::{Launch, Link};
use doorbell_verbs::{QpType, SendOp, WcStatus};
use libc::c_int;
use std::time::{Duration, Instant};

/// The module of the program that these tests run.
const HERE: &str = module_path!();

/// The programs of these tests: this executable again, once for each role.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    match &role()[..] {
        "datagrams" => datagrams(),
        "atomics" => atomics(),
        "lost" => lost(),
        "no-recv" => no_recv(),
        "sends" => sends(),
        "killed" => killed(),
        "port" => port(),
        "late" => late(),
        role => panic!("no role {role:?}"),
    }
}

fn with(faults: &str, seed: u64) -> Launch {
    Launch { faults: Some((faults.parse().expect("faults"), seed)), ..launch(Link::Ib) }
}

/// Sends 400 numbered datagrams, and prints which ones arrived.
fn datagrams() {
    let node = Node::open_as(QpType::Ud, 4096, 1);
    let own = node.endpoint(0);
    node.connect(0, &own);
    let ah = node.ah(to_lid(own.lid));
    let mut came = Vec::new();
    const RECV: u32 = 128;
    for number in 0..400 {
        if number % 32 == 0 {
            // The reset removes the rest of the last 32 RECVs.
            node.reset(0);
            node.connect(0, &own);
            node.post_recv(0, 32, &[(0, 256)]);
        }
        let wr = Wr { op: SendOp::SendWithImm(number), buffers: &[(512, 8)], flags: SIGNALED };
        node.post_to(0, &[wr], Some((ah, own.qpn)));
        let first = node.completions(1)[0];
        let all = std::iter::once(first).chain(std::iter::from_fn(|| node.poll()));
        came.extend(all.filter(|wc| wc.opcode == RECV).map(|wc| u32::from_be(wc.imm_data)));
    }
    say(format!("{came:?}"));
}

/// Runs a program of this module. Returns its lines for the test, and its standard error.
#[track_caller]
fn run(launch: &Launch, role: &str) -> (Vec<String>, String) {
    let output = finish(own_program(launch, HERE, role).spawn().expect("it starts"), role);
    assert!(output.status.success(), "{role}: {}", text(&output));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = told.lines().filter_map(|line| Some(line.split_once("> ")?.1.to_owned())).collect();
    (told, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_same_seed_loses_the_same_messages() {
    let came = |seed: u64| {
        let (told, errors) = run(&with("drop=0.5", seed), "datagrams");
        let came = told[0].matches(',').count() + 1;
        let line = format!("doorbell: faults of seed {seed} in process ");
        assert!(errors.contains(&line) && errors.contains(&format!(": {} lost, ", 400 - came)), "{errors}");
        // 50 is five standard deviations.
        assert!(came.abs_diff(200) < 50, "{came} came");
        told[0].clone()
    };
    assert_eq!(came(7), came(7));
    assert_ne!(came(7), came(8));
}

fn retries(retry_cnt: u8, rnr_retry: u8) -> Retries {
    Retries { timeout: 1, retry_cnt, rnr_retry }
}

/// A node with a QP that is connected to itself.
fn looped(retries: Retries) -> Node {
    let node = Node::open(8192, 1);
    node.connect_with(0, &node.endpoint(0), retries);
    node
}

fn atomics() {
    let node = looped(retries(7, 7));
    let remote = node.endpoint(0).at(0);
    for before in 0..500u64 {
        node.carry_out(0, SendOp::FetchAdd { remote, add: 1 }, &[(64, 8)]);
        assert_eq!(node.read(64, 8), before.to_ne_bytes());
    }
    assert_eq!(node.first_word(), 500);
}

#[test]
fn atomics_that_are_lost_are_carried_out_once() {
    let (_, errors) = run(&with("drop=0.2", 3), "atomics");
    let lost: u32 =
        errors.split(": ").nth(2).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a count");
    // 500 atomics succeed, and a fifth of all attempts is lost: 125 losses are expected.
    assert!((70..190).contains(&lost), "{errors}");
}

fn lost() {
    for (retry_cnt, times) in [(0, 1), (2, 3)] {
        let node = looped(retries(retry_cnt, 0));
        node.post(
            0,
            &[Wr { op: SendOp::Write(node.endpoint(0).at(0)), buffers: &[(64, 8)], flags: SIGNALED }],
        );
        node.completion(WcStatus::RetryExcErr);
        say(times);
    }
}

#[test]
fn retries_are_used_up() {
    let (told, errors) = run(&with("drop=1", 1), "lost");
    assert_eq!(told, ["1", "3"]);
    for times in told {
        assert!(
            errors.contains(&format!("--fault drop lost each transmission, {times} in total")),
            "{errors}"
        );
    }
}

fn no_recv() {
    let node = looped(retries(0, 2));
    node.post_recv(0, 1, &[(0, 64)]);
    node.carry_out(0, SendOp::Write(node.endpoint(0).at(0)), &[(64, 8)]);
    node.post(0, &[Wr { op: SendOp::Send, buffers: &[(64, 8)], flags: SIGNALED }]);
    node.completion(WcStatus::RnrRetryExcErr);
}

/// Sends SENDs whose payload shows their order.
fn sends() {
    let node = looped(retries(7, 7));
    node.post_recv(0, 60, &[(0, 64)]);
    for number in 0..50u8 {
        node.fill(64, 8, number);
        node.post(0, &[Wr { op: SendOp::Send, buffers: &[(64, 8)], flags: INLINED }]);
    }
    for number in 0..50u8 {
        let wc = node.completions(1)[0];
        assert_eq!((wc.wr_id, wc.byte_len), (u64::from(number), 8));
        assert!(node.is_all(0, 8, number), "message {number}");
    }
}

#[test]
fn a_responder_seems_to_have_no_recv() {
    let (_, errors) = run(&with("rnr=1", 1), "no-recv");
    assert!(
        errors.contains("--fault rnr answered each transmission as if no RECV were posted, 3 in total"),
        "{errors}"
    );
    assert!(errors.contains(", 3 RNR, "), "{errors}");
    let (_, errors) = run(&with("rnr=0.5,drop=0.1", 2), "sends");
    assert!(!errors.contains(" 0 RNR") && !errors.contains(" 0 lost"), "{errors}");
}

fn async_event(node: &Node) -> ibv_async_event {
    let mut event = ibv_async_event { element: std::ptr::null_mut(), event_type: 99 };
    let got = call!(c"ibv_get_async_event"(
        node.context => *mut ibv_context, &raw mut event => *mut ibv_async_event
    ) -> c_int);
    assert_eq!(got, 0);
    event
}

fn killed() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let node = Node::open_as(qp_type, 4096, 1);
        let own = node.endpoint(0);
        node.connect(0, &own);
        node.post_recv(0, 1, &[]);
        let write = || Wr { op: SendOp::Write(own.at(0)), buffers: &[(64, 8)], flags: SIGNALED };
        node.post(0, &[write(), write(), write(), write(), write()]);
        node.completions(2);
        assert_eq!(node.completion(WcStatus::LocQpOpErr).wr_id, 2);
        let flushed = [0; 3].map(|_| node.completion(WcStatus::WrFlushErr).wr_id);
        assert!(flushed.contains(&3) && flushed.contains(&4) && flushed.contains(&0), "{flushed:?}");
        let event = async_event(&node);
        // `IBV_EVENT_QP_FATAL`.
        assert_eq!((event.event_type, event.element), (1, node.qps[0].cast()));
        // After a reset, the QP's next two work requests succeed.
        if let QpType::Rc = qp_type {
            node.reset(0);
            node.connect(0, &own);
            node.post(0, &[write(), write()]);
            node.completions(2);
        }
    }
}

#[test]
fn a_qp_ends_by_its_work_request_of_that_number() {
    let (_, errors) = run(&with("kill-qp@3", 1), "killed");
    assert_eq!(errors.matches("Local cause: --fault kill-qp killed the QP").count(), 2, "{errors}");
    assert_eq!(errors.matches("work request 3 (RDMA_WRITE, wr_id 0x2,").count(), 2, "{errors}");
    assert!(errors.contains(", 2 QPs killed, "), "{errors}");
}

fn port_state(node: &Node) -> u32 {
    let mut port = ibv_port_attr::default();
    let asked = call!(c"ibv_query_port"(
        node.context => *mut ibv_context, PORT => u8, &raw mut port => *mut ibv_port_attr
    ) -> c_int);
    assert_eq!(asked, 0);
    port.state
}

fn port() {
    const DOWN: u32 = 1;
    const ACTIVE: u32 = 4;
    let node = Node::open(4096, 1);
    let begin = Instant::now();
    // No time-out: the WRITE waits until it is answered.
    node.connect_with(0, &node.endpoint(0), Retries { timeout: 0, retry_cnt: 0, rnr_retry: 0 });
    let event = async_event(&node);
    assert_eq!((event.event_type, event.element.addr() & 0xff), (10, 1));
    assert_eq!(port_state(&node), DOWN);
    node.post(0, &[Wr { op: SendOp::Write(node.endpoint(0).at(0)), buffers: &[(64, 8)], flags: SIGNALED }]);
    assert!(node.poll().is_none());
    assert_eq!(async_event(&node).event_type, 9);
    assert!(
        begin.elapsed() > Duration::from_millis(350),
        "the port came up {:?} after it was opened",
        begin.elapsed()
    );
    assert_eq!(port_state(&node), ACTIVE);
    node.completions(1);
}

#[test]
fn a_port_goes_down_and_up() {
    let (_, errors) = run(&with("port-down@10ms..400ms", 1), "port");
    assert!(!errors.contains(" 0 sent while the port was down"), "{errors}");
}

fn late() {
    let node = looped(retries(7, 7));
    let own = node.endpoint(0);
    let begin = Instant::now();
    for number in 1..=8 {
        node.fill(64, 8, number);
        node.post(0, &[Wr { op: SendOp::Write(own.at(0)), buffers: &[(64, 8)], flags: SIGNALED | INLINED }]);
    }
    assert!(node.poll().is_none() && node.is_all(0, 8, 0));
    assert_eq!(node.completions(8).len(), 8);
    assert!(begin.elapsed() >= Duration::from_millis(100), "{:?}", begin.elapsed());
    assert!(node.is_all(0, 8, 8), "the last one is not the last");
}

#[test]
fn work_requests_are_late() {
    let (_, errors) = run(&with("delay=100ms..120ms", 1), "late");
    assert!(errors.contains(" 8 delayed, "), "{errors}");
}

#[test]
fn programs_that_check_what_comes_lose_nothing() {
    let lossy = with("drop=1e-2,rnr=1e-2,delay=0us..20us", 5);
    for arguments in [&["-n", "200", "-c"][..], &["-n", "200", "-c", "-e"]] {
        if pair(&lossy, "ibv_rc_pingpong", arguments).is_none() {
            return;
        }
    }
    for (program, arguments) in [
        ("ib_send_bw", &["-n", "500", "-s", "1024"][..]),
        ("ib_write_lat", &["-n", "200", "-s", "64"]),
        ("ib_read_bw", &["-n", "300"]),
        ("ib_atomic_bw", &["-n", "300"]),
    ] {
        pair(&with("drop=1e-3,rnr=1e-3", 5), program, arguments);
    }
}

#[test]
fn without_faults_nothing_is_said() {
    let (_, errors) = run(&launch(Link::Ib), "atomics");
    assert!(!errors.contains("doorbell: "), "{errors}");
}
