//! Tests of the command as users call it.

use crate::common::library;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs the command without results of earlier runs. The cache directory does not exist and cannot be
/// created.
fn doorbell(args: &[&str]) -> Output {
    doorbell_with_cache("/dev/null/none", args)
}

fn doorbell_with_cache(dir: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.env("DOORBELL_CACHE_DIR", dir).args(args).output().expect("doorbell runs")
}

fn words(line: &str) -> Output {
    doorbell(&line.split_whitespace().collect::<Vec<_>>())
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

const SMALL: &str = "simulate --machines 2 --threads 1 --warmup 10us --duration 20us";

#[test]
fn explains_itself_in_one_screen() {
    let output = words("");
    assert!(output.status.success());
    let text = stdout(&output);
    assert!(text.lines().count() <= 40, "{text}");
    assert!(text.lines().all(|l| l.len() <= 80), "{text}");
    for command in ["simulate", "limits", "profiles", "reproduce"] {
        assert!(text.contains(&format!("doorbell {command}")), "{text}");
    }
}

#[test]
fn bad_input_gets_one_sentence_and_exit_2() {
    for (line, part) in [
        ("simulate --profile cx9", "no profile cx9"),
        ("simulate --profile ConnectX-6", "or give the path of a TOML file (docs/guide-own-nic.md)"),
        ("reproduce fig10a", "; did you mean cluster21/fig10a?"),
        (
            "simulate --system vector-io --inline-bytes 901",
            "inline_bytes is 901, but a device of profile cib inlines at most 900",
        ),
        (
            "simulate --system consolidate --theta 1 --marked 4",
            "4 blocks are marked for consolidation, but with theta 1",
        ),
        ("simulate --size 4KB", "size is 4KB, which may mean 4000 bytes or 4KiB: write one of these"),
        (
            "simulate --rate 70%",
            "rate is 70%, but must be a whole number per second, also as 45k, 45M or 45e6",
        ),
        (
            "simulate --system herd-kv --put-permille 0.05%",
            "put_permille is 0.05%, but must be a whole number of thousandths, also as 5% or 0.5%",
        ),
        ("simulate --profile=", "the name of the profile is empty; there are cib, "),
        ("simulate --size=-1", "size is -1, but must be at least 0"),
        ("limits --size -1", "size is -1, but must be at least 0"),
        ("simulate --size 99999999999999999999", "but must be at most 4294967295"),
        (
            "simulate --size=",
            "size is empty, but must be a whole number of bytes, also as 4k, 4KiB, 2M or 2G",
        ),
        (
            "simulate --verb read --remote-region 1TiB",
            "remote_region is 1099511627776, but must be at most 4294967296 (4GiB)",
        ),
        (
            "simulate --verb read --remote-region 4GiB",
            "the regions of all threads, 14 on each of 8 machines, take 56.0 GiB together, but must be at most 4 GiB: use smaller ones, or fewer threads or machines",
        ),
        ("simulate --system herd-kv --clients many", "clients is many, but must be a whole number"),
        ("simulate --duration 99999999999s", "duration is 99999999999s, but must be at most 1000s"),
        ("simulate --duration 5", "`5` is not a duration; write a number and one of ps, "),
        ("limits --profile /nowhere.toml", "cannot read profile /nowhere.toml"),
        ("simulate --verb read --transport ud", "UD does not offer READ"),
        ("simulate --size 1000 --inline", "inlines at most"),
        ("simulate --window 100000", "window is 100000"),
        ("simulate --machines 0", "machines is 0"),
        ("limits --threads 99", "threads is 99"),
        ("simulate /nowhere.toml", "cannot read workload /nowhere.toml"),
        ("profiles cx9", "no profile cx9"),
        ("reproduce atc17", "`atc17` is not a paper"),
        ("reproduce atc16/tab4 --set tx.send_ns=20", "reproduce does not take --set tx.send_ns=20, because"),
        ("simulate --set tx.sendns=20", "set: tx.sendns is not a parameter of cib; did you mean tx.send_ns?"),
        ("simulate --system herd-kv --set tx.units=0", "set: tx.units is 0, not within 1 to 256"),
        ("limits --set tx.send_ns", "set is `tx.send_ns`, but must be a name, =, and a number"),
        ("limits --set 1:tx.send_ns=20", "--set 1: names a group of machines, but all machines are alike"),
        ("profiles cx --set tx.send=1", "set: tx.send is not a parameter of cx; did you mean tx.send_ns?"),
        (
            "simulate --system local-memory --region 1MiB",
            "region is 1048576, small enough for caches (below 67108864), but profile cib has no cache sizes",
        ),
        (
            "simulate --system local-spinlock --clients 15",
            "clients is 15, all threads of one machine, but a machine of profile cib has 14 cores",
        ),
        (
            "simulate --system proxy --sockets 2",
            "machines have 2 sockets of 14 cores by --sockets and --cores-per-socket, but a machine of \
             profile cib has 1 of 14",
        ),
        (
            "simulate --system log --records 64 --log-slots 32",
            "an append of 64 records does not fit in a log of 32 records (log_slots)",
        ),
        (
            "simulate --system join --bytes 1MiB --tuples 10",
            "bytes is 1048576, which is 65536 tuples of 16 bytes, but tuples is 10: give one of them",
        ),
        ("simulate --system shuffle --bytes 240G", "the run may take "),
        ("simulate --system shuffle --bytes 4KB", "bytes is 4KB, which may mean 4000 bytes or 4KiB"),
        (
            "simulate --system spinlock --design spec-s0",
            "design is spec-s0, but the designs of spinlock are remote, local, rpc",
        ),
        (
            "simulate --system herd-kv --clients 16384 --clients-per-machine 256 --cores 14 --value 3900 --outstanding 512",
            "the run may take ",
        ),
    ] {
        let output = words(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        assert!(stderr(&output).contains(part), "{line}: {output:?}");
        assert_eq!(stderr(&output).lines().count(), 1, "{line}: {output:?}");
        assert!(output.stdout.is_empty(), "{line}: {output:?}");
    }
}

#[test]
fn a_bad_command_line_exits_2() {
    for (line, sentence) in [
        (
            "simulate --verb sned",
            "--verb is `sned`, but must be send, write, read, fetch-add or compare-swap; did you mean \
             `send`?",
        ),
        ("run --link x y", "--link is `x`, but must be ib or roce"),
        ("simulate --trace-ops=-1", "--trace-ops: `-1` is not a whole number of at least 1"),
        (
            "simulate --trace-from 3",
            "--trace-from: `3` is not a duration; write a number and one of ps, ns, us, ms, s, such as 2ms",
        ),
        ("reproduce --jobs x", "--jobs: `x` is not a whole number from 1 to 65535"),
        ("reproduce --jobs 0", "--jobs: `0` is not a whole number from 1 to 65535"),
        ("live --device -1", "--device: `-1` is not a whole number from 0 to 65535"),
        ("simulate --vreb read", "`--vreb` is not an option of `doorbell simulate`; did you mean `--verb`?"),
        (
            "limits --explain",
            "`--explain` is not an option of `doorbell limits`, but of `doorbell simulate`, `doorbell \
             sweep` or `doorbell compare`",
        ),
        (
            "limits --qwerty",
            "`--qwerty` is not an option of `doorbell limits`: `doorbell limits --help` lists them",
        ),
        (
            "simulate --nodes 4",
            "`--nodes` is not an option of `doorbell simulate`; did you mean `--machines`?",
        ),
        ("limits --payload 4", "`--payload` is not an option of `doorbell limits`; did you mean `--size`?"),
        ("simulate --depth 4", "`--depth` is not an option of `doorbell simulate`; did you mean `--window`?"),
        (
            "simulate --system rpc --depth 4",
            "`--depth` is not an option of `doorbell simulate`; did you mean `--outstanding`?",
        ),
        (
            "simulate --system rpc --payload 64",
            "`--payload` is not an option of `doorbell simulate`; did you mean `--request-size` or `--reply-size`?",
        ),
        ("live --nodes 4", "`--nodes` is not an option of `doorbell live`; did you mean `--clients`?"),
        ("run --stast -- ls", "`--stast` is not an option of `doorbell run`; did you mean `--stats`?"),
        ("cache clar", "`clar` is not a command of `doorbell cache`, which has clear; did you mean `clear`?"),
        ("simulate --size", "--size needs a value: --size <BYTES>"),
        ("simulate --size 3 --size 4", "--size is given more than once: give it once"),
        ("simulate --inline=3", "--inline takes no value, but is given `3`"),
        (
            "simulate a b",
            "`b` is one argument more than `doorbell simulate` takes: usage is doorbell simulate [OPTIONS] \
             [FILE]",
        ),
        ("run", "`doorbell run` needs <PROGRAM>...: usage is doorbell run [OPTIONS] <PROGRAM>..."),
    ] {
        let output = words(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        assert_eq!(stderr(&output), format!("doorbell: {sentence}\n"), "{line}");
        assert!(output.stdout.is_empty(), "{line}: {output:?}");
    }
    let output = words("simulatte");
    assert!(
        stderr(&output).starts_with("doorbell: `simulatte` is not a command of `doorbell`, which has sim")
    );
    assert!(stderr(&output).ends_with("; did you mean `simulate`?\n"), "{output:?}");
}

#[test]
fn what_is_no_workload_is_said_to_be_none() {
    for (name, bytes, found) in [
        ("list.json", &b"[]"[..], "it is a list"),
        ("list.toml", b"[]", "it is a list"),
        ("number.json", b"3", "it is a number"),
        ("empty.toml", b"", "it is empty"),
        ("empty.json", b" \n", "it is empty"),
        ("comment.toml", b"# size = 8", "it sets no field"),
        ("nothing.json", b"{}", "it sets no field"),
        ("binary", b"\x7fELF\xff\x00", "it is not text"),
    ] {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, bytes).unwrap();
        for command in ["simulate", "limits"] {
            let output = doorbell(&[command, path.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
            assert!(
                stderr(&output).contains(&format!("{name} is not a workload: {found}, but ")),
                "{output:?}"
            );
            assert_eq!(stderr(&output).lines().count(), 1, "{name}: {output:?}");
        }
    }
    let output = doorbell(&["simulate", env!("CARGO_TARGET_TMPDIR")]);
    assert!(stderr(&output).contains(" is not a workload: it is a directory, but "), "{output:?}");
    let cut_off = file("cut-off.json", "{\"verb\":");
    let output = doorbell(&["simulate", cut_off.to_str().unwrap()]);
    assert!(stderr(&output).contains("cut-off.json:1: this is not JSON: "), "{output:?}");
}

#[test]
fn what_is_given_is_not_repeated_at_length() {
    let long = "x".repeat(5000);
    for line in [
        "simulate --verb LONG",
        "simulate --machines LONG",
        "profiles LONG",
        "simulate ./LONG",
        "reproduce LONG",
    ] {
        let output = words(&line.replace("LONG", &long));
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        assert!(stderr(&output).contains("xxx...xxx") && output.stderr.len() < 500, "{line}: {output:?}");
    }
}

#[test]
fn a_profile_lies_beside_the_workload() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("beside");
    std::fs::create_dir_all(&directory).unwrap();
    file("beside/mine.toml", "name = \"mine\"\ntitle = \"\"\nbase = \"cx3\"");
    let like = file("beside/like.toml", "profile = \"./mine.toml\"");
    let unlike = file("beside/unlike.json", r#"{"machine": [{"profile": "mine.toml"}, {"profile": "cx3"}]}"#);
    for path in [like, unlike] {
        let output = doorbell(&["limits", path.to_str().unwrap()]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).contains("mine.toml"), "{}", stdout(&output));
    }
}

#[test]
fn a_system_is_a_workload_like_others() {
    let path =
        file("system.toml", "system = \"sequencer\"\ndesign = \"spec-s0\"\nclients = 4\nprofile = \"cx3\"");
    let path = path.to_str().unwrap();
    let run = |args: &[&str]| {
        let short = ["--warmup", "20us", "--duration", "30us", "--json"];
        let output = doorbell(&[&["simulate"], args, &short[..]].concat());
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let first = run(&[path, "--cores", "2"]);
    let asked = ["system", "profile", "clients", "cores"].map(|key| first["workload"][key].to_string());
    assert_eq!(asked, ["\"spec-sequencer\"", "\"cx3\"", "4", "2"]);
    let again = file("system.json", &first.to_string());
    let again = run(&[again.to_str().unwrap()]);
    assert_eq!((&again["workload"], &again["event_hash"]), (&first["workload"], &first["event_hash"]));
    for (text, part) in [
        ("system = \"herd-kv\"\nverb = \"read\"", "verb (--verb) does not apply to herd-kv"),
        ("cores = 3", "cores (--cores) applies to systems only: name one with --system"),
        ("system = \"herd\"", "bad.toml:1: system is `herd`, but must be sequencer,"),
        ("system = \"sequencer\"\nclients = 0", "bad.toml:2: clients is 0, but must be at least 1"),
        ("system = \"drtm-kv\"\nvalue = 100", "value (--value) does not apply to drtm-kv"),
        ("system = \"drtm-kv\"\nduration = \"0s\"", "bad.toml:2: duration is 0s, but must be longer"),
    ] {
        let bad = file("bad.toml", text);
        let output = doorbell(&["simulate", bad.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{text}: {output:?}");
        assert!(stderr(&output).contains(part), "{text}: {output:?}");
    }
    let limits = file("limits.toml", "system = \"herd-kv\"");
    let output = doorbell(&["limits", limits.to_str().unwrap()]);
    assert!(stderr(&output).contains("limits are computed for verbs, not for systems"), "{output:?}");
}

/// A run that is much shorter than the wait for a contended lock.
#[test]
fn clients_that_are_never_served_have_a_row() {
    let short = "simulate --system spinlock --clients 64 --warmup 5us --duration 20us";
    let json: serde_json::Value = serde_json::from_str(stdout(&words(&format!("{short} --json")))).unwrap();
    let never = json["served"]["never"].as_u64().unwrap();
    assert!((1..64).contains(&never), "{json}");
    let told = words(short);
    let row = line_of(stdout(&told), "never served").trim();
    assert_eq!(row, format!("never served       {never} clients, which the latency does not cover"));
    // A row about the latency says nothing about the rate.
    assert!(!stdout(&told).contains("were never served"), "{}", stdout(&told));
    let all_served = words("simulate --system spinlock --clients 2");
    assert!(!stdout(&all_served).contains("never served"), "{}", stdout(&all_served));
}

const COMMANDS: [&str; 9] =
    ["simulate", "limits", "profiles", "reproduce", "run", "live", "cache", "man", "completions"];

/// The options that the help of a command lists, with dashes.
fn options(command: &str) -> Vec<String> {
    let output = words(&format!("{command} --help-all"));
    assert!(output.status.success(), "{command}: {output:?}");
    let listed = stdout(&output).lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let name =
        |line: &str| line.split(|c: char| c != '-' && !c.is_ascii_alphanumeric()).next().map(str::to_owned);
    let options: Vec<String> = listed.filter_map(name).map(|name| format!("--{name}")).collect();
    assert!(!options.is_empty(), "{command}: {output:?}");
    options
}

#[test]
fn completions_know_every_option() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = words(&format!("completions {shell}"));
        // Fish writes `-l signal-every`.
        let script = stdout(&output).replace(" -l ", " --");
        for option in COMMANDS.iter().flat_map(|command| options(command)) {
            assert!(script.contains(&option), "{shell}: {option}");
        }
    }
    for option in ["--signal-every", "--no-inline", "--put-permille"] {
        assert!(options("simulate").contains(&option.to_owned()), "{option}");
    }
    for option in ["--stats", "--help-all"] {
        assert!(options("run").contains(&option.to_owned()), "{option}");
    }
}

/// Words after the program belong to the program.
#[test]
fn help_of_a_run_is_not_help_of_its_program() {
    for line in ["run --help-all", "run --stats --help-all -- ls"] {
        let output = words(line);
        assert!(output.status.success() && stdout(&output).contains("--stats-json"), "{line}: {output:?}");
    }
    let library = library().to_str().unwrap();
    let output = doorbell(&["run", "--lib", library, "/nonexistent/program", "--help-all"]);
    assert_eq!(output.status.code(), Some(127), "{output:?}");
}

#[test]
fn completions_offer_profiles() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = words(&format!("completions {shell}"));
        let script = stdout(&output);
        for profile in doorbell_nic::Profile::names().filter(|_| ["bash", "fish", "zsh"].contains(&shell)) {
            // In bash, a list of values follows the option; in fish and zsh, they are on the option's line.
            let after = script.split("profile").skip(1).any(|rest| {
                let near: String = rest.chars().take(700).collect();
                near.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|word| word == profile)
            });
            assert!(after, "{shell}: {profile}");
        }
        assert!(output.status.success(), "{output:?}");
    }
    // A path is still a profile, and help does not list the profiles.
    let output = words("simulate --verb read --profile ./none.toml");
    assert!(stderr(&output).contains("none.toml"), "{output:?}");
    assert!(!stdout(&words("limits --help")).contains("e7520-on-die"));
}

#[test]
fn every_command_has_a_page_with_every_option() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("man");
    assert!(doorbell(&["man", "--dir", dir.to_str().unwrap()]).status.success());
    for command in COMMANDS {
        let output = words(&format!("man {command}"));
        let page = stdout(&output);
        assert_eq!(page, std::fs::read_to_string(dir.join(format!("doorbell-{command}.1"))).unwrap());
        let text = page.replace("\\-", "-");
        assert!(text.contains(&format!("\ndoorbell-{command} - ")), "{text}");
        for option in options(command) {
            assert!(text.contains(&format!("{option}\\fR")), "{command}: {option}");
        }
    }
    let output = words("man");
    assert!(stdout(&output).contains(".SH EXIT STATUS\n"), "{output:?}");
    assert!(stdout(&words("man cache clear")).contains("doorbell\\-cache\\-clear \\- "));
    let output = words("man smulate");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).ends_with("; did you mean `simulate`?\n"), "{output:?}");
}

