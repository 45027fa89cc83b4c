//! Tests of percentiles, distributions of latency, and loads.

use crate::common::split_words;
use crate::ctrl_c::{interrupted, signalled};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A new, empty directory of this test.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tails").join(test);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory can be made");
    path
}

/// The command with its words from `line`. It runs in `directory`, and its cache is there, too.
fn command(directory: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.current_dir(directory).env("DOORBELL_CACHE_DIR", directory.join("cache"));
    command.args(split_words(line));
    command
}

fn doorbell(directory: &Path, line: &str) -> Output {
    command(directory, line).output().expect("doorbell runs")
}

/// Output of a command that succeeds.
fn said(directory: &Path, line: &str) -> String {
    let output = doorbell(directory, line);
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The line of `text` that contains `part`.
fn line_of<'a>(text: &'a str, part: &str) -> &'a str {
    text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part}: {text}"))
}

#[test]
fn p999_is_printed_wherever_it_is_asked_for() {
    let directory = directory("p999");
    let some = "--system rpc --cores 1 --until p99.9 --max-time 300us";
    let text = said(&directory, &format!("simulate --clients 4 {some}"));
    assert!(line_of(&text, "latency, p99.9").contains(" of 100000 latencies; measured by: "), "{text}");
    for line in [format!("sweep {some} --over clients=2,4"), format!("compare clients=2 clients=4 {some}")] {
        let text = said(&directory, &line);
        assert!(line_of(&text, "bottleneck").contains("p99.9"), "{text}");
    }
    let usual = said(&directory, &format!("sweep {} --over clients=2", some.replace("p99.9", "mean")));
    assert!(!usual.contains("p99.9"), "{usual}");
}

