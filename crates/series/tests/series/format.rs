//! The format: every key is read, written and described.

use crate::parsed;
use doorbell_series::{SeriesFile, described_keys};

/// A series with every key.
const FULL: &str = r#"[[measurement]]
id = "full"
nic = "ConnectX-9"
link = "100 Gb/s RoCE"
cpu = "two of them"
topology = "one switch"
tool = "ib_write_bw -a"
options = "-d mlx5_0"
verb = "WRITE"
transport = "RC"
metric = "bandwidth"
unit = "Gb/s"
statistic = "average"
pcie_text = "gen3 x16"
source = "a page"
confidence = "high"
role = "reference"
role_reason = { exempt = "it is made up" }
notes = "none"
host = "pair"
link_gbps = 53.125
links = 2
fabric = "roce"
pcie = { gen = 3, lanes = 16, inferred = true }
system = { name = "rpc-sequencer", variant = "batching", cores = 3 }
not_run = "it is made up"
workload = { verb = "write", transport = "rc", metric = "bandwidth", axis = "size", threads = 1, qps_per_thread = 2, threads_per_qp = 3, qps = 4, window = 5, window_per_thread = 6, outstanding = 7, size = 8, sge = 9, inline = 10, signal_every = 11, batch = 12, requests = 13, blueflame = true, doorbell_registers = "own", addresses = "many", keys = 14, memory = "host", rd_atomic = 15, mtu = 1024, hops = 0, switched = true, loopback = true, machines = 3, pattern = "inbound", cq_per_qp = true, bidirectional = false, side = "inbound", socket = "far", socket_of = "both", nics = 16, functions = 17, initiator = "gpu", odp = true, throttle = 0.5, region_bytes = 5000000000, cases = ["a", "b"] }
size = [2, 4194304]
value = [0.25, 97]
p99 = [0.125, 100]
"#;

#[test]
fn every_key_is_read_and_written() {
    let file = SeriesFile::parse("m.toml", FULL).unwrap();
    assert_eq!(file.to_toml(), FULL);
    assert_eq!(SeriesFile::parse("m.toml", &file.to_toml()).unwrap(), file);
}

#[test]
fn every_key_is_described() {
    let keys = described_keys();
    for described in &keys {
        let name = described.key.rsplit('.').next().unwrap();
        let in_full = FULL.contains(&format!("\n{name} = ")) || FULL.contains(&format!(" {name} = "));
        assert!(in_full, "{name} is not in the full series");
        assert!(described.about.ends_with('.') && !described.values.is_empty(), "{described:?}");
    }
    let required = keys.iter().filter(|key| key.required).map(|key| key.key.as_str()).collect::<Vec<_>>();
    assert_eq!(
        required.join(" "),
        "id nic unit role host workload.verb workload.transport workload.metric workload.axis"
    );
}

#[test]
fn a_series_without_a_required_key_is_refused_with_its_line() {
    for (key, line) in [("id", 1), ("nic", 1), ("unit", 1), ("role", 1), ("host", 1), ("workload", 1)] {
        let without: String =
            FULL.lines().filter(|l| !l.starts_with(&format!("{key} = "))).map(|l| format!("{l}\n")).collect();
        let error = SeriesFile::parse("m.toml", &without).unwrap_err().to_string();
        assert_eq!(error, format!("m.toml:{line}: missing field `{key}`"));
    }
    for key in ["verb", "transport", "metric", "axis"] {
        let at = FULL.find("workload = ").unwrap();
        let (before, workload) = FULL.split_at(at);
        let without = before.to_owned() + &workload.replacen(&format!("{key} = "), "cpu_of = ", 1);
        let error = SeriesFile::parse("m.toml", &without).unwrap_err().to_string();
        assert!(error.starts_with("m.toml:27: unknown key `cpu_of` of workload; "), "{error}");
    }
}

#[test]
fn order_and_spelling_of_tables_do_not_matter() {
    let inline = parsed(FULL);
    let is_table = |line: &&str| line.contains(" = { ");
    let (tables, others): (Vec<&str>, Vec<&str>) = FULL.lines().partition(is_table);
    let table = |line: &str| {
        let (name, keys) = line.split_once(" = { ").unwrap();
        let keys = keys.trim_end_matches(" }").replace("\"a\", \"b\"", "\"a\",\"b\"").replace(", ", "\n");
        format!("[measurement.{name}]\n{keys}\n")
    };
    let tables: String = tables.into_iter().map(table).collect();
    let spread = parsed(&format!("{}\n{tables}", others.join("\n")));
    assert_eq!(spread, inline);
}

/// The series of newer NICs, which set and test profiles, state their sources, and have no prose.
#[test]
fn the_papers_series_of_newer_nics_are_complete() {
    let text = include_str!("../../../../papers/nics.toml");
    let file = SeriesFile::parse("papers/nics.toml", text).unwrap_or_else(|error| panic!("{error}"));
    for nic in ["ConnectX-5", "ConnectX-6", "ConnectX-7"] {
        assert!(file.series.iter().any(|m| m.setup.nic == nic), "{nic}");
    }
    for m in &file.series {
        let setup = &m.setup;
        assert!(setup.source.as_ref().is_some_and(|source| source.len() > 5), "{}", setup.id);
        let prose = [&setup.notes, &setup.options, &setup.topology, &setup.confidence];
        assert!(prose.into_iter().all(Option::is_none), "{}", setup.id);
        assert!(m.points.iter().all(|point| point.value > 0.0 && point.value.is_finite()), "{}", setup.id);
    }
    // Writing keeps every value.
    assert_eq!(SeriesFile::parse("written", &file.to_toml()).unwrap(), file);
}
