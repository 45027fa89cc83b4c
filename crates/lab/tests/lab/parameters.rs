//! Profile parameters affect only the costs that they describe.

use doorbell_lab::{Control, Outcome, Run, Workload};

/// Runs a workload with these parameters set.
fn simulate(toml: &str, set: &str) -> Outcome {
    let text = format!("{toml}\nwarmup = \"50us\"\nduration = \"200us\"\n[set]\n{set}");
    let workload = Workload::from_toml("w.toml", &text).expect("a workload");
    let profiles = workload.load_profiles().expect("profiles");
    let resolved = workload.resolve(&profiles).expect("it goes together");
    doorbell_lab::simulate(&Run::verbs(profiles.clone(), resolved.clone()), &Control::quiet())
        .expect("a result")
}

/// Without the cost of an idle QP.
const NEVER: &str = "\"tx.idle_qp_ns\" = 0";

fn latency(outcome: &Outcome) -> f64 {
    outcome.latency_ns.mean.expect("operations completed")
}

#[test]
fn taking_up_an_idle_qp_costs_each_read_after_packets_of_another_qp() {
    let more =
        |toml: &str| latency(&simulate(toml, "\"tx.idle_qp_ns\" = 100")) - latency(&simulate(toml, NEVER));
    let of = |verb: &str, qps: u32, window: u32| {
        format!(
            "verb = \"{verb}\"\ntransport = \"rc\"\nmachines = 2\nthreads = 1\nqps = {qps}\nwindow = {window}\nbatch = 1"
        )
    };
    // The result is accurate to one pass of the poll loop.
    let taken = more(&of("read", 4, 4));
    assert!((taken - 100.0).abs() < 20.0, "{taken} ns more");
    // The NIC served no other QP, the QP always has an outstanding READ, or the request is no READ.
    for other in [of("read", 1, 1), of("read", 1, 16), of("write", 4, 4), of("fetch-add", 4, 4)] {
        assert!(more(&other).abs() < 1.0, "{other}: {} ns more", more(&other));
    }
}

/// In ping-pong, each message finds its QP idle, but no packet of another QP came before it.
#[test]
fn a_ping_pong_takes_as_long_over_rc_as_over_uc() {
    let half = |message: &str, profile: &str| {
        let toml =
            format!("system = \"ping-pong\"\nsize = 8\nmessage = \"{message}\"\nprofile = \"{profile}\"");
        let run = crate::nearest::run(&toml).expect("it goes together");
        latency(&doorbell_lab::simulate(&run, &Control::quiet()).expect("a result"))
    };
    for profile in ["cib", "cx3", "cx"] {
        let (rc, uc) = (half("write-rc", profile), half("write-uc", profile));
        assert!((rc - uc).abs() < 1.0, "{profile}: {rc} ns over RC, {uc} ns over UC");
    }
}

#[test]
fn a_cqe_of_the_requester_costs_where_it_is_signalled() {
    let writes = |signal_every: u32, ns: u32| {
        let toml = format!(
            "verb = \"write\"\ntransport = \"rc\"\nmachines = 6\npattern = \"all-to-all\"\nsignal_every = {signal_every}\nwindow_per_qp = 16"
        );
        let others =
            "\"rx.packet_ns\" = 60\n\"rx.dma_write_ns\" = 70\n\"rx.ack_ns\" = 45\n\"tx.idle_qp_ns\" = 0";
        simulate(&toml, &format!("{others}\n\"rx.requester_cqe_ns\" = {ns}")).mops
    };
    // 16 units, each with 130 ns for an inbound WRITE, 45 ns for an ACK and 300 ns for the CQE.
    let most = 6.0 * 16e3 / (130.0 + 45.0 + 300.0);
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
    // Nearly every READ misses its context at the responder. Reading the context takes 405 ns plus 95 ns.
    assert!((1.9..2.2).contains(&reads(1)), "{}", reads(1));
    assert!((3.8..4.4).contains(&reads(2)), "{}", reads(2));
    assert!(reads(256) > 4.0 * reads(2), "{}", reads(256));
}

#[test]
fn an_answer_with_data_needs_its_wqe_again() {
    // With two outstanding READs, the WQE of the second READ has evicted the WQE of the first one.
    let two = |verb: &str, set: &str| {
        let toml = format!("verb = \"{verb}\"\nmachines = 2\nthreads = 1\nqps = 1\nwindow = 2");
        let outcome = simulate(&toml, set);
        let operations = outcome.mops * 1e6 * outcome.measured.duration.span().as_secs_f64();
        (latency(&outcome), outcome.pcie[0].rdcur as f64 / operations)
    };
    let short = "\"caches.read_wqe_entries\" = 1";
    let ((kept, _), (again, lines)) = (two("read", ""), two("read", short));
    assert!((405.0..480.0).contains(&(again - kept)), "{kept} and {again} ns");
    assert!((lines - 1.0).abs() < 0.02, "{lines} lines a READ");
    // A WRITE is only acknowledged and does not need its WQE again.
    assert_eq!(two("write", short), two("write", ""));
}

#[test]
fn a_payload_beyond_the_buffer_costs_its_sending_unit_once() {
    let more = |verb: &str, size: u32| {
        let toml = format!(
            "verb = \"{verb}\"\nsize = {size}\nmachines = 2\nthreads = 1\nqps = 1\nwindow = 1\ninline = false"
        );
        latency(&simulate(&toml, "\"tx.larger_payload_ns\" = 100")) - latency(&simulate(&toml, ""))
    };
    for verb in ["read", "write"] {
        assert!(more(verb, 256).abs() < 1e-9, "{verb}");
        assert!((more(verb, 257) - 100.0).abs() < 10.0, "{verb}: {}", more(verb, 257));
        assert!((more(verb, 4096) - 100.0).abs() < 10.0, "{verb}: {}", more(verb, 4096));
    }
}

#[test]
fn what_a_program_does_itself_takes_a_core_for_each_operation() {
    // A single core that posts all the time.
    let ns = |batch: u32, set: &str| {
        let window = 2 * batch.max(8);
        let toml = format!(
            "verb = \"write\"\nmachines = 2\nthreads = 1\nqps = 8\nbatch = {batch}\nsignal_every = 1\nwindow = {window}\npattern = \"outbound\""
        );
        1e3 / simulate(&toml, set).mops
    };
    for batch in [1, 16] {
        let more = ns(batch, "\"host.program_ns\" = 300") - ns(batch, "\"host.program_ns\" = 200");
        // The result is accurate to one list at either end of the measured time.
        assert!((more - 100.0).abs() < 10.0, "lists of {batch}: {more} ns more");
    }
}

#[test]
fn a_qp_may_send_several_packets_in_its_turn() {
    let missing = |burst: u32| {
        let lists =
            "verb = \"write\"\nmachines = 3\nthreads = 2\nqps = 1\nbatch = 16\npattern = \"outbound\"";
        let set =
            format!("\"tx.units\" = 1\n\"caches.requester_entries\" = 1\n\"tx.burst_packets\" = {burst}");
        let outcome = simulate(lists, &set);
        let contexts = outcome.caches.iter().find(|c| c.machine == 0 && c.cache.name() == "qp-requester");
        let contexts = contexts.expect("a NIC has contexts");
        contexts.misses as f64 / (contexts.hits + contexts.misses) as f64
    };
    let by = [1, 4, 16].map(missing);
    assert!(by[0] > 0.9 && (0.2..0.35).contains(&by[1]) && by[2] < 0.12, "{by:?}");
}
