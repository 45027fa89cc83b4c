//! The stages of operations, as tables, JSON and pictures.

use super::{ONE_READ, doorbell, json, refused, temporary};
use serde_json::Value;

/// Times of systems that trace some hundred operations.
const SHORT: &str = "--warmup 20us --duration 1ms --trace-ops 60";

/// The breakdown of a run, and the run's mean latency in nanoseconds.
fn breakdown(line: &str) -> (Value, f64) {
    let json = json(&doorbell(&format!("{line} --breakdown --json")));
    let latency = json["latency_ns"]["mean"].as_f64().unwrap_or_else(|| panic!("{line}: {json}"));
    (json["breakdown"].clone(), latency)
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} of {value}"))
}

fn all<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// Checks that stages add up to the mean of their operations, and the stages of the typical operation to its
/// time.
fn check_sums(line: &str, breakdown: &Value) {
    let (mean, stages) = (number(breakdown, "mean_ns"), all(breakdown, "stages"));
    let sum = |key: &str| stages.iter().map(|stage| number(stage, key)).sum::<f64>();
    assert!((sum("mean_ns") - mean).abs() < 1e-6 * mean, "{line}: {breakdown}");
    assert!((sum("share") - 1.0).abs() < 1e-9, "{line}: {breakdown}");
    let typical = &breakdown["typical"];
    let mut at = 0.0;
    for stage in all(typical, "stages") {
        assert_eq!(number(stage, "from_ns"), at, "{line}: {stage} of {typical}");
        at = number(stage, "to_ns");
    }
    assert_eq!(number(typical, "time_ns"), at, "{line}: {typical}");
}

/// Systems whose clients have one operation outstanding, so that each latency is the time of a traced
/// operation.
const SYSTEMS: [&str; 10] = [
    "ping-pong",
    "ping-pong --message send-ud",
    "ping-pong --message send-rc --size 9000",
    "ping-pong --message read-rc",
    "rpc --clients 1 --cores 1 --outstanding 1",
    "rpc --clients 3 --cores 2 --outstanding 1 --request send-ud",
    "rpc --clients 2 --cores 1 --outstanding 1 --request write-rc --reply write-rc",
    "herd-kv --clients 2 --outstanding 1",
    "read-kv --clients 2 --outstanding 1",
    "drtm-kv --clients 2 --outstanding 1 --put-permille 1000 --update",
];

#[test]
fn stages_add_up_to_the_latency() {
    let (read, latency) = breakdown(&format!("{ONE_READ} --trace-ops 5"));
    check_sums(ONE_READ, &read);
    assert_eq!((number(&read, "operations"), number(&read, "left_out")), (5.0, 0.0));
    assert!((number(&read, "mean_ns") - latency).abs() < 1.0, "{read}");
    for system in SYSTEMS {
        let line = format!("simulate --system {system} {SHORT}");
        let (stages, latency) = breakdown(&line);
        check_sums(&line, &stages);
        let each = number(&stages, "mean_ns") / number(&stages, "latencies");
        assert!((each - latency).abs() < 0.05 * latency, "{line}: {each} of {latency}: {stages}");
        assert!(number(&stages, "operations") >= 50.0, "{line}: {stages}");
    }
}

#[test]
fn operations_are_followed_although_many_are_outstanding() {
    for system in [
        "rpc",
        "rpc-sequencer --clients 8 --outstanding 8",
        "herd-kv --clients 8 --outstanding 4",
        "read-kv --clients 8 --put-permille 200",
        "drtm-kv --clients 8",
    ] {
        let line = format!("simulate --system {system} {SHORT}");
        let (stages, _) = breakdown(&line);
        check_sums(&line, &stages);
        let followed = number(&stages, "operations");
        assert!(followed >= 50.0, "{line}: {stages}");
    }
}

/// The mean of a stage on a side, in nanoseconds.
fn mean(breakdown: &Value, side: &str, name: &str) -> f64 {
    let is_it = |stage: &&Value| stage["side"] == side && stage["stage"] == name;
    all(breakdown, "stages").iter().find(is_it).map_or(0.0, |stage| number(stage, "mean_ns"))
}

#[test]
fn both_ways_of_ping_pong_have_equal_stages() {
    for message in ["write-rc", "write-uc", "send-rc", "send-ud"] {
        let line = format!("simulate --system ping-pong --message {message} {SHORT}");
        let (stages, _) = breakdown(&line);
        assert_eq!(number(&stages, "latencies"), 2.0);
        for name in ["post", "MMIO", "PCIe", "sending unit", "receiving unit", "DMA write: message"] {
            let (own, other) = (mean(&stages, "requester", name), mean(&stages, "responder", name));
            assert!(own > 0.0 && (own - other).abs() < 0.02 * own, "{line}: {name}: {own}, {other}");
        }
        let work = mean(&stages, "network", "link");
        assert!(work > 0.0 && mean(&stages, "requester", "link") == 0.0, "{stages}");
    }
}

#[test]
fn the_stages_change_nothing_else() {
    for line in [ONE_READ, "simulate --system rpc --clients 4 --cores 1 --warmup 20us --duration 100us"] {
        let without = json(&doorbell(&format!("{line} --json")));
        let mut with = json(&doorbell(&format!("{line} --breakdown --json")));
        assert!(with.as_object_mut().unwrap().remove("breakdown").is_some());
        assert_eq!(with, without);
    }
}

#[test]
fn a_waterfall_comes_with_its_table() {
    let path = temporary("round_trip.svg");
    let output = doorbell(&format!("simulate --system ping-pong {SHORT} --waterfall {}", path.display()));
    assert!(output.status.success(), "{output:?}");
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for part in ["Stages of an operation", "client", "server", "as 2 latencies of "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        said.starts_with(&format!("{}: ", path.display())) && said.contains(" operations, from "),
        "{said}"
    );
    let svg = std::fs::read_to_string(path).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    for part in ["WRITE 2 B, WRITE 2 B of machine 1: ", "program, machine 0", "link, network"] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
}

#[test]
fn operations_that_cannot_be_followed_are_refused() {
    let path = temporary("refused.svg");
    let _ = std::fs::remove_file(&path);
    let names = "choose verbs, or usual options of rpc-sequencer, herd-kv, read-kv, drtm-kv, rpc, ping-pong";
    for (system, why) in [
        ("touch", "operations of touch cannot be followed from machine to machine, because its programs"),
        ("vector-io", "operations of vector-io cannot be followed"),
        ("rpc --request write-rc --reply read-rc", "because clients READ the replies"),
    ] {
        let output = doorbell(&format!("simulate --system {system} --waterfall {}", path.display()));
        refused(&output, why);
        refused(&output, names);
    }
    assert!(!path.exists());
}

#[test]
fn a_run_without_a_whole_operation_has_no_stages() {
    let path = temporary("none.svg");
    let _ = std::fs::remove_file(&path);
    let output = doorbell(&format!("{ONE_READ} --trace-from 39900ns --waterfall {}", path.display()));
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no traced operation has ended, so there are no stages"), "{said}");
    assert!(!path.exists() && !String::from_utf8_lossy(&output.stdout).contains("Stages"), "{output:?}");
}
