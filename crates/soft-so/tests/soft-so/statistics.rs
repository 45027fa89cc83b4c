//! Tests the statistics of programs whose posts are known. All counts must be exact.

use crate::common::running::role;
use crate::common::verbs::{INLINED, Node, SIGNALED, Wr};
use crate::common::{command, finish, free_port, installed, launch, own_program, text, wait_for_listener};
use doorbell_launch::stats::Stats;
use doorbell_launch::{Launch, Link};
use doorbell_nic::accounting::{self, Transactions};
use doorbell_nic::{Generation, PostShape, Profile, RecvShape};
use doorbell_verbs::{Opcode, QpType, SendOp};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    assert_eq!(role(), "counted");
    let node = Node::open(16384, 2);
    let ends = [node.endpoint(0), node.endpoint(1)];
    node.connect(0, &ends[1]);
    node.connect(1, &ends[0]);
    for _ in 0..10 {
        let op = SendOp::Write(ends[1].at(8192));
        node.post(0, &[Wr { op, buffers: &[(0, 16)], flags: SIGNALED | INLINED }]);
        node.completions(1);
    }
    for _ in 0..5 {
        let write = |flags| Wr { op: SendOp::Write(ends[1].at(8192)), buffers: &[(0, 60), (128, 40)], flags };
        node.post(0, &[write(0), write(0), write(0), write(SIGNALED)]);
        node.completions(1);
    }
    for _ in 0..3 {
        node.carry_out(0, SendOp::Read(ends[1].at(0)), &[(8192, 4096)]);
    }
    for _ in 0..2 {
        node.carry_out(0, SendOp::FetchAdd { remote: ends[1].at(0), add: 1 }, &[(8, 8)]);
    }
    node.post_recv(0, 7, &[(4096, 64)]);
    node.post_recv(0, 1, &[(4096, 64)]);
    for _ in 0..7 {
        node.post(1, &[Wr { op: SendOp::Send, buffers: &[(0, 32)], flags: SIGNALED }]);
        node.completions(2);
    }
    // A list of two kinds of work requests.
    let list = [
        Wr { op: SendOp::Write(ends[0].at(8192)), buffers: &[(0, 8)], flags: 0 },
        Wr { op: SendOp::SendWithImm(1), buffers: &[], flags: SIGNALED },
    ];
    node.post(1, &list);
    node.completions(2);
}

/// A launch with statistics, and their JSON file.
fn counting(test: &str) -> (Launch, PathBuf) {
    let json = std::env::temp_dir().join(format!("doorbell-{test}-{}.json", std::process::id()));
    let stats = Stats { profile: "cib".into(), print: true, json: Some(json.clone()), ..Stats::default() };
    (Launch { stats: Some(stats), ..launch(Link::Ib) }, json)
}

fn read(file: &PathBuf) -> Value {
    let written = std::fs::read_to_string(file).expect("the JSON was written");
    std::fs::remove_file(file).expect("it can be removed");
    serde_json::from_str(&written).expect("it is JSON")
}

/// Asserts that an object has all values of `expected`. It may have others.
#[track_caller]
fn expect(found: &Value, expected: Value) {
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&found[key], value, "{key} of {found:#}");
    }
}

/// Asserts that a number of the report equals `expected`, except for rounding.
#[track_caller]
fn is_about(found: &Value, expected: f64) {
    let found = found.as_f64().expect("a number");
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
}

/// The shape of a signalled work request in a list of `list` work requests.
fn posts(opcode: Opcode, payload: u32, sges: u32, inline: bool, list: u32) -> PostShape {
    let method = Generation::Mlx5.posting().method(list);
    PostShape { opcode, qp_type: QpType::Rc, payload, sges, inline, signaled: true, method }
}

