//! Traces and captures as users make them.

#[path = "../../../../sim/tests/sim/common/trace.rs"]
mod reader;
mod waterfall;

use doorbell_transport::Body;
use reader::{Captured, Trace, check_psns, names, read_pcapng};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// One READ at a time, as in docs/trace.md.
const ONE_READ: &str =
    "simulate --verb read --size 256 --machines 2 --threads 1 --window 1 --warmup 20us --duration 20us";

fn doorbell(line: &str) -> Output {
    let words = line.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_doorbell")).args(words).output().expect("doorbell runs")
}

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

struct Traced {
    json: serde_json::Value,
    trace: Trace,
    packets: Vec<Captured>,
    pcap: PathBuf,
    said: String,
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{output:?}");
    let mut json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    json["wall_seconds"] = 0.into();
    json
}

fn traced(name: &str, line: &str) -> Traced {
    let (trace, pcap) = (temporary(&format!("{name}.pftrace")), temporary(&format!("{name}.pcapng")));
    let files = format!("--trace {} --pcap {}", trace.display(), pcap.display());
    let output = doorbell(&format!("{line} {files} --json"));
    Traced {
        json: json(&output),
        trace: Trace::read(&std::fs::read(trace).unwrap()),
        packets: read_pcapng(&std::fs::read(&pcap).unwrap()),
        pcap,
        said: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn a_read_goes_through_its_stages_for_as_long_as_its_latency() {
    let t = traced("one_read", &format!("{ONE_READ} --trace-ops 3"));
    let operations = t.trace.operations();
    assert_eq!(operations.len(), 3);
    assert!(t.trace.messages().is_empty());
    for (operation, stages) in operations {
        assert_eq!((operation.name.as_str(), operation.track.as_str()), ("READ 256 B", "QP 64"));
        assert!(operation.process.starts_with("machine 1"), "{operation:?}");
        let expected = [
            "post",
            "MMIO",
            "PCIe",
            "sending unit",
            "link",
            "receiving unit",
            "DMA read: data",
            "sending unit",
            "link",
            "receiving unit",
            "DMA write: data",
            "CQE",
            "waits for a poll",
            "poll",
        ];
        assert_eq!(names(&stages), expected);
        // The reader has checked that the stages add up to the operation.
        let latency = t.json["latency_ns"]["mean"].as_f64().unwrap();
        assert!((operation.numbers["ps"] as f64 / 1000.0 - latency).abs() < 1.0, "{latency}");
    }
    assert!(t.said.contains(": 3 operations, from 20 us to 2"), "{}", t.said);
    assert!(t.said.contains("--trace-ops traces more"), "{}", t.said);
}

#[test]
fn what_an_operation_goes_through_is_what_is_busy_with_it() {
    let t = traced("busy", &format!("{ONE_READ} --trace-ops 1"));
    let (operation, stages) = &t.trace.operations()[0];
    let of_flow = |track: &str| {
        let all = t.trace.slices.iter().filter(|s| s.depth == 0 && s.flow == operation.flow);
        let all: Vec<_> = all.filter(|s| s.track.starts_with(track)).map(|s| (s.from, s.to)).collect();
        all
    };
    for unit in ["sending unit", "receiving unit"] {
        let of_stages: Vec<_> = stages.iter().filter(|s| s.name == unit).map(|s| (s.from, s.to)).collect();
        assert_eq!((of_stages.len(), of_flow(unit)), (2, of_stages), "{unit}");
    }
    let (request, answer) = (of_flow("port 1 out")[0], of_flow("port 1 out")[1]);
    let links: Vec<_> = stages.iter().filter(|s| s.name == "link").collect();
    assert_eq!((links[0].from, links[1].from), (request.0, answer.0));
    assert!(answer.1 - answer.0 > request.1 - request.0, "256 B take longer than none");
}

/// Runs with different events in their traces.
const RUNS: [(&str, &str); 8] = [
    (
        "doorbells",
        "simulate --profile cx3 --verb write --size 5000 --batch 2 --window 8 --signal-every 2 --machines 3 --threads 1",
    ),
    ("datagrams", "simulate --verb send --batch 16 --size 60 --machines 4 --threads 2"),
    ("inline", "simulate --verb write --transport uc --size 32 --inline --machines 3 --threads 2"),
    ("atomics", "simulate --verb fetch-add --counters 2 --machines 4 --threads 4 --qps 2"),
    ("unsignalled", "simulate --verb write --size 32 --signal-every 8 --window 16 --machines 3 --threads 2"),
    (
        "all",
        "simulate --verb read --pattern all-to-all --size 5000 --window 3 --machines 4 --threads 3 --qps 3",
    ),
    ("herd", "simulate --system herd-kv --clients 8 --cores 2"),
    ("values", "simulate --system read-kv --clients 14"),
];

#[test]
fn a_trace_changes_nothing() {
    for (name, line) in RUNS {
        let line = format!("{line} --warmup 10us --duration 90us");
        let without = json(&doorbell(&format!("{line} --json")));
        let t = traced(name, &format!("{line} --trace-ops 60"));
        assert_eq!(without, t.json, "{line}");
        assert_eq!(t.trace.operations().len(), 60, "{line}: {}", t.said);
        assert!(t.packets.len() > 50, "{line}: {}", t.packets.len());
        check_psns(&t.packets, 4096);
        let ends = t.trace.operations().iter().map(|(o, _)| o.texts["end"].clone()).collect::<Vec<_>>();
        assert!(ends.iter().all(|end| end == "completed" || end == "without a CQE"), "{line}: {ends:?}");
    }
}

#[test]
fn machines_that_differ_are_processes_that_say_so() {
    let file = temporary("unlike.toml");
    let machine = |profile: &str| format!("[[machine]]\nprofile = \"{profile}\"\ncount = 1\n");
    let text = format!(
        "verb = \"read\"\nwarmup = \"10us\"\nduration = \"20us\"\n{}",
        machine("cib") + &machine("cx3")
    );
    std::fs::write(&file, text).unwrap();
    let line = format!("simulate {}", file.display());
    let without = json(&doorbell(&format!("{line} --json")));
    let t = traced("unlike", &format!("{line} --trace-ops 100"));
    assert_eq!(without, t.json);
    let processes: std::collections::BTreeSet<&str> =
        t.trace.slices.iter().map(|slice| slice.process.as_str()).collect();
    assert_eq!(Vec::from_iter(processes), ["machine 0 (cib)", "machine 1 (cx3)"]);
}

#[test]
fn datagrams_go_on_when_their_operation_is_complete() {
    let line = "simulate --verb send --size 2000 --machines 2 --threads 1 --window 1 --signal-every 1 --warmup 20us --duration 20us";
    let t = traced("datagram", &format!("{line} --trace-ops 1"));
    let operations = t.trace.operations();
    let (operation, stages) = &operations[0];
    assert_eq!(operation.name, "SEND 2000 B");
    let own =
        ["post", "MMIO", "PCIe", "sending unit", "DMA read: payload", "CQE", "waits for a poll", "poll"];
    assert_eq!(names(stages), own);
    let messages = t.trace.messages();
    let (message, stages) = &messages[0];
    assert_eq!(message.flow, operation.flow);
    assert_eq!(names(stages), ["link", "receiving unit", "DMA write: message"]);
    assert!(message.process.starts_with("machine 1") != operation.process.starts_with("machine 1"));
}

#[test]
fn caches_that_miss_and_queues_are_counted() {
    let line = "simulate --verb read --pattern outbound --machines 2 --threads 8 --qps 200 --warmup 20us --duration 20us";
    let t = traced("misses", line);
    let most = |name: &str| t.trace.counts.iter().filter(|(_, n, ..)| n == name).map(|c| c.3).max().unwrap();
    for name in ["requester context misses", "QPs waiting for a sending unit", "DMA reads outstanding"] {
        assert!(most(name) > 1, "{name}");
    }
    let misses = t.json["caches"].as_array().unwrap().iter().map(|c| c["misses"].as_u64().unwrap()).max();
    assert!(most("requester context misses") <= misses.unwrap());
}

#[test]
fn a_capture_is_what_was_sent() {
    let t = traced("capture", &format!("{ONE_READ} --trace-ops 4"));
    let kinds: Vec<(bool, u32)> = t
        .packets
        .iter()
        .map(|c| (matches!(c.packet.body, Body::ReadRequest(_)), c.packet.payload_len))
        .collect();
    assert!(kinds.chunks_exact(2).take(4).all(|pair| pair == [(true, 0), (false, 256)]), "{kinds:?}");
    assert!(t.packets.iter().all(|c| c.comment.is_none()));
    assert!(t.packets[0].interface.starts_with("machine 0 port 1"), "{}", t.packets[0].interface);
    let link = t.trace.operations()[0].1.iter().find(|s| s.name == "link").unwrap().to;
    assert!(t.packets.iter().any(|c| c.time / 1000 == link), "a packet is there when its link stage ends");
}

#[test]
fn wireshark_finds_nothing_malformed() {
    // Wireshark guesses the protocol of payloads. It mistakes a datagram for another protocol if the datagram
    // has no payload, or if the payload begins like an Ethernet type.
    let checked = ["-o", "ip.check_checksum:TRUE"];
    let no_guesses = ["--disable-protocol", "infiniband.eoib", "-o", "infiniband.identify_payload:FALSE"];
    let options = [checked.as_slice(), &no_guesses].concat();
    let tshark = |pcap: &Path, more: &[&str]| {
        Command::new("tshark").arg("-r").arg(pcap).args(&options).args(more).output()
    };
    if Command::new("tshark").arg("--version").output().is_err() {
        return eprintln!("skipped: tshark is not installed");
    }
    for (name, line) in RUNS {
        let t = traced(
            &format!("tshark_{name}"),
            &format!("{line} --warmup 10us --duration 30us --trace-ops 200"),
        );
        let fields = ["-T", "fields", "-e", "frame.protocols", "-e", "infiniband.bth.psn"];
        let output = tshark(&t.pcap, &fields).unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let psns: Vec<u32> = t.packets.iter().map(|c| c.packet.psn).collect();
        let dissected = text.lines().map(|line| {
            let (protocols, psn) = line.split_once('\t').expect("two fields");
            assert!(protocols.starts_with("eth:ethertype:ip:udp:infiniband"), "{name}: {line}");
            psn.parse::<u32>().expect("a PSN")
        });
        assert_eq!(dissected.collect::<Vec<u32>>(), psns, "{name}");
        // Wireshark's expert information must have no remark at the level of a warning or above, either.
        let wrong = "_ws.malformed || ip.checksum.status == 0 || _ws.expert.severity >= 6291456";
        let output = tshark(&t.pcap, &["-Y", wrong]).unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{name}");
    }
}

#[test]
fn a_trace_begins_when_it_is_asked_to() {
    let t = traced("from", &format!("{ONE_READ} --trace-from 5us --trace-ops 2"));
    let first = t.trace.operations()[0].0.clone();
    assert!((5_000..10_000).contains(&first.from), "{first:?}");
    let late = traced("late", &format!("{ONE_READ} --trace-from 1s"));
    assert!(late.trace.slices.is_empty() && late.packets.is_empty());
    let reason = ": no operation, because the run ended at 4";
    assert!(late.said.contains(reason) && late.said.contains(" before 1000000 us\n"), "{}", late.said);
    let one = traced("one", &format!("{ONE_READ} --trace-ops 1"));
    assert!(one.said.contains(": 1 operation, from 20 us to "), "{}", one.said);
}

#[test]
fn reruns_are_not_traced() {
    let once = traced("once", &format!("{ONE_READ} --trace-ops 5"));
    let explained = traced("explained", &format!("{ONE_READ} --trace-ops 5 --explain"));
    assert_eq!(explained.packets.len(), once.packets.len());
    assert_eq!(explained.trace.slices.len(), once.trace.slices.len());
}

/// Runs over InfiniBand and iWARP, with operations of one packet and of several.
#[test]
fn operations_without_a_cqe_end_when_they_are_acknowledged() {
    for (profile, most) in [("cib", 3), ("e7520-t4", 3)] {
        let path = temporary(&format!("silent-{profile}"));
        let output = doorbell(&format!(
            "simulate --system touch --size 9000 --profile {profile} --duration 2ms --trace {}",
            path.display()
        ));
        let said = std::str::from_utf8(&output.stderr).unwrap();
        let count = |words: &str| -> u64 {
            let before = said.split(words).next().unwrap();
            before.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        assert!(count(" operations, from") > 20, "{said}");
        assert!(count(" did not finish") <= most, "{said}");
    }
}

/// Checks for exit code 2, one sentence that contains `part`, and no other output.
fn refused(output: &Output, part: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{part}: {output:?}");
    assert!(said.contains(part) && said.lines().count() == 1, "{part}: {said}");
    assert!(output.stdout.is_empty(), "{part}");
}

#[test]
fn what_cannot_be_written_is_said() {
    let same = temporary("same").display().to_string();
    let link = temporary("link");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&same, &link).unwrap();
    std::fs::write(&same, "before").unwrap();
    for (options, part) in [
        ("--trace /nowhere/x".to_owned(), "cannot write /nowhere/x: "),
        ("--pcap /nowhere/x".into(), "cannot write /nowhere/x: "),
        (format!("--trace {same} --pcap /nowhere/x"), "cannot write /nowhere/x: "),
        (format!("--trace {same} --pcap {same}"), "name one file"),
        (format!("--trace {same} --pcap {}", link.display()), "name one file"),
        ("--trace /dev/stdout".into(), "/dev/stdout is the output for the results"),
        ("--pcap /dev/stderr".into(), "/dev/stderr is the output for messages"),
        (format!("--trace {same} --pcap /dev/stdout"), "/dev/stdout is the output for the results"),
        ("--waterfall /nowhere/x".into(), "cannot write /nowhere/x: "),
        (format!("--trace {same} --waterfall {same}"), "name one file"),
        ("--trace-ops 5".into(), "need --trace, --pcap, --breakdown or --waterfall"),
        ("--trace-from 5us".into(), "need --trace, --pcap, --breakdown or --waterfall"),
    ] {
        refused(&doorbell(&format!("{ONE_READ} {options}")), part);
    }
    assert_eq!(std::fs::read_to_string(&same).unwrap(), "before");
}

#[test]
fn what_a_run_is_read_from_is_not_written_over() {
    let (workload, profile) = (temporary("read.toml"), temporary("own.toml"));
    let link = temporary("read_link");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&workload, &link).unwrap();
    let text = "profile = \"own.toml\"\nwarmup = \"5us\"\nduration = \"5us\"\n";
    std::fs::write(&workload, text).unwrap();
    let own = "name = \"own\"\ntitle = \"\"\nbase = \"cib\"\n";
    std::fs::write(&profile, own).unwrap();
    let files = [&workload, &link, &profile].map(|path| path.display().to_string());
    let system = format!("--system herd-kv --profile {}", files[2]);
    for (what, options) in [
        (&files[0], format!("--trace {}", files[0])),
        (&files[0], format!("--trace {}", files[1])),
        (&files[0], format!("--pcap {}/./read.toml", env!("CARGO_TARGET_TMPDIR"))),
        (&files[0], format!("--trace {}", files[2])),
        (&system, format!("--pcap {}", files[2])),
    ] {
        refused(&doorbell(&format!("simulate {what} {options}")), " is an input file of the run: ");
    }
    assert_eq!(std::fs::read_to_string(&workload).unwrap(), text);
    assert_eq!(std::fs::read_to_string(&profile).unwrap(), own);
}

#[test]
fn a_run_that_is_refused_leaves_files_as_they_were() {
    let (kept, made) = (temporary("kept"), temporary("made"));
    std::fs::write(&kept, "before").unwrap();
    let _ = std::fs::remove_file(&made);
    let files = format!("--trace {} --pcap {}", made.display(), kept.display());
    let terabytes = "simulate --transport rc --pattern all-to-all --machines 540 --threads 14 --qps 540 --window-per-qp 16000 --signal-every 4000";
    for (line, part) in [
        ("simulate --verb read --size 2gb", "2gb"),
        ("simulate --verb read --threads 99", "threads is 99"),
        (terabytes, "of memory, but"),
        ("simulate --verb read --trace-from never", "`never` is not a duration"),
    ] {
        let output = doorbell(&format!("{line} {files}"));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(part), "{output:?}");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "before", "{line}");
        assert!(!made.exists(), "{line}");
    }
    let twice = format!("--trace {0} --pcap {1}/./made", made.display(), env!("CARGO_TARGET_TMPDIR"));
    refused(&doorbell(&format!("{ONE_READ} {twice}")), "name one file");
    assert!(!made.exists());
}

