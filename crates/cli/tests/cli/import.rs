//! `doorbell import`.

use crate::common::{doorbell, library, text};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Output;

/// The folder of logs that perftest printed on the software NIC.
const LOGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../series/tests/import/logs");

fn log(name: &str) -> String {
    format!("{LOGS}/{name}")
}

/// A fresh folder.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("import-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("it can be made");
    path
}

fn import(arguments: &[&str]) -> Output {
    doorbell().arg("import").args(arguments).output().expect("doorbell runs")
}

/// The message with which an import is refused.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = import(arguments);
    let message = text(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(output.stdout.is_empty() && message.lines().count() == 1, "{message}");
    message
}

#[test]
fn logs_become_a_file_of_measurements() {
    let (latency, bandwidth) = (log("latency.log"), log("write-bw-all.log"));
    let output = import(&[
        "perftest",
        &latency,
        &bandwidth,
        "--nic",
        "ConnectX-5",
        "--hops",
        "1",
        "--pcie",
        "gen3x16",
    ]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
    let series = text(&output);
    assert_eq!(series.matches("[[measurement]]").count(), 11, "{series}");
    for part in [
        "id = \"mine-read-lat\"\nnic = \"ConnectX-5\"\n",
        "tool = \"ib_write_bw\"\n",
        "pcie = { gen = 3, lanes = 16 }\n",
        "metric = \"latency-full\", axis = \"size\", threads = 1, qps_per_thread = 1, window = 1,",
        "hops = 1",
    ] {
        assert!(series.contains(part), "{part}: {series}");
    }
    let folder = directory("file");
    let file = folder.join("mine.toml");
    let file = file.to_str().expect("its name is text");
    let written = import(&[
        "perftest",
        &latency,
        &bandwidth,
        "--nic",
        "ConnectX-5",
        "--hops",
        "1",
        "--pcie",
        "gen3x16",
        "-o",
        file,
    ]);
    assert_eq!(text(&written), format!("doorbell: {file}: 11 series\n"));
    assert_eq!(std::fs::read_to_string(file).expect("it was written"), series);
    let again = refused(&["perftest", &latency, "--nic", "ConnectX-5", "-o", file]);
    assert!(again.contains(&format!("cannot write {file}: File exists")), "{again}");
}

#[test]
fn left_out_parts_are_named() {
    let output = import(&["perftest", &log("report-both.log"), "--nic", "x"]);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 2, "{said}");
    let first = said.lines().next().unwrap_or_default();
    assert!(
        first.ends_with(
            "report-both.log:27: left out: the results of one side, because the table above has both"
        ),
        "{first}"
    );
}

