//! `doorbell run` with statistics, and `doorbell simulate` of these statistics. The tests are skipped if
//! perftest is not installed.

use crate::common::{doorbell, library, text};
use crate::fits;
use serde_json::Value;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Output;

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// A new, empty directory of this test.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory can be made");
    path
}

/// Runs server and client of a perftest program under one shell, so that both write statistics to files with
/// one name. Returns the files. The file about both processes is last.
fn measured(directory: &Path, program: &str, arguments: &str) -> Vec<PathBuf> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let run = format!("{program} -p {} {arguments}", port.expect("there is a port").port());
    // The client retries until the server listens.
    let script = format!("{run} & for i in $(seq 200); do {run} 127.0.0.1 && break; sleep 0.05; done; wait");
    let fabric = format!("cli-{}-{program}", std::process::id());
    let mut command = doorbell();
    command.args(["run", "--fabric", &fabric, "--lib"]).arg(library());
    command
        .arg("--stats-json")
        .arg(directory.join("stats.json"))
        .args(["--", "timeout", "150", "sh", "-c", &script]);
    let output = command.output().expect("doorbell runs");
    assert!(output.status.success(), "{}", text(&output));
    let files = std::fs::read_dir(directory).expect("it can be listed").flatten();
    let all = directory.join("stats.json");
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).filter(|file| *file != all).collect();
    files.push(all);
    files
}

fn read(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).expect("it can be read")).expect("it is JSON")
}

#[test]
fn statistics_are_a_workload() {
    if !is_installed("ib_write_bw") {
        return;
    }
    let directory = directory("statistics_are_a_workload");
    let mut files = measured(&directory, "ib_write_bw", "-s 64 -n 1600 --post_list 16");
    let all = files.pop().expect("it is the last");
    fits::only("run-stats-all", &read(&all));
    assert_eq!(read(&all)["workload"]["machines"], 2);
    assert_eq!(read(&all)["total"]["work_requests"], 1600, "of both");
    let output = doorbell().arg("simulate").arg(&all).args(["--duration", "20us"]).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(files.len(), 2, "each of its own, the first as well: {files:?}");
    files.iter().for_each(|file| fits::only("run-stats", &read(file)));
    let (posted, nothing): (Vec<_>, Vec<_>) =
        files.iter().partition(|file| read(file)["total"]["doorbells"] != 0);
    let posted = posted.first().expect("the client posts");
    for (profile, most) in [("cib", 150.0), ("cx3", 40.0)] {
        let mut command = doorbell();
        command.arg("simulate").arg(posted).args(["--profile", profile, "--explain", "--json"]);
        let output =
            command.args(["--warmup", "20us", "--duration", "50us"]).output().expect("doorbell runs");
        assert!(output.status.success(), "{profile}: {}", text(&output));
        let result: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let workload = &result["workload"];
        let expected = serde_json::json!([profile, "write", "rc", 64, 2, 1, 1, 16, "outbound", false]);
        let keys = [
            "profile",
            "verb",
            "transport",
            "size",
            "machines",
            "threads",
            "qps",
            "batch",
            "pattern",
            "inline",
        ];
        assert_eq!(Value::from(keys.map(|key| workload[key].clone()).to_vec()), expected);
        let mops = result["mops"].as_f64().unwrap_or_default();
        assert!(mops > 0.5 && mops < most, "{profile}: {mops}");
        assert!(!result["lift"].as_array().expect("it was explained").is_empty());
    }
    // Statistics of one process are accepted as a baseline, and statistics of all processes, too.
    for file in [posted, &all] {
        let mut command = doorbell();
        let output =
            command.args(["compare", "--baseline"]).args([file, file]).output().expect("doorbell runs");
        assert!(
            output.status.success() && text(&output).contains("doorbells per work request"),
            "{}",
            text(&output)
        );
    }
    // The server of one-sided verbs posts nothing, so there is nothing to simulate.
    let server = nothing.first().expect("the server has a file of its own");
    let output = doorbell().arg("simulate").arg(server).output().expect("doorbell runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).ends_with("contains no workload: its process posted no send work requests\n"));
    assert_eq!(text(&output).lines().count(), 1);
}

/// Output of ibv_devinfo under `doorbell run` with these options.
fn devinfo(options: &[&str]) -> Output {
    let fabric = format!("cli-{}-devinfo", std::process::id());
    let mut command = doorbell();
    command.args(["run", "--quiet", "--fabric", &fabric, "--lib"]).arg(library()).args(options);
    command.args(["--", "ibv_devinfo", "-v"]).output().expect("doorbell runs")
}

/// The lines that have one of these keys, and all other lines.
fn with_keys<'t>(text: &'t str, keys: &[&str]) -> (Vec<&'t str>, Vec<&'t str>) {
    text.lines().partition(|line| keys.iter().any(|key| line.trim_start().starts_with(&format!("{key}:"))))
}