#[test]
fn a_flag_for_the_end_replaces_the_end_in_the_file() {
    let directory = directory("ends");
    let until = "verb = \"read\"\nmachines = 2\nthreads = 1\nuntil = \"p99\"";
    std::fs::write(directory.join("until.toml"), until).expect("it can be written");
    let text = said(&directory, "simulate until.toml --duration 50us");
    assert!(line_of(&text, "duration").ends_with(" 50us"), "{text}");
    std::fs::write(directory.join("duration.toml"), until.replace("until = \"p99\"", "duration = \"50us\""))
        .expect("it can be written");
    assert!(
        said(&directory, "simulate duration.toml --until mean --json").contains("\"ended\": \"settled\"")
    );
    let output = doorbell(&directory, "simulate --verb read --until p99 --duration 50us");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// The command that a run prints for a missing percentile.
fn suggested(text: &str, percentile: &str) -> String {
    let row = line_of(text, &format!("latency, {percentile}  "));
    let (_, command) =
        row.split_once("measured by: doorbell ").unwrap_or_else(|| panic!("no command: {text}"));
    command.trim_end_matches(')').to_owned()
}

#[test]
fn the_command_for_a_percentile_measures_it() {
    let directory = directory("suggested");
    let read = "simulate --verb read --machines 2 --threads 1";
    // A run that was to measure p99 ended too early: the maximum must grow. A run of given duration ends by
    // the percentile instead.
    for (line, parts) in [
        (format!("{read} --until p99 --max-time 300us"), "--until p99 --max-time "),
        (format!("{read} --duration 50us --warmup 10us"), "--warmup 10us --until p99"),
    ] {
        let text = said(&directory, &line);
        let command = suggested(&text, "p99");
        assert!(command.contains(parts) && command != line && !command.contains("--duration"), "{command}");
        let longer = said(&directory, &command);
        assert!(line_of(&longer, "latency, p99  ").contains(" to "), "{command}: {longer}");
        let duration = line_of(&longer, "  duration");
        let until = ", until rate and mean latency are known to 1% and p99 has an interval";
        assert!(duration.ends_with(until), "{duration}");
    }
}

#[test]
fn a_missing_percentile_is_no_doubt_about_the_rate() {
    let directory = directory("no_percentile");
    let some = "--verb read --machines 2 --threads 1 --until p99 --max-time 300us";
    let reason = "The requested percentile is not known: p99 has ";
    let text = said(&directory, &format!("simulate {some}"));
    assert!(text.contains(reason) && text.contains("(--max-time) are over"), "{text}");
    assert!(!text.contains("may differ"), "{text}");
    let text = said(&directory, &format!("sweep {some} --over size=16,32"));
    assert!(text.contains("The requested percentile is not known:\n  size=16: p99 has "), "{text}");
    assert!(!text.contains('*') && !text.contains("add --until p99"), "{text}");
}

#[test]
fn a_percentile_that_is_out_of_reach_has_a_number_instead_of_a_command() {
    let text = said(
        &directory("out_of_reach"),
        "simulate --verb read --machines 2 --threads 1 --think 1s --warmup 0s --duration 100s",
    );
    let row = line_of(&text, "latency, p99.9");
    assert!(!row.contains("measured by") && row.contains(" of 100000 latencies in "), "{text}");
}

/// Code, standard output and standard error of a command.
fn ended(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_distribution_that_cannot_be_drawn_costs_no_result() {
    let directory = directory("nothing_drawn");
    let few = "--machines 2 --threads 1 --duration 5us --warmup 5us";
    let over = "--verb read --machines 3 --threads 2 --arrivals fixed --rate 100000000 --duration 200us";
    for (line, shows) in [
        (format!("compare verb=read verb=write {few} --cdf x.svg"), "verb=write"),
        (format!("simulate --verb read {few} --cdf x.svg"), "latency, mean"),
        (format!("simulate {over} --cdf x.svg"), "Overload: "),
        (format!("simulate {over} --histogram x.svg"), "Overload: "),
    ] {
        let (code, out, err) = ended(doorbell(&directory, &line));
        assert!(code == Some(0) && out.contains(shows), "{line}: {code:?} {out} {err}");
        assert!(
            err.starts_with("doorbell: ") && err.ends_with(", so x.svg is not written\n"),
            "{line}: {err}"
        );
        assert!(!directory.join("x.svg").exists(), "{line}");
    }
    let long = "compare duration=20us duration=900s --verb read --machines 2 --threads 1 --cdf x.svg";
    let (code, out, err) = ended(interrupted(&mut command(&directory, long)));
    assert!(code == Some(130) && out.contains("duration=900s"), "{code:?} {out} {err}");
    // A file that cannot be written is an error after the result.
    for file in ["--cdf", "--histogram"] {
        let line = format!("simulate --verb read --machines 2 --threads 1 --duration 2ms {file} /dev/full");
        let (code, out, err) = ended(doorbell(&directory, &line));
        assert!(code == Some(1) && out.contains("latency, mean"), "{line}: {code:?} {out} {err}");
        assert!(err.contains("cannot write all of /dev/full"), "{line}: {err}");
    }
}

#[test]
fn a_distribution_is_written() {
    let directory = directory("written");
    let line = "simulate --verb read --machines 2 --threads 1 --duration 2ms --histogram h.csv --cdf c.svg";
    let json: serde_json::Value = serde_json::from_str(&said(&directory, &format!("{line} --json"))).unwrap();
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).expect("a file");
    let csv = read("h.csv");
    let operations = csv.lines().skip(1).map(|row| row.split(',').nth(1).unwrap().parse::<u64>().unwrap());
    assert_eq!(Some(operations.sum::<u64>()), json["latency_ns"]["count"].as_u64(), "{csv}");
    assert!(csv.starts_with("latency_ns,operations,share\n") && csv.ends_with(",1\n"), "{csv}");
    assert!(read("c.svg").contains("Distribution of latency"));
    let both = "compare window=1 window=2 --verb read --machines 2 --threads 1 --duration 2ms --cdf both.svg";
    said(&directory, both);
    assert!(read("both.svg").contains("window=2"));
}

#[test]
fn a_distribution_replaces_no_file_that_the_command_uses() {
    let directory = directory("used");
    let workload = "verb = \"read\"\nmachines = 2\nthreads = 1\nduration = \"5us\"\nwarmup = \"5us\"\n";
    std::fs::write(directory.join("w.toml"), workload).expect("it can be written");
    for (line, part) in [
        ("simulate w.toml --histogram w.toml", "w.toml is an input file of the run: "),
        ("simulate w.toml --cdf ./w.toml", "./w.toml is an input file of the run: "),
        ("compare w.toml \"w.toml qps=2\" --cdf w.toml", "w.toml is an input file of the run: "),
        ("simulate w.toml --histogram x --cdf x", "--histogram and --cdf name one file"),
        ("simulate w.toml --trace x --cdf ./x", "--trace and --cdf name one file"),
        ("simulate w.toml --histogram /dev/stdout", "/dev/stdout is the output for the results"),
        ("simulate w.toml --cdf /nonexistent/x", "cannot write /nonexistent/x: "),
    ] {
        let (code, out, err) = ended(doorbell(&directory, line));
        assert!(code == Some(2) && err.contains(part) && out.is_empty(), "{line}: {code:?} {out} {err}");
        assert_eq!(err.lines().count(), 1, "{line}: {err}");
        assert!(!directory.join("x").exists(), "{line}");
    }
    assert_eq!(std::fs::read_to_string(directory.join("w.toml")).expect("a file"), workload);
}

/// Five READing threads whose closed loop reaches its rate within a few milliseconds.
const OPEN: &str = "--verb read --machines 2 --threads 5 --arrivals poisson --duration 100us --warmup 20us";

#[test]
fn results_state_the_capacity_of_a_load() {
    let directory = directory("capacity");
    let json = |line: &str| serde_json::from_str::<serde_json::Value>(&said(&directory, line)).expect("JSON");
    let simulated = json(&format!("simulate {OPEN} --load 70% --json"));
    let load = &simulated["load"];
    let (mops, rate) = (load["capacity"]["mops"].as_f64().unwrap(), load["rate"].as_u64().unwrap());
    assert_eq!((&load["share"], (mops * 1e6 * 0.7).round() as u64), (&"70%".into(), rate), "{load}");
    assert_eq!(simulated["workload"]["rate"], rate, "{load}");
    let sweep = json(&format!("sweep {OPEN} --over load=50%,70% --json --csv loads.csv"));
    assert_eq!(&sweep["points"][1]["load"], load);
    assert_eq!(sweep["points"][0]["load"]["capacity"], load["capacity"]);
    let csv = std::fs::read_to_string(directory.join("loads.csv")).expect("a file");
    let mut rows = csv.lines();
    assert!(
        rows.next().unwrap().ends_with(",rate,capacity_mops,capacity_mops_half,capacity_unsettled"),
        "{csv}"
    );
    assert!(rows.nth(1).unwrap().contains(&format!(",{rate},{mops},")), "{csv}");
    let compared = json(&format!("compare load=50% load=70% {OPEN} --json"));
    assert_eq!(&compared["sides"][1]["load"], load);
    for (line, part) in [
        (format!("simulate {OPEN} --load 70%"), "Load: 70% of "),
        (format!("sweep {OPEN} --over load=50%,70%"), "A load is a share of the rate of a closed loop"),
        (format!("compare load=50% load=70% {OPEN}"), "  load=70%: load 70% of "),
    ] {
        let text = said(&directory, &line);
        assert!(line_of(&text, part).len() > 20 && text.contains(" Mops"), "{text}");
        let closed = line_of(&text, " with a full window: 16 outstanding per thread (bottleneck: ");
        assert!(closed.contains(" Mops") && closed.ends_with(')'), "{text}");
    }
    let bottleneck = &load["capacity"]["bottleneck"]["class"];
    assert!(bottleneck.as_str().is_some_and(|class| class != "none"), "{load}");
}

#[test]
fn an_interrupt_during_the_capacity_has_its_own_code() {
    let directory = directory("interrupted");
    // The closed loop takes long until it is known to 0.01%.
    let long =
        "--verb write --transport rc --size 65536 --arrivals poisson --precision 0.01% --max-time 1000s";
    for (line, name) in [
        (format!("simulate {long} --load 70% --max-wall 900s"), ""),
        (format!("sweep {long} --over load=50%,70%"), "at load=50%: "),
        (format!("compare load=50% load=70% {long}"), "at load=50%: "),
    ] {
        let (code, out, err) = ended(signalled(&mut command(&directory, &line), "TERM"));
        assert_eq!((code, out.as_str()), (Some(143), ""), "{line}: {err}");
        assert_eq!(err, format!("doorbell: {name}interrupted, so the capacity is not known\n"), "{line}");
    }
    let (code, out, err) = ended(doorbell(&directory, &format!("simulate {long} --load 70% --max-wall 1ms")));
    assert!(code == Some(1) && out.is_empty(), "{out} {err}");
    assert!(err.starts_with("doorbell: the capacity is not known, because the closed loop"), "{err}");
}

#[test]
fn bad_input_is_refused_before_the_capacity_is_measured() {
    let directory = directory("checked_first");
    let long =
        "--verb write --transport rc --size 65536 --arrivals poisson --precision 0.01% --max-time 1000s";
    for (line, part) in [
        (format!("sweep {long} --over load=50%,70% --csv /nonexistent/x"), "cannot write /nonexistent/x"),
        (format!("simulate {long} --load 70% --trace /nonexistent/x"), "cannot write /nonexistent/x"),
        (format!("compare load=50% \"load=70% threads=99\" {long}"), "at load=70% threads=99: "),
    ] {
        let (code, out, err) = ended(doorbell(&directory, &line));
        assert!(code == Some(2) && out.is_empty() && err.contains(part), "{line}: {code:?} {out} {err}");
    }
}

#[test]
fn sides_with_different_windows_state_them() {
    let directory = directory("windows");
    let some = "--clients 4 --warmup 20us --duration 50us";
    let text = said(&directory, &format!("compare system=read-kv system=herd-kv {some}"));
    assert!(text.contains("  system=read-kv: latency with 16 outstanding per client.\n"), "{text}");
    assert!(text.contains("  system=herd-kv: latency with windows of 32 per client.\n"), "{text}");
    let text = said(&directory, &format!("compare clients=2 clients=4 --system herd-kv {}", &some[12..]));
    assert!(
        text.contains("Latency with windows of 32 per client.\n") && !text.contains(": latency with"),
        "{text}"
    );
}

#[test]
fn seven_operations_have_no_interval() {
    let line = "simulate --verb read --machines 2 --threads 1 --window 1 --warmup 10us --duration";
    let directory = directory("seven");
    let runs = ["9us", "11us", "13us", "15us", "17us", "19us"].map(|duration| {
        let json = said(&directory, &format!("{line} {duration} --json"));
        (duration, serde_json::from_str::<serde_json::Value>(&json).expect("JSON")["completed"].as_u64())
    });
    let few = runs.iter().filter(|(_, completed)| *completed < Some(10));
    assert!(few.clone().count() > 0, "{runs:?}");
    for (duration, _) in few {
        let text = said(&directory, &format!("{line} {duration}"));
        let reason = " completed, and an interval needs at least 10.";
        assert!(!text.contains('\u{b1}') && text.contains(reason), "{text}");
    }
}

#[test]
fn a_point_with_operations_that_are_too_long_refuses_no_other_point() {
    let directory = directory("too_long");
    let line = "sweep --verb read --machines 2 --threads 1 --over size=64,1073741824";
    let text = said(&directory, line);
    assert!(text.lines().any(|line| line.trim_start().starts_with("64 ")), "{text}");
    assert!(text.contains("No result:\n  size=1073741824: operations are too long for a result: "), "{text}");
    assert!(!text.contains("points are missing"), "{text}");
    let whole = said(&directory, &format!("{line} --json"));
    for part in ["1/2", "2/2"] {
        let json = said(&directory, &format!("{line} --json --shard {part}"));
        std::fs::write(directory.join(format!("{}.json", &part[..1])), json).expect("it can be written");
    }
    assert_eq!(said(&directory, "sweep --merge 1.json 2.json --json"), whole);
    let (code, _, err) = ended(doorbell(&directory, &line.replace("64,", "")));
    assert!(code == Some(2) && err.contains("size=1073741824: operations are too long"), "{err}");
}