#[test]
fn bad_input_is_refused() {
    let folder = directory("refused");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.to_str().expect("its name is text").to_owned()
    };
    let latency = log("latency.log");
    let (empty, csv) = (file("empty.log", ""), file("a.csv", "bytes,us\n8,1.5\n"));
    let workload = "verb = \"write\", transport = \"rc\", metric = \"latency-half\", axis = \"size\"";
    let table = ["--workload", workload, "--unit", "us", "--nic", "x"];
    let of_csv = |columns: &[&'static str]| [&["csv", &csv][..], columns, &table].concat();
    for (arguments, message) in [
        (vec!["perftest", &latency], "latency.log:2: the log does not name the NIC: give --nic"),
        (vec!["perftest", "/nowhere.log", "--nic", "x"], "cannot read /nowhere.log: No such file"),
        (vec!["perftest", &empty, "--nic", "x"], "empty.log:1: there is no output of perftest here"),
        (
            vec!["perftest", &latency, "--nic", "x", "--pcie", "x16"],
            "--pcie is `x16`, but must be a slot such as gen4x16",
        ),
        (vec!["perftest", &latency, "--link", "-3"], "`-3` is not a rate in Gb/s, such as 100"),
        (
            vec!["perftest", &latency, "--devinfo", &empty],
            "empty.log:1: this is not the output of ibv_devinfo -v",
        ),
        (vec!["perftest", &latency, "--lspci", &empty], "empty.log:1: this output of lspci -vv has no NIC"),
        (vec!["perftest", &latency, "--lscpu", &empty], "empty.log:1: this is not the output of lscpu"),
        (vec!["perftest", &latency, "--nic", "x", "--role", "set"], "calibrate, check or reference"),
        (vec!["perftest", &latency, "--hops", "1", "--loopback"], "--loopback"),
        (
            of_csv(&["--column", "bytes"]),
            "--column is `bytes`, but must be a title, =, and a key, such as bytes=size",
        ),
        (of_csv(&["--column", "bytes=si ze"]), "the key si ze may have letters, digits and _ alone"),
        (
            of_csv(&["--column", "bytes=size"]),
            "a.csv:1: no column is the key value: give --column TITLE=value",
        ),
        (
            of_csv(&["--column", "bytes=size", "--column", "us=value", "--separator", "é"]),
            "--separator is 'é', but must be a character of ASCII",
        ),
        (
            vec!["csv", &csv, "--column", "us=value", "--workload", "verb", "--unit", "us"],
            "--workload: \"verb\" is not a table of TOML",
        ),
    ] {
        let said = refused(&arguments);
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
    let good = import(&of_csv(&["--column", "bytes=size", "--column", "us=value"]));
    assert!(text(&good).ends_with("size = [8]\nvalue = [1.5]\n"), "{}", text(&good));
}

#[test]
fn values_become_series() {
    let file = directory("values").join("rates.csv");
    std::fs::write(&file, "depth,rate\n1,0.5\n2,1.0\n").expect("it can be written");
    let workload =
        "verb = \"read\", transport = \"rc\", metric = \"rate\", axis = \"window\", size = 64, threads = 1";
    let file = file.to_str().expect("its name is text");
    let columns = ["--column", "depth=window", "--column", "rate=value"];
    let options = ["--nic", "ConnectX-6", "--unit", "Mops/s", "--workload", workload];
    let output = import(&[&["csv", file][..], &columns, &options].concat());
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
    assert!(text(&output).ends_with("size = 64 }\nwindow = [1, 2]\nvalue = [0.5, 1]\n"), "{}", text(&output));
}

/// Perftest's own output on the software NIC, of each program.
#[test]
fn what_the_installed_perftest_prints_is_understood() {
    if std::process::Command::new("ib_write_lat").arg("--version").output().is_err() {
        return;
    }
    let folder = directory("perftest");
    let programs = [
        "ib_write_lat -n 20",
        "ib_read_lat -n 20",
        "ib_send_lat -n 20 -c UD",
        "ib_atomic_lat -n 20",
        "ib_write_bw -n 100 -q 2 -t 16",
        "ib_read_bw -n 100 --report_gbits",
        "ib_send_bw -n 100 -b",
        "ib_atomic_bw -n 100",
    ];
    for (number, program) in programs.iter().enumerate() {
        let file = folder.join(format!("{number}.log"));
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let run = format!("{program} -p {}", port.expect("there is a port").port());
        // The client retries until the server listens. A failed try prints nothing on standard output.
        let script = format!(
            "{run} >/dev/null & for i in $(seq 200); do {run} 127.0.0.1 >{} 2>/dev/null && break; sleep 0.05; \
             done; wait",
            file.display()
        );
        let mut command = doorbell();
        command.args(["run", "--quiet", "--fabric", &format!("import-{}", std::process::id()), "--lib"]);
        let output = command.arg(library()).args(["--", "timeout", "60", "sh", "-c", &script]).output();
        let output = output.expect("doorbell runs");
        assert!(output.status.success(), "{program}: {}", text(&output));
        let output = import(&["perftest", file.to_str().expect("its name is text"), "--nic", "software"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{program}: {}", text(&output));
    }
}
