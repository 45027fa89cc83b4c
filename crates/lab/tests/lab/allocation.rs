//! Memory of the simulator: events allocate nothing, and memory grows only with QPs and outstanding
//! operations.

use allocation_counter::{AllocationInfo, measure};
use doorbell_lab::{Control, Outcome, Run, Workload};

fn simulate(toml: &str) -> (Outcome, AllocationInfo) {
    let workload = Workload::from_toml("test", toml).expect("a workload");
    let profiles = workload.load_profiles().expect("a profile");
    let resolved = workload.resolve(&profiles).unwrap_or_else(|e| panic!("{toml}: {e}"));
    let control = Control::quiet();
    let mut outcome = None;
    let info = measure(|| {
        outcome = Some(
            doorbell_lab::simulate(&Run::verbs(profiles.clone(), resolved.clone()), &control).expect("a run"),
        );
    });
    (outcome.expect("a run"), info)
}

/// A longer run may make this many allocations more, because queues reach their greatest length late. There
/// are some hundred queues, and each doubles its capacity at most once.
const LATE: u64 = 64;

#[test]
fn what_nobody_looks_at_takes_no_more_memory_in_a_longer_run() {
    let most = |duration: &str| {
        let writes = "verb = \"write\"\ntransport = \"rc\"\nsize = 4000\nmachines = 2\nthreads = 1";
        let (_, info) = simulate(&format!("{writes}\nwarmup = \"100us\"\nduration = \"{duration}\""));
        info.bytes_max
    };
    let (short, long) = (most("1ms"), most("5ms"));
    assert!(long < short + short / 10, "{short} B, then {long} B");
}

#[test]
fn a_longer_run_takes_no_more_allocations() {
    for workload in [
        "verb = \"send\"\ntransport = \"ud\"\nbatch = 16",
        "verb = \"send\"\ntransport = \"ud\"\nsize = 512\npattern = \"all-to-all\"",
        "verb = \"send\"\ntransport = \"rc\"\npattern = \"inbound\"",
        "verb = \"write\"\ntransport = \"uc\"\nsignal_every = 8",
        "verb = \"write\"\ntransport = \"rc\"\nsize = 5000\ninline = false\nwindow = 8",
        "verb = \"read\"\ntransport = \"rc\"",
        "verb = \"read\"\ntransport = \"rc\"\npattern = \"all-to-all\"\nqps = 4",
        "verb = \"fetch-add\"\ntransport = \"rc\"\ncounters = 64\npattern = \"inbound\"",
        "verb = \"read\"\nsize = 100\nlocal_region = 65536\nremote_region = 65536\naddresses = \"any-byte\"\n\
         batch = 4\ncq_per_qp = true",
        "verb = \"read\"\nthreads_per_qp = 2",
    ] {
        for profile in ["cx3", "cib", crate::registers::PROFILE] {
            let run = |duration: u32| {
                simulate(&format!(
                    "profile = \"{profile}\"\nmachines = 4\nthreads = 4\nwarmup = \"200us\"\n\
                     duration = \"{duration}us\"\n{workload}"
                ))
            };
            // The lengths of batches are powers of two, so both runs have equally many batches.
            let ((short, less), (long, more)) = (run(300), run(1200));
            let events = long.events - short.events;
            assert!(events > 5_000, "{profile}, {workload}: {events} more events");
            let more = more.count_total.saturating_sub(less.count_total);
            assert!(more <= LATE, "{profile}, {workload}: {more} more allocations for {events} events");
        }
    }
}

#[test]
fn memory_is_linear_in_qps() {
    let held = |qps: u32| {
        let (_, info) = simulate(&format!(
            "profile = \"cib\"\nverb = \"read\"\npattern = \"all-to-all\"\nmachines = 4\nthreads = 4\n\
             warmup = \"20us\"\nduration = \"50us\"\nqps = {qps}"
        ));
        info.bytes_max
    };
    let [small, medium, large] = [8, 16, 32].map(held);
    let (first, second) = (medium - small, large - medium);
    // The second step adds twice as many QPs as the first. A growing vector may have twice the capacity that
    // it needs, so the factor is four.
    assert!(second <= 4 * first, "{small}, {medium} and {large} bytes with 8, 16 and 32 QPs a thread");
}

#[test]
fn memory_is_linear_in_outstanding_operations() {
    let held = |window: u32| {
        let (_, info) = simulate(&format!(
            "profile = \"cib\"\nverb = \"write\"\nmachines = 4\nthreads = 4\n\
             warmup = \"20us\"\nduration = \"100us\"\nwindow = {window}\nsignal_every = 1"
        ));
        info.bytes_max
    };
    let [small, medium, large] = [64, 128, 256].map(held);
    let (first, second) = (medium.saturating_sub(small), large.saturating_sub(medium));
    assert!(
        second <= 4 * first.max(1 << 20),
        "{small}, {medium} and {large} bytes with windows of 64, 128, 256"
    );
}