/// Sends SIGINT to a process once the file `written` is not empty.
fn interrupt(process: u32, written: &Path) {
    while std::fs::metadata(written).map_or(0, |about| about.len()) == 0 {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &process.to_string()]).status().unwrap().success());
}

#[test]
fn what_is_kept_of_an_interrupted_run_is_said() {
    let path = temporary("interrupted.pftrace");
    let _ = std::fs::remove_file(&path);
    let shown = path.display();
    let line =
        format!("simulate --machines 2 --threads 1 --duration 1000s --trace {shown} --trace-ops 1000000000");
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    interrupt(child.id(), &path);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let (kept, why) = said.split_once('\n').unwrap();
    assert!(kept.starts_with(&format!("{shown}: ")) && kept.contains(" operations, from "), "{said}");
    assert!(why.starts_with("doorbell: interrupted") && why.lines().count() == 1, "{said}");
    assert!(!Trace::read(&std::fs::read(&path).unwrap()).operations().is_empty());
}

/// In this test, the trace's file is a device that is always full.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_takes_no_result_away() {
    let without = json(&doorbell(&format!("{ONE_READ} --json")));
    for option in ["--trace", "--pcap"] {
        let output = doorbell(&format!("{ONE_READ} --json {option} /dev/full"));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("cannot write all of /dev/full: No space left"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        let mut result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("all of the JSON");
        result["wall_seconds"] = 0.into();
        assert_eq!(result, without);
    }
}
