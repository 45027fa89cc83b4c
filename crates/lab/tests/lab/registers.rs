//! Threads that share QPs or doorbell registers, and BlueFlame.

use doorbell_lab::{Control, Outcome, Run, Workload};
use doorbell_nic::Profile;
use doorbell_verbs::Span;
use doorbell_workload::limits::{least_latency, limits, outstanding};

/// cib with the doorbell registers of its driver.
pub(crate) const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/registers.toml");

fn run(toml: &str) -> Run {
    let workload = Workload::from_toml("test", toml).expect("a workload");
    let profiles = workload.load_profiles().expect("a profile");
    let resolved = workload.resolve(&profiles).unwrap_or_else(|why| panic!("{toml}: {why}"));
    Run::verbs(profiles, resolved)
}

/// The outcome, which must be below the analytic limits.
fn simulate(toml: &str) -> Outcome {
    let run = run(toml);
    let outcome =
        doorbell_lab::simulate(&run, &Control::quiet()).unwrap_or_else(|why| panic!("{toml}: {why}"));
    let workload = Workload::from_toml("test", toml).expect("a workload");
    let profiles = workload.load_profiles().expect("a profile");
    let w = workload.resolve(&profiles).expect("it was resolved before");
    // Operations that were posted before the measured time count, too.
    let us = outcome.measured.duration.span().as_ns() as f64 / 1e3;
    let most = limits(&profiles, &w)[0].mops * 1.01
        + w.classes().iter().map(|c| outstanding(c.workload)).sum::<u64>() as f64 / us;
    assert!(outcome.mops <= most, "{toml}: {} Mops, at most {most}", outcome.mops);
    let least = least_latency(&profiles, &w);
    assert!(outcome.latency_ns.min.is_none_or(|min| Span::from_ns(min + 1) >= least), "{toml}: {least:?}");
    outcome
}

const SMALL: &str = "machines = 3\nthreads = 4\nwarmup = \"20us\"\nduration = \"60us\"\n";

#[test]
fn threads_share_qps_with_every_verb_in_each_pattern() {
    for (verb, transports) in [
        ("send", ["rc", "uc", "ud"].as_slice()),
        ("write", &["rc", "uc"]),
        ("read", &["rc"]),
        ("fetch-add", &["rc"]),
    ] {
        for transport in transports {
            for (pattern, sharing) in [("outbound", 2), ("inbound", 3), ("all-to-all", 4)] {
                let toml = format!(
                    "{SMALL}profile = \"cib\"\nverb = \"{verb}\"\ntransport = \"{transport}\"\n\
                     pattern = \"{pattern}\"\nthreads_per_qp = {sharing}"
                );
                let outcome = simulate(&toml);
                assert!(outcome.mops > 0.1, "{toml}\n{outcome:?}");
                assert!(outcome.latency_ns.mean.is_some(), "{toml}");
            }
        }
    }
}

#[test]
fn options_of_threads_go_with_shared_qps() {
    for options in [
        "batch = 4",
        "qps = 3",
        "arrivals = \"poisson\"\nrate = 200000",
        "think = \"1us\"",
        "local_region = 65536\nremote_region = 65536\naddresses = \"random\"",
        "mix = \"read:1,write:1\"",
        "[[class]]\nthreads = 1\nverb = \"read\"\n[[class]]\nthreads = 3\nverb = \"read\"\nthreads_per_qp = 2",
    ] {
        let alike = if options.contains("class") { "" } else { "threads_per_qp = 2\n" };
        let verb =
            if options.contains("mix") || options.contains("class") { "" } else { "verb = \"read\"\n" };
        let base =
            if options.contains("class") { SMALL.replace("threads = 4\n", "") } else { SMALL.to_owned() };
        let outcome = simulate(&format!("{base}profile = \"{PROFILE}\"\n{alike}{verb}{options}"));
        assert!(outcome.mops > 0.1, "{options}: {} Mops", outcome.mops);
    }
}

/// READs from one machine to another, over one QP a thread.
fn reads_of(options: &str) -> Outcome {
    simulate(&format!(
        "verb = \"read\"\nmachines = 2\npattern = \"outbound\"\nqps = 1\nwarmup = \"200us\"\n\
         duration = \"500us\"\nprofile = \"{PROFILE}\"\n{options}"
    ))
}

/// READs of 8 B, of which each thread has eight outstanding.
fn reads(options: &str) -> Outcome {
    reads_of(&format!("size = 8\nwindow = 8\n{options}"))
}

#[test]
fn a_shared_qp_is_slower_the_more_threads_share_it() {
    let shared = |threads: u32| reads(&format!("threads = {threads}\nthreads_per_qp = {threads}")).mops;
    let rates: Vec<f64> = [2, 4, 8, 14].map(shared).into();
    assert!(rates.is_sorted_by(|fewer, more| fewer > more), "{rates:?}");
    let alone = reads("threads = 1").mops;
    assert!(rates[0] < alone && rates[3] < alone / 2.0, "{alone} alone, {rates:?}");
    // Several QPs are faster than one.
    let pairs = reads("threads = 14\nthreads_per_qp = 2").mops;
    assert!(pairs > 3.0 * rates[3], "{pairs} in pairs, {} on one QP", rates[3]);
}

#[test]
fn threads_on_one_register_wait_for_each_other() {
    let own = reads("threads = 14\nthread_domains = true").mops;
    let enough = reads("threads = 14\ntotal_uuars = 32").mops;
    assert!((enough / own - 1.0).abs() < 0.01, "{own} and {enough} Mops with registers of their own");
    // Register 1 alone is shared.
    let one = reads("threads = 14\ntotal_uuars = 2\nnum_low_lat_uuars = 0").mops;
    assert!(one < own / 4.0, "{one} on one register, {own} with registers of their own");
    let fewer = reads("threads = 4\ntotal_uuars = 2\nnum_low_lat_uuars = 0").mops;
    assert!(fewer > one, "{fewer} of 4 threads, {one} of 14");
}

#[test]
fn blueflame_saves_the_read_of_the_wqe() {
    let alone = |options: &str| {
        let outcome = reads_of(&format!("threads = 1\nwindow = 1\nsize = 64\n{options}"));
        outcome.latency_ns.mean.expect("many READs").round() as u64
    };
    let device = Profile::named("cib").expect("a built-in profile").device;
    let (usual, off) = (alone(""), alone("blueflame = false"));
    let (read, saved) = (device.pcie.read_latency.as_ns(), off - usual);
    assert!(saved >= read && saved < read + 200, "{saved} ns for a DMA read of {read} ns");
    // READs have no inline payload.
    assert_eq!(alone("prefer_blueflame = false"), off);
    // A WQE of 15 SGEs is larger than a BlueFlame buffer.
    let [most, more] = [14, 15].map(|sges| alone(&format!("sges = {sges}")));
    assert!(more > most + 300, "{most} ns by BlueFlame, {more} ns by a doorbell");
}