#[test]
fn a_device_is_shown_as_another_nic_by_its_ids_and_limits() {
    if !is_installed("ibv_devinfo") {
        return;
    }
    // Keys that a profile determines.
    const KEYS: [&str; 10] = [
        "vendor_id",
        "vendor_part_id",
        "max_qp_wr",
        "max_sge",
        "max_sge_rd",
        "max_srq_wr",
        "max_srq_sge",
        "max_cqe",
        "max_qp_rd_atom",
        "maximum available device memory",
    ];
    let shown = [None, Some("cib"), Some("cx3"), Some("cx5"), Some("cx6"), Some("cx7")];
    let all = shown.map(|nic| text(&devinfo(&nic.map_or(vec![], |nic| vec!["--as", nic]))));
    let all = all.each_ref().map(|text| with_keys(text, &KEYS));
    let [own, cib, cx3, cx5, cx6, cx7] = &all;
    let numbers = |(ids, _): &(Vec<&str>, Vec<&str>)| -> Vec<String> {
        ids.iter().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
    };
    let mlx5 = ["32768", "30", "30", "1048576", "16", "32767", "31", "131072Bytes"];
    let older = ["16351", "30", "30", "1048576", "16", "16351", "30", "1048576Bytes"];
    let usual = ["32768", "32", "32", "1048576", "16", "32768", "32", "1048576Bytes"];
    for (seen, ids, limits) in [
        (own, ["0x2dbe1", "1"], usual),
        (cib, ["0x02c9", "4113"], older),
        (cx3, ["0x02c9", "4099"], older),
        (cx5, ["0x02c9", "4119"], mlx5),
        (cx6, ["0x02c9", "4123"], mlx5),
        (cx7, ["0x02c9", "4129"], mlx5),
    ] {
        let numbers = numbers(seen);
        assert_eq!(
            (&numbers[..2], &numbers[2..]),
            (&ids.map(str::to_owned)[..], &limits.map(str::to_owned)[..])
        );
    }
    assert!(own.1.len() > 30 && all.iter().all(|(_, others)| *others == own.1), "{all:#?}");
}

#[test]
fn assumed_limits_are_printed_and_statistics_need_a_profile() {
    let run = |options: &[&str]| {
        let mut command = doorbell();
        command.args(["run", "--lib"]).arg(library()).args(options).args(["--", "true"]);
        command.output().expect("doorbell runs")
    };
    let line = "doorbell: these limits of cx6 are assumed, not published: max_inline_bytes 828. ";
    let shown = text(&run(&["--as", "cx6"]));
    assert_eq!(shown.matches(line).count(), 1, "{shown}");
    assert!(!text(&run(&["--as", "cx6", "--quiet"])).contains("assumed"));
    let refused = run(&["--as", "cx6", "--stats"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused).contains("there is no profile cx6 yet, only its ids and limits"),
        "{}",
        text(&refused)
    );
    assert!(run(&["--as", "cx6", "--stats", "--profile", "cib"]).status.success());
}

#[test]
fn a_nic_whose_ids_nobody_has_said_is_not_shown() {
    let cib = include_str!("../../../../profiles/cib.toml");
    let without: String =
        cib.lines().filter(|line| !line.starts_with("device_id")).map(|l| format!("{l}\n")).collect();
    let file = directory("a_nic_without_ids").join("mine.toml");
    std::fs::write(&file, without).expect("it can be written");
    let file = file.to_str().expect("its name is text");
    for (name, said) in [(file, "has no device_id"), ("cx9", "the name of a NIC's model: cx5, cx6, cx7")] {
        let output = devinfo(&["--as", name]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(said) && text(&output).lines().count() == 1, "{}", text(&output));
    }
}

#[test]
fn results_are_a_workload_again() {
    let directory = directory("results_are_a_workload_again");
    let simulate = |arguments: &[&str]| {
        let output =
            doorbell().arg("simulate").args(arguments).arg("--json").output().expect("doorbell runs");
        assert!(output.status.success(), "{}", text(&output));
        output.stdout
    };
    let first = simulate(&[
        "--verb",
        "read",
        "--machines",
        "2",
        "--threads",
        "1",
        "--warmup",
        "5us",
        "--duration",
        "20us",
    ]);
    // The file's name does not matter.
    let file = directory.join("result");
    std::fs::write(&file, &first).expect("it can be written");
    let again = simulate(&[file.to_str().expect("its name is text")]);
    let mops = |json: &[u8]| serde_json::from_slice::<Value>(json).expect("it is JSON")["mops"].clone();
    assert_eq!(mops(&first), mops(&again));
}

