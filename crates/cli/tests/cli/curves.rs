//! Tests of `doorbell sweep` and `doorbell compare`.

use crate::common::split_words;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A new, empty directory of this test.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("curves").join(test);
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

/// The message with which the command refuses `line`: one sentence.
fn refused(directory: &Path, line: &str) -> String {
    let output = doorbell(directory, line);
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{line}: {said}");
    assert!(output.stdout.is_empty(), "{line}");
    said
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_sweep_over_qps_counts_the_qps_of_a_nic() {
    let directory = directory("qps_per_nic");
    // Two machines with two threads each have connected QPs to the server.
    let text = said(&directory, &format!("{READS} --over qps=1,3 --csv points.csv"));
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().expect("a header").split_whitespace().take(3).collect();
    assert_eq!(header, ["qps", "QPs/NIC", "Mops"]);
    let cells: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(cells[..2], [["1", "4"], ["3", "12"]]);
    let csv = std::fs::read_to_string(directory.join("points.csv")).expect("it was written");
    let mut lines = csv.lines();
    let column = lines.next().expect("a header").split(',').position(|title| title == "qps_per_nic");
    let cell = |line: &str| line.split(',').nth(column.expect("a column")).map(str::to_owned);
    assert_eq!(lines.map(cell).collect::<Option<Vec<_>>>().expect("cells"), ["4", "12"]);
    // A machine with datagrams has its own QPs only.
    let line = "sweep --verb send --machines 3 --threads 2 --warmup 10us --duration 20us --over qps=3 --json";
    assert_eq!(json(&said(&directory, line))["points"][0]["qps_per_nic"], 6);
    let text = said(&directory, &format!("{READS} --over size=64"));
    assert!(!text.contains("QPs/NIC"), "{text}");
}

const READS: &str = "sweep --jobs 2 --verb read --machines 3 --threads 2 --warmup 10us --duration 20us";

#[test]
fn a_point_is_what_simulate_says() {
    let directory = directory("point");
    let sweep = json(&said(&directory, &format!("{READS} --over size=64..1024*4 --over qps=1,2 --json")));
    let points = sweep["points"].as_array().expect("points");
    assert_eq!(points.len(), 6);
    for point in points {
        let (size, qps) = (&point["at"]["size"], &point["at"]["qps"]);
        let line = "simulate --verb read --machines 3 --threads 2 --warmup 10us --duration 20us --json";
        let one = json(&said(&directory, &format!("{line} --size {size} --qps {qps}")));
        for key in ["mops", "interval", "latency_ns", "bottleneck", "dropped"] {
            assert_eq!(point[key], one[key], "{key} at {size}, {qps}");
        }
    }
    let sizes: Vec<_> = points.iter().map(|p| (p["at"]["size"].as_u64(), p["at"]["qps"].as_u64())).collect();
    assert_eq!(sizes[1..4], [(Some(64), Some(2)), (Some(256), Some(1)), (Some(256), Some(2))]);
}

#[test]
fn an_explained_point_is_what_simulate_explains() {
    let directory = directory("explained");
    let some = "--verb read --machines 3 --threads 4 --set caches.responder_entries=16 --warmup 20us --duration 40us";
    let sweep = json(&said(&directory, &format!("sweep --jobs 2 {some} --over qps=1,2,4 --explain --json")));
    let points = sweep["points"].as_array().expect("points");
    for point in points {
        let qps = &point["at"]["qps"];
        let one = json(&said(&directory, &format!("simulate {some} --qps {qps} --explain --json")));
        assert_eq!(point["bottleneck"], one["bottleneck"], "{qps}");
    }
    assert_eq!(points[2]["bottleneck"]["class"], "nic-qp-cache");
}

#[test]
fn a_system_is_swept_and_a_file_says_over_what() {
    let directory = directory("system");
    let file = "system = \"rpc-sequencer\"\ncores = 2\nwarmup = \"10us\"\nduration = \"20us\"\nover = \"clients=2,4\"";
    std::fs::write(directory.join("w.toml"), file).expect("it can be written");
    let of = |line: &str| {
        let sweep = json(&said(&directory, line));
        sweep["points"].as_array().expect("points").iter().map(|p| p["mops"].as_f64()).collect::<Vec<_>>()
    };
    let both = of("sweep w.toml --json");
    assert!(both.len() == 2 && both[0] < both[1], "{both:?}");
    assert_eq!(of("sweep w.toml --over clients=4 --json"), both[1..]);
    assert!(refused(&directory, "simulate w.toml").contains("over"));
}

#[test]
fn a_knee_is_found_without_saying_how_long() {
    let directory = directory("knee_of_itself");
    let line =
        "sweep --verb read --machines 3 --threads 2 --over window=1,32 --find knee --p99-under 3us --json";
    let sweep = json(&said(&directory, line));
    let knee = |of: &str| sweep["knee"][of].as_u64().unwrap_or_else(|| panic!("{sweep}"));
    assert_eq!(knee("at") + 1, knee("exceeded_at"), "{sweep}");
    for point in sweep["points"].as_array().expect("points") {
        let within = point["latency_ns"]["p99"].as_u64().expect("a percentile") <= 3000;
        assert_eq!(within, point["at"]["window"].as_u64() <= Some(knee("at")), "{sweep}");
    }
    let p99 = |point: &serde_json::Value| point["latency_ns"]["p99"].is_u64();
    assert!(sweep["points"].as_array().expect("points").iter().all(p99), "{sweep}");
}

/// Runs GNU parallel as in docs/curves.md, but only on this machine.
#[test]
fn gnu_parallel_makes_the_parts() {
    let directory = directory("parallel");
    let line = format!(
        "'{}' {READS} --over size=64..1024*4 --shard {{}}/3 --json > part{{}}.json",
        env!("CARGO_BIN_EXE_doorbell")
    );
    let mut parallel = Command::new("parallel");
    parallel.args(["--jobs", "2", &line, ":::", "1", "2", "3"]).current_dir(&directory).stdin(Stdio::null());
    match parallel.env("DOORBELL_CACHE_DIR", directory.join("cache")).env("HOME", &directory).output() {
        Err(error) => return eprintln!("skipped: GNU parallel is not installed: {error}"),
        Ok(output) => assert!(output.status.success(), "{output:?}"),
    }
    let merged = said(&directory, "sweep --merge part1.json part2.json part3.json --json");
    assert_eq!(merged, said(&directory, &format!("{READS} --over size=64..1024*4 --json")));
}

#[test]
fn parts_together_are_the_whole() {
    let directory = directory("parts");
    let over = format!("{READS} --over size=64..1024*4 --over verb=read,write");
    // The parts run separately and concurrently.
    let parts: Vec<_> = (1..=3)
        .map(|k| {
            let file = std::fs::File::create(directory.join(format!("{k}.json"))).expect("a file");
            command(&directory, &format!("{over} --shard {k}/3 --json"))
                .stdout(file)
                .spawn()
                .expect("doorbell")
        })
        .collect();
    for mut part in parts {
        assert!(part.wait().expect("it ends").success());
    }
    let whole = said(&directory, &format!("{over} --json --csv whole.csv --svg whole.svg"));
    assert_eq!(said(&directory, "sweep --merge 3.json 1.json 2.json --json"), whole);
    let table =
        said(&directory, "sweep --merge 1.json 2.json 3.json --csv merged.csv --svg merged.svg --plot");
    assert_eq!(table, said(&directory, &format!("{over} --plot")));
    for kind in ["csv", "svg"] {
        let read =
            |name: &str| std::fs::read_to_string(directory.join(format!("{name}.{kind}"))).expect("a file");
        assert_eq!(read("whole"), read("merged"));
    }
    said(&directory, &format!("{READS} --over size=64..1024*4 --shard 1/2 --json"));
    std::fs::write(directory.join("other.json"), said(&directory, &format!("{READS} --over size=64 --json")))
        .expect("it can be written");
    std::fs::write(directory.join("no.json"), "{}").expect("it can be written");
    let part = std::fs::read_to_string(directory.join("1.json")).expect("a file");
    std::fs::write(directory.join("0.json"), part.replace("1/3", "1/0")).expect("it can be written");
    for (line, part) in [
        (
            "--merge 1.json 2.json",
            "2 of 6 points are missing from all files; the first is point 2, which --shard 3/3",
        ),
        ("--merge 1.json 1.json", "point 0 is both in 1.json and in 1.json"),
        ("--merge 1.json other.json", "1.json and other.json are parts of different sweeps: they sweep over"),
        ("--merge no.json", "no.json is not a part of a sweep"),
        ("--merge 0.json", "`1/0` is not a part of a sweep"),
        ("--merge none.json", "cannot read none.json"),
        ("--merge 1.json --verb read", "--merge takes only files, which already set verb"),
    ] {
        assert!(refused(&directory, &format!("sweep {line}")).contains(part), "{line}");
    }
}

#[test]
fn curves_have_units_intervals_and_the_profile() {
    let directory = directory("units");
    let svg = |line: &str| {
        said(&directory, &format!("{line} --svg curves.svg"));
        std::fs::read_to_string(directory.join("curves.svg")).expect("a file")
    };
    let has = |svg: &str, part: &str| svg.lines().any(|line| line.trim() == part);
    let sizes = svg(&format!("{} --profile cx3 --over size=64..1024*4", READS.replace("20us", "100us")));
    for part in ["size, bytes", "rate, Mops", "99th percentile of latency, us", "cx3", "95% interval"] {
        assert!(has(&sizes, part), "{part}: {sizes}");
    }
    assert!(!has(&sizes, "all"), "a single curve needs no name");
    let open = "sweep --verb read --machines 2 --threads 1 --warmup 5us --duration 300us --arrivals poisson";
    let rates = svg(&format!("{open} --over rate=1000000,2000000,90000000"));
    for part in ["rate, operations per second", "cib", "overload: latency grows without limit"] {
        assert!(has(&rates, part), "{part}: {rates}");
    }
}

#[test]
fn the_knee_is_between_loads_that_were_tried() {
    let directory = directory("knee");
    // At least 100 latencies must lie beyond p99, so at least 10000 latencies must be measured.
    let longer = READS.replace("20us", "6ms");
    let line = format!("{longer} --over window=1,64 --find knee --p99-under 3us --json");
    let sweep = json(&said(&directory, &line));
    let knee = &sweep["knee"];
    let (at, over) = (knee["at"].as_u64().expect("a load"), knee["exceeded_at"].as_u64().expect("a load"));
    assert!(at + 1 == over && at > 1 && over < 64, "{knee}");
    let p99 = |load: u64| {
        let points = sweep["points"].as_array().expect("points");
        let point = points.iter().find(|point| point["at"]["window"] == load).expect("it was tried");
        point["latency_ns"]["p99"].as_u64().expect("a time")
    };
    assert!(p99(at) < 3000 && p99(over) >= 3000);
    assert_eq!(
        json(&said(&directory, &format!("{} --fresh", line.replace("--jobs 2", "--jobs 1")))),
        sweep,
        "whatever runs at a time"
    );
    let none = json(&said(&directory, &line.replace("3us", "1s")));
    assert_eq!((&none["knee"]["at"], &none["knee"]["exceeded_at"]), (&64.into(), &serde_json::Value::Null));
    assert!(
        refused(&directory, &line.replace("3us", "1us"))
            .contains("even the lowest load, window=1, has a p99 of")
    );
    assert!(refused(&directory, &line.replace("window", "size")).contains("size is not a load"));
}

#[test]
fn values_that_cannot_be_written_cost_no_rows() {
    let directory = directory("full");
    let line = "sweep --verb read --machines 2 --threads 1 --warmup 5us --duration 10us --over window=1,2";
    let output = doorbell(&directory, &format!("{line} --csv /dev/full --json"));
    let sweep: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(sweep["points"].as_array().map(Vec::len), Some(2));
    let error = String::from_utf8(output.stderr).expect("text");
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    assert!(error.starts_with("doorbell: cannot write /dev/full: "), "{error}");
    // A pipe gets each line once.
    let script = format!("\"$0\" {line} --csv /dev/fd/3 3>&1 > /dev/null");
    let mut shell = Command::new("sh");
    shell.current_dir(&directory).env("DOORBELL_CACHE_DIR", directory.join("cache"));
    let output = shell.args(["-c", &script, env!("CARGO_BIN_EXE_doorbell")]).output().expect("there is a sh");
    let lines = String::from_utf8(output.stdout).expect("text");
    let begins: Vec<&str> = lines.lines().filter_map(|line| line.split(',').next()).collect();
    assert_eq!(begins, ["window", "1", "2"], "{lines}");
    assert!(
        refused(&directory, &format!("{line} --csv /dev/stdout")).contains("is the output for the results")
    );
}

/// The points are known, but no time is left for the longer runs that know p99, or for the search.
#[test]
fn a_search_without_time_keeps_its_points() {
    let directory = directory("knee_without_time");
    let points = "sweep --verb read --machines 2 --threads 2 --over window=1,2";
    said(&directory, points);
    let output = doorbell(&directory, &format!("{points} --find knee --p99-under 5us --max-wall 0s"));
    let [text, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
    assert_eq!(output.status.code(), Some(1), "{text}{error}");
    assert!(text.contains("search was stopped before it finished"), "{text}");
    let row = |window: &str| text.lines().any(|line| line.split_whitespace().next() == Some(window));
    assert!(row("1") && row("2"), "{text}");
    assert!(error.contains("(--max-wall 0s): the search for the knee did not end"), "{error}");
}

#[test]
fn what_cannot_be_is_refused_with_its_point() {
    let directory = directory("refused");
    for (line, part) in [
        ("--verb read", "there is nothing to sweep over"),
        (
            "--over qps=1,5 --transport rc --verb read --pattern inbound --inline",
            "at qps=1: a READ request carries no payload",
        ),
        ("--over clients=1,2", "at clients=1: clients (--clients) applies to systems"),
        (
            "--over verb=read,write --svg /tmp/none.svg --machines 2 --threads 1 --duration 10us",
            "an SVG needs an option",
        ),
    ] {
        let line = format!("sweep --jobs 2 {line}");
        assert!(refused(&directory, &line).contains(part), "{line}: {}", refused(&directory, &line));
    }
}

/// Files of the stored results.
fn kept(directory: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(directory.join("cache")).into_iter().flatten().flatten();
    // The name of an incomplete file begins with a dot.
    let whole = files.filter(|file| !file.file_name().to_string_lossy().starts_with('.'));
    whole.map(|file| file.path()).collect()
}

#[test]
fn ctrl_c_keeps_what_is_done() {
    let directory = directory("interrupted");
    let all =
        "sweep --verb read --machines 3 --threads 2 --warmup 10us --jobs 2 --json --over duration=20us,40us";
    let mut child = command(&directory, &format!("{all},9s"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("doorbell runs");
    // The longest point would take minutes. The shorter points finish before the interrupt.
    while kept(&directory).len() < 2 {
        assert!(child.try_wait().expect("it is a child").is_none(), "it runs");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let first = json(std::str::from_utf8(&output.stdout).expect("text"));
    assert_eq!(first["points"].as_array().expect("points").len(), 2);
    let again = json(&said(&directory, all));
    assert_eq!(first["points"], again["points"]);
    // The points came from the cache. Without the cache, they would be missing.
    for file in kept(&directory) {
        std::fs::write(file, "").expect("it can be written");
    }
    let output = doorbell(&directory, all);
    let warning = String::from_utf8_lossy(&output.stderr);
    assert!(warning.contains("2 stored results were damaged"), "{warning}");
}

const SHORT: &str = "--verb read --machines 3 --threads 2 --warmup 10us --duration 20us";

#[test]
fn sides_are_what_simulate_and_limits_say() {
    let directory = directory("sides");
    std::fs::write(directory.join("a.toml"), "verb = \"write\"\nqps = 2").expect("it can be written");
    let line = format!("compare cib \"cx3 qps=2\" a.toml {SHORT} --qps 1 --jobs 2 --json");
    let found = json(&said(&directory, &line));
    let sides = found["sides"].as_array().expect("sides");
    for (side, options) in sides.iter().zip(["--qps 1", "--profile cx3 --qps 2", "--qps 1"]) {
        let one = json(&said(&directory, &format!("simulate {SHORT} {options} --json")));
        for key in ["workload", "mops", "interval", "latency_ns", "bottleneck"] {
            assert_eq!(side[key], one[key], "{key} of {options}");
        }
    }
    assert_eq!(found["options"]["profile"], serde_json::json!(["cib", "cx3", "cib"]));
    let of_sides = serde_json::json!([1, 2, 1]);
    assert_eq!(found["options"]["qps"], of_sides, "flags count more than files, and words more than flags");
    assert!(found["options"].get("verb").is_none());
    let change =
        sides[1]["mops"].as_f64().expect("a rate") / sides[0]["mops"].as_f64().expect("a rate") - 1.0;
    assert_eq!(sides[1]["change"].as_f64(), Some(change));
    assert_eq!(sides[0]["change"], serde_json::Value::Null);
    // The costs equal the costs that `limits` prints with its bounds.
    let costs = found["costs"].as_array().expect("costs");
    let sending = costs.iter().find(|cost| cost["resource"] == "nic-tx-pu").expect("it differs");
    for (at, options) in ["--qps 1", "--profile cx3 --qps 2"].into_iter().enumerate() {
        let limits = json(&said(&directory, &format!("limits {SHORT} {options} --json")));
        let limits = limits["limits"].as_array().expect("limits");
        let least = limits.iter().find(|limit| limit["resource"] == "nic-tx-pu").expect("a bound");
        assert_eq!(sending["mops"][at], least["mops"]);
        for term in sending["terms"].as_array().expect("terms") {
            let own =
                least["terms"].as_array().expect("terms").iter().find(|own| own["what"] == term["what"]);
            let amount = own.map(|own| own["count"].as_f64().unwrap() * own["each"].as_f64().unwrap());
            assert_eq!(term["amounts"][at].as_f64(), amount, "{}", term["what"]);
        }
    }
}

#[test]
fn different_defaults_are_printed_or_made_alike() {
    let directory = directory("defaults");
    const STORES: &str = "compare \"system=read-kv value=64\" \"system=herd-kv value=128\" --clients 2 \
                          --warmup 10us --duration 20us";
    let text = said(&directory, STORES);
    let (typed, defaults) = text.split_once("Defaults that differ; ").expect("stores differ");
    assert!(typed.contains("  value  ") && !typed.contains("outstanding"), "{text}");
    let row = defaults.lines().find(|line| line.trim_start().starts_with("outstanding")).expect("a row");
    assert!(row.trim_end().ends_with("32") && row.contains("16"), "{row}");
    let text = said(&directory, &format!("{STORES} --same"));
    let alike = text.lines().find(|line| line.starts_with("Alike because of --same: ")).expect("a line");
    assert!(alike.contains("outstanding 16") && alike.contains("put_permille 0"), "{alike}");
    assert!(!text.contains("Defaults that differ"), "{text}");
    let found = json(&said(&directory, &format!("{STORES} --same --json")));
    for side in found["sides"].as_array().expect("sides") {
        assert_eq!(side["workload"]["outstanding"], 16);
    }
    assert_eq!(found["same"]["outstanding"], 16);
}

/// Within 20 us, a lock of 14 clients is acquired less than 14 times.
#[test]
fn clients_that_are_never_served_are_named() {
    let directory = directory("never_served");
    let some = "--system remote-spinlock --clients 14 --warmup 10us --duration 20us";
    let compare = format!("compare locks=1 clients=1 --locks 1 {some}");
    let text = said(&directory, &compare);
    let title = "Some clients were never served, so the latency does not cover them:";
    let is_note = |line: &&str| {
        line.starts_with(&format!("  locks=1: {title} ")) && line.contains(" clients; by client, 0.00 to ")
    };
    assert!(text.lines().any(|line| is_note(&line)), "{text}");
    assert!(!text.contains(&format!("  clients=1: {title}")), "{text}");
    let sides = json(&said(&directory, &format!("{compare} --json")));
    let never = |side: usize| sides["sides"][side]["served"]["never"].as_u64();
    assert!(never(0) > Some(0) && never(1) == Some(0), "{sides}");
    let text = said(&directory, &format!("sweep {some} --over locks=1"));
    assert!(text.contains(&format!("\n{title}\n  locks=1: ")), "{text}");
}

/// A reached rate needs no reruns, so none are missing.
#[test]
fn an_explained_open_loop_lacks_no_reruns() {
    let directory = directory("given_rate");
    let line = "compare qps=1 qps=2 --verb read --machines 3 --threads 2 --warmup 20us --duration 200us \
                --arrivals fixed --rate 2M --explain --json";
    let found = json(&said(&directory, line));
    for side in found["sides"].as_array().expect("sides") {
        assert_eq!(side.get("cut_short"), None, "{side}");
        let text = side["bottleneck"]["text"].as_str().expect("text");
        assert!(text.starts_with("all operations that are due complete"), "{text}");
    }
}

/// A stream of long WRITEs does not settle within a millisecond.
#[test]
fn the_bottleneck_of_a_run_that_is_not_settled_is_not_confirmed() {
    let directory = directory("not_settled");
    let long = "--verb write --transport rc --size 65536 --machines 2 --threads 1 --signal-every 1 \
                --max-time 1ms";
    let sweep = said(&directory, &format!("sweep {long} --over qps=1"));
    let row = sweep.lines().nth(1).expect("a row");
    assert!(row.contains(" * ") && row.ends_with(", not confirmed"), "{sweep}");
    let sides = json(&said(&directory, &format!("compare qps=1 seed=2 {long} --json")));
    assert_eq!(sides["sides"][0]["bottleneck"]["not_confirmed"], true, "{sides}");
    for explain in ["", " --explain"] {
        let text = said(&directory, &format!("simulate {long}{explain}"));
        assert!(text.contains("may differ from the long-run rate: "), "{text}");
        let (_, bottleneck) = text.split_once("\nBottleneck: ").expect("it is printed");
        let description = bottleneck.lines().nth(1).expect("a description");
        assert!(description.contains("(not confirmed"), "{text}");
    }
    let settled = json(&said(&directory, "simulate --verb read --machines 2 --threads 1 --json"));
    assert_eq!(settled["measured"]["ended"], "settled");
    assert!(!settled["bottleneck"]["text"].as_str().expect("text").contains("not settled"), "{settled}");
}

#[test]
fn a_profile_in_place_of_a_workload_is_named() {
    let directory = directory("profile_file");
    let profile = "name = \"mine\"\ntitle = \"One port\"\nbase = \"cib\"\n[link]\n\
                   ports = { value = 1, basis = \"published\", source = \"data sheet\" }\n";
    std::fs::write(directory.join("mine.toml"), profile).expect("it can be written");
    let of = |line: &str, option: &str| {
        let wanted = format!("doorbell: mine.toml is a profile, not a workload: write {option}./mine.toml\n");
        assert_eq!(refused(&directory, line), wanted, "{line}");
    };
    of("compare mine.toml cib --verb read", "profile=");
    of("compare cib \"mine.toml qps=2\"", "profile=");
    of("simulate mine.toml --verb read", "--profile ");
    said(&directory, &format!("compare profile=./mine.toml cib {SHORT}"));
    let workload = refused(&directory, "compare cib none.toml");
    assert!(!workload.contains("is a profile"), "{workload}");
}

/// Only a READ has a latency of its own. Other messages have half of the time until the answer.
#[test]
fn the_span_of_a_latency_is_printed() {
    let directory = directory("span");
    let compare = |sides: &str| {
        said(
            &directory,
            &format!("compare {sides} --system ping-pong --size 8 --warmup 10us --duration 50us"),
        )
    };
    let unlike = compare("message=write-rc message=read-rc");
    for (side, span) in [("write-rc", "half a round trip"), ("read-rc", "a whole READ")] {
        assert!(unlike.contains(&format!("\n  message={side}: latency covers {span}.\n")), "{unlike}");
    }
    let alike = compare("message=write-rc message=write-uc");
    assert!(alike.contains("\nLatency covers half a round trip.\n"), "{alike}");
    let whole = said(&directory, &format!("compare qps=1 qps=2 {SHORT}"));
    assert!(!whole.contains("atency covers"), "{whole}");
}

#[test]
fn equal_sides_do_not_differ() {
    let directory = directory("equal");
    let found = json(&said(&directory, &format!("compare cib profile=cib {SHORT} --json")));
    assert_eq!(found["sides"][1]["change"], 0.0);
    assert_ne!(found["sides"][1]["beyond_intervals"], true);
    assert_eq!((&found["options"], &found["costs"]), (&serde_json::json!({}), &serde_json::json!([])));
    let other = json(&said(&directory, &format!("compare cib cx3 {SHORT} --json")));
    assert_eq!(other["sides"][1]["beyond_intervals"], true);
}

#[test]
fn beyond_the_tolerance_is_exit_4() {
    let directory = directory("baseline");
    let write = |file: &str, line: &str| {
        std::fs::write(directory.join(file), said(&directory, line)).expect("it can be written");
    };
    write("old.json", &format!("simulate {SHORT} --json"));
    write("new.json", &format!("simulate {SHORT} --qps 2 --json"));
    write("one.json", &format!("sweep {SHORT} --over size=64,128 --json"));
    write("two.json", &format!("sweep {SHORT} --over size=128,256 --json"));
    let said = said(&directory, "compare --baseline old.json old.json --tolerance 0%");
    assert!(said.lines().count() >= 4 && !said.contains("more than"), "{said}");
    let output = doorbell(&directory, "compare --baseline old.json new.json");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("The workloads differ in qps"), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
    assert!(doorbell(&directory, "compare --baseline old.json new.json --tolerance 90%").status.success());
    let output = doorbell(&directory, "compare --baseline one.json two.json");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["size=128: mops", "Only in one.json: size=64\n", "Only in two.json: size=256\n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for (line, part) in [
        ("compare --baseline old.json one.json", "old.json is a result of simulate, but one.json is a sweep"),
        ("compare --baseline none.json one.json", "cannot read none.json"),
        ("compare --baseline old.json cib cx3", "--baseline needs one file"),
        ("compare cib", "cib is the only side"),
        ("compare cib cx9", "at cx9: `cx9` is not a profile"),
        ("compare cib cx6", "; docs/guide-own-nic.md adds others), a file, or an option"),
        ("compare cib qps=a", "at qps=a: qps is a, but must be a whole number"),
        ("compare cib sise=1", "at sise=1: `sise` is not an option"),
        ("compare cib threads=99", "at threads=99: threads is 99, but a machine of profile cib has 14 cores"),
        ("compare cib none.toml", "cannot read workload none.toml"),
    ] {
        assert!(refused(&directory, line).contains(part), "{line}: {}", refused(&directory, line));
    }
}
