//! Checks `--json` output against the schemas in `docs/schemas`. The tests of `live` and `run` check their
//! own output.

use crate::fits;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Options for a short run.
const SHORT: &str = "--warmup 5us --duration 20us";

fn json(line: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.env("DOORBELL_CACHE_DIR", "/dev/null/none").args(line.split_whitespace()).arg("--json");
    let output = command.output().expect("doorbell runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let nothing =
        output.status.code() == Some(3) && stderr.starts_with("doorbell: no operation completed in ");
    assert!(output.status.success() || nothing, "{line}: {stderr}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

fn check(schema: &str, line: &str) {
    println!("doorbell {line}");
    fits::only(schema, &json(line));
}

/// Path of a workload file with two groups of machines.
fn unlike() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("unlike-for-schemas.toml");
    let text = "verb = \"read\"\nthreads = 2\n[[machine]]\nprofile = \"cib\"\n[[machine]]\nprofile = \"cx3\"\ncount = 2\n";
    std::fs::write(&path, text).unwrap();
    path
}

/// Path of a workload file with two thread classes. One class has a mix.
fn classed() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("classes-for-schemas.toml");
    let text = "machines = 2\n[[class]]\nname = \"both\"\nthreads = 1\nmix = \"read:1,write:1\"\n[[class]]\nthreads = 2\nverb = \"read\"\n";
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn verbs_are_as_their_schema_has_them() {
    for (verb, _) in doorbell_lab::Verb::ALL {
        check("simulate", &format!("simulate --verb {verb} --machines 2 --threads 2 {SHORT}"));
        check("limits", &format!("limits --verb {verb}"));
    }
    // This output has all fields that are absent unless requested.
    let placed = "--sges 2 --pieces apart --random-offset --local-region 65536 --remote-region 65536 --addresses random";
    let placed = format!("--verb write --size 64 --no-inline --machines 2 --threads 2 --ports 1 {placed}");
    check("simulate", &format!("simulate {placed} --window 32 {SHORT}"));
    check("limits", &format!("limits {placed} --window-per-qp 32"));
    check("limits", "limits --verb read --offset 8 --max-rd-atomic 1");
    let mix = "--mix read:1,write/8:1,send/2000:1 --inline-up-to 64 --machines 2 --threads 2";
    check("simulate", &format!("simulate {mix} {SHORT}"));
    check("limits", &format!("limits {mix}"));
    let open = "--machines 2 --threads 2 --arrivals poisson --rate";
    check("simulate", &format!("simulate {open} 1000000 {SHORT}"));
    check("simulate", &format!("simulate {open} 9000000000 {SHORT}"));
    check("limits", "limits --verb read --think 2us");
    check("simulate", &format!("simulate --verb read --machines 2 --threads 1 --breakdown {SHORT}"));
    let unlike = unlike();
    check("simulate", &format!("simulate {} --explain {SHORT}", unlike.display()));
    check("limits", &format!("limits {}", unlike.display()));
    let classed = classed();
    check("simulate", &format!("simulate {} {SHORT}", classed.display()));
    check("limits", &format!("limits {}", classed.display()));
    // No operation completes.
    check("simulate", "simulate --verb read --machines 2 --threads 1 --warmup 0s --duration 1ns");
}

#[test]
fn systems_are_as_their_schema_has_them() {
    for entry in doorbell_lab::SYSTEMS.iter() {
        let has = |key: &str| entry.fields.iter().any(|field| field.key == key);
        let few = [("clients", "2"), ("cores", "2"), ("pairs", "256")];
        let few: Vec<String> =
            few.iter().filter(|(key, _)| has(key)).map(|(key, value)| format!("--{key} {value}")).collect();
        check("simulate-system", &format!("simulate --system {} {} {SHORT}", entry.name, few.join(" ")));
    }
    check("simulate-system", "simulate --system ping-pong --breakdown --warmup 5us --duration 50us");
    // A host with an uncore, and a system with phases.
    let touch =
        "simulate --system touch --profile e7520-t4 --size 4096 --explain --warmup 100us --duration 300us";
    check("simulate-system", touch);
}

#[test]
fn profiles_are_as_their_schema_has_them() {
    check("profiles", "profiles");
    for name in doorbell_nic::Profile::names() {
        check("profile", &format!("profiles {name}"));
    }
    let has_profile = |name: &str| doorbell_nic::Profile::names().any(|known| known == name);
    for name in doorbell_nic::NicModel::names().filter(|name| !has_profile(name)) {
        check("nic-model", &format!("profiles {name}"));
    }
}

#[test]
fn reproductions_are_as_their_schema_has_them() {
    check("reproduce", "reproduce atc16/appA atc16/fig2 atc16/tab2");
}

#[test]
fn checks_are_as_their_schema_has_them() {
    let of = |id: &str, nic: &str, more: &str| {
        format!(
            "[[measurement]]\nid = \"{id}\"\nnic = \"{nic}\"\nunit = \"Mops/s\"\nrole = \"check\"\nhost = \"h\"\nlink_gbps = \
             100\nworkload = {{ verb = \"read\", transport = \"rc\", metric = \"rate\", axis = \"threads\", window = 1, size \
             = 8{more} }}\nthreads = [1, 2]\nvalue = [0.5, 1]\n"
        )
    };
    // An answered point, a refused point, a refused series, and a series of another NIC.
    let some = of("some", "Connect-IB", ", doorbell_registers = \"shared16\"");
    let none = of("none", "Connect-IB", ", memory = \"gpu\"");
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("series-for-schemas.toml");
    std::fs::write(&path, some + &none + &of("other", "ConnectX-3", "")).unwrap();
    check("check", &format!("check {} --profile cib --precision 10%", path.display()));
}

#[test]
fn sweeps_are_as_their_schema_has_them() {
    let small = format!("--verb read --machines 2 --threads 1 {SHORT}");
    check("sweep", &format!("sweep {small} --over size=16,64 --over qps=1,2"));
    check("sweep", &format!("sweep {small} --over size=16,64 --shard 1/2"));
    check("sweep", &format!("sweep {small} --over verb=read,write"));
    check(
        "sweep",
        &format!("sweep --system rpc --clients 2 --cores 1 {SHORT} --over request=write-uc,send-rc"),
    );
    let open = "--verb read --machines 2 --threads 1 --warmup 5us --duration 200us --arrivals poisson";
    check("sweep", &format!("sweep {open} --over rate=1000000,90000000"));
    check("sweep", &format!("sweep {open} --over load=50%,70%"));
    // Operations of the second point are too long for a result.
    check("sweep", "sweep --verb read --machines 2 --threads 1 --over size=64,1073741824");
    let knee = "--verb read --machines 2 --threads 2 --over window=1..16*2 --find knee --p99-under 5us";
    check("sweep", &format!("sweep {knee}"));
}

#[test]
fn comparisons_are_as_their_schema_has_them() {
    let small = format!("--machines 2 --threads 1 {SHORT}");
    check("compare", &format!("compare verb=read verb=write {small}"));
    check("compare", &format!("compare system=rpc verb=read {SHORT}"));
    check("compare", &format!("compare system=read-kv system=herd-kv --clients 2 --same {SHORT}"));
    let open = "--verb read --machines 2 --threads 1 --arrivals poisson";
    check("compare", &format!("compare load=50% load=70% {open} {SHORT}"));
    check("compare", &format!("compare {} verb=read {SHORT}", unlike().display()));
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let [old, new] = ["old", "new"].map(|name| directory.join(format!("{name}-for-schemas.json")));
    for (path, size) in [(&old, 16), (&new, 64)] {
        let result = json(&format!("simulate --verb read --size {size} {small}"));
        std::fs::write(path, result.to_string()).expect("it can be written");
    }
    let line = format!("compare --baseline {} {} --tolerance 1000%", old.display(), new.display());
    check("compare-baseline", &line);
}