#[test]
fn a_malformed_file_is_named_with_its_line() {
    let path = file("malformed.toml", "verb = \"read\"\n\nthreadz = 3\n");
    let output = doorbell(&["simulate", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("malformed.toml:3: unknown field `threadz`"), "{output:?}");
}

#[test]
fn a_file_may_begin_with_a_mark_of_its_encoding() {
    for (name, text) in [("mark.toml", "size = 8"), ("mark.json", "{\"size\": 8}"), ("mark", "{\"size\": 8}")]
    {
        let path = file(name, &format!("\u{feff}{text}"));
        let output = doorbell(&["limits", path.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        assert!(line_of(stdout(&output), "size").contains("8 B"), "{name}");
    }
}

#[test]
fn flags_override_the_file() {
    let toml = file("workload.toml", "verb = \"read\"\nsize = 8\nmachines = 2\nthreads = 1\n");
    let json = file("workload.json", r#"{"verb": "read", "size": 8, "machines": 2, "threads": 1}"#);
    for path in [toml, json] {
        let path = path.to_str().unwrap();
        let args = ["simulate", path, "--size", "16", "--warmup", "10us", "--duration", "20us", "--json"];
        let output = doorbell(&args);
        assert!(output.status.success(), "{output:?}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["workload"]["verb"], "read");
        assert_eq!(json["workload"]["size"], 16);
        assert_eq!(json["workload"]["threads"], 1);
        assert!(json["mops"].as_f64().unwrap() > 0.0);
    }
}

/// A server with a Connect-IB, and two clients, each with a ConnectX-3.
const MIXED: &str = "verb = \"read\"\nthreads = 2\nwarmup = \"10us\"\nduration = \"20us\"\n\
    [[machine]]\nprofile = \"cib\"\n[[machine]]\nprofile = \"cx3\"\ncount = 2\n";

#[test]
fn machines_may_differ() {
    let path = file("mixed.toml", MIXED);
    let path = path.to_str().unwrap();
    let output = doorbell(&["simulate", path, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["workload"]["machine"][1]["profile"], "cx3");
    assert_eq!((&json["workload"]["profile"], &json["workload"]["machines"]), (&"cib".into(), &3.into()));
    assert_eq!(json["mops_per_machine"].as_array().unwrap().len(), 3);
    let again = file("mixed.json", &json.to_string());
    let again = doorbell(&["simulate", again.to_str().unwrap(), "--json"]);
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["workload"], &again["event_hash"]), (&json["workload"], &json["event_hash"]));
    let output = doorbell(&["limits", path]);
    assert!(stdout(&output).contains("of each of machines 1 to 2 (cx3)"), "{output:?}");
    let output = doorbell(&["simulate", path]);
    for part in ["3: machine 0 (cib), machines 1 to 2 (cx3)", "of machine 0 (cib)"] {
        assert!(stdout(&output).contains(part), "{part}: {output:?}");
    }
}

/// Ten threads READ 64 bytes as fast as they can. Four threads WRITE 4 KiB at a fixed rate.
const CLASSES: &str = "machines = 4\nseed = 7\n[[class]]\nname = \"readers\"\nthreads = 10\nverb = \"read\"\nsize = 64\n\
    [[class]]\nname = \"writers\"\nthreads = 4\nverb = \"write\"\ntransport = \"rc\"\nsize = 4096\n\
    arrivals = \"poisson\"\nrate = 1000000\n";

fn simulated(path: &str, more: &str) -> serde_json::Value {
    let words: Vec<&str> = ["simulate", path, "--json"].into_iter().chain(more.split_whitespace()).collect();
    let output = doorbell(&words);
    assert!(output.status.success(), "{path} {more}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn threads_may_differ() {
    let path = file("classes.toml", CLASSES);
    let path = path.to_str().unwrap();
    let both = simulated(path, "");
    let number = |json: &serde_json::Value| json.as_f64().unwrap();
    let [readers, writers] = &both["classes"].as_array().unwrap()[..] else { panic!("{both}") };
    // Each class runs alone, with the options from the file.
    let alone = |name: &str, lines: &str| {
        let head = "machines = 4\nseed = 7\npattern = \"inbound\"\n";
        simulated(file(name, &format!("{head}{lines}")).to_str().unwrap(), "")
    };
    let reading = alone("readers.toml", "threads = 10\nverb = \"read\"\nsize = 64\n");
    let writing = alone(
        "writers.toml",
        "threads = 4\nverb = \"write\"\ntransport = \"rc\"\nsize = 4096\narrivals = \"poisson\"\nrate = 1000000\n",
    );
    // If both classes run together, the readers are slower because they share the resources. The writers
    // still reach their rate, but wait longer.
    assert!(number(&readers["mops"]) < number(&reading["mops"]), "{readers} {}", reading["mops"]);
    assert!(number(&readers["mops"]) > 0.7 * number(&reading["mops"]), "{readers} {}", reading["mops"]);
    assert!((0.9..1.1).contains(&number(&writers["mops"])), "{writers}");
    let mean = |json: &serde_json::Value| number(&json["latency_ns"]["mean"]);
    assert!(mean(writers) > 1.2 * mean(&writing), "{writers} {}", writing["latency_ns"]);
    assert_eq!(
        both["completed"],
        number(&readers["completed"]) as u64 + number(&writers["completed"]) as u64
    );
    // If the output is read as a workload, the result is equal.
    let again = simulated(file("classes.json", &both.to_string()).to_str().unwrap(), "");
    assert_eq!((&again["workload"], &again["event_hash"]), (&both["workload"], &both["event_hash"]));
    let text = doorbell(&["simulate", path, "--warmup", "20us", "--duration", "50us"]);
    assert!(stdout(&text).contains("Class writers: threads 10 to 13 of each machine"), "{text:?}");
    assert!(line_of(stdout(&text), "readers").contains('%'), "{text:?}");
}

#[test]
fn explain_says_that_nothing_is_advised_of_classes() {
    let path = file("classes-explained.toml", CLASSES);
    let output = doorbell(&[
        "simulate",
        path.to_str().unwrap(),
        "--explain",
        "--warmup",
        "20us",
        "--duration",
        "30us",
    ]);
    assert!(output.status.success(), "{output:?}");
    assert!(stdout(&output).contains("Advice: not available for threads in classes"), "{output:?}");
}

/// Checks that the command refuses the file at `path` in one line that contains `said`. `path` replaces the
/// word FILE of the command.
#[track_caller]
fn refuses_file(command: &str, path: &Path, said: &str) {
    let path = path.to_str().unwrap();
    let args: Vec<&str> = command.split(' ').map(|word| if word == "FILE" { path } else { word }).collect();
    let output = doorbell(&args);
    assert_eq!(output.status.code(), Some(2), "{command}: {output:?}");
    assert!(stderr(&output).contains(said), "{command}: {output:?}");
    assert_eq!(stderr(&output).lines().count(), 1, "{command}: {output:?}");
}

#[test]
fn classes_go_with_no_flag_that_contradicts_them() {
    let path = file("classes-flags.toml", CLASSES);
    for (command, said) in [
        (
            "simulate FILE --size 8",
            "size cannot override the file, because class readers in the file sets its own size",
        ),
        (
            "limits FILE --mix read:1",
            "mix cannot override the file, because class readers in the file sets its own verb",
        ),
        (
            "simulate FILE --threads 3",
            "threads is 3, but the workload's [[class]] tables set the number of threads",
        ),
        ("sweep FILE --over rate=5,6", "at rate=5: rate cannot override the file, because class writers"),
        ("sweep FILE --over class=5,6", "class consists of tables, so it can only be set in a file"),
        ("simulate FILE --system rpc", "class does not apply to rpc"),
    ] {
        refuses_file(command, &path, said);
    }
    let qps = simulated(path.to_str().unwrap(), "--qps 3 --warmup 10us --duration 10us");
    assert_eq!(
        (&qps["workload"]["class"][0]["qps"], &qps["workload"]["class"][1]["qps"]),
        (&3.into(), &3.into())
    );
}

#[test]
fn groups_go_with_no_flag_that_contradicts_them() {
    let path = file("groups.toml", MIXED);
    for (line, part) in [
        ("simulate FILE --profile cx3", "profile is cx3, but the workload's [[machine]] tables"),
        ("simulate FILE --machines 3", "machines is 3, but the workload's [[machine]] tables"),
        ("limits FILE --machines 3", "machines is 3, but the workload's [[machine]] tables"),
        ("simulate FILE --threads 9", "a machine of profile cx3 has 8 cores"),
        ("simulate FILE --system herd-kv", "a file must not have [[machine]] tables"),
    ] {
        refuses_file(line, &path, part);
    }
}

#[test]
fn parameters_are_set_and_said_to_be() {
    let json = |line: &str| serde_json::from_str::<serde_json::Value>(stdout(&words(line))).unwrap();
    let bound = |json: &serde_json::Value| {
        let of = |l: &&serde_json::Value| l["resource"] == "nic-tx-pu";
        json["limits"].as_array().unwrap().iter().find(of).unwrap()["mops"].as_f64().unwrap()
    };
    // The usual choice of inline payload depends on the parameters.
    const LIMITS: &str = "limits --verb write --batch 16 --inline --json";
    let plain = json(LIMITS);
    let set = json(&format!("{LIMITS} --set tx.fetched_wqe_ns=1 --set tx.send_ns=20"));
    assert_eq!(set["workload"]["set"].to_string(), r#"{"tx.fetched_wqe_ns":1,"tx.send_ns":20}"#);
    assert!(plain["workload"].get("set").is_none() && bound(&set) > 2.0 * bound(&plain), "{set}");

    let simulated = json(&format!("{SMALL} --set tx.send_ns=2000 --json"));
    let path = file("set.json", &simulated.to_string());
    let again = json(&format!("simulate {} --json", path.display()));
    assert_eq!(again["workload"], simulated["workload"]);
    assert_eq!(again["event_hash"], simulated["event_hash"]);
    // A SEND takes 2 us.
    assert!(simulated["mops"].as_f64().unwrap() < 0.51, "{simulated}");
    let text = words(&format!("{SMALL} --set tx.send_ns=2000"));
    assert!(stdout(&text).contains("  set by you      tx.send_ns=2000\n"), "{}", stdout(&text));

    let system = "--system rpc-sequencer --clients 2 --warmup 10us --duration 20us --set tx.send_ns=2000";
    let text = words(&format!("simulate {system}"));
    assert!(stdout(&text).contains("set by you"), "{text:?}");
    let system = json(&format!("simulate {system} --json"));
    assert_eq!(system["workload"]["set"]["tx.send_ns"], 2000);

    let asked = "simulate --system vector-io --strategy auto --warmup 10us --duration 20us";
    let text = words(asked);
    let chosen = json(&format!("{asked} --json"))["workload"]["strategy"].as_str().unwrap().to_owned();
    let row = format!("strategy        `{chosen}`, chosen by `auto` on this profile");
    assert!(chosen != "auto" && stdout(&text).contains(&row), "{text:?}");
    // The command that measures percentiles repeats the options.
    assert!(!stdout(&text).replace("--strategy auto", "").contains("strategy auto"), "{text:?}");

    let groups = file("set.toml", "[[machine]]\nprofile = \"cib\"\n[[machine]]\nprofile = \"cx3\"\n");
    let of_group = json(&format!("limits {} --set 1:tx.send_ns=20 --json", groups.display()));
    assert_eq!(of_group["workload"]["machine"][1]["set"].to_string(), r#"{"tx.send_ns":20}"#);
    let text = words(&format!("limits {} --set 1:tx.send_ns=20", groups.display()));
    assert!(stdout(&text).contains("tx.send_ns=20: machine 1 (cx3)"), "{text:?}");
    let unsaid = words(&format!("limits {} --set tx.send_ns=20", groups.display()));
    assert!(stderr(&unsaid).contains("as --set 0:tx.send_ns=20") && unsaid.status.code() == Some(2));

    let send_of = |shown: &serde_json::Value| {
        let all = shown["parameters"].as_array().unwrap();
        all.iter().find(|p| p["name"] == "tx.send_ns").unwrap().clone()
    };
    let shown = json("profiles cx --set tx.send_ns=20 --json");
    assert_eq!(shown["set"].to_string(), r#"{"tx.send_ns":20}"#);
    let (plain, send) = (json("profiles cx --json"), send_of(&shown));
    assert_eq!((send["basis"].as_str(), &send["instead_of"]), (Some("set"), &send_of(&plain)["value"]));
    assert!(plain.get("set").is_none());
    // Users can type the printed names, because no name is broken at the table's edge.
    let text = words("profiles e7520-t4 --set host.cores=3");
    assert!(stdout(&text).contains("set by you  instead of 4\n"), "{text:?}");
    let of = json("profiles e7520-t4 --json");
    for name in of["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()) {
        assert!(stdout(&text).contains(&format!("\n  {name} ")), "{name}");
    }
}

#[test]
fn what_rests_on_extrapolation_is_said() {
    let json = |line: &str| serde_json::from_str::<serde_json::Value>(stdout(&words(line))).unwrap();
    const SYSTEM: &str = "simulate --system read-kv --pairs 1000 --clients 2 --warmup 10us --duration 20us";
    for (line, wanted) in [
        (
            format!("{SMALL} --size 100"),
            "100 B is beyond the range measured for profile cib, 0 to 60 B (ATC'16, Figure 11b ",
        ),
        ("limits --verb write".to_owned(), "profile cib has no measurement of WRITE over UC"),
        (SYSTEM.to_owned(), "profile cib has no measurement of read-kv"),
    ] {
        let text = words(&line);
        assert!(stdout(&text).contains(&format!("\nExtrapolated: {wanted}")), "{line}: {text:?}");
        let said = json(&format!("{line} --json"));
        let [one] = said["extrapolates"].as_array().unwrap().as_slice() else { panic!("{line}: {said}") };
        assert!(one.as_str().unwrap().starts_with(wanted), "{line}: {said}");
    }
    for line in [SMALL, "limits --size 28"] {
        assert!(!stdout(&words(line)).contains("extrapolation"), "{line}");
        assert_eq!(json(&format!("{line} --json"))["extrapolates"], serde_json::json!([]), "{line}");
    }
    let shown = json("profiles cx --json");
    assert_eq!(shown["measured"]["verbs"][0]["batch"], serde_json::json!([1, 16]));
    let text = words("profiles cx");
    assert!(stdout(&text).contains("send over UD, inbound   ATC'16, Table 5\n"), "{text:?}");
    assert!(stdout(&words("profiles e7520-on-die")).contains("\nThe profile names no measurements behind"));
    assert_eq!((&shown["unsupported"], shown["calibrated"].is_object()), (&serde_json::json!([]), true));
}

#[test]
fn a_profile_with_other_values_has_no_errors_of_its_base() {
    const PACKET: &str = "value = 70, basis = \"assumed\", reason = \"tried\", range = [60, 80]";
    let text =
        format!("name = \"mine\"\ntitle = \"mine\"\nbase = \"cib\"\n[rx]\npacket_ns = {{ {PACKET} }}\n");
    let path = file("other-values.toml", &text);
    let said = |option: &str| {
        let output = doorbell(&["profiles", path.to_str().unwrap(), option]);
        assert!(output.status.success(), "{output:?}");
        stdout(&output).to_owned()
    };
    const REASON: &str = "rx.packet_ns is 70 ns, but the measurements support 66.2 ns";
    let json: serde_json::Value = serde_json::from_str(&said("--json")).unwrap();
    assert_eq!(
        (&json["unsupported"], &json["calibrated"]),
        (&serde_json::json!([REASON]), &serde_json::json!(null))
    );
    let page = said("--data");
    assert!(page.contains(&format!("\n- {REASON}\n")) && !page.contains("Expect an error"), "{page}");
    // Both outputs state the errors of a base whose values did not change.
    let data = stdout(&words("profiles cib --data")).to_owned();
    assert!(data.contains("Expect an error") && data.contains("| left out |"), "{data}");
}

/// The resolved workload of a line, which is not simulated.
fn resolved(line: &str) -> serde_json::Value {
    let output = words(&format!("limits {line} --json"));
    assert!(output.status.success(), "{line}: {output:?}");
    serde_json::from_str::<serde_json::Value>(stdout(&output)).unwrap()["workload"].take()
}

#[test]
fn numbers_and_names_are_read_as_people_write_them() {
    for (typed, plain) in [
        ("--size 4k", "--size 4096"),
        ("--size 4KiB", "--size 4096"),
        ("--verb READ --size 1M", "--verb read --size 1048576"),
        ("--arrivals poisson --rate 45M", "--arrivals poisson --rate 45000000"),
        ("--arrivals poisson --rate 45e6", "--arrivals poisson --rate 45000000"),
        ("--arrivals Poisson --rate 45_000_000", "--arrivals poisson --rate 45000000"),
        ("--verb WRITE --transport RC", "--verb write --transport rc"),
        ("--verb cas", "--verb compare-swap"),
        ("--verb FAA", "--verb fetch-add"),
        ("--verb compare_swap", "--verb compare-swap"),
        ("--mix READ/4k:3,faa:1", "--mix read/4096:3,fetch-add:1"),
        ("--profile CX3", "--profile cx3"),
    ] {
        assert_eq!(resolved(typed), resolved(plain), "{typed}");
    }
}

#[test]
fn inline_flags() {
    for (flag, inline) in [("--inline", true), ("--no-inline", false)] {
        let output = words(&format!("{SMALL} --json {flag}"));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["workload"]["inline"], inline, "{flag}");
    }
}

#[test]
fn payload_that_is_read_by_dma_has_a_reason() {
    let large = "limits --verb send --size 256 --machines 40 --pattern all-to-all";
    let inline = |line: &str| line_of(stdout(&words(line)), "inline ").to_owned();
    assert!(inline(large).contains(" no: DMA raises the lowest bound from 10"), "{}", inline(large));
    assert!(inline(&format!("{large} --inline")).ends_with(" yes"));
    let sweep =
        words("sweep --over size=28,900 --verb write --machines 2 --threads 1 --window 1 --duration 20us");
    let note =
        "but is read by DMA at these points, because DMA is faster (--inline changes this): size=900\n";
    assert!(stdout(&sweep).contains(note), "{sweep:?}");
}

#[test]
fn simulate_tells_people() {
    let output = words(&format!("{SMALL} --verb read"));
    assert!(output.status.success(), "{output:?}");
    let text = stdout(&output);
    for part in ["READ over RC", " Mops", " ns", "Bottleneck", "per operation", "seed"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

/// The first line of a report that begins with these words, after leading blanks.
fn line_of<'a>(text: &'a str, words: &str) -> &'a str {
    text.lines().map(str::trim_start).find(|line| line.starts_with(words)).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn one_is_told_as_one() {
    let flags = "--verb read --machines 2 --threads 1 --window 1 --warmup 5us --duration 20us";
    let output = words(&format!("simulate {flags}"));
    assert!(line_of(stdout(&output), "window").ends_with(" 1 operation per thread"), "{output:?}");
    let output = words("simulate --system herd-kv --clients 1 --cores 1 --warmup 5us --duration 20us");
    assert!(line_of(stdout(&output), "server").ends_with(" 1 core"), "{output:?}");
}

#[test]
fn people_are_told_all_digits_that_count() {
    let output = words("limits --verb write --size 1000000000 --machines 2 --threads 1 --no-inline");
    let text = stdout(&output);
    assert!(line_of(text, "ib-bw").contains(" 0.00"), "{text}");
    assert!(!text.contains(" 0.00 ") && !text.contains("-0.0"), "{text}");
    let output =
        words("simulate --machines 2 --threads 1 --verb read --size 1000000 --window 1 --duration 2ms");
    let text = stdout(&output);
    assert!(
        !line_of(text, "rate").contains(" 0.00 ") && !line_of(text, "busiest machine").contains(" 0.00 "),
        "{text}"
    );
}

#[test]
fn bytes_are_per_operation_of_who_has_to_do_with_it() {
    let of = |flags: &str| {
        let output = words(&format!("simulate --warmup 20us --duration 60us --threads 1 {flags}"));
        assert!(output.status.success(), "{output:?}");
        let row = line_of(stdout(&output), "each other machine").to_owned();
        let columns: Vec<f64> = row.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        columns[..3].to_vec()
    };
    // For a READ, the responder's NIC reads 256 B from memory. The requester's NIC writes these 256 B and a
    // CQE of 64 B.
    for machines in ["2", "5"] {
        let [mmio, read, write] =
            of(&format!("--verb read --size 256 --pattern outbound --machines {machines}"))[..]
        else {
            panic!("three columns")
        };
        assert!(mmio == 0.0 && write == 0.0, "{machines} machines: {mmio} {write}");
        assert!((250.0..262.0).contains(&read), "{machines} machines: {read}");
        let [_, read, write] =
            of(&format!("--verb read --size 256 --pattern inbound --machines {machines}"))[..]
        else {
            panic!("three columns")
        };
        assert!(read == 0.0 && (312.0..328.0).contains(&write), "{machines} machines: {read} {write}");
    }
}

#[test]
fn a_pattern_names_who_is_posted_to() {
    for (flags, told) in [
        (
            "--verb read --pattern all-to-all --machines 8 --qps 3",
            "every machine posts to machines 0 to 2, because",
        ),
        ("--verb read --pattern all-to-all --machines 8", "every machine posts to the others"),
        (
            "--verb read --pattern outbound --machines 8 --qps 2 --threads 3",
            "machine 0 posts to machines 1 to 4, because",
        ),
        ("--verb read --pattern outbound --machines 8 --qps 1 --threads 1", "machine 0 posts to machine 1"),
        ("--verb send --pattern outbound --machines 8 --qps 1 --threads 1", "machine 0 posts to the others"),
    ] {
        let output = words(&format!("limits {flags}"));
        assert!(line_of(stdout(&output), "pattern").contains(told), "{flags}: {}", stdout(&output));
    }
}

/// Sends SIGINT to a process as soon as the process has a handler for SIGINT.
fn interrupt(process: u32) {
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap() & 0b10 != 0
    };
    while !catches() {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &process.to_string()]).status().unwrap().success());
}

#[test]
fn what_is_interrupted_says_so() {
    for line in [
        "simulate --machines 2 --threads 1 --duration 1000s",
        "simulate --system herd-kv --pairs 500000 --cores 14",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
        command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        interrupt(child.id());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{line}: {output:?}");
        // If the run measured anything before the interrupt, the command prints the results.
        let said = match stdout(&output).is_empty() {
            false => "doorbell: interrupted\n",
            true => "doorbell: interrupted: the run did not finish, so it has no result\n",
        };
        assert_eq!(stderr(&output), said, "{line}");
    }
}

#[test]
fn explain_lists_lifts() {
    let output = words(&format!("{SMALL} --verb read --explain --json"));
    assert!(output.status.success(), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lifts = json["lift"].as_array().unwrap();
    let of = |kind: &str| lifts.iter().filter(|lift| lift["of"] == kind).count();
    assert_eq!((of("speed"), of("number")), (13, 9));
    assert!(!json["bottleneck"]["text"].as_str().unwrap().contains("not confirmed"));
}

/// The command of the first advice, and the rate with this advice.
fn first_advice(output: &Output) -> (String, f64) {
    assert!(output.status.success(), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &json["advice"][0];
    let text = first["command"].as_str().unwrap_or_else(|| panic!("there is advice: {json}"));
    (text.to_owned(), first["mops"].as_f64().unwrap())
}

#[test]
fn what_is_advised_gives_the_rate_that_is_told() {
    let times = "--warmup 20us --duration 40us";
    let flags =
        format!("--verb read --machines 3 --threads 4 --qps 4 --set caches.responder_entries=16 {times}");
    let toml = "verb = \"read\"\nmachines = 3\nthreads = 2\nwindow_per_qp = 1";
    let file = file("advised.toml", toml);
    let system = format!("--system rpc --clients 2 --outstanding 1 {times}");
    for asked in [flags, format!("{} {times}", file.display()), system] {
        let (command, mops) = first_advice(&words(&format!("simulate {asked} --explain --json")));
        let line = command.strip_prefix("doorbell ").unwrap();
        assert!(
            asked.split(' ').filter(|word| word.len() > 2).all(|word| line.contains(word)),
            "{asked}: {line}"
        );
        let json: serde_json::Value =
            serde_json::from_slice(&words(&format!("{line} --json")).stdout).unwrap();
        let rate = json["mops"].as_f64().or(json["mrps"].as_f64());
        assert_eq!(rate, Some(mops), "{command}");
        // The report shows the command as typed, too.
        assert!(stdout(&words(&format!("simulate {asked} --explain"))).contains(&command));
    }
}

#[test]
fn limits_and_profiles() {
    let output = words("limits --verb send --size 60 --batch 16 --json");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mops = |i: usize| json["limits"][i]["mops"].as_f64().unwrap();
    assert!(mops(0) <= mops(1), "least first: {json}");
    assert!(stdout(&words("limits")).contains("binds"));
    let list = words("profiles");
    assert!(stdout(&list).contains("cx3"));
    // Groups are in the order of their years, and only the first profile of a group shows its year.
    let first = stdout(&list).lines().skip(2).map(|line| line.split_whitespace().next().unwrap_or_default());
    let first: Vec<&str> = first.collect();
    let years = ["2007", "2010", "2011", "cx3-dual", "cx3-dual-split", "2012", "2013", "2016", "cx6", "2021"];
    assert_eq!(first, years, "{}", stdout(&list));
    let cx6 = words("profiles cx6");
    for part in [
        "cx6 (mlx5): ConnectX-6\nvendor_id 0x02c9, vendor_part_id 4123 (rdma-core",
        "announced in 2016 (",
        "There is no profile cx6 yet: only `doorbell run --as cx6` takes it",
        "ibv_devinfo -vv, firmware 20.37.1700",
    ] {
        assert!(stdout(&cx6).contains(part), "{part}: {}", stdout(&cx6));
    }
    let output = words("profiles cib");
    assert!(stdout(&output).contains("pcie.lanes") && stdout(&output).contains("published"), "{output:?}");
}

#[test]
fn reproduce_compares() {
    let output = words("reproduce atc16/appA atc16/fig2b");
    assert!(output.status.success(), "{output:?}");
    let text = stdout(&output);
    assert!(text.contains("atc16-appA-tdb") && text.contains("1534") && text.contains("Summary"), "{text}");
    let output = words("reproduce atc16/appA --json");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 2);
}

#[test]
fn results_are_kept() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let _ = std::fs::remove_dir_all(&dir);
    let words = |line: &str| {
        let output = doorbell_with_cache(dir.to_str().unwrap(), &line.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{output:?}");
        stdout(&output).to_owned()
    };
    let none = format!("{}: 0 results, 0 B\n", dir.display());
    assert_eq!(words("cache"), none);
    let made = words("reproduce atc16/fig11b");
    assert!(!made.contains("not repeated"), "{made}");
    assert!(!words("cache").contains(" 0 results"));
    let kept = words("reproduce atc16/fig11b");
    let (same, told) = kept.split_at(made.len());
    assert_eq!(same, made);
    assert!(told.contains(" not repeated, because ") && told.contains("--fresh repeats them"), "{told}");
    assert_eq!(words("reproduce atc16/fig11b --fresh"), made);
    let json: serde_json::Value = serde_json::from_str(&words("reproduce atc16/fig11b --json")).unwrap();
    assert!(
        json["stored"]["runs"].as_u64() > Some(0) && json["stored"]["first"].is_u64(),
        "{}",
        json["stored"]
    );
    // Change one digit of one result.
    let mut results = std::fs::read_dir(&dir).unwrap();
    let path = results.next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&path).unwrap();
    let at = text.find("\"events\":").unwrap() + "\"events\":".len();
    let digit = if text.as_bytes()[at] == b'9' { "8" } else { "9" };
    std::fs::write(&path, format!("{}{digit}{}", &text[..at], &text[at + 1..])).unwrap();
    let reproduce = ["reproduce", "atc16/fig11b"];
    let output = doorbell_with_cache(dir.to_str().unwrap(), &reproduce);
    assert!(stdout(&output).starts_with(&made), "{output:?}");
    let note = "doorbell: 1 stored result was damaged, so its run was repeated\n";
    assert_eq!(stderr(&output), note);
    assert_eq!(stderr(&doorbell_with_cache(dir.to_str().unwrap(), &reproduce)), "");
    // Other files in the directory are kept.
    std::fs::write(dir.join("notes.json"), "{}").unwrap();
    assert!(words("cache clear").contains(": removed "));
    assert_eq!(words("cache"), none);
    assert!(dir.join("notes.json").exists());
}

#[test]
fn a_relative_directory_for_caches_is_none() {
    let dir = |cache: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
        command.env_remove("DOORBELL_CACHE_DIR").env("XDG_CACHE_HOME", cache).env("HOME", "/nowhere/home");
        stdout(&command.arg("cache").output().unwrap()).to_owned()
    };
    assert_eq!(dir("/nowhere/cache"), "/nowhere/cache/doorbell: 0 results, 0 B\n");
    for none in ["cache", "./cache", ""] {
        assert_eq!(dir(none), "/nowhere/home/.cache/doorbell: 0 results, 0 B\n", "{none}");
    }
}

#[test]
fn reproduce_plots() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plots/of-formulas");
    let _ = std::fs::remove_dir_all(&dir);
    let output = doorbell(&["reproduce", "atc16/appA", "atc16/fig2", "--plots", dir.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(stdout(&output).contains("atc16-fig2.svg"), "{output:?}");
    let svg = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    assert!(svg("atc16-fig2.svg").contains("DMA read") && svg("atc16-appA.svg").contains("Doorbell"));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 2);
}

#[test]
fn plots_need_a_directory() {
    let path = file("not-a-directory", "");
    // One of the paths would be a directory below a file.
    for path in [path.clone(), path.join("plots")] {
        let output = doorbell(&["reproduce", "atc16/appA", "--plots", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).starts_with("doorbell: cannot write plots to "), "{output:?}");
        assert_eq!(stderr(&output).lines().count(), 1, "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn systems_are_simulated() {
    for system in [
        "sequencer --cores 2",
        "sequencer --design spec-s0 --cores 2",
        "sequencer --design atomics",
        "herd-kv --cores 2 --pairs 200 --put-permille 100",
        "read-kv --cores 2 --pairs 200 --put-permille 100",
        "read-kv --cores 1 --pairs 1024 --put-permille 900 --multi-queue 2 --outstanding 2",
        "herd-kv --profile cx --pairs 200",
        "herd-kv --profile cx --pairs 200 --value 3000 --put-permille 1000 --outstanding 2",
        "read-kv --profile cx --pairs 200 --value 3000 --put-permille 100",
        "drtm-kv --update --pairs 200 --put-permille 100",
    ] {
        let line = format!("simulate --system {system} --clients 4 --warmup 20us --duration 30us --json");
        let output = words(&line);
        assert!(output.status.success(), "{system}: {}", stderr(&output));
        let json: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
        assert!(json["mrps"].as_f64().unwrap() > 0.1, "{system}: {json}");
        assert_eq!(json["event_hash"].as_str().map(str::len), Some(16), "{system}");
    }
    for (line, what) in [
        ("simulate --system herd-kv --verb read", "verb (--verb) does not apply to herd-kv"),
        ("simulate --system herd-kv --design atomics", "only to --system sequencer or spinlock"),
        (
            "simulate --system herd-kv --clients-per-machine 0",
            "clients_per_machine is 0, but must be at least 1",
        ),
        ("simulate --system herd-kv --outstanding 100000", "outstanding is 100000, but must be at most 512"),
        ("simulate --system drtm-kv --datagrams", "datagrams (--datagrams) does not apply to drtm-kv"),
        ("simulate --system sequencer --cores 15", "cores is 15, but a machine of profile cib has 14 cores"),
        (
            "simulate --system herd-kv --profile cx --value 2044",
            "value is 2044, which makes UD messages of 2049 bytes, but a UD message is one packet of at \
             most 2048",
        ),
        (
            "simulate --system read-kv --profile cx --value 3000 --put-permille 100 --datagrams",
            "value is 3000, which makes UD messages of 3021 bytes",
        ),
        ("simulate --system touch --stack tcp", "profile cib has no section [tcp] with the costs of TCP"),
        ("simulate --system touch --mode notouch", "mode is notouch, but profile cib has no cache sizes"),
        (
            "simulate --system touch --instructions 15",
            "instructions is 15, but profile cib has no cache \
             sizes",
        ),
        ("simulate --system touch --order random", "order is random, but profile cib has no cache sizes"),
        ("simulate --system atomics-sequencer --profile e7520-t4", "iWARP has no FetchAdd"),
        ("simulate --system drtm-kv --put-permille 100 --profile e7520-t4", "iWARP has no CompareSwap"),
        ("simulate --system spinlock --profile e7520-t4", "iWARP has no CompareSwap"),
        (
            "simulate --system spinlock --lease 30us --release write",
            "release is write, but another client may have taken over a lock with a lease",
        ),
        (
            "simulate --system local-spinlock --clients 300",
            "clients is 300, but all clients share one machine",
        ),
        (
            "simulate --system touch --stack tcp --profile e7520-t4 --pcap x",
            "--pcap captures packets of QPs \
             only",
        ),
        ("simulate --system sequencer --zipf", "zipf (--zipf) does not apply to rpc-sequencer"),
        (
            "simulate --system sequencer --design atomics --cores 2",
            "cores (--cores) does not apply to atomics-sequencer",
        ),
    ] {
        let output = words(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        assert!(stderr(&output).contains(what), "{line}: {}", stderr(&output));
    }
}

/// Rows of the table of an operation's time, and the mean latency. All times are in microseconds.
fn phases(options: &str) -> (Vec<(String, f64)>, f64) {
    let line = format!("simulate --system touch --profile e7520-t4 --size 4096 {options}");
    let output = words(&line);
    let text = stdout(&output);
    let number = |line: &str, unit: &str| -> f64 {
        line.split(unit).next().unwrap().split_whitespace().next_back().unwrap().parse().unwrap()
    };
    // The first number is the mean. The second is the half-width of the mean's interval.
    let mean = line_of(text, "latency, mean").split_whitespace().find_map(|word| word.parse::<f64>().ok());
    let mean = mean.unwrap() / 1e3;
    let rows = ["prepare", "compute", "respond", "network and stacks"];
    let row = |name: &&str| text.lines().find(|line| line.trim_start().starts_with(*name));
    (rows.iter().filter_map(|name| Some((name.to_string(), number(row(name)?, " us")))).collect(), mean)
}

/// The split is known wherever in a request the measured time begins and ends, if the time contains a whole
/// request.
#[test]
fn an_operation_s_time_is_told_by_whole_requests() {
    let (long, _) = phases("--compute 100us --duration 20ms");
    for duration in ["150us", "200us", "260us", "333us"] {
        let (rows, mean) = phases(&format!("--compute 100us --duration {duration}"));
        assert_eq!(rows.len(), 4, "{duration}: {rows:?}");
        let sum: f64 = rows.iter().map(|(_, us)| us).sum();
        assert!((sum - mean).abs() < 0.05, "{duration}: {rows:?} of {mean}");
        for ((name, us), (_, expected)) in rows.iter().zip(&long) {
            assert!((us - expected).abs() < 0.02 * expected + 0.3, "{duration}: {name} {us}, not {expected}");
        }
    }
    let output =
        words("simulate --system touch --profile e7520-t4 --compute 2ms --duration 20us --warmup 2390us");
    assert!(!stdout(&output).contains("network and stacks"), "{}", stdout(&output));
}

/// Gain from 10% more of the cores, and the bottleneck.
fn explained(options: &str) -> (f64, String) {
    let output = words(&format!("simulate --system touch --size 4096 --explain --json {options}"));
    let json: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    let lifts = json["lift"].as_array().unwrap().iter();
    let cpu = lifts.clone().find(|lift| lift["resource"] == "cpu").unwrap();
    (cpu["gain"].as_f64().unwrap(), json["bottleneck"].to_string())
}

/// Programs scan, compute and make system calls, on hosts with and without cache sizes.
#[test]
fn a_faster_core_does_what_programs_do_in_less_time() {
    for (options, share, class) in [
        ("--profile cib --compute 1ms", 0.97, "\"class\":\"cpu\""),
        ("--profile e7520-t4 --compute 1ms", 0.97, "\"class\":\"cpu\""),
        ("--profile e7520-on-die --step 1", 0.85, "\"class\":\"cpu\""),
        ("--profile e7520-t4 --stack tcp", 0.3, "latency"),
    ] {
        let (gain, bottleneck) = explained(options);
        assert!((0.9 * share * 0.1..0.101).contains(&gain), "{options}: {gain}");
        assert!(bottleneck.contains(class), "{options}: {bottleneck}");
    }
}

/// The tenant keeps its core busy at any rate of the server.
#[test]
fn a_tenant_s_core_is_no_bottleneck() {
    for tenant in ["own", "shared"] {
        let (_, bottleneck) = explained(&format!("--profile e7520-t4 --tenant {tenant}"));
        assert!(!bottleneck.contains("core 1") && !bottleneck.contains("\"cpu\""), "{tenant}: {bottleneck}");
    }
}

/// Write-backs that the NIC forces wait for each other. A core's load from memory does not wait for all of
/// these write-backs.
#[test]
fn a_tenant_overtakes_the_nic() {
    let output = words("simulate --system touch --profile e7520-t4 --size 65536 --tenant shared --json");
    let json: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    let pass =
        json["phases"].as_array().unwrap().iter().find(|phase| phase["phase"] == "tenant-pass").unwrap();
    let (pass, operation) = (pass["mean_ns"].as_f64().unwrap(), json["latency_ns"]["mean"].as_f64().unwrap());
    assert!(pass < operation / 4.0, "{pass} of {operation}");
}

#[test]
fn an_answer_of_stale_bytes_says_so() {
    let change =
        "io_coherent = { value = false, basis = \"assumed\", reason = \"tried\", alternative = \"true\" }";
    let text =
        format!("name = \"arm\"\ntitle = \"not coherent\"\nbase = \"e7520-t4\"\n[hierarchy]\n{change}\n");
    let profile = file("not-coherent.toml", &text);
    for (stack, stale) in [("rdma", true), ("tcp", false)] {
        let line = format!(
            "simulate --system touch --size 64 --stack {stack} --json --profile {}",
            profile.display()
        );
        let output = words(&line);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(stderr(&output).contains("stale data"), stale, "{stack}: {}", stderr(&output));
    }
}

/// In this test, standard error is a device that is always full.
#[cfg(target_os = "linux")]
#[test]
fn an_exit_code_does_not_need_standard_error() {
    let long = format!("--{}", "x".repeat(1000));
    for (args, code) in [(["limits", "/nowhere.toml"], 2), (["limits", &long], 2)] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
        let status = command.args(args).stdout(Stdio::null()).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}
