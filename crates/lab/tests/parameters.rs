//! Parameters of a profile act on what they say, and on nothing else.

use doorbell_lab::{Control, Outcome, Workload};

/// A workload with parameters set.
fn simulate(toml: &str, set: &str) -> Outcome {
    let text = format!("{toml}\nwarmup = \"50us\"\nduration = \"200us\"\n[set]\n{set}");
    let workload = Workload::from_toml("w.toml", &text).expect("a workload");
    let profiles = workload.load_profiles().expect("profiles");
    let resolved = workload.resolve(&profiles).expect("it goes together");
    doorbell_lab::simulate(&profiles, &resolved, &Control::quiet()).expect("a result")
}

fn latency(outcome: &Outcome) -> f64 {
    outcome.latency_ns.mean.expect("operations completed")
}

#[test]
fn taking_up_an_idle_qp_costs_each_request_that_finds_it_idle() {
    let lone = "verb = \"read\"\nmachines = 2\nthreads = 1\nqps = 1\nwindow = 1";
    let taken = latency(&simulate(lone, "\"tx.idle_qp_ns\" = 100")) - latency(&simulate(lone, ""));
    // To within a pass of the loop that polls.
    assert!((taken - 100.0).abs() < 10.0, "{taken} ns more");
    // A QP that always has something under way is never idle, and UC QPs wait for no answer.
    for busy in [
        "verb = \"read\"\nmachines = 2\nthreads = 1\nqps = 1\nwindow = 16",
        "verb = \"write\"\nmachines = 2\nthreads = 1\nqps = 1\nwindow = 1",
    ] {
        let hash = |set| simulate(busy, set).mops;
        let change = hash("\"tx.idle_qp_ns\" = 100") / hash("") - 1.0;
        assert!(change.abs() < 0.01, "{busy}: {change}");
    }
}

#[test]
fn a_cqe_of_the_requester_costs_where_it_is_signalled() {
    let writes = |signal_every: u32, ns: u32| {
        let toml = format!(
            "verb = \"write\"\ntransport = \"rc\"\nmachines = 6\npattern = \"all-to-all\"\nsignal_every = {signal_every}\nwindow_per_qp = 16"
        );
        simulate(&toml, &format!("\"rx.requester_cqe_ns\" = {ns}")).mops
    };
    // 16 units that take 131.6 ns for a WRITE that comes, 45 for an ACK and this for its CQE.
    let most = 6.0 * 16e3 / (131.6 + 45.0 + 300.0);
    assert!((writes(1, 300) / most - 1.0).abs() < 0.02, "{} of {most}", writes(1, 300));
    assert!(writes(16, 300) > 1.5 * most, "{} of {most}", writes(16, 300));
    assert!(writes(1, 0) > 1.5 * most, "{} of {most}", writes(1, 0));
}

#[test]
fn contexts_that_are_read_one_at_a_time_are_the_limit() {
    let reads = |at_a_time: u32| {
        let few = "verb = \"read\"\nmachines = 5\nthreads = 8\nqps = 8";
        let set = format!(
            "\"caches.responder_entries\" = 4\n\"caches.context_stall_ns\" = 95\n\"caches.context_reads\" = {at_a_time}"
        );
        simulate(few, &set).mops
    };
    // Nearly each READ misses its responder's context, which takes 405 and 95 ns to read.
    assert!((1.9..2.2).contains(&reads(1)), "{}", reads(1));
    assert!((3.8..4.4).contains(&reads(2)), "{}", reads(2));
    assert!(reads(256) > 4.0 * reads(2), "{}", reads(256));
}
