//! Traces of posts and completions. A trace has a slice for each work request even if the program is killed.

use crate::common::running::role;
use crate::common::verbs::{Node, SIGNALED, Wr};
use crate::common::{launch, own_program, pair, text};
use doorbell_launch::{Launch, Link};
use doorbell_verbs::SendOp;
use serde_json::Value;
use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    assert_eq!(role(), "posts");
    let node = Node::open(8192, 1);
    let own = node.endpoint(0);
    node.connect(0, &own);
    node.post_recv(0, 3, &[(2048, 64)]);
    let write = |flags| Wr { op: SendOp::Write(own.at(0)), buffers: &[(64, 8)], flags };
    node.post(0, &[write(0), write(0), write(SIGNALED)]);
    node.completions(1);
    node.post(0, &[Wr { op: SendOp::Send, buffers: &[(64, 16)], flags: SIGNALED }]);
    node.completions(2);
    // The READ exceeds the region and fails, so the remaining RECVs are flushed (status 5). Polls until the
    // READ's own completion.
    node.post(0, &[Wr { op: SendOp::Read(own.at(8192)), buffers: &[(64, 8)], flags: SIGNALED }]);
    while node.poll().is_none_or(|wc| wc.status == 5) {}
    // SAFETY: the call takes only numbers.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{}-{name}.json", std::process::id()))
}

/// Reads and removes a trace file, and returns its events. The JSON array lacks the closing bracket.
fn events(path: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("it can be read");
    std::fs::remove_file(path).expect("it can be removed");
    let whole = format!("{}]", text.trim_end().trim_end_matches(','));
    serde_json::from_str(&whole).expect("it is JSON but for its end")
}

/// Counts the slices of each track and name: the slices that begin, and those of them that also end.
fn slices(events: &[Value]) -> HashMap<String, (usize, usize)> {
    let mut open: HashMap<&str, (f64, String)> = HashMap::new();
    let mut all: HashMap<String, (usize, usize)> = HashMap::new();
    for event in events {
        let time = event["ts"].as_f64();
        match event["ph"].as_str() {
            Some("b") => {
                let track = event["cat"].as_str().expect("a track");
                let kind = track.rsplit(' ').next().unwrap_or_default();
                let key = format!("{kind} {}", event["name"].as_str().expect("a name"));
                let id = event["id"].as_str().expect("an id");
                all.entry(key.clone()).or_default().0 += 1;
                assert!(open.insert(id, (time.expect("a time"), key)).is_none(), "{id} begins twice");
            }
            Some("e") => {
                let (begin, key) = open.remove(event["id"].as_str().expect("an id")).expect("it has begun");
                assert!(time >= Some(begin));
                all.entry(key).or_default().1 += 1;
            }
            _ => {}
        }
    }
    all
}

fn count(events: &[Value], kind: &str, name: &str) -> usize {
    events.iter().filter(|event| event["ph"] == kind && event["name"] == name).count()
}

#[test]
fn a_program_that_is_killed_leaves_a_trace() {
    let path = file("killed");
    let launch = Launch { trace: Some((path.clone(), 1000)), ..launch(Link::Ib) };
    let child = own_program(&launch, HERE, "posts").spawn().expect("it starts");
    let output = child.wait_with_output().expect("it can be heard");
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{}", text(&output));
    let events = events(&path);
    let found = slices(&events);
    assert_eq!(found["sends RDMA_WRITE"], (3, 3), "{found:?}");
    assert_eq!(found["sends SEND"], (1, 1), "{found:?}");
    assert_eq!(found["sends RDMA_READ"], (1, 1), "{found:?}");
    assert_eq!(found["RECVs RECV"].0, 3, "{found:?}");
    assert_eq!((count(&events, "i", "doorbell"), count(&events, "i", "error") > 0), (3, true));
    let lists: Vec<&Value> =
        events.iter().map(|event| &event["args"]["wqes"]).filter(|n| !n.is_null()).collect();
    assert_eq!(lists, [3, 1, 1]);
    let statuses: Vec<&str> = events.iter().filter_map(|event| event["args"]["status"].as_str()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == "IBV_WC_SUCCESS").count(), 5, "{statuses:?}");
    assert!(statuses.contains(&"IBV_WC_REM_ACCESS_ERR"), "{statuses:?}");
}

#[test]
fn no_more_is_traced_than_is_to_be() {
    let path = file("most");
    let launch = Launch { trace: Some((path.clone(), 4)), ..launch(Link::Ib) };
    let output = own_program(&launch, HERE, "posts").spawn().expect("it starts").wait_with_output();
    let output = output.expect("it can be heard");
    assert!(text(&output).contains(" ends at the limit of 4 work requests"), "{}", text(&output));
    let begun: usize = slices(&events(&path)).values().map(|(begun, _)| begun).sum();
    assert_eq!(begun, 4);
}

#[test]
fn processes_share_a_trace() {
    let path = file("pair");
    let launch = Launch { trace: Some((path.clone(), 100_000)), ..launch(Link::Ib) };
    // Each `command` truncates the file. The server's first events come after the last of these calls.
    if pair(&launch, "ib_write_bw", &["-n", "320", "-s", "64", "--post_list", "16"]).is_none() {
        return;
    }
    let events = events(&path);
    let found = slices(&events);
    assert_eq!(found["sends RDMA_WRITE"], (320, 320), "{found:?}");
    let doorbells: u64 = events.iter().filter_map(|event| event["args"]["wqes"].as_u64()).sum();
    assert_eq!(doorbells, 320);
}