#[test]
fn every_qp_is_told_exactly() {
    let (launch, json) = counting("every_qp");
    let output = finish(own_program(&launch, HERE, "counted").spawn().expect("it starts"), "the program");
    assert!(output.status.success(), "{}", text(&output));
    let report = read(&json);
    let (first, second) = (&report["qps"][0], &report["qps"][1]);
    expect(
        first,
        json!({
            "transport": "rc",
            "verbs": {"RDMA_WRITE": 30, "RDMA_READ": 3, "ATOMIC_FETCH_AND_ADD": 2},
            "work_requests": 35,
            "payload_bytes": 10 * 16 + 20 * 100 + 3 * 4096 + 2 * 8,
            "sizes": {"8": 2, "16": 10, "128": 20, "4096": 3},
            "doorbells": 20,
            "wqes_per_doorbell": {"1": 15, "4": 5},
            "inlined": 10,
            "signaled": 20,
            "sges": 10 + 40 + 3 + 2,
            "sges_per_work_request": {"1": 15, "2": 20},
            "outstanding_max": 4,
            "path_mtu": 4096,
            "max_rd_atomic": 1,
            "peer_max_dest_rd_atomic": 1,
            "recvs": 8,
            "recv_doorbells": 2,
            "messages_received": 8,
        }),
    );
    expect(
        second,
        json!({
            "verbs": {"SEND": 7, "RDMA_WRITE": 1, "SEND_WITH_IMM": 1},
            "work_requests": 9,
            "payload_bytes": 7 * 32 + 8,
            "sizes": {"0": 1, "8": 1, "32": 7},
            "doorbells": 8,
            "wqes_per_doorbell": {"1": 7, "2": 1},
            "inlined": 0,
            "signaled": 8,
            "sges": 8,
            "sges_per_work_request": {"0": 1, "1": 8},
            "outstanding_max": 2,
            "recvs": 0,
            "messages_received": 0,
        }),
    );
    is_about(&first["outstanding_mean"], (15.0 + 5.0 * (1.0 + 2.0 + 3.0 + 4.0)) / 35.0);
    // A list of one work request goes to the device as a WQE by MMIO: two cache lines for an atomic, one for
    // any other request. A longer list, and each call that posts RECVs, rings a doorbell of 8 bytes.
    let pcie = &first["pcie"];
    expect(pcie, json!({"mmio_writes": 13 + 2 * 2 + 5 + 2, "mmio_bytes": (13 + 2 * 2) * 64 + (5 + 2) * 8}));
    let cib = Profile::named("cib").expect("it is built in");
    let single = |opcode, payload| posts(opcode, payload, 1, false, 1);
    let times = |shape: &PostShape, n| accounting::requester(&cib, shape).times(n);
    let quiet = PostShape { signaled: false, ..posts(Opcode::Write, 100, 2, false, 4) };
    let arrival = |opcode, payload| {
        accounting::responder(&cib, opcode, QpType::Rc, payload, RecvShape { inline: false })
    };
    let sum = [
        times(&posts(Opcode::Write, 16, 1, true, 1), 10),
        times(&quiet, 5),
        Transactions::dma_write(&cib.device.pcie, cib.device.nic.cqe).times(5),
        times(&single(Opcode::Read, 4096), 3),
        times(&single(Opcode::FetchAdd, 8), 2),
        accounting::post_recv(&cib, 7, 1),
        accounting::post_recv(&cib, 1, 1),
        arrival(Opcode::Send, 32).times(7),
        arrival(Opcode::SendWithImm, 0),
    ];
    let sum = sum.into_iter().fold(Transactions::default(), |all, one| all + one);
    assert_eq!(*pcie, serde_json::to_value(sum).expect("it is JSON"));
    let at_peer = arrival(Opcode::Write, 16).times(10)
        + arrival(Opcode::Write, 100).times(20)
        + arrival(Opcode::Read, 4096).times(3)
        + arrival(Opcode::FetchAdd, 8).times(2);
    assert_eq!(first["responder_pcie"], serde_json::to_value(at_peer).expect("it is JSON"));
    for (qp, resource) in [(first, "latency"), (second, "latency")] {
        assert_eq!(qp["limit"]["resource"], resource, "{}", qp["limit"]);
        assert!(qp["limit"]["mops"].as_f64() > Some(0.1) && qp["limit"]["text"].is_string());
    }
    let total = &report["total"];
    expect(
        total,
        json!({"work_requests": 44, "doorbells": 28, "messages_received": 8, "outstanding_max": 4}),
    );
    let mix = "send/0:1,send/32:7,write/8:1,write/16:10,write/100:20,read/4096:3,fetch-add/8:2";
    let workload = json!({
        "mix": mix, "transport": "rc", "machines": 2, "threads": 1, "batch": 2, "inline_up_to": 16,
        "max_rd_atomic": 1
    });
    expect(&report["workload"], workload);
    is_about(&report["workload_share"], 1.0);
    assert_eq!(report["role"], "requester-and-responder");
    assert!(report["notes"][0].as_str().is_some_and(|note| note.contains("outstanding_mean")));
    is_all_printed(&text(&output), first["qp_num"].as_u64().expect("a number"));
}