/// The message with which `doorbell run` refuses these options.
#[track_caller]
fn refused(options: &[&str]) -> String {
    let mut command = doorbell();
    command.args(["run", "--lib"]).arg(library()).args(options).args(["--", "true"]);
    let output = command.output().expect("doorbell runs");
    assert_eq!(output.status.code(), Some(2), "{options:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn faults_that_are_none_are_refused() {
    for (options, why) in [
        (&["--fault", "drop=2"][..], "--fault: drop=2: \"2\" is not a probability from 0 to 1, such as 1e-4"),
        (
            &["--fault", "rnr", "--seed", "18446744073709551616"],
            "`18446744073709551616` is not a whole number from 0 to 18446744073709551615",
        ),
        (&["--fault", "rnr", "--seed", "-1"], "`-1` is not a whole number from 0 to 18446744073709551615"),
        (&["--fault", "dorp=0.1"], "--fault: \"dorp=0.1\" is not a fault; the faults are drop=P, delay=T"),
        (&["--fault", "port-down@5"], "--fault: port-down: \"5\" is not a time of at most an hour"),
        (&["--seed", "7"], "--seed applies to faults only: give --fault too"),
        (&["--fault", "rnr", "--seed", "x"], "--seed"),
    ] {
        let said = refused(options);
        assert!(said.contains(why), "{options:?}: {said}");
    }
}

#[test]
fn places_where_no_statistics_can_be_written_are_refused() {
    for (place, why) in [
        ("/nonexistent/stats.json", "cannot write the statistics to /nonexistent/stats.json: No such file"),
        ("/dev/full", "cannot write the statistics to /dev/full: it exists and is not a regular file"),
        ("/tmp", "cannot write the statistics to /tmp: it exists and is not a regular file"),
        ("..", "cannot write the statistics to ..: the path does not end with the name of a file"),
    ] {
        let said = refused(&["--stats-json", place]);
        assert!(said.contains(why), "{place}: {said}");
    }
}

#[test]
fn a_program_that_never_opens_the_device_is_named() {
    let said = |options: &[&str], program: &[&str]| {
        let mut command = doorbell();
        command.args(["run", "--lib"]).arg(library()).args(options).arg("--").args(program);
        let output = command.output().expect("doorbell runs");
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let line =
        "ls never opened the device: neither it nor a process that it started called ibv_open_device(3)";
    for options in [&[][..], &["-n", "2"], &["--stats"]] {
        let said = said(options, &["ls", "/dev/null"]);
        assert!(said.starts_with(&format!("doorbell: {line}")), "{options:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{options:?}: {said}");
    }
    assert_eq!(said(&["--quiet"], &["ls", "/dev/null"]), "");
    // The inner launcher prints the line.
    let (own, file) = (env!("CARGO_BIN_EXE_doorbell"), library().to_str().expect("text"));
    let nested = said(&[], &[own, "run", "--lib", file, "--", "ls", "/dev/null"]);
    assert!(nested.contains(line) && nested.lines().count() == 1, "{nested}");
    if is_installed("ibv_devinfo") {
        assert_eq!(said(&[], &["ibv_devinfo"]), "");
        assert_eq!(said(&[], &["sh", "-c", "ibv_devinfo; true"]), "");
        assert_eq!(said(&[], &["env", "DOORBELL_QUIET=1", "ibv_devinfo"]), "");
    }
    // A process that the program has left behind may open the device later.
    let mut command = doorbell();
    let leaves = "sleep 60 > /dev/null 2>&1 & echo $!";
    command.args(["run", "--lib"]).arg(library()).args(["--", "sh", "-c", leaves]);
    let output = command.output().expect("doorbell runs");
    let left: libc::pid_t = text(&output).trim().parse().expect("the process's PID, and nothing else");
    // SAFETY: the function takes only numbers.
    unsafe { libc::kill(left, libc::SIGKILL) };
}

#[test]
fn times_that_are_none_are_refused() {
    for time in ["5", "-1s", "2h", "s"] {
        let said = refused(&["--explain-after", time]);
        assert!(said.contains(&format!("`{time}` is not a time of at most an hour, such as 5s")), "{said}");
    }
}

/// Runs a command line under `doorbell run` with a trace. Returns its status and the trace's events.
fn traced(directory: &Path, options: &str, line: &[&str]) -> (Option<i32>, Vec<Value>) {
    let path = directory.join("trace.json");
    let mut command = doorbell();
    command.args(["run", "--fabric", &format!("cli-trace-{}", std::process::id())]);
    command.arg("--lib").arg(library()).arg("--trace").arg(&path).args(options.split_whitespace());
    let output = command.arg("--").args(line).output().expect("doorbell runs");
    let events = read(&path);
    (output.status.code(), events.as_array().expect("an array").clone())
}

#[test]
fn a_trace_is_json() {
    let directory = directory("a_trace_is_json");
    assert_eq!(traced(&directory, "", &["sh", "-c", "exit 3"]), (Some(3), Vec::new()));
    assert_eq!(traced(&directory, "-n 2", &["true"]), (Some(0), Vec::new()));
    let only = std::fs::read_dir(&directory).expect("it can be listed").count();
    assert_eq!(only, 1, "the trace is the only file");
    if !is_installed("ib_write_bw") {
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let run = format!("ib_write_bw -p {} -n 100 -s 64", port.expect("there is a port").port());
    let script = format!("{run} & for i in $(seq 200); do {run} 127.0.0.1 && break; sleep 0.05; done; wait");
    let (status, events) = traced(&directory, "", &["timeout", "150", "sh", "-c", &script]);
    assert_eq!(status, Some(0));
    assert!(events.iter().filter(|event| event["name"] == "RDMA_WRITE").count() >= 200, "{}", events.len());
}
