//! Tests of `doorbell check`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// One answered series, one refused series and a series of another NIC.
const FILE: &str = r#"[[measurement]]
id = "reads"
nic = "Connect-IB"
unit = "us"
role = "calibrate"
host = "cib"
workload = { verb = "read", transport = "rc", metric = "latency-full", axis = "size" }
size = [32, 1024]
value = [2, 2.5]

[[measurement]]
id = "writes/odd"
nic = "Connect-IB"
unit = "Mops/s"
role = "check"
host = "far"
workload = { verb = "write", transport = "rc", metric = "rate", axis = "window", size = 8, blueflame = false }
window = [1]
value = [0.5]

[[measurement]]
id = "elsewhere"
nic = "ConnectX-3"
unit = "Mops/s"
role = "reference"
host = "cx3"
workload = { verb = "read", transport = "rc", metric = "rate", axis = "window", size = 8 }
window = [1]
value = [0.5]
"#;

/// A new directory of this test with the file of measurements.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("check").join(test);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory can be made");
    std::fs::write(path.join("m.toml"), FILE).expect("a file can be written");
    path
}

fn doorbell(directory: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.current_dir(directory).env("DOORBELL_CACHE_DIR", directory.join("cache"));
    command.args(line.split(' ')).output().expect("doorbell runs")
}

/// Output of a check that succeeds.
fn said(directory: &Path, line: &str) -> String {
    let output = doorbell(directory, line);
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The message with which the command refuses `line`: one sentence.
fn refused(directory: &Path, line: &str) -> String {
    let output = doorbell(directory, line);
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{line}: {said}");
    said
}

/// The words of the line that begins with `word`.
fn line_of<'t>(text: &'t str, word: &str) -> Vec<&'t str> {
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.find(|words| words.first() == Some(&word)).unwrap_or_else(|| panic!("no {word}: {text}"))
}

#[test]
fn a_check_prints_errors_refusals_choices_and_other_nics() {
    let directory = directory("text");
    let text = said(&directory, "check m.toml --profile cib");
    assert_eq!(line_of(&text, "reads")[1..5], ["cib", "calibrate", "no", "2"]);
    assert_eq!(
        line_of(&text, "writes/odd"),
        ["writes/odd", "far", "check", "no", "refused", "-", "-", "window"]
    );
    assert!(
        text.contains("writes/odd  blueflame is false, but the model writes single WQEs by MMIO\n"),
        "{text}"
    );
    assert!(text.contains("elsewhere  ConnectX-3  --profile cx3 or cx3-dual or cx3-dual-split\n"), "{text}");
    assert!(
        text.contains("  hops          1, as in link.one_way_ns of the profile  in 1 series\n"),
        "{text}"
    );
    // Answered and refused series stand beside each median.
    assert_eq!(line_of(&text, "calibrate")[1..3], ["1", "0"]);
    assert_eq!(line_of(&text, "check")[..4], ["check", "0", "1", "-"]);
    assert_eq!(line_of(&text, "all")[1..3], ["1", "1"]);
    assert!(!text.contains("limit"), "{text}");
    let points = said(&directory, "check m.toml --profile cib --points");
    assert!(points.contains("\nreads: latency-full, us\n"), "{points}");
    assert_eq!(line_of(&points, "1024").len(), 5);
    assert!(points.contains("results are stored"), "the runs are not repeated: {points}");
}

#[test]
fn errors_in_json_are_the_models_values_by_the_measured_ones() {
    let directory = directory("json");
    let json: serde_json::Value =
        serde_json::from_str(&said(&directory, "check m.toml --profile cib --json")).expect("JSON");
    let reads = &json["series"][0];
    let points = reads["points"].as_array().expect("points");
    let errors: Vec<f64> = points
        .iter()
        .map(|point| {
            let number = |key: &str| point[key].as_f64().expect(key);
            assert_eq!(number("error"), number("model") / number("measured") - 1.0);
            assert!(number("limit") <= number("model"));
            number("error").abs()
        })
        .collect();
    assert_eq!(reads["worst"].as_f64(), errors.iter().copied().reduce(f64::max));
    assert_eq!(reads["median"].as_f64(), Some((errors[0] + errors[1]) / 2.0));
    let refused = &json["series"][1];
    assert_eq!(refused["refused"], "blueflame is false, but the model writes single WQEs by MMIO");
    assert!(refused["median"].is_null());
    assert_eq!(json["others"][0]["id"], "elsewhere");
}

#[test]
fn each_answered_series_has_a_plot() {
    let directory = directory("plots");
    let text = said(&directory, "check m.toml --profile cib --plots plots");
    assert!(text.ends_with("Plot: plots/reads.svg\n"), "{text}");
    let svg = std::fs::read_to_string(directory.join("plots/reads.svg")).expect("a plot");
    for name in ["measured", "model", "analytic limit", "latency-full, us", "reads (Connect-IB, cib)"] {
        assert!(svg.contains(name), "{name}");
    }
    assert_eq!(std::fs::read_dir(directory.join("plots")).expect("a directory").count(), 1);
}

#[test]
fn mistakes_are_explained_in_a_sentence() {
    let directory = directory("mistakes");
    std::fs::write(directory.join("bad.toml"), FILE.replacen("verb =", "verbs =", 1)).expect("a file");
    for (line, message) in [
        ("check none.toml --profile cib", "doorbell: cannot read none.toml: No such file"),
        ("check m.toml --profile cx9", "doorbell: there is no profile cx9; there are "),
        ("check m.toml", "doorbell: "),
        (
            "check bad.toml --profile cib",
            "doorbell: bad.toml:7: unknown key `verbs` of workload; did you mean `verb`?",
        ),
        (
            "check m.toml --profile cx",
            "doorbell: profile cx states no measured_as, so no series is of its NIC: ",
        ),
        ("check m.toml --profile cib --precision 90%", "doorbell: "),
        ("check m.toml --profile cib --plots m.toml", "doorbell: cannot write plots to m.toml: "),
    ] {
        let said = refused(&directory, line);
        assert!(said.starts_with(message), "{line}: {said}");
    }
}

#[test]
fn a_check_that_is_out_of_time_names_the_missing_points() {
    let directory = directory("late");
    let output = doorbell(&directory, "check m.toml --profile cib --max-wall 1ns --json");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("(--max-wall 1ns): 2 points without a result"), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["missing"], &json["series"][0]["refused"]), (&2.into(), &serde_json::Value::Null));
}