/// Asserts that the printed statistics of a QP have the values of the JSON.
fn is_all_printed(text: &str, qp_num: u64) {
    let begin = text.find(&format!("QP {qp_num:#x}, RC")).expect("the QP is there");
    let printed: Vec<&str> = text[begin..].lines().skip(1).take(9).map(str::trim).collect();
    let expected = [
        "posted      2 ATOMIC_FETCH_AND_ADD, 3 RDMA_READ, 30 RDMA_WRITE, 14464 bytes",
        "sizes       up to 8 B: 2, up to 16 B: 10, up to 128 B: 20, up to 4096 B: 3",
        "doorbells   20: 1.75 WQEs each (1: 15, 4: 5)",
        "requests    29% inlined, 57% signalled, 1.57 SGEs each (1: 15, 2: 20)",
        "outstanding 1.9 on average, 4 at most",
        "received    8 messages, 8 RECVs in 2 posts",
        "attributes  path_mtu 4096, max_rd_atomic 1, max_dest_rd_atomic of the peer 1",
    ];
    assert_eq!(printed[..7], expected);
    assert!(printed[7].starts_with("PCIe        MMIO 24 writes, 1144 bytes; DMA reads "), "{}", printed[7]);
    assert!(printed[8].starts_with("at peers    MMIO 0 writes"), "{}", printed[8]);
    assert!(text[begin..].contains("limit       ") && text.contains("note        "), "{text}");
}

#[test]
fn what_was_posted_is_told() {
    let Some(program) = installed("ib_write_bw") else { return };
    let quiet = launch(Link::Ib);
    let (counted, json) = counting("what_was_posted");
    let counted = Launch { fabric: quiet.fabric.clone(), ..counted };
    let port = free_port().to_string();
    let arguments = ["-n", "1600", "-s", "64", "--post_list", "16", "-p", &port];
    let mut server = command(&quiet, &program, &arguments).spawn().expect("it starts");
    wait_for_listener(port.parse().unwrap_or(0), &mut server);
    let mut with_server = arguments.to_vec();
    with_server.push("localhost");
    let client = finish(command(&counted, &program, &with_server).spawn().expect("it starts"), "client");
    assert!(client.status.success(), "{}", text(&client));
    assert!(finish(server, "server").status.success());
    assert!(text(&client).contains("1600 RDMA_WRITE"), "{}", text(&client));
    let report = read(&json);
    let total = &report["total"];
    assert_eq!(total["work_requests"], 1600);
    assert_eq!(total["payload_bytes"], 1600 * 64);
    assert_eq!(total["doorbells"], 100);
    assert_eq!(total["wqes_per_doorbell"]["16"], 100);
    // Each of the 100 lists rings a doorbell of 8 bytes.
    assert_eq!(total["pcie"]["mmio_bytes"], 800);
    let workload = &report["workload"];
    assert_eq!(workload["verb"], "write");
    assert_eq!(workload["size"], 64);
    assert_eq!(workload["batch"], 16);
}
